//! Whether an attachment can work on a node's interfaces, and whether its addresses are each Pod's own.

use super::super::node::Node;
use super::super::patch::{Edit, Lines};
use super::super::pod::Number;
use super::super::rail::NO_DEVICE_ID;
use super::super::{Case, Place, Rule, Sheet, annotation};
use super::{Attachment, Plugin};
use crate::finding::Severity;
use crate::host::{Host, Netdev, Port, roce_path_mtu};

pub(in crate::lint) const RULES: &[Rule] =
    &[UNREAD, WRONG_TYPE, HOST_LOCAL, MTU, NO_ADDRESS, NO_MASTER, SHARED_ADDRESS];

const UNREAD: Rule = Rule {
    code: "RDC770",
    severity: Severity::Error,
    title: "The CNI configuration of an attachment cannot be read",
    why: "spec.config is a text of JSON with the type of a plugin. What is none fails in every Pod that asks for it.",
    cure: "correct the JSON",
};

const WRONG_TYPE: Rule = Rule {
    code: "RDC771",
    severity: Severity::Error,
    title: "An attachment's type does not fit the link layer of its master",
    why: "The kernel makes macvlan, ipvlan and VLAN interfaces on Ethernet alone (`invalid argument` on an IPoIB interface), and IPoIB \
          children on InfiniBand alone.",
    cure: "take macvlan or ipvlan on Ethernet, ipoib on InfiniBand",
};

const HOST_LOCAL: Rule = Rule {
    code: "RDC772",
    severity: Severity::Warning,
    title: "An attachment's addresses are given out by each node on its own",
    why: "host-local keeps its book on the node: the second node gives out the same addresses again. Two Pods then have one GID, and \
          connections end at the wrong one or break.",
    cure: "take an IPAM that knows all nodes (whereabouts, nv-ipam), or an attachment with a range of its own for each node",
};

const MTU: Rule = Rule {
    code: "RDC773",
    severity: Severity::Warning,
    title: "An attachment's MTU does not fit its master's",
    why: "A larger one is refused. A smaller one makes RoCE packets smaller: the path MTU is the greatest of 256 to 4096 bytes that fits.",
    cure: "leave mtu out: the interface then takes its master's",
};

const NO_ADDRESS: Rule = Rule {
    code: "RDC774",
    severity: Severity::Warning,
    title: "An attachment gives no address",
    why: "Without an address the interface has the link-local GID alone, by which connections to other hosts time out.",
    cure: "add an ipam, as {\"type\": \"whereabouts\", \"range\": \"10.8.10.0/24\"}",
};

const NO_MASTER: Rule = Rule {
    code: "RDC775",
    severity: Severity::Error,
    title: "An attachment's master is no interface of the node",
    why: "The plugin fails with `Link not found`, and the Pod stays in ContainerCreating.",
    cure: "name an interface that the node has: `rocade inventory` lists those of HCAs",
};

const SHARED_ADDRESS: Rule = Rule {
    code: "RDC776",
    severity: Severity::Error,
    title: "Several Pods use an attachment with one fixed address",
    why: "Each of them takes it: GIDs are the same twice on the network, and connections end at the wrong Pod or break.",
    cure: "let an IPAM choose that knows all nodes (whereabouts, nv-ipam), or give each Pod an attachment of its own",
};

/// Judges all attachments.
pub(in crate::lint) fn check(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for attachment in &case.attachments {
        if let Some((line, seen)) = &attachment.wrong {
            let place = Place { object: attachment.object, line: *line };
            sheet.find(&UNREAD, place, "spec.config", seen.as_str(), "JSON with a type");
        }
        let Some(plugin) = &attachment.plugin else { continue };
        if plugin.needs_device_id() && attachment.resource.is_none() {
            let place = Place { object: attachment.object, line: attachment.line("type") };
            let seen = format!(
                "{} without a device, and no annotation k8s.v1.cni.cncf.io/resourceName",
                plugin.kind
            );
            sheet
                .find(&NO_DEVICE_ID, place, "metadata.annotations", seen, "the resource of its devices")
                .cure("annotate it with the resource that its devices are offered as");
        }
        check_master(case, attachment, plugin, sheet);
        check_addresses(case, attachment, plugin, sheet);
    }
}

fn check_master(case: &Case<'_>, attachment: &Attachment<'_>, plugin: &Plugin, sheet: &mut Sheet<'_>) {
    let Some(master) = plugin.master() else { return };
    let place = Place { object: attachment.object, line: attachment.line("master") };
    let Some(host) = case.host else {
        if on_ethernet(plugin) && is_ipoib_name(master) {
            let seen = format!("{} on {master}, an IPoIB interface by its name", plugin.kind);
            sheet
                .find(&WRONG_TYPE, place, "master", seen, "an Ethernet interface")
                .severity(Severity::Warning);
        }
        return;
    };
    let Some(netdev) = host.netdev(master) else {
        if plugin.kind != "host-device" {
            let names =
                host.hcas.iter().flat_map(|hca| hca.ports.iter().filter_map(|port| port.netdev.as_deref()));
            let names = names.collect::<Vec<_>>().join(", ");
            sheet.find(
                &NO_MASTER,
                place,
                "master",
                format!("`{master}`"),
                format!("an interface, as {names}"),
            );
        }
        return;
    };
    let (seen, wanted) = match (on_ethernet(plugin), plugin.kind == "ipoib", netdev.link_type) {
        (true, _, INFINIBAND) => ("an IPoIB interface", "an Ethernet interface"),
        (_, true, ETHERNET) => ("an Ethernet interface", "an IPoIB interface"),
        _ => return check_mtu(case, attachment, plugin, netdev, sheet),
    };
    sheet.find(&WRONG_TYPE, place, "master", format!("{} on {master}, {seen}", plugin.kind), wanted);
}

/// ARP hardware types (include/uapi/linux/if_arp.h).
const ETHERNET: u16 = 1;
const INFINIBAND: u16 = 32;

fn on_ethernet(plugin: &Plugin) -> bool {
    matches!(plugin.kind.as_str(), "macvlan" | "ipvlan" | "vlan")
}

/// What the kernel and udev call IPoIB interfaces: ib0, ibs1, ibp26s0f0.
fn is_ipoib_name(name: &str) -> bool {
    name.strip_prefix("ib").is_some_and(|rest| {
        let rest = rest.strip_prefix(['s', 'p', 'o', 'x']).unwrap_or(rest);
        rest.starts_with(|c: char| c.is_ascii_hexdigit())
    })
}

fn check_mtu(
    case: &Case<'_>,
    attachment: &Attachment<'_>,
    plugin: &Plugin,
    master: &Netdev,
    sheet: &mut Sheet<'_>,
) {
    let mtu = plugin.node.get("mtu").and_then(Node::number::<u32>).filter(|mtu| *mtu > 0);
    let Some(mtu) = mtu.filter(|_| on_ethernet(plugin) && carries_rdma(case.host, &master.name)) else {
        return;
    };
    let place = Place { object: attachment.object, line: attachment.line("mtu") };
    let found = if mtu > master.mtu {
        let seen = format!("{mtu}, and {} has {}", master.name, master.mtu);
        sheet.find(&MTU, place, "mtu", seen, format!("at most {}", master.mtu)).severity(Severity::Error)
    } else if path_mtu(mtu) < path_mtu(master.mtu) {
        let (path, full) = (path_mtu(mtu), path_mtu(master.mtu));
        let seen = format!("{mtu}, which makes RoCE's path MTU {path}");
        let wanted = format!("that of {}, {}, for a path MTU of {full}", master.name, master.mtu);
        sheet.find(&MTU, place, "mtu", seen, wanted)
    } else {
        return;
    };
    found.edit(with_number(case.text(attachment.object.file), place.line, mtu, master.mtu));
}

/// The line with another number in it; None where it is not there once alone.
fn with_number(text: &Lines<'_>, line: u32, old: u32, new: u32) -> Option<Edit> {
    let raw = text.get(line)?;
    let old = old.to_string();
    let is_one = raw.matches(&old).count() == 1;
    is_one.then(|| Edit { line, removed: 1, added: vec![raw.replacen(&old, &new.to_string(), 1)] })
}

fn carries_rdma(host: Option<&Host>, netdev: &str) -> bool {
    let of_port = |port: &Port| {
        port.netdev.as_deref() == Some(netdev) || port.child_netdevs.iter().any(|n| n == netdev)
    };
    host.is_some_and(|host| host.hcas.iter().any(|hca| hca.ports.iter().any(of_port)))
}

/// The path MTU of RoCE, bytes; 0 where none fits.
fn path_mtu(netdev: u32) -> u32 {
    roce_path_mtu(netdev, false).unwrap_or(0)
}

fn check_addresses(case: &Case<'_>, attachment: &Attachment<'_>, plugin: &Plugin, sheet: &mut Sheet<'_>) {
    let kinds = ["macvlan", "ipvlan", "vlan", "sriov"];
    let place = |line| Place { object: attachment.object, line };
    let line = attachment.line("ipam");
    match plugin.ipam_type() {
        None if kinds.contains(&plugin.kind.as_str()) && !is_tuned(attachment) => {
            let line = attachment.line(if plugin.node.entry("ipam").is_some() { "ipam" } else { "type" });
            sheet.find(&NO_ADDRESS, place(line), "ipam", "no ipam", "an address for each Pod");
        }
        Some("host-local") if !is_on_one_node(case, attachment) => {
            sheet.find(&HOST_LOCAL, place(line), "ipam", "host-local", "an IPAM that knows all nodes");
        }
        Some("static") => {
            let addresses = plugin.ipam().and_then(|ipam| ipam.get("addresses")).map_or(&[][..], Node::items);
            let users = users(case, attachment);
            let is_shared = users.len() > 1 || users.iter().any(|(_, number)| *number != Number::One);
            if !addresses.is_empty() && is_shared {
                let seen =
                    addresses.iter().filter_map(|a| a.get("address")?.text()).collect::<Vec<_>>().join(", ");
                sheet.find(&SHARED_ADDRESS, place(line), "ipam", seen, "an address for each Pod");
            }
        }
        _ => {}
    }
}

/// Whether addresses come from elsewhere: another plugin's IPAM is named by an annotation of Spiderpool.
fn is_tuned(attachment: &Attachment<'_>) -> bool {
    let annotations = attachment.object.root.at(&["metadata", "annotations"]).map_or(&[][..], Node::entries);
    annotations.iter().any(|entry| entry.key.contains("spidernet.io/"))
}

/// Whether all Pods among the files that use it, of which there is one, are bound to one node.
fn is_on_one_node(case: &Case<'_>, attachment: &Attachment<'_>) -> bool {
    let users = users(case, attachment);
    let first = users.first().and_then(|(node, _)| node.as_deref());
    first.is_some() && users.iter().all(|(node, _)| node.as_deref() == first)
}

/// The Pods that use it: the node that each is bound to, and how many they are.
fn users(case: &Case<'_>, attachment: &Attachment<'_>) -> Vec<(Option<String>, Number)> {
    let pods = case.pods.iter().filter(|pod| {
        let Some(entry) = pod.annotation(annotation::NETWORKS) else { return false };
        let own = case.namespace_of(pod.object);
        annotation::parse(entry).0.iter().any(|wanted| {
            let namespace = wanted.namespace.as_ref().or(own.as_ref());
            let is_there = namespace.zip(attachment.namespace.as_ref()).is_none_or(|(a, b)| a == b);
            wanted.name == attachment.object.name && is_there
        })
    });
    pods.map(|pod| (pod.node_name().map(str::to_owned), pod.number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipoib_interface_is_known_by_its_name() {
        for (name, wanted) in
            [("ib0", true), ("ibs1", true), ("ibp26s0f0", true), ("ibond0", false), ("ens18", false)]
        {
            assert_eq!(is_ipoib_name(name), wanted, "{name}");
        }
    }
}
