//! The annotation by which a Pod asks Multus for networks, in its two forms (Multus pkg/k8sclient
//! parsePodNetworkAnnotation; Network Plumbing Working Group's specification 1.3, 4.1).

use super::node::{Entry, Node};

/// The annotation of Pods.
pub(super) const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// Keys of the JSON form.
const KEYS: [&str; 12] = [
    "name",
    "namespace",
    "interface",
    "ips",
    "mac",
    "infiniband-guid",
    "portMappings",
    "bandwidth",
    "cni-args",
    "default-route",
    "ipam-claim-reference",
    "deviceID",
];

/// One network that a Pod asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) line: u32,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// Fixed addresses.
    pub(super) ips: Vec<String>,
}

/// What is wrong with the annotation, or odd.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) line: u32,
    pub(super) seen: String,
    pub(super) wanted: &'static str,
    /// Whether Multus refuses the Pod; else it leaves out what it does not know.
    pub(super) is_refused: bool,
}

/// All networks, and what is wrong. Where something is refused no network is made.
pub(super) fn parse(entry: &Entry) -> (Vec<Wanted>, Vec<Malformed>) {
    let line = entry.value.line.max(entry.line);
    let Some(text) = entry.value.text() else {
        let wanted = "text: quote it";
        return (Vec::new(), vec![refuse(entry.line, entry.value.to_string(), wanted)]);
    };
    if text.contains(['[', '{', '"']) { json(text, line) } else { short(text, line) }
}

fn json(text: &str, line: u32) -> (Vec<Wanted>, Vec<Malformed>) {
    let wanted = "JSON as [{\"name\": \"rail-a\", \"namespace\": \"demo\"}], or the short form demo/rail-a,demo/rail-b";
    let node = match Node::parse_json(text, line.saturating_sub(1)) {
        Ok(node) => node,
        Err(unread) => return (Vec::new(), vec![refuse(unread.line, unread.why, wanted)]),
    };
    if node.items().is_empty() {
        return (Vec::new(), vec![refuse(node.line, node.to_string(), "a list in [ ] of networks")]);
    }
    let (networks, wrong): (Vec<_>, Vec<_>) = node.items().iter().map(element).unzip();
    (networks.into_iter().flatten().collect(), wrong.into_iter().flatten().collect())
}

/// One network of the JSON form; None where it has no name, which is among what is wrong.
fn element(item: &Node) -> (Option<Wanted>, Vec<Malformed>) {
    // encoding/json takes keys in any case.
    let key = |key: &str| item.entries().iter().find(|entry| entry.key.eq_ignore_ascii_case(key));
    let text = |name: &str| key(name).and_then(|entry| entry.value.text()).map(str::to_owned);
    let ips = key("ips").map_or(&[][..], |entry| entry.value.items()).iter();
    let unknown = item.entries().iter().find(|e| !KEYS.iter().any(|key| key.eq_ignore_ascii_case(&e.key)));
    let mut wrong: Vec<Malformed> = unknown.into_iter().map(ignore).collect();
    let name = text("name");
    if name.as_deref().is_none_or(|name| !is_name(name)) {
        let seen = name.as_ref().map_or("no name".into(), |name| format!("the name `{name}`"));
        wrong.push(refuse(item.line, seen, "the name of an attachment, its namespace beside it"));
    }
    if let Some(interface) = text("interface").filter(|interface| interface.len() > 15) {
        wrong.push(refuse(item.line, format!("the interface `{interface}`"), "at most 15 characters"));
    }
    let network = name.map(|name| Wanted {
        line: item.line,
        namespace: text("namespace").filter(|namespace| !namespace.is_empty()),
        name,
        ips: ips.filter_map(Node::text).map(str::to_owned).collect(),
    });
    (network, wrong)
}

fn ignore(entry: &Entry) -> Malformed {
    let seen = format!("the key `{}`, which is ignored", entry.key);
    let wanted = "name, namespace, interface, ips, mac, default-route";
    Malformed { line: entry.line, seen, wanted, is_refused: false }
}

fn short(text: &str, line: u32) -> (Vec<Wanted>, Vec<Malformed>) {
    let (mut networks, mut wrong) = (Vec::new(), Vec::new());
    let wanted = "NAMESPACE/NAME@INTERFACE, several by comma";
    for item in text.split(',').map(str::trim) {
        let (network, interface) = item.split_once('@').map_or((item, None), |(n, i)| (n, Some(i)));
        let (namespace, name) = network.split_once('/').map_or((None, network), |(ns, n)| (Some(ns), n));
        let is_interface =
            interface.is_none_or(|i| !i.is_empty() && i.len() <= 15 && !i.contains(['/', '@', ' ']));
        if is_label(name) && namespace.is_none_or(is_label) && is_interface {
            let namespace = namespace.map(str::to_owned);
            networks.push(Wanted { line, namespace, name: name.to_owned(), ips: Vec::new() });
        } else {
            wrong.push(refuse(line, format!("`{}`", item.escape_debug()), wanted));
        }
    }
    (networks, wrong)
}

fn refuse(line: u32, seen: String, wanted: &'static str) -> Malformed {
    Malformed { line, seen, wanted, is_refused: true }
}

fn is_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    !name.is_empty()
        && name.bytes().all(inner)
        && !name.starts_with(['-', '.'])
        && !name.ends_with(['-', '.'])
}

/// The short form takes no dots.
fn is_label(name: &str) -> bool {
    is_name(name) && !name.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Vec<String>, Vec<bool>) {
        let node = Node {
            line: 5,
            column: 1,
            is_borrowed: false,
            value: super::super::node::Value::Text(text.into()),
        };
        let (networks, wrong) =
            parse(&Entry { line: 5, column: 1, is_borrowed: false, key: NETWORKS.into(), value: node });
        let name =
            |wanted: &Wanted| format!("{}/{}", wanted.namespace.as_deref().unwrap_or("-"), wanted.name);
        (networks.iter().map(name).collect(), wrong.iter().map(|wrong| wrong.is_refused).collect())
    }

    #[test]
    fn both_forms_name_the_same_networks() {
        let (nothing_wrong, names) =
            (Vec::<bool>::new(), vec!["nad/rail-a".to_owned(), "-/rail-b".to_owned()]);
        assert_eq!(parsed("nad/rail-a, rail-b@rdma1"), (names.clone(), nothing_wrong.clone()));
        let json = "[{\"name\": \"rail-a\", \"namespace\": \"nad\"},\n {\"name\": \"rail-b\", \"interface\": \"rdma1\"}]";
        assert_eq!(parsed(json), (names, nothing_wrong));
    }

    #[test]
    fn what_multus_refuses_is_told_from_what_it_ignores() {
        for text in [
            "[{\"name\": \"a\"},]",
            "{\"name\": \"a\"}",
            "[{\"namespace\": \"a\"}]",
            "[{\"name\": \"nad/a\"}]",
            "nad/rail/a",
            "rail.a",
            "a,,b",
            "Rail-A",
            "a@interface-too-long-by-far",
            "[]",
            "['a']",
            "",
        ] {
            assert!(parsed(text).1.contains(&true), "{text}");
        }
        assert_eq!(parsed("[{\"name\": \"a\", \"nameSpace\": \"b\"}]").1, [] as [bool; 0]);
        assert_eq!(parsed("[{\"name\": \"a\", \"ns\": \"b\"}]"), (vec!["-/a".into()], vec![false]));
    }
}
