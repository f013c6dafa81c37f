//! Rules about a Pod, looked at from inside: RDC6xx. Granted is what a node can be opened for; asked for is what the
//! environment and annotations say.

use std::net::IpAddr;

use super::{Case, Rule, Sheet, is_reached};
use crate::finding::Severity;
use crate::host::{CharDevice, GidEntry, GidType, Hca, Pod, Port, Transport, Usable};
use crate::pod::Tried;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC601",
        severity: Severity::Error,
        title: "A granted HCA has no address in this Pod",
        why: "A RoCE GID belongs to an interface. Without an interface of the Pod on that rail, no GID of the HCA may be \
              used from here: connecting fails at `modify QP to RTR`.",
        cure: "attach a network (macvlan, or the VF itself) on that rail with an address, or use the host's network",
        judge: granted_without_address,
    },
    Rule {
        code: "RDC602",
        severity: Severity::Error,
        title: "The Pod's own address is on an HCA that was not granted",
        why: "The address has GIDs there, and the device cannot be opened.",
        cure: "ask for the resource of that HCA, or attach the network of the granted one",
        judge: address_without_grant,
    },
    Rule {
        code: "RDC603",
        severity: Severity::Error,
        title: "Resource and network of the Pod are of different rails",
        why: "The device plugin and the network plugin choose on their own: what one gives is of no use with what the \
              other gives.",
        cure: "",
        judge: different_rails,
    },
    Rule {
        code: "RDC604",
        severity: Severity::Error,
        title: "Not all that was granted can be used in this Pod",
        why: "A granted HCA cannot be opened or has no address here, or something else than the grant can be opened.",
        cure: "",
        judge: verdict,
    },
    Rule {
        code: "RDC605",
        severity: Severity::Error,
        title: "A device node of the Pod belongs to another HCA by now",
        why: "Device numbers are given out anew when a driver is reloaded. The node in the container keeps its number and \
              now opens what another Pod was granted.",
        cure: "recreate the Pod",
        judge: stale_node,
    },
    Rule {
        code: "RDC606",
        severity: Severity::Error,
        title: "A granted HCA has no node in this Pod",
        why: "The grant names it, and nothing to open it is there.",
        cure: "recreate the Pod; see that the device plugin runs and lists the HCA",
        judge: granted_without_node,
    },
    Rule {
        code: "RDC607",
        severity: Severity::Error,
        title: "An interface of the Pod is gone",
        why: "network-status names it, this namespace has none: a macvlan goes with the interface below it, as in a driver \
              reload.",
        cure: "recreate the Pod",
        judge: interface_gone,
    },
    Rule {
        code: "RDC608",
        severity: Severity::Error,
        title: "An HCA can be opened that was not granted",
        why: "Isolation between Pods is broken: what runs here can disturb, and be disturbed by, the Pod that was granted it.",
        cure: "recreate the Pod; see that no container is privileged or mounts /dev",
        judge: not_granted_but_open,
    },
    Rule {
        code: "RDC609",
        severity: Severity::Note,
        title: "More HCAs are seen than were granted",
        why: "With shared namespaces the kernel hides no HCA: libraries that take all they see print `Failed to open device` \
              or fail.",
        cure: "",
        judge: seen_not_granted,
    },
    Rule {
        code: "RDC610",
        severity: Severity::Error,
        title: "No RDMA device was granted to this container",
        why: "HCAs are seen in /sys, which says nothing about what may be opened here.",
        cure: "ask for the resource under resources.limits (as rdma/NAME: 1), and see that a device plugin offers it",
        judge: nothing_granted,
    },
];

fn granted_without_address(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for hca in opened(case).filter(|hca| is_roce(hca) && is_granted(case, hca) != Some(false)) {
        if own_gids(case, hca).is_empty() {
            let rail = rail_of(case, hca).map_or_else(String::new, |rail| format!(" (rail {rail})"));
            let (held, ask) = match nothing_is_meant(case) {
                true => (
                    "opens as all do here, granted by nobody",
                    "ask for the resource of the HCA that is meant, and ",
                ),
                false => ("granted", ""),
            };
            let seen =
                format!("{held}, but no GID of it belongs to this Pod's interfaces: no address on that rail");
            let finding = sheet.find(&hca.name, seen, "an address of the Pod on it");
            finding.cure = format!(
                "{ask}attach a network on the rail of {}{rail} with an address, or use the host's network",
                hca.name
            );
        }
    }
}

/// Whether nothing says what was granted and no node is missing, as in a privileged container: then none of the HCAs was
/// meant for this Pod more than another.
fn nothing_is_meant(case: &Case<'_>) -> bool {
    case.host.hcas.iter().all(|hca| is_granted(case, hca).is_none() && is_reached(hca))
}

fn address_without_grant(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    // The host's network has the addresses of all rails: they are not the Pod's.
    if pod(case).is_none() || case.host.initial_netns == Some(true) {
        return;
    }
    for hca in case.host.hcas.iter().filter(|hca| !is_reached(hca)) {
        let own: Vec<&GidEntry> = all_own_gids(case, hca).collect();
        let Some(first) = own.iter().find(|gid| !gid.gid.is_link_local() && gid.address.is_some()) else {
            continue;
        };
        let (Some(address), Some(netdev)) = (first.address, first.netdev.as_deref()) else { continue };
        let same = own.iter().filter(|gid| gid.address == Some(address));
        let indexes: Vec<String> = same.map(|gid| gid.index.to_string()).collect();
        let node = hca.uverbs.as_ref().map_or_else(|| "its node".to_owned(), CharDevice::path);
        let seen = format!(
            "the Pod's own address {address} ({netdev}) has GIDs there (index {}), but {node} is not granted",
            indexes.join(", ")
        );
        sheet.find(&hca.name, seen, "that HCA granted");
    }
}

fn different_rails(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(pod) = pod(case) else { return };
    let granted: Vec<&Hca> = opened(case).filter(|hca| is_roce(hca)).collect();
    let addressed: Vec<&Hca> = case.host.hcas.iter().filter(|hca| !own_gids(case, hca).is_empty()).collect();
    if granted.is_empty() || addressed.is_empty() || addressed.iter().any(|hca| is_reached(hca)) {
        return;
    }
    let names = |hcas: &[&Hca]| {
        let one = |hca: &&Hca| match rail_of(case, hca) {
            Some(rail) => format!("{} ({rail})", hca.name),
            None => hca.name.to_string(),
        };
        hcas.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let resources = crate::pod::resources(pod);
    let said = granted.iter().any(|hca| is_granted(case, hca).is_some());
    let resource = match (resources.is_empty(), said) {
        (false, _) => format!("resource {}", resources.join(", ")),
        (true, true) => "the grant".into(),
        (true, false) => "what opens here".into(),
    };
    let network =
        pod.networks.as_deref().map_or_else(|| "the network".to_owned(), |name| format!("network {name}"));
    let seen = format!(
        "{resource} is {}, {network} leads to {}: different rails",
        names(&granted),
        names(&addressed)
    );
    sheet.find("pod", seen, "one rail").cure =
        format!("ask for the resource of {}, or attach a network on {}", names(&addressed), names(&granted));
}

fn verdict(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(view) = crate::pod::view(case.host).filter(|view| !view.pass) else { return };
    // Without any node the grant is the matter, which is another finding.
    if case.host.hcas.is_empty() || opened(case).next().is_none() {
        return;
    }
    let unusable = opened(case).flat_map(|hca| hca.ports.iter().map(move |port| (hca, port)));
    let why: Vec<String> = unusable
        .filter(|(_, port)| port.usable == Usable::No)
        .map(|(hca, port)| format!("{}/{}: {}", hca.name, port.port, port.reason))
        .collect();
    let usable = if view.usable.is_empty() { "none".to_owned() } else { view.usable.join(", ") };
    let seen = format!("verdict FAIL: usable {usable}; {}", why.join("; "));
    let cure = match stale(case).next() {
        Some(_) => "recreate the Pod",
        None => "see the other findings: grant and address must meet on one HCA",
    };
    sheet.find("pod", seen, "every granted HCA usable").cure = cure.into();
}

fn stale_node(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for Stale { granted, holder, named } in stale(case) {
        let Some(node) = &holder.uverbs else { continue };
        let now =
            holder.pci_address.map_or_else(|| "no PCI function".to_owned(), |address| address.to_string());
        let today = match granted {
            None => format!("{named}, which has no HCA now"),
            Some(hca) if *hca.name.as_str() == *named => named.clone(),
            Some(hca) => format!("{named}, which is {}", hca.name),
        };
        let its = granted.and_then(|hca| hca.uverbs.as_ref());
        let its = its.map_or_else(String::new, |d| format!(" with {} ({}:{})", d.node, d.major, d.minor));
        let seen = format!(
            "{}:{} is {} ({now}) now; the grant was {today}{its}: stale grant after a driver reload",
            node.major, node.minor, holder.name
        );
        sheet.find(&node.node, seen, format!("the node of {named}"));
        let ports = holder.ports.iter().flat_map(|port| port.umad.iter().chain(&port.issm));
        let others: Vec<&str> =
            ports.filter(|device| device.is_there()).map(|device| device.node.as_str()).collect();
        if !others.is_empty() {
            sheet.find(
                others.join(", "),
                format!("the same: {}'s now", holder.name),
                format!("the nodes of {named}"),
            );
        }
    }
}

fn granted_without_node(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let lost = case.host.hcas.iter().filter(|hca| is_granted(case, hca) == Some(true) && !is_reached(hca));
    for hca in lost.filter(|hca| !is_refused(case, hca)) {
        let node = hca.uverbs.as_ref().map_or_else(|| "its node".to_owned(), CharDevice::path);
        sheet.find(&hca.name, format!("granted, {node} is not in this Pod"), "the node");
    }
    // Where no HCA is seen at all, that is the matter, which is RDC101.
    let lost = crate::pod::lost_grants(case.host).into_iter().filter(|_| !case.host.hcas.is_empty());
    for (source, name) in lost {
        sheet.find(name, format!("{source} grants it, no HCA here is called so"), "the granted HCA");
    }
}

fn interface_gone(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(pod) = pod(case) else { return };
    for network in &pod.network_status {
        let Some(interface) = network.interface.as_deref().filter(|name| case.host.netdev(name).is_none())
        else {
            continue;
        };
        let seen = format!(
            "{} gave it, it is not in this namespace: it went with the interface below it",
            network.name
        );
        sheet.find(interface, seen, "the interface");
    }
}

fn not_granted_but_open(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for hca in opened(case).filter(|hca| is_granted(case, hca) == Some(false)) {
        let node = hca.uverbs.as_ref().map_or_else(String::new, CharDevice::path);
        sheet.find(
            &hca.name,
            format!("{node} can be opened, the grant does not name it"),
            "granted HCAs only",
        );
    }
}

fn seen_not_granted(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(_) = pod(case) else { return };
    let own = opened(case).filter(|hca| is_granted(case, hca) != Some(false));
    let granted: Vec<&str> = own.map(|hca| hca.name.as_str()).collect();
    let others: Vec<&str> =
        case.host.hcas.iter().filter(|hca| !is_reached(hca)).map(|hca| hca.name.as_str()).collect();
    if !granted.is_empty() && !others.is_empty() {
        let seen = format!(
            "{} of {} HCAs granted: {}; seen only: {}",
            granted.len(),
            case.host.hcas.len(),
            granted.join(","),
            others.join(", ")
        );
        let ports = job_ports(case, &granted).join(",");
        sheet.find("pod", seen, "libraries that take the granted ones only").cure =
            format!("NCCL_IB_HCA=={ports} UCX_NET_DEVICES={ports}, as `rocade exec` sets them");
    }
}

/// The ports that libraries are to be told, as `rocade env` names them: those that a job can use, or all of what was granted
/// as long as none can.
fn job_ports(case: &Case<'_>, granted: &[&str]) -> Vec<String> {
    let none = Tried::new();
    let tried = case.against.within.map_or(&none, |within| &within.tried);
    let usable = crate::environment::usable_ports(case.host, tried);
    if !usable.is_empty() {
        return usable;
    }
    let own = case.host.hcas.iter().filter(|hca| granted.contains(&hca.name.as_str()));
    own.flat_map(|hca| hca.ports.iter().map(|port| format!("{}:{}", hca.name, port.port))).collect()
}

fn nothing_granted(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    // What was granted and is not here is another finding.
    let is_told = |hca| is_refused(case, hca) || is_granted(case, hca) == Some(true);
    if case.host.hcas.iter().any(is_told) || !crate::pod::lost_grants(case.host).is_empty() {
        return;
    }
    if pod(case).is_some() && !case.host.hcas.is_empty() && opened(case).next().is_none() {
        let names: Vec<&str> = case.host.hcas.iter().map(|hca| hca.name.as_str()).collect();
        sheet.find(
            "pod",
            format!("{} seen in /sys, no node of them in /dev/infiniband", names.join(", ")),
            "a granted device",
        );
    }
}

/// Whether the HCA's node is here and was tried in vain, which is RDC611's matter.
fn is_refused(case: &Case<'_>, hca: &Hca) -> bool {
    case.against.within.is_some_and(|within| within.tried.get(&hca.name).is_some_and(Option::is_some))
}

fn pod<'a>(case: &Case<'a>) -> Option<&'a Pod> {
    case.host.pod.as_ref()
}

/// The HCAs whose node can be opened from inside the Pod; none outside of one.
fn opened<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a Hca> {
    let inside = case.host.pod.is_some();
    case.host.hcas.iter().filter(move |hca| inside && is_reached(hca))
}

/// Whether the grant names the HCA; None where nothing says what was granted.
fn is_granted(case: &Case<'_>, hca: &Hca) -> Option<bool> {
    crate::pod::is_granted(case.host, hca)
}

/// A node that opens another HCA than the granted one.
struct Stale<'a> {
    /// The HCA that was granted, by what it is now.
    granted: Option<&'a Hca>,
    /// The HCA that the node opens.
    holder: &'a Hca,
    /// How the grant names it: by PCI address, or by name.
    named: String,
}

/// An HCA that can be opened and was not granted, beside a granted one that cannot: the node kept its number, and the
/// number moved. Of a grant by name the HCA must still be here: else nothing tells that its number was given away.
fn stale<'a>(case: &Case<'a>) -> impl Iterator<Item = Stale<'a>> {
    let grants = pod(case).and_then(|pod| pod.grants.as_ref()).into_iter().flatten();
    let lost = grants.filter_map(|grant| {
        let (granted, named) = match grant.pci_address {
            Some(address) => {
                let hca = case.host.hcas.iter().find(|hca| hca.pci_address == Some(address));
                (hca, address.to_string())
            }
            None => {
                let hca = case.host.hca(grant.hca.as_deref()?)?;
                (Some(hca), hca.name.to_string())
            }
        };
        (!granted.is_some_and(is_reached)).then_some((granted, named))
    });
    let mut lost: Vec<_> = lost.collect();
    // A grant names each port.
    lost.dedup_by(|one, other| one.1 == other.1);
    let wrong: Vec<&Hca> = opened(case).filter(|hca| is_granted(case, hca) == Some(false)).collect();
    lost.into_iter().zip(wrong).map(|((granted, named), holder)| Stale { granted, holder, named })
}

fn is_roce(hca: &Hca) -> bool {
    hca.ports.iter().any(|port| port.transport == Transport::Roce)
}

fn all_own_gids<'a>(case: &Case<'a>, hca: &'a Hca) -> impl Iterator<Item = &'a GidEntry> {
    let host = case.host;
    let roce = hca.ports.iter().filter(|port| port.transport == Transport::Roce);
    roce.flat_map(|port| &port.gids).filter(move |gid| host.owns(gid))
}

fn own_gids<'a>(case: &Case<'a>, hca: &'a Hca) -> Vec<&'a GidEntry> {
    all_own_gids(case, hca).filter(|gid| gid.gid_type == Some(GidType::V2)).collect()
}

/// The host's interface of the HCA, which its GIDs of other namespaces name.
fn rail_of<'a>(case: &Case<'a>, hca: &'a Hca) -> Option<&'a str> {
    let foreign = |port: &'a Port| {
        let gids = port.gids.iter().filter(|gid| !case.host.owns(gid) && is_global(gid.address));
        gids.filter_map(|gid| gid.netdev.as_deref()).next()
    };
    hca.ports.iter().find_map(foreign)
}

fn is_global(address: Option<IpAddr>) -> bool {
    address.is_some_and(|address| match address {
        IpAddr::V4(v4) => !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    })
}
