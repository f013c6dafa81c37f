//! What the words of a listed finding mean in codes. The first row whose words occur counts.

/// What stands for a listed finding.
pub(crate) enum Meaning {
    /// A finding of each code for each of the subjects.
    Found(&'static [&'static str]),
    /// A finding of each code, of whatever subject: the listed one is of the host.
    Anywhere(&'static [&'static str]),
    /// No finding of these codes for the subjects.
    NotFound(&'static [&'static str]),
    /// The rules of these codes say that they could not judge.
    Unjudged(&'static [&'static str]),
    /// The HCAs have the role storage and are not compared with the rails.
    Storage,
}
use Meaning::{Anywhere, Found, NotFound, Storage, Unjudged};

pub(crate) const MEANINGS: &[(&str, Meaning)] = &[
    // No finding, or another one than the words suggest.
    ("carry no plane", NotFound(&["RDC201"])),
    ("no degraded-link alarm", NotFound(&["RDC401"])),
    ("not part of the rail set", Storage),
    ("config space readable to 64 bytes", Unjudged(&["RDC402"])),
    // Host and kernel.
    ("memlock", Found(&["RDC106"])),
    ("governor", Found(&["RDC107"])),
    ("nvidia_peermem", Found(&["RDC120"])),
    // Ports and links.
    ("planes up", Found(&["RDC208"])),
    ("plane ", Found(&["RDC208"])),
    ("port DOWN", Found(&["RDC201"])),
    ("port Disabled", Found(&["RDC201"])),
    ("no subnet manager", Found(&["RDC202"])),
    ("/dev/infiniband/uverbs2 missing", Found(&["RDC204"])),
    ("members up", Found(&["RDC207"])),
    ("NVSwitch management", Found(&["RDC209"])),
    ("IsSMDisabled", Found(&["RDC210"])),
    ("firmware", Found(&["RDC221"])),
    // GIDs and RoCE.
    ("one subnet, no source rules", Found(&["RDC306", "RDC321"])),
    ("in one subnet", Anywhere(&["RDC321"])),
    ("MTU", Found(&["RDC220"])),
    ("all GIDs zero", Found(&["RDC301"])),
    ("PFC", Found(&["RDC310"])),
    ("ECN off", Found(&["RDC311"])),
    ("rdma_cm default mode", Found(&["RDC313"])),
    ("rp_filter", Found(&["RDC320"])),
    ("the default route", Found(&["RDC322"])),
    // PCIe.
    ("PCIe", Found(&["RDC401"])),
    ("MaxReadReq", Found(&["RDC402"])),
    ("ACS redirect", Found(&["RDC405"])),
    ("IOMMU translates", Anywhere(&["RDC405", "RDC406"])),
    // Counters.
    ("saturated", Found(&["RDC507"])),
    ("link_downed", Found(&["RDC501"])),
    ("symbol_error", Found(&["RDC502"])),
    ("receive drops", Found(&["RDC503"])),
    ("rx_drops", Found(&["RDC503"])),
    ("out_of_sequence", Found(&["RDC504"])),
    ("N/A (no PMA)", Found(&["RDC508"])),
    // Pods.
    ("granted, but no GID", Found(&["RDC601"])),
    ("is not granted", Found(&["RDC602"])),
    ("of different rails", Found(&["RDC603"])),
    ("verdict FAIL", Found(&["RDC604"])),
    ("stale grant", Found(&["RDC605"])),
    ("the same: they are", Found(&["RDC605"])),
    ("has no node in this Pod", Found(&["RDC606"])),
    ("named in network-status", Found(&["RDC607"])),
    ("isolation broken", Found(&["RDC608"])),
];
