//! The RDMA devices: /sys/class/infiniband downward, whatever the vendor. A device's own facts are read in `hca`, its
//! ports in `port`, GID tables in `gids`; the netdev of a port is found in `port_netdev`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rocade_core::host::{Counter, Unknown};
use rocade_core::names::{Pkey, compare_natural};
use rocade_core::{Accessible, Hca, HcaName, Host, Netdev, Port, PortNum};

use crate::attributes::{Attributes, read_text};
use crate::counters::read_counters;
use crate::devices::CharDevices;
use crate::gids::read_gids;
use crate::pci::{self, Place};
use crate::port_netdev::NetlinkNetdevs;
use crate::root::Root;
use crate::scope::Scope;

mod hca;
mod port;

const CLASS: &str = "/sys/class/infiniband";

/// What the ports of all HCAs are read against.
pub(crate) struct Surroundings<'a> {
    pub(crate) root: &'a Root,
    pub(crate) scope: Scope,
    pub(crate) netdevs: &'a [Netdev],
    pub(crate) devices: &'a CharDevices,
    pub(crate) netlink: &'a NetlinkNetdevs,
    /// HCA → the HCA that it is a part of, by RDMA netlink.
    pub(crate) parts: BTreeMap<String, String>,
}

/// All HCAs, by name. One that is listed but gone is named in `unknown`.
pub(crate) fn read_hcas(around: &Surroundings<'_>, unknown: &mut Unknown) -> Vec<Hca> {
    let names = match around.root.list(CLASS) {
        Ok(names) => names,
        Err(refusal) if refusal.is_absent() => return Vec::new(),
        Err(refusal) => {
            unknown.insert("hcas".into(), refusal.to_string());
            return Vec::new();
        }
    };
    let mut hcas = Vec::new();
    for name in names {
        match read_hca(around, &name) {
            Ok(hca) => hcas.push(hca),
            Err(why) => drop(unknown.insert(format!("hcas.{}", name.to_string_lossy()), why)),
        }
    }
    hcas.sort_by(|a, b| compare_natural(a.name.as_str(), b.name.as_str()));
    hcas
}

/// Reads the states of these HCAs' ports again, and nothing else: what changes without an event, and at once where one
/// came. True when one is another.
pub fn read_port_states(root: &Root, host: &mut Host, hcas: &BTreeSet<HcaName>) -> bool {
    let mut changed = false;
    for hca in host.hcas.iter_mut().filter(|hca| hcas.contains(&hca.name)) {
        for port in &mut hca.ports {
            changed |= port::read_state(root, &hca.name, port);
        }
    }
    changed
}

/// Counters of a port as they are now, to be compared with those of another time; empty where it has none, or is gone.
pub fn read_port_counters(root: &Root, hca: &HcaName, port: PortNum) -> Vec<Counter> {
    let dir = port::dir_of(hca, port);
    ["counters", "hw_counters"].iter().flat_map(|set| read_counters(root, &dir, set)).collect()
}

/// Whether each GID that a port had stands at its index still.
pub(crate) fn has_gids_in_place(root: &Root, hca: &HcaName, before: &Port) -> bool {
    let Ok(dir) = root.member(CLASS, hca.as_str()) else { return false };
    let mut files = Attributes::of(root, dir.join("ports").join(before.port.to_string()));
    let indexes: Vec<u32> = before.gids.iter().map(|gid| gid.index.0).collect();
    read_gids(&mut files, &indexes, before.transport) == before.gids
}

/// Partition keys of a port by their index, 0x0000 where an entry is unset; empty where there are none or they cannot be
/// read.
pub fn read_pkey_table(root: &Root, hca: &HcaName, port: PortNum) -> Vec<(u32, Pkey)> {
    port::read_pkeys(root, &port::dir_of(hca, port))
}

fn read_hca(around: &Surroundings<'_>, name: &OsStr) -> Result<Hca, String> {
    let root = around.root;
    let hca_name: HcaName = name.to_str().ok_or("name is not UTF-8")?.parse().map_err(|e| format!("{e}"))?;
    let dir = root.member(CLASS, name).map_err(|refusal| refusal.to_string())?;
    let place = Place::of(&dir);
    if let Some(seen) = around.scope.lean.then(|| seen_only(around, &hca_name, &place)).flatten() {
        return Ok(seen);
    }
    let ports = match root.list(dir.join("ports")) {
        Ok(ports) => ports,
        Err(refusal) if refusal.is_absent() => return Err(format!("{refusal}: listed, but gone")),
        Err(refusal) => return Err(refusal.to_string()),
    };
    let mut numbers: Vec<u32> = ports.iter().filter_map(|port| port.to_str()?.parse().ok()).collect();
    numbers.sort_unstable();

    let mut hca = hca::read_device(around, hca_name, &dir, &place);
    for number in &numbers {
        let port = port::read_port(around, &hca, &dir, *number, numbers.len() == 1);
        hca.ports.push(port);
    }
    match &place.function {
        Some((_, function)) => {
            pci::read_vpd(root, &mut hca, function, around.scope.surroundings);
            if around.scope.surroundings {
                pci::read_settings(root, &mut hca, function);
            }
        }
        None => hca.switch_management = Some(false),
    }
    Ok(hca)
}

/// An HCA whose node is not here, without anything that had to be read for it.
fn seen_only(around: &Surroundings<'_>, name: &HcaName, place: &Place) -> Option<Hca> {
    let uverbs = around.devices.verbs(name.as_str());
    let is_missing = uverbs.as_ref().is_none_or(|device| device.accessible == Accessible::Missing);
    let pci_address = place.function.as_ref().map(|(address, _)| *address);
    is_missing.then(|| Hca { uverbs, pci_address, ..Hca::new(name.clone()) })
}

/// The netdev that rxe says it lies on.
pub(crate) fn read_software_netdev(root: &Root, dir: &Path) -> Option<String> {
    read_text(root, &PathBuf::from(dir).join("parent")).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port with a counter, and a table of three keys of which the second is unset.
    #[test]
    fn counters_and_partition_keys_of_one_port_are_read_by_themselves() {
        let temp = tempfile::tempdir().unwrap();
        let port = temp.path().join("sys/class/infiniband/mlx5_0/ports/1");
        for (file, text) in [
            ("hw_counters/out_of_sequence", "12\n"),
            ("hw_counters/lifespan", "10\n"),
            ("counters/link_downed", "3\n"),
            ("pkeys/0", "0xffff\n"),
            ("pkeys/1", "0x0000\n"),
            ("pkeys/10", "0x7fff\n"),
        ] {
            let file = port.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let root = Root::live(temp.path()).unwrap();
        let hca = "mlx5_0".parse().unwrap();
        let counters = read_port_counters(&root, &hca, PortNum(1));
        let counters: Vec<_> =
            counters.iter().map(|counter| (counter.file.as_str(), counter.value)).collect();
        assert_eq!(counters, [("counters/link_downed", Some(3)), ("hw_counters/out_of_sequence", Some(12))]);
        let keys = read_pkey_table(&root, &hca, PortNum(1));
        assert_eq!(keys, [(0, Pkey(0xffff)), (1, Pkey(0)), (10, Pkey(0x7fff))]);
        assert_eq!(read_port_counters(&root, &hca, PortNum(2)), []);
        assert_eq!(read_pkey_table(&root, &hca, PortNum(2)), []);
    }

    #[test]
    fn a_port_that_changed_is_read_again_with_its_physical_state_and_the_others_are_not_touched() {
        let temp = tempfile::tempdir().unwrap();
        let write = |hca: &str, file: &str, text: &str| {
            let dir = temp.path().join("sys/class/infiniband").join(hca).join("ports/1");
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join(file), text).unwrap();
        };
        for hca in ["mlx5_0", "mlx5_1"] {
            write(hca, "state", "4: ACTIVE\n");
            write(hca, "phys_state", "5: LinkUp\n");
        }
        let root = Root::live(temp.path()).unwrap();
        let mut host = crate::read_parts(&root, Scope::GRANTS);
        let asked = BTreeSet::from(["mlx5_0".parse().unwrap()]);
        assert!(!read_port_states(&root, &mut host, &asked));
        for hca in ["mlx5_0", "mlx5_1"] {
            write(hca, "state", "1: DOWN\n");
            write(hca, "phys_state", "3: Disabled\n");
        }
        assert!(read_port_states(&root, &mut host, &asked));
        let port =
            |n: usize| (host.hcas[n].ports[0].state.as_deref(), host.hcas[n].ports[0].phys_state.as_deref());
        assert_eq!(port(0), (Some("DOWN"), Some("Disabled")));
        assert_eq!(port(1), (Some("ACTIVE"), Some("LinkUp")));
    }
}
