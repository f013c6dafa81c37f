//! What a Pod can do with RDMA: which HCAs it was granted, which it can open, on which it has addresses. Seen from the
//! inside; how it came to be so is not told here.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::host::{GidType, Hca, Host, Usable};
use crate::names::GidIndex;

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
