//! libfabric's verbs provider. It takes a beginning of a device's name, and of an interface's; lists of them only newer
//! versions know (fi_verbs(7) of 2.x against that of 1.17), and older ones would find no device by a list.

use super::gid::index;
use super::{Facts, NOTHING, ground};
use crate::environment::Library;
use crate::environment::devices::Rail;
use crate::environment::sheet::Sheet;
use crate::environment::sockets::reaches;
use crate::host::Host;

pub(super) fn fill(facts: &Facts<'_>, sheet: &mut Sheet<'_>) {
    let mut put = |name, value, why| sheet.put(Library::Libfabric, name, "F1", value, why);
    let hcas = distinct(facts.rails.iter().map(|rail| rail.hca.name.as_str()));
    let all_hcas = facts.host.hcas.iter().map(|hca| hca.name.as_str());
    let told = beginning(&hcas, all_hcas, "HCA");
    let told = told.map(|(value, why)| (value, format!("{}; {why}", ground(facts))));
    let (value, why) = told.unwrap_or((None, NOTHING.to_owned()));
    put("FI_VERBS_DEVICE_NAME", value, why);
    let own =
        |rail: &Rail<'_>| rail.own.and_then(|own| own.netdev.clone()).or_else(|| ipoib(facts.host, rail));
    let netdevs: Vec<String> = facts.rails.iter().filter_map(own).collect();
    let netdevs = distinct(netdevs.iter().map(String::as_str));
    let all_netdevs = facts.host.netdevs.iter().map(|netdev| netdev.name.as_str());
    let none = if facts.rails.is_empty() { NOTHING } else { "no port has an interface with an address here" };
    let (value, why) = beginning(&netdevs, all_netdevs, "interface").unwrap_or((None, none.to_owned()));
    put("FI_VERBS_IFACE", value, why);
    let (value, why) = index(facts, false);
    put("FI_VERBS_GID_IDX", value, why);
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct: Vec<&str> = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

/// The one name, or the beginning that all have and no other, with the ground; None of no name.
fn beginning<'a>(
    names: &[&str],
    all: impl Iterator<Item = &'a str>,
    what: &str,
) -> Option<(Option<String>, String)> {
    let (first, rest) = names.split_first()?;
    let length = rest.iter().fold(first.len(), |length, name| common(&first[..length], name));
    let begins = &first[..length];
    let others: Vec<&str> = all.filter(|name| name.starts_with(begins) && !names.contains(name)).collect();
    let also = others.join(", ");
    Some(match (rest.is_empty(), others.is_empty() && !begins.is_empty()) {
        (_, true) => (Some(begins.to_owned()), format!("a beginning that no other {what} has")),
        (true, false) => {
            (Some(begins.to_owned()), format!("taken for a beginning, which is also that of {also}"))
        }
        (false, false) => (
            None,
            format!(
                "no beginning tells {} from other {what}s, and older versions take no list",
                names.join(", ")
            ),
        ),
    })
}

/// Bytes that two names begin with alike.
fn common(a: &str, b: &str) -> usize {
    a.char_indices().zip(b.chars()).find(|((_, a), b)| a != b).map_or(a.len().min(b.len()), |((at, _), _)| at)
}

/// The interface of an InfiniBand port, where it has an address.
fn ipoib(host: &Host, rail: &Rail<'_>) -> Option<String> {
    let netdev = rail.port.netdev.as_deref().filter(|_| !rail.is_roce())?;
    host.netdev(netdev).filter(|netdev| reaches(netdev)).map(|netdev| netdev.name.clone())
}
