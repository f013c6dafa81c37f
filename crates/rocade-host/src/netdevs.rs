//! The network interfaces of this namespace: by route netlink, or by /sys/class/net where that is not to be had.

use std::collections::BTreeMap;
use std::path::Path;

use rocade_core::Netdev;
use rocade_core::host::Unknown;

use crate::attributes::{Attributes, parse_number, parse_text, read_link_name, read_text};
use crate::netlink::{Address, Link};
use crate::pci::Place;
use crate::root::{Answer, Root};
use crate::scope::Scope;

/// IFF_UP (include/uapi/linux/if.h).
const IFF_UP: u32 = 1;

/// All interfaces, by index. Without netlink their addresses are unknown.
pub(crate) fn read_netdevs(root: &Root, scope: Scope, unknown: &mut Unknown) -> Vec<Netdev> {
    let links = read_links(root);
    let addresses = root.addresses();
    if let Err(refusal) = addresses {
        unknown.insert("netdevs.addresses".into(), refusal.to_string());
    }
    match links {
        Ok(links) => {
            let mut netdevs = join(links, &addresses.unwrap_or_default());
            let placed = netdevs.iter_mut().filter(|netdev| !scope.lean && netdev.kind.is_none());
            placed.for_each(|netdev| read_place(root, netdev));
            netdevs
        }
        Err(refusal) => {
            unknown.insert("netdevs".into(), refusal.to_string());
            Vec::new()
        }
    }
}

/// The device that an interface is of. Virtual ones, which netlink gives a kind, are of none.
fn read_place(root: &Root, netdev: &mut Netdev) {
    let Ok(dir) = root.member("/sys/class/net", &netdev.name) else { return };
    if !dir.starts_with("/sys/devices/virtual") {
        netdev.pci_address = Place::of(&dir).function.map(|(address, _)| address);
        // …/DEVICE/net/NAME
        netdev.driver = dir.ancestors().nth(2).and_then(|dir| read_link_name(root, &dir.join("driver")).ok());
    }
}

/// By route netlink, or by sysfs where that is not to be had.
pub(crate) fn read_links(root: &Root) -> Answer<Vec<Link>> {
    root.links().or_else(|_| read_class(root))
}

fn join(mut links: Vec<Link>, addresses: &[Address]) -> Vec<Netdev> {
    links.sort_by_key(|link| link.index);
    let names: BTreeMap<u32, String> = links.iter().map(|l| (l.index, l.name.clone())).collect();
    let name = |index: Option<u32>| names.get(&index?).cloned();
    let netdev = |link: Link| Netdev {
        parent: name(link.lower.filter(|lower| is_stacked(&link, *lower))),
        master: name(link.master),
        addresses: addresses
            .iter()
            .filter(|a| a.index == link.index)
            .map(|a| (a.address, a.prefix))
            .collect(),
        up: link.flags & IFF_UP != 0,
        flags: link.flags,
        parent_is_foreign: link.lower_is_foreign,
        ifindex: link.index,
        name: link.name,
        mtu: link.mtu,
        link_type: link.link_type,
        mac: link.mac,
        kind: link.kind,
        ..Netdev::default()
    };
    links.into_iter().map(netdev).collect()
}

/// The other end of a veth pair is no interface below it.
fn is_stacked(link: &Link, lower: u32) -> bool {
    !link.lower_is_foreign && lower != link.index && link.kind.as_deref() != Some("veth")
}

/// An entry that goes away while it is read, or that is no interface (bonding_masters), is left out.
fn read_class(root: &Root) -> Answer<Vec<Link>> {
    let names = root.list("/sys/class/net")?;
    Ok(names.iter().filter_map(|name| read_link(root, &Path::new("/sys/class/net").join(name))).collect())
}

fn read_link(root: &Root, path: &Path) -> Option<Link> {
    let mut files = Attributes::of(root, root.realpath(path).ok()?);
    let index = files.needed("ifindex", "ifindex", parse_number)?;
    let master = root.realpath(files.dir.join("master/ifindex")).and_then(|path| read_text(root, &path));
    let lower = files.needed("iflink", "iflink", parse_number).filter(|lower| *lower != index);
    let kind = |uevent: &str| uevent.lines().find_map(|l| l.strip_prefix("DEVTYPE=")).map(str::to_owned);
    Some(Link {
        index,
        name: path.file_name()?.to_string_lossy().into_owned(),
        link_type: files.needed("type", "type", |text| text.parse().ok()).unwrap_or(0),
        flags: files.needed("flags", "flags", parse_number).unwrap_or(0),
        mtu: files.needed("mtu", "mtu", parse_number).unwrap_or(0),
        mac: files.optional("address", "address", parse_text),
        kind: files.optional("uevent", "uevent", kind),
        master: master.ok().and_then(|text| parse_number(&text)),
        lower,
        // sysfs does not say it; a link to the lower interface stands there if it is of this namespace.
        lower_is_foreign: lower.is_some_and(|_| !has_lower(root, &files.dir)),
    })
}

fn has_lower(root: &Root, dir: &Path) -> bool {
    let names = root.list(dir).unwrap_or_default();
    names.iter().any(|name| name.as_encoded_bytes().starts_with(b"lower_"))
        // An IPoIB child names its parent in a file.
        || read_link_name(root, &dir.join("device")).is_ok() && read_text(root, &dir.join("parent")).is_ok()
}
