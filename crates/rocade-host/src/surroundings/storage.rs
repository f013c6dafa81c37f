//! Mounts and NVMe sessions over the network.

use std::net::IpAddr;
use std::path::Path;

use rocade_core::host::RemoteStorage;

use crate::attributes::read_text;
use crate::root::Root;

/// File systems that are served over the network.
const REMOTE: &[&str] =
    &["nfs", "nfs4", "lustre", "beegfs", "ceph", "cifs", "smb3", "wekafs", "gpfs", "glusterfs", "9p"];
pub(crate) const MOUNTS: &str = "/proc/self/mountinfo";
pub(crate) const NVME: &str = "/sys/class/nvme";
pub(crate) const NVME_FILES: &[&str] = &["address", "transport"];

pub(super) fn read(root: &Root) -> Vec<RemoteStorage> {
    let mounts = root.read(MOUNTS).unwrap_or_default();
    let mounts = String::from_utf8_lossy(&mounts).into_owned();
    let mut found: Vec<RemoteStorage> = mounts.lines().filter_map(parse_mount).collect();
    for name in root.list(NVME).unwrap_or_default() {
        found.extend(read_session(root, &name.to_string_lossy()));
    }
    found
}

/// The lines that are read: other mounts name what is nobody's business.
pub(crate) fn keep_remote_mounts(content: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(content);
    let lines = text.lines().filter(|line| parse_mount(line).is_some());
    lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
}

/// `36 35 0:50 / /data rw - nfs4 10.0.0.1:/x rw,proto=rdma,addr=10.0.0.1,clientaddr=10.0.0.2` (proc(5)).
fn parse_mount(line: &str) -> Option<RemoteStorage> {
    let (place, rest) = line.split_once(" - ")?;
    let mut rest = rest.split(' ');
    let (kind, source, options) = (rest.next()?, rest.next()?, rest.next().unwrap_or_default());
    REMOTE.contains(&kind).then_some(())?;
    let option =
        |key: &str| options.split(',').find_map(|option| option.strip_prefix(key)?.strip_prefix('='));
    let server =
        option("addr").or_else(|| source.split(['@', ':']).next()).and_then(|text| text.parse().ok());
    let by_source = source.contains("@o2ib").then_some("rdma");
    Some(RemoteStorage {
        kind: kind.to_owned(),
        name: place.split(' ').nth(4)?.to_owned(),
        transport: option("proto").or(by_source).map(str::to_owned),
        server,
        client: option("clientaddr").and_then(|text| text.parse().ok()),
    })
}

fn read_session(root: &Root, name: &str) -> Option<RemoteStorage> {
    let file = |file: &str| read_text(root, &Path::new(NVME).join(name).join(file)).ok();
    let transport = file("transport").filter(|transport| transport != "pcie" && transport != "loop")?;
    let address = file("address").unwrap_or_default();
    let part = |key: &str| -> Option<IpAddr> {
        address.split(',').find_map(|part| part.strip_prefix(key)?.strip_prefix('='))?.trim().parse().ok()
    };
    Some(RemoteStorage {
        kind: "nvme".into(),
        name: name.to_owned(),
        transport: Some(transport),
        server: part("traddr"),
        client: part("host_traddr").or_else(|| part("src_addr")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_over_rdma_is_read_and_local_ones_are_not_kept() {
        let text = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                    36 22 0:50 / /data rw shared:1 - nfs4 10.0.0.1:/x rw,proto=rdma,addr=10.0.0.1,clientaddr=10.0.0.2\n\
                    37 22 0:51 / /l rw - lustre 10.1.0.1@o2ib:/fs rw\n";
        let kept = String::from_utf8(keep_remote_mounts(text.as_bytes())).unwrap();
        let mounts: Vec<_> = kept.lines().filter_map(parse_mount).collect();
        let seen: Vec<_> = mounts
            .iter()
            .map(|m| (m.name.as_str(), m.transport.as_deref(), m.server.map(|a| a.to_string())))
            .collect();
        let wanted =
            [("/data", Some("rdma"), Some("10.0.0.1".into())), ("/l", Some("rdma"), Some("10.1.0.1".into()))];
        assert_eq!(seen, wanted);
    }
}
