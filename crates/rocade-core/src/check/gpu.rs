//! Rules about GPUs beside HCAs: RDC12x. PCIe between them is in `pcie`.

use super::{Case, Rule, Sheet};
use crate::finding::Severity;

pub(super) const RULES: &[Rule] = &[Rule {
    code: "RDC120",
    severity: Severity::Warning,
    title: "HCAs cannot reach the memory of NVIDIA GPUs",
    why: "GPUDirect RDMA needs nvidia_peermem, or DMA-BUF (Linux 5.12 or newer and the open GPU driver). Without either \
          each message goes through the host's memory. A loaded nvidia_peermem alone proves nothing: ACS and the IOMMU \
          can still break or slow the path, and have findings of their own.",
    cure: "modprobe nvidia_peermem (list it in /etc/modules-load.d), or install the open GPU driver for DMA-BUF",
    judge: gpu_direct,
}];

/// PCI vendor.
const NVIDIA: u16 = 0x10de;

fn gpu_direct(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let gpus = &case.host.gpu_direct;
    let has_gpu = case.host.accelerators.iter().any(|gpu| gpu.pci_id.is_some_and(|id| id.vendor == NVIDIA));
    if !has_gpu || gpus.nvidia_peermem || case.rails().is_empty() {
        return;
    }
    match gpus.dmabuf {
        Some(true) => {}
        _ if case.host.pod.is_some() => sheet.unjudged("pod", "whether this Pod uses GPUs is not known"),
        Some(false) => sheet.say("host", "nvidia_peermem not loaded, no DMA-BUF", "one of them"),
        None => {
            sheet.say("host", "nvidia_peermem not loaded, whether DMA-BUF works is unknown", "one of them")
        }
    }
}
