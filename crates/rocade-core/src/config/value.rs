//! Values of selectors that can mean no HCA, as far as their text alone tells, and the right form. Both dialects ask
//! here; what a host would have to be looked at for is the plan's to say.

use super::Dialect;
use super::wrong::{Wrong, distance, nearest, quoted};
use crate::names::PciAddress;

/// Drivers of RDMA devices, which are not those of the PCI functions below → the drivers that functions below them have,
/// and which to write. (Names of auxiliary and PCI drivers in drivers/infiniband/hw and drivers/net/ethernet.)
const RDMA_DRIVERS: [(&str, &[&str], &str); 13] = [
    ("mlx5_ib", &["mlx5_core"], "mlx5_core"),
    ("mlx4_ib", &["mlx4_core"], "mlx4_core"),
    ("mlx4_en", &["mlx4_core"], "mlx4_core"),
    ("irdma", &["ice", "i40e", "idpf"], "ice, or i40e on X722"),
    ("i40iw", &["i40e"], "i40e"),
    ("bnxt_re", &["bnxt_en"], "bnxt_en"),
    ("qedr", &["qede", "qed"], "qede"),
    ("hns_roce", &["hns3"], "hns3"),
    ("hns_roce_hw_v2", &["hns3"], "hns3"),
    ("iw_cxgb4", &["cxgb4"], "cxgb4"),
    ("ocrdma", &["be2net"], "be2net"),
    ("ionic_rdma", &["ionic"], "ionic"),
    ("mana_ib", &["mana"], "mana"),
];

/// Drivers of PCI functions with RDMA, for near misses.
const PCI_DRIVERS: [&str; 17] = [
    "mlx5_core",
    "mlx4_core",
    "ice",
    "i40e",
    "idpf",
    "bnxt_en",
    "qede",
    "hns3",
    "cxgb4",
    "be2net",
    "ionic",
    "mana",
    "erdma",
    "efa",
    "hfi1",
    "ib_qib",
    "vmw_pvrdma",
];

/// Modules without a PCI function.
const SOFTWARE: [&str; 4] = ["rdma_rxe", "rxe", "siw", "ib_uverbs"];

/// Vendors that people write by name.
const VENDORS: [(&str, &str); 8] = [
    ("mellanox", "15b3"),
    ("nvidia", "15b3"),
    ("intel", "8086"),
    ("broadcom", "14e4"),
    ("chelsio", "1425"),
    ("amazon", "1d0f"),
    ("microsoft", "1414"),
    ("pensando", "1dd8"),
];

/// What a list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Id {
    Vendor,
    Device,
}

/// Where a PCI address belongs.
fn place_of_addresses(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::ConfigJson => "name its interface under ifNames (`kind: AgentConfig` has pciAddresses)",
        Dialect::AgentConfig => "list it under pciAddresses",
    }
}

/// A PCI id as sysfs writes it without its 0x: four small hexadecimal digits. None for what is no id.
pub(super) fn normal_id(text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    (digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit())).then(|| digits.to_ascii_lowercase())
}

/// What is wrong with a PCI id.
pub(super) fn check_id(id: Id, text: &str, dialect: Dialect) -> Option<Wrong> {
    if normal_id(text).is_some() {
        return None;
    }
    let wanted = match id {
        Id::Vendor => "a PCI vendor id of four hexadecimal digits, as 15b3",
        Id::Device => "a PCI device id of four hexadecimal digits, as 1021",
    };
    let wrong = |cure: String| Some(Wrong::new("RDC714", seen(text), wanted).with_cure(cure));
    if text.trim().is_empty() {
        return wrong("leave it out".into());
    }
    if is_address(text) {
        return wrong(format!("it is a PCI address: {}", place_of_addresses(dialect)));
    }
    if let Some((vendor, device)) = text.split_once(':').filter(|(v, d)| v.len() == 4 && d.len() == 4) {
        return wrong(format!("the vendor is {vendor} and the device {device}: each in a list of its own"));
    }
    let name = VENDORS.iter().find(|(name, _)| text.to_ascii_lowercase().contains(name));
    if let (Id::Vendor, Some((_, id))) = (id, name) {
        return wrong(format!("that is {id}"));
    }
    wrong("`lspci -nn` shows both, as [15b3:1021]".into())
}

/// Whether a device id may be a bus number with device and function behind it (`b500` of `b5:00.0`). Few devices have
/// such an id.
pub(super) fn may_be_bus(text: &str) -> bool {
    normal_id(text).is_some_and(|id| id.ends_with("00"))
}

/// The drivers of PCI functions below an RDMA driver of that name; None where it is none.
pub(crate) fn drivers_below(rdma: &str) -> Option<&'static [&'static str]> {
    RDMA_DRIVERS.iter().find(|(name, ..)| *name == rdma).map(|(_, below, _)| *below)
}

/// What is wrong with the name of a PCI driver.
pub(super) fn check_driver(text: &str) -> Option<Wrong> {
    let wrong = |cure: String| {
        let wanted = "the driver of the PCI function, as mlx5_core or ice";
        Some(Wrong::new("RDC714", seen(text), wanted).with_cure(cure))
    };
    if text.trim().is_empty() {
        return wrong("leave it out".into());
    }
    if PCI_DRIVERS.contains(&text) {
        return None;
    }
    if let Some((.., pci)) = RDMA_DRIVERS.iter().find(|(rdma, ..)| *rdma == text) {
        return wrong(format!("it drives the RDMA device above the function: write {pci}"));
    }
    if SOFTWARE.contains(&text) {
        return wrong("it has no PCI function: select by name".into());
    }
    let simple = |name: &str| name.to_ascii_lowercase().replace(['-', '.'], "_");
    let alike = nearest(text, &PCI_DRIVERS).filter(|known| {
        simple(known) == simple(text) || distance(&simple(known), &simple(text)) == 1 && known.len() > 4
    });
    wrong(format!("the nearest driver is {}", alike?))
}

/// A link type as the kernel writes it. None for what is none of an HCA's.
pub(super) fn normal_link_type(text: &str) -> Option<String> {
    Some(text.to_ascii_lowercase()).filter(|small| ["ether", "infiniband"].contains(&small.as_str()))
}

/// The link type that is meant by one of the words that people have for it.
pub(crate) fn meant_link_type(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "ether" | "ethernet" | "eth" | "roce" | "rocev2" | "iwarp" => Some("ether"),
        "infiniband" | "ib" | "ipoib" => Some("infiniband"),
        _ => None,
    }
}

/// What is wrong with the link type of an interface.
pub(super) fn check_link_type(text: &str) -> Option<Wrong> {
    if normal_link_type(text).is_some() {
        return None;
    }
    let cure = match meant_link_type(text) {
        Some(right) => format!("did you mean `{right}`?"),
        None if text.trim().is_empty() => cure_of_blank(text, false).to_owned(),
        None => "`ip -d link` shows it behind `link/`".to_owned(),
    };
    Some(Wrong::new("RDC714", seen(text), "a link type: ether or infiniband").with_cure(cure))
}

/// What is wrong with the name of an interface.
pub(super) fn check_netdev(text: &str, dialect: Dialect) -> Option<Wrong> {
    let wrong = |wanted: &str, cure: String| Some(Wrong::new("RDC714", seen(text), wanted).with_cure(cure));
    let globs = dialect == Dialect::AgentConfig;
    let name = "the name of an interface, as ens18np0";
    if text.trim().is_empty() {
        return wrong(name, cure_of_blank(text, globs).into());
    }
    if is_address(text) {
        return wrong(name, format!("it is a PCI address: {}", place_of_addresses(dialect)));
    }
    if let Some(wrong) = check_glob(text, name, globs) {
        return Some(wrong);
    }
    // net/core/dev.c dev_valid_name: 15 bytes, no slash, colon or space.
    if text.contains(['/', ':']) || text.contains(char::is_whitespace) {
        return wrong(name, "no interface can have such a name".into());
    }
    if text.len() > 15 && !(globs && text.contains('*')) {
        return wrong("at most 15 characters", "the kernel cuts longer names: `ip link` shows it".into());
    }
    None
}

/// What is wrong with the name of an HCA, in which `*` stands for any text.
pub(super) fn check_hca(text: &str) -> Option<Wrong> {
    let wrong =
        |cure: &str| Some(Wrong::new("RDC714", seen(text), "the name of an HCA, as mlx5_0").with_cure(cure));
    if text.trim().is_empty() {
        return wrong("leave it out");
    }
    if is_address(text) {
        return wrong(&format!("it is a PCI address: {}", place_of_addresses(Dialect::AgentConfig)));
    }
    if text.contains(':') {
        return wrong("name the HCA without its port");
    }
    if text.contains(['/', '\0']) || text.contains(char::is_whitespace) {
        return wrong("`rdma dev` shows it");
    }
    check_glob(text, "the name of an HCA, as mlx5_0", true)
}

/// What is wrong with a PCI address, in which `*` stands for any text.
pub(super) fn check_address(text: &str) -> Option<Wrong> {
    let wanted = "a PCI address, as 0000:4d:00.0";
    let wrong = |cure: String| Some(Wrong::new("RDC714", seen(text), wanted).with_cure(cure));
    if text.parse::<PciAddress>().is_ok() {
        return None;
    }
    if format!("0000:{text}").parse::<PciAddress>().is_ok() {
        return wrong(format!("write it with its domain, 0000:{text}"));
    }
    if text.contains('*') && text.bytes().all(|b| b.is_ascii_hexdigit() || b":.*".contains(&b)) {
        return None;
    }
    wrong("`lspci -D` shows it".into())
}

/// That plugin takes the name of an interface that is not there for an empty one.
fn cure_of_blank(text: &str, globs: bool) -> &'static str {
    match globs || !text.is_empty() {
        true => "leave it out",
        false => "it finds HCAs without an interface; leave it out where that is not meant",
    }
}

fn check_glob(text: &str, wanted: &str, globs: bool) -> Option<Wrong> {
    let wrong = |cure: &str| Some(Wrong::new("RDC714", seen(text), wanted).with_cure(cure));
    match globs {
        false if text.contains(['*', '?', '[']) => {
            wrong("config.json knows no patterns: list each name (`kind: AgentConfig` takes `*`)")
        }
        true if text.contains(['?', '[', ']', '{', '}']) => {
            wrong("of patterns only `*` is known, for any text")
        }
        _ => None,
    }
}

/// A whole address, or one without its domain or function, as `lspci` prints it: `0000:4d:00.0`, `4d:00.0`, `4d:00`.
fn is_address(text: &str) -> bool {
    let forms = [text.to_owned(), format!("0000:{text}"), format!("{text}.0"), format!("0000:{text}.0")];
    forms.iter().any(|form| form.parse::<PciAddress>().is_ok())
}

fn seen(text: &str) -> String {
    if text.trim().is_empty() { "a blank entry".into() } else { quoted(text) }
}
