//! Rules about PCIe, NUMA and the IOMMU: RDC4xx.

use std::collections::BTreeSet;

use super::compare::each_hca;
use super::rails::unlike;
use super::{Case, Rule, Sheet};
use crate::finding::Severity;
use crate::host::{Accelerator, Acs, Bridge, FunctionKind, Hca, PcieLink, RoleKind};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC401",
        severity: Severity::Warning,
        title: "A PCIe link runs below what card and slot can do",
        why: "A 200 Gb/s port needs Gen4 x16, a 400 Gb/s one Gen5 x16. A link that came up narrower or slower caps the \
              bandwidth, whatever the port's rate says.",
        cure: "reseat the card or its riser, look at the slot's lanes and the BIOS's link speed; see `lspci -vv` LnkSta",
        judge: link_degraded,
    },
    Rule {
        code: "RDC402",
        severity: Severity::Warning,
        title: "MaxReadReq is small or unlike the other rails'",
        why: "The HCA fetches what it sends by PCIe reads of this size. 512 bytes is the slow default: ports of 200 Gb/s \
              and more need 4096.",
        cure: "setpci -s ADDRESS CAP_EXP+8.w=5000:7000, and the same at each boot (udev rule or firmware setting)",
        judge: max_read_request,
    },
    Rule {
        code: "RDC403",
        severity: Severity::Warning,
        title: "MaxPayload differs along a path",
        why: "The function and the ports above it have to agree: a packet larger than a port takes is a malformed one, a \
              smaller one wastes bandwidth.",
        cure: "boot with pci=pcie_bus_safe or pcie_bus_perf, or correct it in the BIOS",
        judge: max_payload,
    },
    Rule {
        code: "RDC404",
        severity: Severity::Note,
        title: "Relaxed ordering is off on a rail",
        why: "Without it writes into memory wait for each other; AMD and ARM hosts need it for the full rate.",
        cure: "enable it in BIOS and firmware (mlxconfig PCI_WR_ORDERING)",
        judge: relaxed_ordering,
    },
    Rule {
        code: "RDC405",
        severity: Severity::Warning,
        title: "ACS redirects peer-to-peer traffic above a GPU or rail",
        why: "With ACS redirect on, GPUDirect goes up to the root port and back instead of through the PCIe switch. On a \
              virtual machine it must stay on, so there this says nothing.",
        cure: "on bare metal: switch ACS off in the BIOS, or setpci -s BRIDGE ECAP_ACS+6.w=0000 at each boot",
        judge: acs,
    },
    Rule {
        code: "RDC406",
        severity: Severity::Warning,
        title: "The IOMMU translates, with GPUs in the host",
        why: "Each DMA is translated, peer-to-peer goes through the root complex, and GPUDirect is slow or fails.",
        cure: "boot with iommu=pt (iommu.passthrough=1 on ARM), or switch the IOMMU off",
        judge: iommu,
    },
    Rule {
        code: "RDC407",
        severity: Severity::Note,
        title: "The NUMA node of a rail is not known",
        why: "The firmware does not say it, so nothing can be placed near the HCA by NUMA node. With sub-NUMA clustering a \
              node can be wrong as well: the PCIe root is the key to trust.",
        cure: "place by PCIe root (`rocade inventory -o topology`); look for a BIOS update or its SNC/NPS setting",
        judge: numa,
    },
    Rule {
        code: "RDC408",
        severity: Severity::Note,
        title: "A GPU and a rail below one PCIe root are on unlike NUMA nodes",
        why: "NUMA nodes and PCIe roots contradict each other, as with sub-NUMA clustering: placement by NUMA node picks \
              the wrong HCA.",
        cure: "align by PCIe root, take NUMA as a hint only",
        judge: numa_contradicts,
    },
];

fn link_degraded(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for hca in case.functions() {
        let Some(link) = &hca.pcie else { continue };
        match link.is_degraded() {
            Some(false) => {}
            Some(true) => {
                let (seen, wanted) = describe(link);
                sheet.find(&hca.name, seen, wanted);
            }
            None => sheet.unjudged(&hca.name, "the kernel does not tell its PCIe link"),
        }
    }
}

/// `x8 of x16` or `8.0 of 16.0 GT/s`: what is less.
fn describe(link: &PcieLink) -> (String, String) {
    let short = |speed: &Option<String>| speed.as_deref().unwrap_or("?").replace(" PCIe", "");
    let width = |width: Option<u32>| width.map_or_else(|| "x?".into(), |w| format!("x{w}"));
    let least =
        |own: Option<u32>, parent: Option<u32>| own.into_iter().chain(parent.filter(|w| *w > 0)).min();
    let widest = least(link.max_width, link.parent_max_width);
    let number =
        |text: &Option<String>| text.as_deref().and_then(|t| t.split(' ').next()?.parse::<f64>().ok());
    let fastest = match (number(&link.max_speed), number(&link.parent_max_speed)) {
        (Some(own), Some(parent)) if parent < own => &link.parent_max_speed,
        _ => &link.max_speed,
    };
    let mut seen = Vec::new();
    if link.width < widest {
        seen.push(format!("{} of {}", width(link.width), width(widest)));
    }
    if number(&link.speed) < number(fastest) {
        let speed = short(&link.speed);
        seen.push(format!("{} of {}", speed.trim_end_matches(" GT/s"), short(fastest)));
    }
    (format!("PCIe {}", seen.join(", ")), format!("{} {}", short(fastest), width(widest)))
}

fn max_read_request(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let mut told = BTreeSet::new();
    for ports in &case.alike {
        let values: Vec<(String, u32)> = each_hca(ports)
            .into_iter()
            .filter_map(|hca| Some((hca.name.to_string(), hca.pcie_settings?.max_read_request)))
            .collect();
        if let Some(found) = unlike(&values).filter(|found| found.odd.iter().all(|(_, v)| *v < found.usual)) {
            for (name, value) in found.odd {
                sheet.find(
                    &name,
                    format!("MaxReadReq {value}"),
                    format!("{} as the other rails", found.usual),
                );
                told.insert(name);
            }
        }
    }
    for hca in case.functions().filter(|hca| !told.contains(hca.name.as_str())) {
        match hca.pcie_settings {
            Some(settings) if settings.max_read_request < 4096 => {
                let rate = hca.ports.iter().filter_map(|port| port.rate_gbps).fold(0.0, f64::max);
                let seen = format!("MaxReadReq {}", settings.max_read_request);
                let finding = sheet.find(&hca.name, seen, "4096 from 200 Gb/s on");
                // Slower ports are fed all the same, and a virtual machine's register is no true one.
                if rate < 200.0 || case.host.virtual_machine == Some(true) {
                    finding.severity = Severity::Note;
                }
            }
            Some(_) => {}
            None if hca.function == Some(FunctionKind::Sf) => {}
            // Conventional PCI has no such register.
            None if hca.unknown.get("pcie_settings").is_some_and(|why| why == "not a PCIe function") => {}
            None => sheet.unjudged(&hca.name, unread_settings(case, hca)),
        }
    }
}

/// Configuration space beyond 64 bytes is for root alone (drivers/pci/pci-sysfs.c).
fn unread_settings(case: &Case<'_>, hca: &Hca) -> String {
    match hca.unknown.get("pcie_settings").or_else(|| case.host.unknown.get("pcie_settings")) {
        Some(reason) => format!("its PCIe settings could not be read ({reason}): root reads them"),
        None => "its PCIe settings could not be read: config space beyond 64 bytes is for root".into(),
    }
}

fn max_payload(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for hca in case.functions() {
        let Some(own) = hca.pcie_settings.map(|settings| settings.max_payload) else { continue };
        let above = hca.pci_path.iter().filter_map(|address| {
            let bridge = bridge(case, |b| b.pci_address == *address)?;
            Some((bridge.pci_address, bridge.settings?.max_payload))
        });
        let unlike: Vec<String> = above
            .filter(|(_, payload)| *payload != own)
            .map(|(address, payload)| format!("{payload} at {address}"))
            .collect();
        if !unlike.is_empty() {
            sheet.find(
                &hca.name,
                format!("MaxPayload {own}, {}", unlike.join(", ")),
                "the same along the path",
            );
        }
    }
}

fn relaxed_ordering(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for hca in case.functions().filter(|hca| hca.role.kind == RoleKind::Fabric) {
        if hca.pcie_settings.is_some_and(|settings| !settings.relaxed_ordering) {
            sheet.find(&hca.name, "relaxed ordering off", "on");
        }
    }
}

fn acs(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    if case.host.virtual_machine == Some(true) || case.host.accelerators.is_empty() {
        return;
    }
    // Functions and GPUs below the same switch: what a switch could pass on by itself.
    let with_gpu: BTreeSet<_> = case.host.accelerators.iter().flat_map(|gpu| &gpu.pci_path).collect();
    let mut unread = 0;
    let mut redirecting = Vec::new();
    for bridge in case.host.bridges.iter().filter(|bridge| with_gpu.contains(&bridge.pci_address)) {
        match bridge.acs {
            Some(Acs::Redirect) => redirecting.push(bridge.pci_address),
            Some(_) => {}
            None => unread += 1,
        }
    }
    // The downstream ports of one switch say the same.
    let siblings = |address: &&Bridge| matches!(address.acs, Some(Acs::Redirect));
    let of_rails: BTreeSet<_> = case.functions().flat_map(|hca| &hca.pci_path).collect();
    for bridge in case.host.bridges.iter().filter(siblings) {
        if of_rails.contains(&bridge.pci_address) && !redirecting.contains(&bridge.pci_address) {
            redirecting.push(bridge.pci_address);
        }
    }
    redirecting.sort_unstable();
    if !redirecting.is_empty() {
        let names: Vec<String> = redirecting.iter().map(ToString::to_string).collect();
        sheet.find(
            names.join(", "),
            "ACS redirects peer-to-peer requests to the root port",
            "redirect off between GPUs and rails",
        );
    }
    if unread > 0 {
        sheet.unjudged(
            "host",
            format!("ACS of {unread} bridges above GPUs could not be read: root reads config space"),
        );
    }
}

fn iommu(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    if case.host.accelerators.is_empty() || case.host.virtual_machine == Some(true) {
        return;
    }
    let kind = |gpu: &Accelerator| gpu.iommu.as_ref().and_then(|group| group.kind.clone());
    let gpus = case.host.accelerators.iter().filter_map(kind);
    let hcas = case.functions().filter_map(|hca| hca.iommu.as_ref()?.kind.clone());
    let translating: BTreeSet<String> = gpus.chain(hcas).filter(|kind| kind.starts_with("DMA")).collect();
    if !translating.is_empty() {
        let kinds: Vec<String> = translating.into_iter().collect();
        sheet.find("host", format!("IOMMU groups of type {}", kinds.join(", ")), "identity (pass-through)");
    }
}

fn numa(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    // One node, or none told at all: nothing to choose between.
    let known = case.host.hcas.iter().filter_map(|hca| hca.numa_node);
    let nodes: BTreeSet<u32> =
        known.chain(case.host.accelerators.iter().filter_map(|gpu| gpu.numa_node)).collect();
    for hca in case.functions().filter(|hca| hca.numa_node.is_none() && !nodes.is_empty()) {
        let root = hca.pci_root.as_deref().unwrap_or("unknown");
        sheet.find(&hca.name, format!("NUMA node unknown, PCIe root {root}"), "a node");
    }
}

fn numa_contradicts(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for hca in case.functions() {
        let (Some(root), Some(node)) = (&hca.pci_root, hca.numa_node) else { continue };
        let near = case.host.accelerators.iter().filter(|gpu| gpu.pci_root.as_ref() == Some(root));
        for gpu in near {
            if let Some(other) = gpu.numa_node.filter(|other| *other != node) {
                let seen =
                    format!("node {node}, GPU {} of the same PCIe root {root} node {other}", gpu.pci_address);
                sheet.find(&hca.name, seen, "one node below one root");
            }
        }
    }
}

fn bridge<'a>(case: &Case<'a>, wanted: impl Fn(&Bridge) -> bool) -> Option<&'a Bridge> {
    case.host.bridges.iter().find(|bridge| wanted(bridge))
}
