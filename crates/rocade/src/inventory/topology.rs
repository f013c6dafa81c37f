//! How far each HCA is from each accelerator, and where both stand.

use rocade_core::Host;
use rocade_core::host::{Accelerator, Distance};

use crate::columns::lay_out;

/// What the classes mean, nearest first; NCCL and nvidia-smi use the same names.
const LEGEND: &str = "\
PIX: at most one PCIe switch between; PXB: several; PHB: the CPU's host bridge;
NODE: host bridges of one NUMA node; SYS: between NUMA nodes; ?: could not be told
";

pub(super) fn render(host: &Host) -> String {
    let hcas = render_hcas(host);
    if host.accelerators.is_empty() {
        let why = host.unknown.get("accelerators").map_or("none is seen", String::as_str);
        return format!("{hcas}\nno accelerator (GPU by PCI class): {why}\n");
    }
    format!("{hcas}\n{}\n{LEGEND}", render_accelerators(host))
}

fn render_hcas(host: &Host) -> String {
    let names = (0..host.accelerators.len()).map(name);
    let mut rows: Vec<Vec<String>> =
        vec![["HCA", "PCI", "NUMA", "ROLE"].map(str::to_owned).into_iter().chain(names).collect()];
    for hca in &host.hcas {
        let address = hca.pci_address.map_or_else(|| "-".into(), |address| address.to_string());
        let place = [hca.name.to_string(), address, render_node(hca.numa_node), hca.role.kind.to_string()];
        let distances = host.accelerators.iter().map(|it| render_distance(it, hca.name.as_str()));
        rows.push(place.into_iter().chain(distances).collect());
    }
    lay_out(&rows)
}

fn render_accelerators(host: &Host) -> String {
    let mut rows = vec![["ACCELERATOR", "PCI", "NUMA", "ID", "DRIVER"].map(str::to_owned)];
    rows.extend(host.accelerators.iter().enumerate().map(|(at, accelerator)| {
        [
            name(at),
            accelerator.pci_address.to_string(),
            render_node(accelerator.numa_node),
            accelerator.pci_id.as_ref().map_or_else(|| "-".into(), |id| id.to_string()),
            accelerator.driver.clone().unwrap_or_else(|| "-".into()),
        ]
    }));
    lay_out(&rows)
}

fn name(at: usize) -> String {
    format!("GPU{at}")
}

fn render_distance(accelerator: &Accelerator, hca: &str) -> String {
    accelerator.distances.get(hca).copied().unwrap_or(Distance::Unknown).to_string()
}

fn render_node(node: Option<u32>) -> String {
    node.map_or_else(|| "-".into(), |node| node.to_string())
}
