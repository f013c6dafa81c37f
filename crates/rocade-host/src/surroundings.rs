//! What stands around the HCAs: read last, since it is read for the HCAs and netdevs that were found.

use std::collections::BTreeSet;

use rocade_core::Host;

use crate::attributes::read_text;
use crate::pci;
use crate::root::Root;

mod accelerators;
mod bonds;
pub(crate) mod boot;
mod cards;
mod health;
mod links;
mod modules;
pub(crate) mod pod;
pub(crate) mod providers;
mod qos;
mod routes;
pub(crate) mod settings;
pub(crate) mod storage;

pub(crate) use accelerators::is_accelerator;

/// Fills all of it.
pub(crate) fn read(root: &Root, host: &mut Host) {
    modules::read(root, host);
    settings::read(root, host);
    boot::read(root, host);
    providers::read(root, host);
    cards::read(root, host);
    health::read(root, host);
    links::read(root, host);
    read_of_roles(root, host);
    let above = |path: &Vec<_>| path.clone();
    let bridges: BTreeSet<_> = host
        .hcas
        .iter()
        .map(|hca| &hca.pci_path)
        .chain(host.accelerators.iter().map(|accelerator| &accelerator.pci_path))
        .flat_map(above)
        .collect();
    host.bridges = pci::read_bridges(root, bridges);
    pod::read(root, host);
}

/// What the roles of HCAs are told from, and no more.
pub(crate) fn read_for_roles(root: &Root, host: &mut Host) {
    links::read_switches(root, host);
    read_of_roles(root, host);
}

/// What tells whether a Pod can use RDMA, and no more.
pub(crate) fn read_for_pod(root: &Root, host: &mut Host) {
    settings::read_memlock(root, host);
    pod::read(root, host);
}

fn read_of_roles(root: &Root, host: &mut Host) {
    routes::read(root, host);
    accelerators::read(root, host);
    host.remote_storage = storage::read(root);
    host.api_server = read_text(root, KUBELET.as_ref()).ok().and_then(|text| parse_server(&text));
}

/// Where kubeadm tells the kubelet its API server.
pub(crate) const KUBELET: &str = "/etc/kubernetes/kubelet.conf";

/// The line of that file that says it: the rest may hold keys, and is not recorded.
pub(crate) fn keep_server(content: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(content);
    let line = text.lines().find(|line| line.trim_start().starts_with("server:"));
    line.map_or_else(Vec::new, |line| format!("{line}\n").into_bytes())
}

/// `server: https://10.0.0.1:6443` → `10.0.0.1`.
fn parse_server(text: &str) -> Option<String> {
    let url = text.lines().find_map(|line| line.trim_start().strip_prefix("server:"))?;
    let place = url.trim().trim_matches('"').split_once("://")?.1.split('/').next()?;
    let host = match place.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => place.rsplit_once(':').map_or(place, |(host, _)| host),
    };
    (!host.is_empty()).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_kubelets_configuration_only_the_servers_address_is_kept() {
        let text = "clusters:\n- cluster:\n    server: https://10.0.0.1:6443\nusers:\n- token: secret\n";
        let kept = String::from_utf8(keep_server(text.as_bytes())).unwrap();
        assert_eq!(kept, "    server: https://10.0.0.1:6443\n");
        assert_eq!(parse_server(&kept).as_deref(), Some("10.0.0.1"));
        assert_eq!(parse_server("server: https://[fd00::1]:6443").as_deref(), Some("fd00::1"));
    }
}
