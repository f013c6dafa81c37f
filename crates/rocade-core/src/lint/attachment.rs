//! Network attachments: what their CNI configuration says. Whether that can work is `rules`' matter, what Pods do with
//! them `network`'s.

use std::net::IpAddr;

use super::node::{Node, Value};
use super::read::Object;

mod rules;

pub(super) use rules::{RULES, check};

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
    /// Plugins that come after it.
    chained: Vec<String>,
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

    /// Whether a plugin comes after it that does that.
    pub(super) fn is_followed_by(&self, kind: &str) -> bool {
        self.chained.iter().any(|chained| chained == kind)
    }

    /// Networks that its IPAM gives addresses of, as far as it says (whereabouts, host-local, static).
    pub(super) fn networks(&self) -> Vec<(IpAddr, u8)> {
        let Some(ipam) = self.ipam() else { return Vec::new() };
        let below = |key: &str| ipam.get(key).map_or(&[][..], Node::items).iter();
        // host-local's ranges are lists of lists.
        let ranges = below("ranges").flat_map(Node::items).chain(below("ipRanges")).chain(below("addresses"));
        let nodes = std::iter::once(ipam).chain(ranges);
        let texts = nodes.flat_map(|node| ["range", "subnet", "address"].map(|key| node.get(key)));
        texts.flatten().filter_map(|node| parse_network(node.text()?)).collect()
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
    let mut node = spec.cloned().unwrap_or(Node {
        line: object.root.line,
        column: 0,
        is_borrowed: false,
        value: Value::Null,
    });
    let ipam = text("ipam").and_then(|ipam| Node::parse(ipam, node.get("ipam")?.line.saturating_sub(1)).ok());
    if let (Some(ipam), Value::Map(entries)) = (ipam, &mut node.value) {
        let written = entries.iter_mut().filter(|entry| entry.key == "ipam");
        written.for_each(|entry| entry.value = ipam.clone());
    }
    Attachment {
        object,
        namespace: Some(text("networkNamespace").unwrap_or("default").to_owned()),
        resource: text("resourceName"),
        plugin: Some(Plugin { kind: kind.to_owned(), node, chained: Vec::new() }),
        wrong: None,
    }
}

/// The plugin that makes the interface: the first of a chain. Or what is wrong, and where.
fn plugin(config: &Node) -> Result<Plugin, (u32, String)> {
    let Some(text) = config.text() else { return Err((config.line, format!("{config}, which is no text"))) };
    let node =
        Node::parse_json(text, config.line.saturating_sub(1)).map_err(|unread| (unread.line, unread.why))?;
    let plugins = node.get("plugins").map_or(&[][..], Node::items);
    let chained =
        plugins.iter().skip(1).filter_map(|plugin| plugin.get("type")?.text().map(str::to_owned)).collect();
    let node = plugins.first().unwrap_or(&node);
    match node.get("type").and_then(Node::text) {
        Some(kind) => Ok(Plugin { kind: kind.to_owned(), node: node.clone(), chained }),
        None => Err((node.line, "no type of a plugin".into())),
    }
}

/// `10.8.10.0/24`, also behind a first address and a dash as whereabouts takes it (`10.8.10.5-10.8.10.0/24`).
fn parse_network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.rsplit('-').next()?.split_once('/')?;
    Some((address.trim().parse().ok()?, prefix.trim().parse().ok()?))
}
