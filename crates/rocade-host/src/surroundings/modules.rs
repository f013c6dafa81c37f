//! Kernel modules that RDMA depends on, the vendor's driver package as they show it, and what GPUDirect needs.

use std::collections::BTreeSet;
use std::path::Path;

use rocade_core::Host;
use rocade_core::host::{GpuDirect, Module, Ofed};

use crate::attributes::read_text;
use crate::root::Root;

const MODULES: &str = "/sys/module";
const PEERS: &str = "/sys/kernel/mm/memory_peers";

/// Modules of interest, by how their names begin.
const BEGINNINGS: &[&str] = &[
    "amdgpu",
    "bnxt_",
    "cxgb",
    "ecn_",
    "efa",
    "ena",
    "erdma",
    "habanalabs",
    "hfi1",
    "hns",
    "i40",
    "ib_",
    "ice",
    "idpf",
    "ionic",
    "irdma",
    "iw_",
    "ko2iblnd",
    "mana",
    "mlx",
    "nv_peer_mem",
    "nvidia",
    "nvme_",
    "ocrdma",
    "opa_vnic",
    "qed",
    "qib",
    "rdma",
    "rds",
    "rpcrdma",
    "siw",
    "smc",
    "usnic",
    "vmw_pvrdma",
    "xe",
];
/// Modules whose version is that of the whole package.
const PACKAGE: &[&str] = &["mlx5_core", "mlx4_core", "ib_core"];

pub(super) fn read(root: &Root, host: &mut Host) {
    let names = match root.list(MODULES) {
        Ok(names) => names,
        Err(refusal) => {
            host.unknown.insert("modules".into(), refusal.to_string());
            host.unknown.insert("ofed".into(), refusal.to_string());
            return;
        }
    };
    let loaded = read_text(root, Path::new("/proc/modules")).ok();
    let loaded: Option<BTreeSet<&str>> = loaded
        .as_deref()
        .map(|text| text.lines().filter_map(|line| line.split_whitespace().next()).collect());
    let names = names.iter().filter_map(|name| name.to_str());
    let wanted = names.filter(|name| BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)));
    host.modules = wanted.map(|name| read_module(root, name, loaded.as_ref())).collect();
    host.ofed = Some(tell_ofed(&host.modules));
    host.gpu_direct = read_gpu_direct(root, host);
}

fn read_module(root: &Root, name: &str, loaded: Option<&BTreeSet<&str>>) -> Module {
    let file = |file: &str| read_text(root, &Path::new(MODULES).join(name).join(file)).ok();
    Module {
        name: name.to_owned(),
        loaded: loaded.map(|loaded| loaded.contains(name)),
        version: file("version").filter(|version| !version.is_empty()),
        out_of_tree: file("taint").map(|taint| taint.contains('O')),
    }
}

fn tell_ofed(modules: &[Module]) -> Ofed {
    let of_package = |name: &&str| modules.iter().find(|module| module.name == **name);
    let release = PACKAGE.iter().filter_map(of_package).find_map(|module| {
        module.version.as_deref().filter(|version| is_release(version)).map(str::to_owned)
    });
    let tainted = PACKAGE.iter().filter_map(of_package).any(|module| module.out_of_tree == Some(true));
    Ofed { out_of_tree: tainted || release.is_some(), release }
}

/// `23.10-3.2.2`: numbers with dots, a dash, numbers with dots.
fn is_release(version: &str) -> bool {
    let numbers =
        |text: &str| text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    version
        .split_once('-')
        .is_some_and(|(release, build)| numbers(release) && release.contains('.') && numbers(build))
}

fn read_gpu_direct(root: &Root, host: &Host) -> GpuDirect {
    let has = |name: &str| host.module(name).is_some();
    let driver = read_text(root, Path::new("/proc/driver/nvidia/version")).ok();
    let nvidia_open = driver.map(|text| text.contains("Open Kernel Module"));
    let exports = match (has("nvidia"), nvidia_open) {
        (true, open) => open,
        (false, _) => Some(["amdgpu", "habanalabs", "xe"].iter().any(|name| has(name))),
    };
    let peers = root.list(PEERS).unwrap_or_default();
    GpuDirect {
        nvidia: has("nvidia"),
        nvidia_open,
        nvidia_peermem: has("nvidia_peermem") || has("nv_peer_mem"),
        memory_peers: peers.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
        dmabuf: match host.kernel.as_deref().and_then(parse_release) {
            Some(release) if release < (5, 12) => Some(false),
            Some(_) => exports,
            None => None,
        },
    }
}

/// `5.15.0-91-generic` → 5, 15.
fn parse_release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packages_release_is_told_from_other_versions() {
        for release in ["23.10-3.2.2", "5.8-1.1.2", "25.01-0.6.0"] {
            assert!(is_release(release), "{release}");
        }
        for other in ["1.13.7", "2.12.1g", "550.90.07", "10.9.5.0", "5-1", "a.b-1"] {
            assert!(!is_release(other), "{other}");
        }
    }

    #[test]
    fn a_kernels_release_is_read_up_to_its_second_number() {
        let cases = [("5.15.0-91-generic", Some((5, 15))), ("6.1", Some((6, 1))), ("linux", None)];
        for (text, release) in cases {
            assert_eq!(parse_release(text), release, "{text}");
        }
    }
}
