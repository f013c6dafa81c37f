//! The RDMA char devices: the kernel's numbers from the class directories, and what /dev/infiniband holds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocade_core::host::{OpenNode, Unknown};
use rocade_core::{Accessible, CharDevice, Hca};

use crate::attributes::{parse_number, read_text};
use crate::root::{Root, Stat};
use crate::scope::Scope;

const NODES: &str = "/dev/infiniband";

/// All char devices of the namespace's kernel, also of HCAs that are not in class/infiniband.
#[derive(Default)]
pub(crate) struct CharDevices {
    /// Number → name of the HCA.
    owners: BTreeMap<(u32, u32), String>,
    verbs: BTreeMap<String, (CharDevice, Option<u32>)>,
    mad: BTreeMap<(String, u32, Kind), CharDevice>,
}

/// What a device of class infiniband_mad is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Management datagrams.
    Umad,
    /// To be the subnet manager.
    Issm,
}

impl CharDevices {
    /// Reads the classes infiniband_verbs and infiniband_mad; in a lean reading not the latter.
    pub(crate) fn read(root: &Root, scope: Scope, unknown: &mut Unknown) -> CharDevices {
        let mut devices = CharDevices::default();
        for (name, dir) in read_class(root, "infiniband_verbs", "uverbs", unknown) {
            if let (Ok(hca), Some(device)) =
                (read_text(root, &dir.join("ibdev")), read_device(root, &name, &dir))
            {
                devices.owners.insert((device.major, device.minor), hca.clone());
                let abi = || parse_number(&read_text(root, &dir.join("abi_version")).ok()?);
                let abi = if scope.lean { None } else { abi() };
                devices.verbs.insert(hca, (device, abi));
            }
        }
        if scope.lean {
            return devices;
        }
        for (name, dir) in read_class(root, "infiniband_mad", "umad", unknown) {
            let kind = if name.starts_with("issm") { Kind::Issm } else { Kind::Umad };
            let port = read_text(root, &dir.join("port")).ok().and_then(|port| parse_number(&port));
            let hca = read_text(root, &dir.join("ibdev"));
            if let (Ok(hca), Some(port), Some(device)) = (hca, port, read_device(root, &name, &dir)) {
                devices.owners.insert((device.major, device.minor), hca.clone());
                devices.mad.insert((hca, port, kind), device);
            }
        }
        devices
    }

    /// The verbs device of an HCA.
    pub(crate) fn verbs(&self, hca: &str) -> Option<CharDevice> {
        self.verbs.get(hca).map(|(device, _)| device.clone())
    }

    /// The version of its driver's verbs interface.
    pub(crate) fn verbs_abi(&self, hca: &str) -> Option<u32> {
        self.verbs.get(hca)?.1
    }

    /// What stands in /dev/infiniband, by number.
    pub(crate) fn read_nodes(&self, root: &Root) -> Vec<OpenNode> {
        let node = |name: std::ffi::OsString| {
            let Ok(Stat::Char { major, minor, .. }) = root.stat(Path::new(NODES).join(&name)) else {
                return None;
            };
            let hca = self.owners.get(&(major, minor)).and_then(|hca| hca.parse().ok());
            Some(OpenNode { name: name.to_string_lossy().into_owned(), major, minor, hca })
        };
        let mut nodes: Vec<_> = root.list(NODES).unwrap_or_default().into_iter().filter_map(node).collect();
        nodes.sort_by_key(|node| (node.major, node.minor));
        nodes
    }

    /// The verbs devices of HCAs other than these, by number.
    pub(crate) fn orphans(&self, hcas: &[Hca]) -> Vec<CharDevice> {
        let is_orphan = |name: &str| !hcas.iter().any(|hca| hca.name.as_str() == name);
        let orphans = self.verbs.iter().filter(|(name, _)| is_orphan(name));
        let mut devices: Vec<CharDevice> = orphans.map(|(_, (device, _))| device.clone()).collect();
        devices.sort_by_key(|device| (device.major, device.minor));
        devices
    }

    /// The management device of a port.
    pub(crate) fn mad(&self, hca: &str, port: u32, kind: Kind) -> Option<CharDevice> {
        self.mad.get(&(hca.to_owned(), port, kind)).cloned()
    }
}

/// /dev/infiniband/rdma_cm.
pub(crate) fn read_rdma_cm(root: &Root) -> Option<CharDevice> {
    let dir = root.realpath("/sys/class/misc/rdma_cm").ok()?;
    read_device(root, "rdma_cm", &dir)
}

/// The devices of a class: the directory also holds its abi_version. A class that is not there has no devices.
fn read_class(root: &Root, class: &str, field: &str, unknown: &mut Unknown) -> Vec<(String, PathBuf)> {
    let class = Path::new("/sys/class").join(class);
    let names = match root.list(&class) {
        Ok(names) => names,
        Err(refusal) if refusal.is_absent() => return Vec::new(),
        Err(refusal) => {
            unknown.insert(field.into(), refusal.to_string());
            return Vec::new();
        }
    };
    let device = |name: std::ffi::OsString| {
        let dir = root.member(&class, &name).ok()?;
        Some((name.to_string_lossy().into_owned(), dir))
    };
    names.into_iter().filter(|name| name != "abi_version").filter_map(device).collect()
}

fn read_device(root: &Root, node: &str, dir: &Path) -> Option<CharDevice> {
    let text = read_text(root, &dir.join("dev")).ok()?;
    let (major, minor) = text.split_once(':')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    let accessible = match root.stat(Path::new(NODES).join(node)) {
        Ok(Stat::Char { major: a, minor: b, .. }) if (a, b) == (major, minor) => Accessible::Yes,
        Ok(_) => Accessible::Other,
        Err(refusal) if refusal.is_absent() => Accessible::Missing,
        Err(_) => Accessible::Unknown,
    };
    Some(CharDevice { node: node.to_owned(), major, minor, accessible })
}
