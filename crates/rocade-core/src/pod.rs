//! What a Pod can do with RDMA: which HCAs it was granted, which it can open, on which it has addresses. Seen from the
//! inside; how it came to be so is not told here.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::host::{Accessible, GidType, Hca, Host, Pod, Usable};
use crate::names::{GidIndex, HcaName};

/// What trying to open verbs devices gave: HCA → None where it opened, else why not (an errno name). HCAs that nobody
/// tried are left out.
pub type Tried = BTreeMap<HcaName, Option<String>>;

/// An HCA as this process has it. With shared namespaces all HCAs stand in /sys, whoever was granted them.
#[derive(Debug, Clone, PartialEq)]
pub struct Held<'a> {
    /// The HCA.
    pub hca: &'a Hca,
    /// Whether the grant names it; None where nothing says what was granted.
    pub granted: Option<bool>,
    /// Whether its verbs device opens here.
    pub opens: Opens,
}

/// Whether a verbs device opens here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opens {
    /// It did when it was tried; or, untried, its node is there and has its number.
    Yes,
    /// It does not, for this reason.
    No(String),
    /// It is not known, for this reason.
    Unknown(String),
}

/// All HCAs of a host, each with whether it was granted and opens here.
pub fn held<'a>(host: &'a Host, tried: &Tried) -> Vec<Held<'a>> {
    let held = |hca: &'a Hca| Held { hca, granted: is_granted(host, hca), opens: opens(hca, tried) };
    host.hcas.iter().map(held).collect()
}

/// Whether the grant names the HCA, by PCI address where it gives one; None where nothing says what was granted, as
/// outside of a Pod.
pub fn is_granted(host: &Host, hca: &Hca) -> Option<bool> {
    let grants = host.pod.as_ref()?.grants.as_ref().filter(|grants| !grants.is_empty())?;
    Some(grants.iter().any(|grant| match grant.pci_address {
        Some(address) => hca.pci_address == Some(address),
        None => grant.hca.as_deref() == Some(hca.name.as_str()),
    }))
}

/// Grants by name that no HCA answers to: where they are said, and the name. A PCI address without an HCA may be the
/// grant of something else than RDMA.
pub fn lost_grants(host: &Host) -> Vec<(&str, &str)> {
    let grants = host.pod.as_ref().and_then(|pod| pod.grants.as_ref()).into_iter().flatten();
    let by_name = grants.filter(|grant| grant.pci_address.is_none());
    let named = by_name.filter_map(|grant| Some((grant.source.as_str(), grant.hca.as_deref()?)));
    named.filter(|(_, name)| host.hca(name).is_none()).collect()
}

/// Resources of this container, as its manifest names them: those that it asked for where that is known, else those by
/// whose names variables tell what it was granted.
pub fn resources(pod: &Pod) -> Vec<String> {
    if !pod.resources.is_empty() {
        return pod.resources.keys().cloned().collect();
    }
    let grants = pod.grants.iter().flatten();
    let mut names: Vec<String> = grants.filter_map(|grant| resource_of(&grant.source)).collect();
    names.dedup();
    names
}

/// `ROCADE_GRANT_RDMA_HCA_A` → `rdma/hca_a`, `PCIDEVICE_NVIDIA_COM_VF` → `nvidia.com/vf`. Variables have lost where the
/// domain ends, and dots and dashes of the name: a domain of several parts is known by its last one.
fn resource_of(variable: &str) -> Option<String> {
    const LAST_PARTS: [&str; 5] = ["_com_", "_io_", "_org_", "_net_", "_dev_"];
    let prefixes = ["ROCADE_GRANT_", "PCIDEVICE_"];
    let name = prefixes.iter().find_map(|prefix| variable.strip_prefix(prefix))?.to_ascii_lowercase();
    let ends = LAST_PARTS.iter().filter_map(|last| Some(name.find(last)? + last.len() - 1));
    let at = ends.min().or_else(|| name.find('_'))?;
    Some(format!("{}/{}", name[..at].replace('_', "."), &name[at + 1..]))
}

fn opens(hca: &Hca, tried: &Tried) -> Opens {
    let Some(device) = &hca.uverbs else { return Opens::No("the kernel made no verbs device of it".into()) };
    match (tried.get(&hca.name), device.accessible) {
        (Some(Some(errno)), _) => Opens::No(format!("{} does not open ({errno})", device.path())),
        (Some(None), _) | (None, Accessible::Yes) => Opens::Yes,
        (None, Accessible::Missing) => Opens::No(format!("{} is not here", device.path())),
        (None, Accessible::Other) => {
            Opens::No(format!("{} is not the device {}:{}", device.path(), device.major, device.minor))
        }
        (None, Accessible::Unknown) => {
            Opens::Unknown(format!("whether {} is here is not known", device.path()))
        }
    }
}

/// The view from inside a Pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodView {
    /// HCAs that it was granted, by the names that they have now; None where nothing says it.
    pub granted: Option<Vec<String>>,
    /// Verbs node → the HCA whose number it has now.
    pub opens: BTreeMap<String, String>,
    /// HCA → own address → index of its RoCE v2 GID and its interface. Link-local ones are left out.
    pub own_v2: BTreeMap<String, BTreeMap<String, (GidIndex, String)>>,
    /// HCAs that it can open and use.
    pub usable: Vec<String>,
    /// Whether all that was granted can be used; without a grant, whether anything can.
    pub pass: bool,
}

/// None outside a Pod. Ports must have been judged ([`crate::judge`]).
pub fn view(host: &Host) -> Option<PodView> {
    let pod = host.pod.as_ref()?;
    let opens: BTreeMap<String, String> = host
        .nodes
        .iter()
        .filter(|node| node.name.starts_with("uverbs"))
        .filter_map(|node| Some((node.name.clone(), node.hca.as_ref()?.to_string())))
        .collect();
    let is_usable = |hca: &&Hca| {
        opens.values().any(|name| name == hca.name.as_str())
            && hca.ports.iter().any(|port| port.usable != Usable::No)
    };
    let usable: Vec<String> = host.hcas.iter().filter(is_usable).map(|hca| hca.name.to_string()).collect();
    let granted = pod.grants.as_ref().map(|grants| {
        let now = |grant: &crate::host::PodGrant| match grant.pci_address {
            Some(address) => {
                host.hcas.iter().find(|hca| hca.pci_address == Some(address)).map(|hca| hca.name.to_string())
            }
            None => grant.hca.clone(),
        };
        let mut granted: Vec<String> = grants.iter().filter_map(now).collect();
        granted.dedup();
        granted
    });
    let pass = match &granted {
        Some(granted) => !granted.is_empty() && granted.iter().all(|hca| usable.contains(hca)),
        None => !usable.is_empty(),
    };
    Some(PodView { granted, opens, own_v2: own_addresses(host), usable, pass })
}

fn own_addresses(host: &Host) -> BTreeMap<String, BTreeMap<String, (GidIndex, String)>> {
    let mut found: BTreeMap<String, BTreeMap<String, (GidIndex, String)>> = BTreeMap::new();
    for hca in &host.hcas {
        for gid in hca.ports.iter().flat_map(|port| &port.gids) {
            let routable = gid.gid_type == Some(GidType::V2) && !gid.gid.is_link_local() && host.owns(gid);
            if let (true, Some(address), Some(netdev)) = (routable, gid.address, &gid.netdev) {
                let of_hca = found.entry(hca.name.to_string()).or_default();
                of_hca.insert(address.to_string(), (gid.index, netdev.clone()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{CharDevice, PodGrant};

    fn hca(name: &str, address: &str, accessible: Accessible) -> Hca {
        let uverbs = CharDevice { node: format!("of_{name}"), major: 231, minor: 192, accessible };
        Hca {
            pci_address: Some(address.parse().unwrap()),
            uverbs: Some(uverbs),
            ..Hca::new(name.parse().unwrap())
        }
    }

    fn host(grants: Option<Vec<PodGrant>>) -> Host {
        let hcas = vec![
            hca("mlx5_0", "0000:01:00.0", Accessible::Yes),
            hca("mlx5_1", "0000:02:00.0", Accessible::Missing),
            hca("mlx5_2", "0000:03:00.0", Accessible::Other),
            hca("mlx5_3", "0000:04:00.0", Accessible::Unknown),
        ];
        Host { hcas, pod: Some(Pod { grants, ..Pod::default() }), ..Host::default() }
    }

    fn granted(host: &Host) -> Vec<Option<bool>> {
        held(host, &Tried::new()).iter().map(|held| held.granted).collect()
    }

    #[test]
    fn a_pci_address_names_the_granted_hca_whatever_it_is_called_now() {
        let address = PodGrant { pci_address: Some("0000:02:00.0".parse().unwrap()), ..PodGrant::default() };
        let name = PodGrant { hca: Some("mlx5_3".into()), ..PodGrant::default() };
        let wanted = [Some(false), Some(true), Some(false), Some(true)];
        assert_eq!(granted(&host(Some(vec![address, name]))), wanted);
        assert_eq!(granted(&host(None)), [None; 4]);
        assert_eq!(granted(&host(Some(Vec::new()))), [None; 4], "an empty list says nothing");
    }

    #[test]
    fn a_node_opens_where_it_is_this_device_and_was_not_refused() {
        let host = host(None);
        let of = |tried: &Tried| held(&host, tried).into_iter().map(|held| held.opens).collect::<Vec<_>>();
        let untried = of(&Tried::new());
        assert_eq!(untried[0], Opens::Yes);
        assert!(matches!(&untried[1], Opens::No(why) if why == "/dev/infiniband/of_mlx5_1 is not here"));
        assert!(matches!(&untried[2], Opens::No(why) if why.ends_with("is not the device 231:192")));
        assert!(matches!(&untried[3], Opens::Unknown(_)));
        let refused = Tried::from([("mlx5_0".parse().unwrap(), Some("EPERM".into()))]);
        assert!(matches!(&of(&refused)[0], Opens::No(why) if why.ends_with("does not open (EPERM)")));
        let opened = Tried::from([("mlx5_3".parse().unwrap(), None)]);
        assert_eq!(of(&opened)[3], Opens::Yes);
    }

    #[test]
    fn a_resource_is_named_as_it_was_asked_for_or_as_its_variable_tells() {
        for (variable, wanted) in [
            ("ROCADE_GRANT_RDMA_HCA_ENS18", Some("rdma/hca_ens18")),
            ("ROCADE_GRANT_EXAMPLE_COM_RAILS", Some("example.com/rails")),
            ("PCIDEVICE_NVIDIA_COM_SRIOV_RAIL0", Some("nvidia.com/sriov_rail0")),
            ("PCIDEVICE_OPENSHIFT_IO_MLX", Some("openshift.io/mlx")),
            ("ROCADE_GRANT_A", None),
            ("granted", None),
        ] {
            assert_eq!(resource_of(variable).as_deref(), wanted, "{variable}");
        }
        let grant = PodGrant { source: "ROCADE_GRANT_RDMA_A".into(), ..PodGrant::default() };
        let mut pod = Pod { grants: Some(vec![grant.clone(), grant]), ..Pod::default() };
        assert_eq!(resources(&pod), ["rdma/a"]);
        pod.resources.insert("rdma/A-b".into(), "1".into());
        assert_eq!(resources(&pod), ["rdma/A-b"]);
    }
}
