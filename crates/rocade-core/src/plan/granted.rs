//! Grants that were made: whether their device nodes still open what they opened. A container keeps the numbers that its
//! nodes had when it was made, and a driver that is loaded again gives numbers anew.

use super::identity;
use crate::host::{CharDevice, Hca, Host};
use crate::names::HcaName;

/// A device node as it was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedNode {
    /// Its path on the host and in the container.
    pub path: String,
    /// The HCA that it belonged to; None for rdma_cm.
    pub hca: Option<HcaName>,
    /// That HCA's ID ([`super::PoolMember::id`]), which outlives its name.
    pub id: Option<String>,
    /// Number of the device that it opened.
    pub major: u32,
    /// Number of the device that it opened.
    pub minor: u32,
}

/// The nodes of these paths as they are now; one that is not there is left out.
pub fn number_nodes(host: &Host, paths: &[String]) -> Vec<GrantedNode> {
    let of_path = |path: &String| {
        let node = |device: &CharDevice, hca: Option<&Hca>| GrantedNode {
            path: path.clone(),
            hca: hca.map(|hca| hca.name.clone()),
            id: hca.map(|hca| identity::id(host, hca)),
            major: device.major,
            minor: device.minor,
        };
        let rdma_cm = host.rdma_cm.iter().map(|device| (device, None));
        let mut all = devices(host).map(|(device, hca)| (device, Some(hca))).chain(rdma_cm);
        all.find(|(device, _)| device.is_at(path)).map(|(device, hca)| node(device, hca))
    };
    paths.iter().filter_map(of_path).collect()
}

/// What is wrong with granted nodes on the host as it is now, each in a sentence; empty when nothing is.
pub fn check_granted(host: &Host, nodes: &[GrantedNode]) -> Vec<String> {
    let fault = |node: &GrantedNode| {
        let (Some(id), Some(name)) = (&node.id, &node.hca) else { return None };
        let number = format!("{}:{}", node.major, node.minor);
        let now = devices(host).find(|(device, _)| (device.major, device.minor) == (node.major, node.minor));
        match now {
            Some((_, hca)) if identity::id(host, hca) == *id => None,
            Some((_, hca)) => Some(format!(
                "{} (device {number}) was granted for {name} and opens {} now: make the Pod anew",
                node.path, hca.name
            )),
            // In a network namespace of its own the HCA cannot be seen, but its verbs device can.
            None if is_orphan(host, node) => None,
            None => Some(format!(
                "{} (device {number}) was granted for {name} and opens nothing now: make the Pod anew",
                node.path
            )),
        }
    };
    nodes.iter().filter_map(fault).collect()
}

fn devices(host: &Host) -> impl Iterator<Item = (&CharDevice, &Hca)> {
    host.hcas.iter().flat_map(|hca| {
        let of_ports = hca.ports.iter().flat_map(|port| port.umad.iter().chain(&port.issm));
        hca.uverbs.iter().chain(of_ports).map(move |device| (device, hca))
    })
}

/// Management devices go with their HCA out of sight; they are not called lost while any verbs device is out of sight.
fn is_orphan(host: &Host, node: &GrantedNode) -> bool {
    let verbs = |device: &CharDevice| (device.major, device.minor) == (node.major, node.minor);
    let is_verbs = node.path.contains("uverbs");
    host.orphan_uverbs.iter().any(verbs) || (!is_verbs && !host.orphan_uverbs.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Accessible;

    fn host(numbers: &[u32]) -> Host {
        let hca = |(n, minor): (usize, &u32)| {
            let node = format!("uverbs{minor}");
            let uverbs = CharDevice { node, major: 231, minor: 192 + minor, accessible: Accessible::Yes };
            Hca {
                pci_address: Some(format!("0000:0{n}:00.0").parse().unwrap()),
                uverbs: Some(uverbs),
                ..Hca::new(format!("mlx5_{n}").parse().unwrap())
            }
        };
        Host { hcas: numbers.iter().enumerate().map(hca).collect(), ..Host::default() }
    }

    #[test]
    fn a_node_whose_number_another_hca_has_now_is_named_with_both() {
        let before = host(&[0, 1]);
        let nodes = number_nodes(&before, &["/dev/infiniband/uverbs0".to_owned()]);
        assert_eq!(
            (nodes[0].major, nodes[0].minor, nodes[0].id.as_deref()),
            (231, 192, Some("0000:00:00.0"))
        );
        assert_eq!(check_granted(&before, &nodes), [] as [&str; 0]);
        // The driver was loaded again: the numbers are exchanged.
        let faults = check_granted(&host(&[1, 0]), &nodes);
        let wanted = "/dev/infiniband/uverbs0 (device 231:192) was granted for mlx5_0 and opens mlx5_1 now: make the Pod anew";
        assert_eq!(faults, [wanted]);
    }

    #[test]
    fn a_node_that_opens_nothing_is_named_and_a_renamed_hca_or_one_in_a_namespace_of_its_own_is_not() {
        let before = host(&[0]);
        let nodes = number_nodes(&before, &["/dev/infiniband/uverbs0".to_owned()]);
        assert!(check_granted(&host(&[5]), &nodes)[0].contains("opens nothing now"));
        let mut renamed = before.clone();
        renamed.hcas[0].name = "rdma_a".parse().unwrap();
        assert_eq!(check_granted(&renamed, &nodes), [] as [&str; 0]);
        let mut moved = before.clone();
        moved.orphan_uverbs = moved.hcas.remove(0).uverbs.into_iter().collect();
        assert_eq!(check_granted(&moved, &nodes), [] as [&str; 0]);
    }
}
