//! What was probably meant by a selector that nothing meets: an interface that is not there and one without RDMA, an id
//! that is a bus number, the name of an RDMA driver in place of the PCI function's.

use std::collections::BTreeSet;

use super::netdevs;
use super::select::{Key, fits_name, keys};
use crate::config::{Dialect, Selectors, drivers_below, meant_link_type};
use crate::host::{Hca, Host, Netdev};
use crate::names::PciAddress;

/// For each selector that no HCA of the host meets how many do not and what there is instead; for each of its values
/// that cannot be met here, why.
pub(super) fn of_pool(host: &Host, dialect: Dialect, selectors: &Selectors) -> Vec<String> {
    let by_hca: Vec<Vec<Key>> = host.hcas.iter().map(|hca| keys(host, dialect, selectors, hca)).collect();
    let mut lines = Vec::new();
    for at in 0..by_hca.first().map_or(0, Vec::len) {
        let column: Vec<&Key> = by_hca.iter().map(|keys| &keys[at]).collect();
        if !column.iter().any(|key| key.is_met()) {
            lines.push(count_line(&column));
        }
        if !matches!(column[0].name, "ifNames" | "netdevs") {
            let unmet = |wanted: &&String| !column.iter().any(|key| key.is_met_by(wanted));
            let told = column[0].wanted.iter().filter(unmet);
            lines.extend(told.filter_map(|wanted| of_value(host, column[0].name, wanted, None)));
        }
    }
    let named: BTreeSet<&str> = host.hcas.iter().flat_map(|hca| netdevs::of_hca(host, hca)).collect();
    let unmet = selectors
        .if_names
        .iter()
        .filter(|wanted| !wanted.is_empty() && !named.iter().any(|name| fits_name(dialect, wanted, name)));
    lines.extend(unmet.map(|wanted| of_interface(host, dialect, wanted, &named)));
    lines
}

/// What an HCA's values make of a selector that it does not meet.
pub(super) fn of_key(host: &Host, key: &Key, hca: Option<&Hca>) -> Option<String> {
    key.wanted.iter().find_map(|wanted| of_value(host, key.name, wanted, hca))
}

/// `deviceIDs: 0 of 6 HCAs match; present: 159b, 1889`.
fn count_line(column: &[&Key]) -> String {
    let seen: BTreeSet<&str> = column.iter().flat_map(|key| &key.seen).map(String::as_str).collect();
    let present =
        if seen.is_empty() { "none".to_owned() } else { seen.into_iter().collect::<Vec<_>>().join(", ") };
    let key = column[0];
    format!("{} {}: 0 of {} HCAs match; present: {present}", key.name, key.wanted.join(", "), column.len())
}

/// `hca` narrows what is said to what is true of it.
fn of_value(host: &Host, key: &str, wanted: &str, hca: Option<&Hca>) -> Option<String> {
    let mut hcas: Box<dyn Iterator<Item = &Hca>> = match hca {
        Some(hca) => Box::new(std::iter::once(hca)),
        None => Box::new(host.hcas.iter()),
    };
    match key {
        "vendors" | "deviceIDs" => of_id(hcas.collect::<Vec<_>>().as_slice(), key, wanted),
        "drivers" => {
            let below = drivers_below(wanted)?;
            let driver = hcas.find_map(|h| h.driver.as_deref().filter(|driver| below.contains(driver)))?;
            Some(format!("{wanted} is the RDMA driver, that of the PCI function is {driver}"))
        }
        "linkTypes" => {
            let right = meant_link_type(wanted)?;
            (right != wanted).then(|| format!("`{wanted}` is not a link type; did you mean `{right}`?"))
        }
        // What it is told from is what makes it another than was thought.
        "roles" => hca.map(|hca| hca.role.ground.clone()),
        "hcas" => {
            let hca = hcas.find(|h| netdevs::of_hca(host, h).contains(wanted))?;
            Some(format!("{wanted} is an interface of {}: the selector of interfaces takes it", hca.name))
        }
        "pciAddresses" => {
            let full = format!("0000:{}", wanted.to_ascii_lowercase());
            let hca = hcas.find(|h| h.pci_address.is_some_and(|a| a.to_string() == full))?;
            Some(format!("{wanted} lacks the domain: {} is {full}", hca.name))
        }
        _ => None,
    }
}

fn of_id(hcas: &[&Hca], key: &str, wanted: &str) -> Option<String> {
    let id = |hca: &Hca| {
        let id = hca.pci_id?;
        Some(format!("{:04x}", if key == "vendors" { id.vendor } else { id.device }))
    };
    if let Ok(address) = wanted.parse::<PciAddress>() {
        let hca = hcas.iter().find(|hca| hca.pci_address == Some(address));
        let its = hca.and_then(|hca| Some(format!(", and {} has {}", hca.name, id(hca)?)));
        return Some(format!("{wanted} is a PCI address, not an id{}", its.unwrap_or_default()));
    }
    let plain = wanted.replace([':', '.'], "").to_ascii_lowercase();
    let is_place = |hca: &&&Hca| {
        hca.pci_address.is_some_and(|a| {
            let (bus, device) = (format!("{:02x}", a.bus), format!("{:02x}{:02x}", a.bus, a.device));
            plain == device || plain == bus || plain == format!("{device}{}", a.function)
        })
    };
    let hca = hcas.iter().find(is_place)?;
    let address = hca.pci_address?;
    Some(format!("{wanted} is the PCI bus of {} ({address}), whose id is {}", hca.name, id(hca)?))
}

fn of_interface(host: &Host, dialect: Dialect, wanted: &str, named: &BTreeSet<&str>) -> String {
    if let Some(netdev) = host.netdev(wanted) {
        return format!("{wanted}: {}, no RDMA device", what(netdev));
    }
    if let Some(hca) = host.hca(wanted) {
        let own: Vec<_> = netdevs::own(hca).into_iter().collect();
        return format!("{wanted}: no such interface; it is an HCA, of interface {}", own.join(", "));
    }
    if wanted.contains('*') {
        return match dialect {
            Dialect::ConfigJson => format!("{wanted}: no such interface; config.json has no patterns"),
            Dialect::AgentConfig => format!("{wanted}: no interface of an HCA fits"),
        };
    }
    let like = |name: &&&str| {
        name.eq_ignore_ascii_case(wanted)
            || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with("np"))
            || wanted.strip_prefix(**name).is_some_and(|rest| rest.starts_with("np"))
    };
    match named.iter().find(like) {
        Some(name) => format!("{wanted}: no such interface; did you mean {name}?"),
        None => format!("{wanted}: no such interface"),
    }
}

/// Its driver, as `virtio_net`; the kind of a virtual one.
fn what(netdev: &Netdev) -> &str {
    netdev.driver.as_deref().or(netdev.kind.as_deref()).unwrap_or("no driver")
}
