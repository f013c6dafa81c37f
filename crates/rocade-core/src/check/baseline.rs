//! Rules that hold a host against itself when it was good: RDC16x and RDC26x. Counters since the baseline are
//! `counters`' matter.

use std::fmt::Debug;

use super::{Case, Rule, Sheet, port_name};
use crate::finding::Severity;
use crate::host::{Hca, Host, Port};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC160",
        severity: Severity::Note,
        title: "The host changed since the baseline",
        why: "Kernel, driver package, namespace mode and locked memory decide what RDMA can do: after a change of speed or \
              faults these are the first suspects.",
        cure: "record a new baseline when the change was meant",
        judge: host_changed,
    },
    Rule {
        code: "RDC260",
        severity: Severity::Error,
        title: "An HCA of the baseline is gone",
        why: "It was there when the host was good: unplugged, disabled, dead, or its driver did not take it. HCAs are told \
              by PCI address; a new name alone is no loss.",
        cure: "see `lspci -s ADDRESS` and `dmesg`; record a new baseline when it was removed on purpose",
        judge: gone,
    },
    Rule {
        code: "RDC261",
        severity: Severity::Note,
        title: "An HCA is not in the baseline",
        why: "The baseline says nothing about it, so nothing of it is compared.",
        cure: "record a new baseline when it is meant to be there",
        judge: new,
    },
    Rule {
        code: "RDC262",
        severity: Severity::Error,
        title: "A port is no longer usable",
        why: "It was usable when the host was good.",
        cure: "see the port's other findings",
        judge: no_longer_usable,
    },
    Rule {
        code: "RDC263",
        severity: Severity::Warning,
        title: "A setting of an HCA or port changed since the baseline",
        why: "What was good was measured with the other value.",
        cure: "set it back, or record a new baseline when the change was meant",
        judge: changed,
    },
];

fn host_changed(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(was) = case.against.baseline else { return };
    let host = case.host;
    let release = |host: &Host| host.ofed.as_ref().and_then(|ofed| ofed.release.clone());
    differ(sheet, "host", "kernel", &was.kernel, &host.kernel);
    differ(sheet, "host", "driver package", &release(was), &release(host));
    differ(sheet, "host", "RDMA netns mode", &was.netns_mode, &host.netns_mode);
    differ(sheet, "host", "memlock", &was.memlock, &host.memlock);
    for (name, value) in &was.sysctls {
        differ(sheet, "host", &name.replace('/', "."), &Some(*value), &host.sysctls.get(name).copied());
    }
}

fn gone(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(was) = case.against.baseline else { return };
    for before in was.hcas.iter().filter(|before| now(case.host, before).is_none()) {
        let address = before.pci_address.map_or_else(String::new, |address| format!(" ({address})"));
        sheet.find(&before.name, format!("not there{address}"), "an HCA, as in the baseline");
    }
}

fn new(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(was) = case.against.baseline else { return };
    for hca in case.host.hcas.iter().filter(|hca| now(was, hca).is_none()) {
        sheet.find(&hca.name, "not in the baseline", "the HCAs of the baseline");
    }
}

fn no_longer_usable(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    use crate::host::Usable;
    for (hca, port, before) in pairs(case) {
        if before.usable != Usable::No && port.usable == Usable::No {
            sheet.find(port_name(hca, port), port.reason.as_str(), "usable, as in the baseline");
        }
    }
}

fn changed(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(was) = case.against.baseline else { return };
    for hca in &case.host.hcas {
        let Some(before) = now(was, hca) else { continue };
        differ(sheet, hca.name.as_str(), "firmware", &before.fw_version, &hca.fw_version);
        differ(sheet, hca.name.as_str(), "name", &Some(&before.name), &Some(&hca.name));
        differ(sheet, hca.name.as_str(), "PCIe settings", &before.pcie_settings, &hca.pcie_settings);
        let link = |hca: &Hca| hca.pcie.as_ref().map(|link| (link.speed.clone(), link.width));
        differ(sheet, hca.name.as_str(), "PCIe link", &link(before), &link(hca));
    }
    for (hca, port, before) in pairs(case) {
        let name = port_name(hca, port);
        differ(sheet, &name, "rate", &before.rate_gbps, &port.rate_gbps);
        differ(sheet, &name, "MTU", &before.netdev_mtu, &port.netdev_mtu);
        differ(sheet, &name, "interface", &before.netdev, &port.netdev);
        differ(sheet, &name, "traffic class", &before.traffic_class, &port.traffic_class);
        let pfc =
            |host: &Host, port: &Port| host.netdev(port.netdev.as_deref()?)?.dcb.clone()?.pfc_priorities;
        differ(sheet, &name, "PFC priorities", &pfc(was, before), &pfc(case.host, port));
    }
}

/// Writes a finding where both values are known and differ: an old recording holds less.
fn differ<V: PartialEq + Debug>(
    sheet: &mut Sheet<'_>,
    subject: &str,
    what: &str,
    before: &Option<V>,
    now: &Option<V>,
) {
    if let (Some(before), Some(now)) = (before, now)
        && before != now
    {
        let text = |value: &V| format!("{value:?}").replace('"', "");
        sheet.find(subject, format!("{what} {}", text(now)), format!("{}, as in the baseline", text(before)));
    }
}

/// Ports that both have, with what they were.
fn pairs<'a>(case: &Case<'a>) -> Vec<(&'a Hca, &'a Port, &'a Port)> {
    let Some(was) = case.against.baseline else { return Vec::new() };
    let of = |hca: &'a Hca| {
        let before = now(was, hca)?;
        Some(hca.ports.iter().filter_map(move |port| Some((hca, port, before.port(port.port)?))))
    };
    case.host.hcas.iter().filter_map(of).flatten().collect()
}

/// The same HCA on the other host: by PCI address, since names change; by name where there is none or several share it.
fn now<'a>(host: &'a Host, hca: &Hca) -> Option<&'a Hca> {
    let named = host.hca(hca.name.as_str()).filter(|other| other.pci_address == hca.pci_address);
    named.or_else(|| {
        hca.pci_address?;
        host.hcas.iter().find(|other| other.pci_address == hca.pci_address && other.software == hca.software)
    })
}
