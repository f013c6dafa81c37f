//! The variables of each library, in the order in which they are shown.

use super::devices::Rail;
use super::fabric::Fabric;
use super::gids::Family;
use super::pairing::{Pairs, is_guest};
use super::sheet::Sheet;
use super::sockets::{self, SocketInterface};
use super::{Given, Library, NcclSource};
use crate::host::{Distance, Host};

mod gid;
mod libfabric;

use gid::{NCCL, NVSHMEM, fill_gid, index};

/// Entries that UCX takes of a list.
const UCX_LIST: usize = 64;

/// What the variables are told from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) host: &'a Host,
    pub(super) given: &'a Given<'a>,
    /// Nearest first.
    pub(super) rails: &'a [Rail<'a>],
    pub(super) fabric: &'a Fabric<'a>,
    pub(super) pairs: &'a Pairs,
}

impl<'a> Facts<'a> {
    pub(super) fn nccl_rails(&self) -> impl Iterator<Item = &'a Rail<'a>> {
        self.rails.iter().filter(|rail| rail.nccl)
    }

    fn has_roce(&self) -> bool {
        self.fabric.nccl_roce().next().is_some()
    }

    /// A value that the grants of all resources agree on: `TC` or `SL`; None where no pool sets it.
    pub(super) fn of_pool(&self, what: &str) -> Result<Option<String>, String> {
        let prefix = format!("ROCADE_{what}_");
        let of_grants = self.given.variables.iter().filter(|(name, _)| name.starts_with(&prefix));
        let mut values: Vec<&String> =
            of_grants.map(|(_, value)| value).filter(|value| !value.is_empty()).collect();
        values.sort();
        values.dedup();
        match values[..] {
            [] => Ok(None),
            [only] => Ok(Some(only.clone())),
            _ => Err(values.into_iter().cloned().collect::<Vec<_>>().join(", ")),
        }
    }
}

pub(super) fn fill(facts: &Facts<'_>, sheet: &mut Sheet<'_>) {
    fill_nccl_devices(facts, sheet);
    fill_gid(facts, sheet, Library::Nccl, &NCCL);
    fill_class(facts, sheet, Library::Nccl, "NCCL_IB_TC", "NCCL_IB_SL");
    fill_distance(facts, sheet);
    let socket = sockets::choose(facts.host);
    fill_socket(sheet, Library::Nccl, "NCCL_SOCKET_IFNAME", "=", &socket);
    fill_ucx(facts, sheet);
    fill_nvshmem(facts, sheet, &socket);
    libfabric::fill(facts, sheet);
    fill_socket(sheet, Library::Gloo, "GLOO_SOCKET_IFNAME", "", &socket);
}

const NOTHING: &str = "no HCA is granted, opens here and can be used";

fn list<'a>(rails: impl Iterator<Item = &'a Rail<'a>>) -> Option<String> {
    let names: Vec<String> = rails.map(Rail::name).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// Why these devices.
fn ground(facts: &Facts<'_>) -> String {
    let order = if facts.pairs.pairs.is_empty() { "" } else { ", nearest to the GPUs first" };
    let says = |rail: &Rail<'_>| crate::pod::is_granted(facts.host, rail.hca).is_some();
    let granted =
        if facts.rails.iter().any(says) { "granted, open here" } else { "open here (no grant says which)" };
    match (facts.fabric.unsure.is_empty(), facts.rails.is_empty()) {
        (_, true) => NOTHING.to_owned(),
        (true, _) => format!("{granted} and usable{order}"),
        (false, _) => format!("{granted} and usable{order}; {}", facts.fabric.unsure.join("; ")),
    }
}

fn fill_nccl_devices(facts: &Facts<'_>, sheet: &mut Sheet<'_>) {
    let value = list(facts.nccl_rails()).map(|list| format!("={list}"));
    sheet.put(Library::Nccl, "NCCL_IB_HCA", "P5", value, ground(facts));
}

fn fill_class(
    facts: &Facts<'_>,
    sheet: &mut Sheet<'_>,
    library: Library,
    class: &'static str,
    level: &'static str,
) {
    let roce = facts.rails.iter().any(Rail::is_roce);
    let told = |what: &str, value: Result<Option<String>, String>| match value {
        _ if facts.rails.is_empty() => (None, NOTHING.to_owned()),
        Ok(Some(value)) => (Some(value), format!("the pool's {what}")),
        Ok(None) => (None, format!("no pool says a {what}; the library's own stays")),
        Err(values) => (None, format!("the granted pools differ: {values}")),
    };
    let (value, why) = match roce || facts.rails.is_empty() {
        true => told("traffic class", facts.of_pool("TC")),
        false => (None, "InfiniBand goes by service level".to_owned()),
    };
    sheet.put(library, class, if library == Library::Ucx { "U3" } else { "P8" }, value, why);
    let (value, why) = told("service level", facts.of_pool("SL"));
    sheet.put(library, level, "P8", value, why);
}

fn fill_distance(facts: &Facts<'_>, sheet: &mut Sheet<'_>) {
    let far: Vec<String> = facts
        .pairs
        .pairs
        .iter()
        .filter(|pair| pair.distance > Distance::Pxb)
        .map(|pair| format!("{} {} {}", pair.gpu, pair.distance, pair.hca))
        .collect();
    let why = match (&facts.pairs.none, far.is_empty()) {
        (Some(why), _) => why.clone(),
        (None, true) => "every GPU has an HCA at PXB or nearer: the default reaches them".to_owned(),
        (None, false) => format!(
            "the default stays: NCCL goes through the CPU's memory at {}; PHB only where it was measured to be better",
            far.join(", ")
        ),
    };
    sheet.put(Library::Nccl, "NCCL_NET_GDR_LEVEL", "N13", None, why);
    if is_guest(facts.host) {
        let why = "a virtual machine: NCCL reads the provider's /var/run/nvidia-topologyd/virtualTopology.xml by itself; name another here";
        sheet.put(Library::Nccl, "NCCL_TOPO_FILE", "N14", None, why);
    }
}

fn fill_socket(
    sheet: &mut Sheet<'_>,
    library: Library,
    name: &'static str,
    exactly: &str,
    socket: &Result<SocketInterface, String>,
) {
    let rule = if library == Library::Gloo { "G1" } else { "P7" };
    match socket {
        Ok(socket) => {
            sheet.put(library, name, rule, Some(format!("{exactly}{}", socket.name)), socket.why.clone());
        }
        Err(why) => sheet.put(library, name, rule, None, why.clone()),
    }
}

fn fill_ucx(facts: &Facts<'_>, sheet: &mut Sheet<'_>) {
    sheet.put(Library::Ucx, "UCX_NET_DEVICES", "P5", list(facts.rails.iter().take(UCX_LIST)), ground(facts));
    let (index, why) = index(facts, false);
    sheet.put(Library::Ucx, "UCX_IB_GID_INDEX", "P4", index, why);
    fill_class(facts, sheet, Library::Ucx, "UCX_IB_TRAFFIC_CLASS", "UCX_IB_SL");
    sheet.put(
        Library::Ucx,
        "UCX_TLS",
        "U4",
        None,
        "all transports; UCX takes the fastest that the devices have",
    );
}

fn fill_nvshmem(facts: &Facts<'_>, sheet: &mut Sheet<'_>, socket: &Result<SocketInterface, String>) {
    let value = list(facts.nccl_rails());
    let mapping = value.as_ref().map(|_| "1".to_owned());
    let why = if mapping.is_some() { "a list of HCAs counts only with it" } else { NOTHING };
    sheet.put(Library::Nvshmem, "NVSHMEM_ENABLE_NIC_PE_MAPPING", "S1", mapping, why);
    sheet.put(Library::Nvshmem, "NVSHMEM_HCA_LIST", "S1", value, ground(facts));
    fill_gid(facts, sheet, Library::Nvshmem, &NVSHMEM);
    fill_class(facts, sheet, Library::Nvshmem, "NVSHMEM_IB_TRAFFIC_CLASS", "NVSHMEM_IB_SL");
    fill_socket(sheet, Library::Nvshmem, "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "=", socket);
    let v6 = socket.as_ref().is_ok_and(|socket| socket.family == Some(Family::V6));
    let why = if v6 { "the interface has IPv6 alone" } else { "the default, AF_INET, fits" };
    let value = v6.then(|| Family::V6.variable().to_owned());
    sheet.put(Library::Nvshmem, "NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY", "P7", value, why);
}

/// How NCCL's version is known, in words.
pub(super) fn version_in_words(source: &NcclSource) -> String {
    match source {
        NcclSource::Asked => "as --nccl says".to_owned(),
        NcclSource::Library(file) => format!("by the file {file}"),
        NcclSource::Assumed => "assumed: say it with --nccl".to_owned(),
    }
}
