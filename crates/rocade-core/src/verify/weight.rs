//! Which findings concern a Pod, which reason counts most, and which of them are milder where no HCA was meant for it.

use super::Own;
use crate::finding::{Finding, Severity};

/// Codes by how much of the rest they explain; what is not listed comes after.
const ORDER: &[&str] = &[
    "RDC101", "RDC605", "RDC610", "RDC611", "RDC606", "RDC603", "RDC602", "RDC607", "RDC601", "RDC612",
    "RDC106", "RDC615", "RDC608",
];
/// About an HCA of which no more than its name is known.
const VANISHED: &str = "RDC102";
/// What only sums up other findings.
const LAST: &str = "RDC604";
/// Rules of the host that a Pod has to do with.
const OF_HOST: &[&str] = &["RDC101", "RDC102", "RDC103", "RDC106", "RDC110"];
/// Rules of several rails, of which a Pod has its own copy.
const OF_RAILS: &[&str] = &["RDC320", "RDC321"];

/// Whether a finding is told to a Pod: its grant, ports, GIDs and memory, and whatever keeps RDMA from working.
pub(super) fn concerns(finding: &Finding) -> bool {
    is_of_pod(finding.code) || finding.severity == Severity::Error
}

/// Whether a rule is about what a Pod has: not about its host's tuning, cards, counters or switches.
pub(super) fn is_of_pod(code: &str) -> bool {
    let family = ["RDC2", "RDC30", "RDC6"].iter().any(|family| code.starts_with(family));
    family || OF_HOST.contains(&code) || OF_RAILS.contains(&code)
}

/// Lower counts more.
pub(super) fn rank(code: &str) -> usize {
    let after = if code == LAST { ORDER.len() + 1 } else { ORDER.len() };
    ORDER.iter().position(|known| *known == code).unwrap_or(after)
}

/// Whether it is about what was not granted, and of no harm where what was granted works: a network on another rail, an HCA
/// that is going away.
pub(super) fn is_of_others(finding: &Finding) -> bool {
    finding.code == "RDC602" || finding.code == VANISHED
}

/// An error about an HCA that need not be used is a warning where another can be.
pub(super) fn soften(finding: &mut Finding, hcas: &[Own]) {
    let is_of_hca = |own: &Own| {
        finding.subject == own.hca
            || finding.subject.strip_prefix(&own.hca).is_some_and(|s| s.starts_with('/'))
    };
    let spare = hcas.iter().filter(|own| !own.usable).any(is_of_hca);
    // Not among `hcas` where it does not even open.
    let of_host = finding.code.starts_with("RDC1") && finding.code != VANISHED;
    let foreign = !hcas.iter().any(is_of_hca) && !of_host && finding.code != "RDC608";
    if finding.severity == Severity::Error && (spare || foreign || finding.code == LAST) {
        finding.severity = Severity::Warning;
    }
}
