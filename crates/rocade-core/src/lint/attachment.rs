//! Network attachments: what their CNI configuration says, and whether that can work on a node's interfaces. What Pods do
//! with them is `network`'s matter.

use super::node::{Node, Value};
use super::patch::Edit;
use super::pod::Number;
use super::read::Object;
use super::{Case, Place, Rule, Sheet, annotation};
use crate::finding::Severity;
use crate::host::{Host, Netdev, roce_path_mtu};

pub(super) const RULES: &[Rule] =
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

/// A network that Pods may ask for.
#[derive(Debug)]
pub(super) struct Attachment<'a> {
    pub(super) object: &'a Object,
    /// The namespace that it will be in; None where nothing says it.
    pub(super) namespace: Option<String>,
    /// The resource whose devices Multus hands to it.
    pub(super) resource: Option<&'a str>,
    /// Its first plugin, which makes the interface; None where it cannot be read or lies on the node.
    pub(super) plugin: Option<Plugin>,
    wrong: Option<(u32, String)>,
}

/// A CNI plugin's configuration.
#[derive(Debug)]
pub(super) struct Plugin {
    kind: String,
    node: Node,
}

impl Plugin {
    /// The interface that it lies on, or takes.
    pub(super) fn master(&self) -> Option<&str> {
        let key = if self.kind == "host-device" { "device" } else { "master" };
        self.node.get(key).and_then(Node::text).filter(|name| !name.is_empty())
    }

    /// Whether it takes a device that Multus tells it.
    pub(super) fn needs_device_id(&self) -> bool {
        let fixed = ["device", "hwaddr", "kernelpath", "pciBusID", "deviceID"];
        let is_fixed = fixed.iter().any(|key| self.node.get(key).is_some());
        matches!(self.kind.as_str(), "sriov" | "ib-sriov" | "host-device") && !is_fixed
    }

    fn ipam(&self) -> Option<&Node> {
        self.node.get("ipam").filter(|ipam| ipam.get("type").is_some())
    }

    fn ipam_type(&self) -> Option<&str> {
        self.ipam()?.get("type")?.text()
    }
}

impl Attachment<'_> {
    /// Whether it names no master and so lies on the interface of the default route (CNI's macvlan and ipvlan).
    pub(super) fn lies_on_default_route(&self) -> bool {
        self.plugin
            .as_ref()
            .is_some_and(|p| matches!(p.kind.as_str(), "macvlan" | "ipvlan") && p.master().is_none())
    }

    fn line(&self, key: &str) -> u32 {
        let plugin = self.plugin.as_ref();
        let own = plugin.and_then(|plugin| plugin.node.entry(key)).map(|entry| entry.line);
        own.or(plugin.map(|plugin| plugin.node.line)).unwrap_or(self.object.root.line)
    }
}

/// All attachments of the files, and what makes some: the kinds of NVIDIA's network operator.
pub(super) fn attachments<'a>(objects: &'a [Object], namespace: Option<&str>) -> Vec<Attachment<'a>> {
    let made = objects.iter().filter_map(|object| match object.kind.as_str() {
        "NetworkAttachmentDefinition" => Some(definition(object, namespace)),
        "MacvlanNetwork" => Some(of_operator(object, "macvlan")),
        "IPoIBNetwork" => Some(of_operator(object, "ipoib")),
        "HostDeviceNetwork" => Some(of_operator(object, "host-device")),
        _ => None,
    });
    made.collect()
}

fn definition<'a>(object: &'a Object, namespace: Option<&str>) -> Attachment<'a> {
    let resource =
        object.root.at(&["metadata", "annotations", "k8s.v1.cni.cncf.io/resourceName"]).and_then(Node::text);
    let namespace = object.namespace.clone().or_else(|| namespace.map(str::to_owned));
    let mut attachment = Attachment { object, namespace, resource, plugin: None, wrong: None };
    // Without a configuration Multus looks for a file of that name on the node.
    if let Some(config) = object.root.at(&["spec", "config"]) {
        match plugin(config) {
            Ok(plugin) => attachment.plugin = Some(plugin),
            Err(wrong) => attachment.wrong = Some(wrong),
        }
    }
    attachment
}

/// The network operator's kinds say the same in fields of their own; they are cluster-wide.
fn of_operator<'a>(object: &'a Object, kind: &str) -> Attachment<'a> {
    let spec = object.root.get("spec");
    let text = |key: &str| spec.and_then(|spec| spec.get(key)).and_then(Node::text);
    let mut node = spec.cloned().unwrap_or(Node { line: object.root.line, column: 0, value: Value::Null });
    let ipam = text("ipam").and_then(|ipam| Node::parse(ipam, node.get("ipam")?.line.saturating_sub(1)).ok());
    if let (Some(ipam), Value::Map(entries)) = (ipam, &mut node.value) {
        let written = entries.iter_mut().filter(|entry| entry.key == "ipam");
        written.for_each(|entry| entry.value = ipam.clone());
    }
    Attachment {
        object,
        namespace: Some(text("networkNamespace").unwrap_or("default").to_owned()),
        resource: text("resourceName"),
        plugin: Some(Plugin { kind: kind.to_owned(), node }),
        wrong: None,
    }
}

/// The plugin that makes the interface: the first of a chain. Or what is wrong, and where.
fn plugin(config: &Node) -> Result<Plugin, (u32, String)> {
    let Some(text) = config.text() else { return Err((config.line, format!("{config}, which is no text"))) };
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let line = config.line + u32::try_from(error.line()).unwrap_or(1).saturating_sub(1);
        let why = error.to_string();
        return Err((line, format!("no JSON: {}", why.split(" at line ").next().unwrap_or_default())));
    }
    let node = Node::parse(text, config.line.saturating_sub(1))
        .map_err(|unread| (unread.line, unread.why.clone()))?;
    let first = node.get("plugins").and_then(|plugins| plugins.items().first()).cloned();
    let node = first.unwrap_or(node);
    match node.get("type").and_then(Node::text) {
        Some(kind) => Ok(Plugin { kind: kind.to_owned(), node: node.clone() }),
        None => Err((node.line, "no type of a plugin".into())),
    }
}

/// Judges all attachments.
pub(super) fn check(case: &Case<'_>, sheet: &mut Sheet<'_>) {
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
                .find(
                    &super::rail::NO_DEVICE_ID,
                    place,
                    "metadata.annotations",
                    seen,
                    "the resource of its devices",
                )
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
fn with_number(text: &str, line: u32, old: u32, new: u32) -> Option<Edit> {
    let raw = text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let old = old.to_string();
    let is_one = raw.matches(&old).count() == 1;
    is_one.then(|| Edit { line, removed: 1, added: vec![raw.replacen(&old, &new.to_string(), 1)] })
}

fn carries_rdma(host: Option<&Host>, netdev: &str) -> bool {
    let of_port = |port: &crate::host::Port| {
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
