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

fn gpu_direct(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let gpus = &case.host.gpu_direct;
    if !gpus.nvidia || gpus.nvidia_peermem || case.rails().is_empty() {
        return;
    }
    match gpus.dmabuf {
        Some(true) => {}
        Some(false) => sheet.say("host", "nvidia_peermem not loaded, no DMA-BUF", "one of them"),
        None => {
            let finding = sheet.find(
                "host",
                "nvidia_peermem not loaded, whether DMA-BUF works is unknown",
                "one of them",
            );
            finding.severity = Severity::Warning;
        }
    }
}
