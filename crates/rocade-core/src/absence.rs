//! Why a host has no RDMA device: hardware, driver, module, namespace and grant are facts apart, and the first that is
//! missing is the reason. What `inventory` says on stderr and `check` as a finding.

use crate::host::Host;
use crate::names::PciAddress;

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    /// What is missing, and where that was seen.
    pub reason: String,
    /// What to do.
    pub cure: String,
}

/// The reason; None where there are RDMA devices.
pub fn absence(host: &Host) -> Option<Absence> {
    if !host.hcas.is_empty() {
        return None;
    }
    Some(
        unreadable(host)
            .or_else(|| elsewhere(host))
            .or_else(|| lost(host))
            .or_else(|| without_module(host))
            .or_else(|| without_driver(host))
            .or_else(|| in_pod(host))
            .unwrap_or_else(|| no_hardware(host)),
    )
}

fn because(reason: impl Into<String>, cure: impl Into<String>) -> Absence {
    Absence { reason: reason.into(), cure: cure.into() }
}

fn unreadable(host: &Host) -> Option<Absence> {
    if let Some(why) = host.unknown.get("hcas") {
        let reason = format!("/sys/class/infiniband cannot be listed ({why})");
        return Some(because(reason, "run it where /sys of the host is mounted"));
    }
    let gone = host
        .unknown
        .keys()
        .any(|key| key.strip_prefix("hcas.").is_some_and(|name| !name.starts_with("ports.")));
    gone.then(|| because("none that is listed can be read", "see `dmesg` for the drivers' reasons"))
}

/// Exclusive namespaces: the verbs devices are listed, their HCAs are not.
fn elsewhere(host: &Host) -> Option<Absence> {
    let names: Vec<&str> = host.orphan_uverbs.iter().map(|device| device.node.as_str()).collect();
    (!names.is_empty()).then(|| {
        because(
            format!(
                "{} belong to HCAs of other network namespaces (RDMA netns mode is exclusive)",
                names.join(", ")
            ),
            "look from the namespace that holds them, or give this one an HCA: rdma dev set HCA netns PID",
        )
    })
}

/// What was granted has a device somewhere: it went, or /sys does not show it.
fn lost(host: &Host) -> Option<Absence> {
    let grants = host.pod.as_ref()?.grants.iter().flatten();
    let mut granted: Vec<&str> = grants.map(|grant| grant.source.as_str()).collect();
    granted.dedup();
    (!granted.is_empty()).then(|| {
        because(
            format!(
                "{} says that an HCA was granted, and no RDMA device is seen in /sys",
                granted.join(", ")
            ),
            "recreate the Pod; see that nothing is mounted over /sys, and `dmesg` of the node",
        )
    })
}

/// Kernel driver of a card → the module that makes RDMA devices of it.
const RDMA_MODULES: &[(&str, &str)] = &[
    ("mlx5_core", "mlx5_ib"),
    ("mlx4_core", "mlx4_ib"),
    ("ice", "irdma"),
    ("idpf", "irdma"),
    ("bnxt_en", "bnxt_re"),
    ("qede", "qedr"),
    ("cxgb4", "iw_cxgb4"),
    ("hns3", "hns_roce_hw_v2"),
    ("mana", "mana_ib"),
    ("ionic", "ionic_rdma"),
    ("enic", "usnic_verbs"),
];

/// A card whose driver is bound, and no RDMA device of it.
fn without_module(host: &Host) -> Option<Absence> {
    let module =
        |driver: &str| RDMA_MODULES.iter().find(|(card, _)| *card == driver).map(|(_, module)| *module);
    let (card, driver, module) = host.network_cards.iter().find_map(|card| {
        let driver = card.driver.as_deref()?;
        Some((card, driver, module(driver)?))
    })?;
    let (place, pod) = (describe(card.pci_address, driver), host.pod.is_some());
    let loaded = host.module(module).is_some_and(|module| module.loaded != Some(false));
    Some(match (loaded, pod) {
        (false, false) => because(
            format!("{place} has no RDMA device: module {module} is not loaded"),
            format!("modprobe {module}"),
        ),
        (true, false) => because(
            format!("{place} has no RDMA device, though module {module} is loaded"),
            "RDMA may be off in the card's firmware or for this function: see `dmesg`, and `devlink dev param show`",
        ),
        (_, true) => because(
            format!("{place} has no RDMA device in this Pod"),
            "no HCA was granted: ask for the resource under resources.limits, or use the namespace that holds the HCA",
        ),
    })
}

fn describe(address: PciAddress, driver: &str) -> String {
    format!("{address} ({driver})")
}

/// A card of a kind that does RDMA without a driver at all.
fn without_driver(host: &Host) -> Option<Absence> {
    let card = host.network_cards.iter().find(|card| card.driver.is_none() && card.is_rdma_hardware())?;
    let id = card.pci_id.map_or_else(String::new, |id| format!(" {id}"));
    Some(because(
        format!("{}{id} is RDMA hardware without a driver", card.pci_address),
        "load its driver (`lspci -k -s ADDRESS` names it), or see `dmesg` for why it did not bind",
    ))
}

fn in_pod(host: &Host) -> Option<Absence> {
    host.pod.as_ref()?;
    Some(because(
        "no RDMA device in this Pod, and none was granted to it",
        "ask for the resource under resources.limits (as rdma/NAME: 1) on a node that has HCAs",
    ))
}

fn no_hardware(host: &Host) -> Absence {
    let hardware = match host.unknown.get("network_cards") {
        None => "no RDMA hardware among the PCI functions".to_owned(),
        Some(why) => format!("whether there is hardware could not be told (/sys/bus/pci/devices: {why})"),
    };
    match host.rdma_core {
        Some(true) => because(
            format!("the RDMA core is loaded, but no driver made a device: {hardware}"),
            "put a card in, pass one through, or make a soft-RoCE device: rdma link add rxe0 type rxe netdev NETDEV",
        ),
        Some(false) => because(
            format!("{hardware}, and the kernel's RDMA core is not loaded (module ib_core)"),
            "put a card in and load its driver, or make a soft-RoCE device: modprobe rdma_rxe",
        ),
        None => because(
            format!("{hardware}; whether the kernel has an RDMA core could not be told"),
            "run it on the host as root",
        ),
    }
}
