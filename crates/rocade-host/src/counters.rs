//! Counter files of ports and devices: text to value, "not available", or a value that stands at its maximum.

use std::path::Path;

use rocade_core::host::Counter;

use crate::attributes::read_text;
use crate::root::Root;

/// How often the driver reads its hardware: a setting, not a counter.
const LIFESPAN: &str = "lifespan";

/// Widths of the classic counters, which stop at their maximum (InfiniBand Architecture Specification, vol. 1,
/// PortCounters): the most that each can hold.
const MAXIMA: &[(&str, u64)] = &[
    ("local_link_integrity_errors", 0xf),
    ("excessive_buffer_overrun_errors", 0xf),
    ("link_error_recovery", 0xff),
    ("link_downed", 0xff),
    ("port_xmit_constraint_errors", 0xff),
    ("port_rcv_constraint_errors", 0xff),
    ("symbol_error", 0xffff),
    ("port_rcv_errors", 0xffff),
    ("port_rcv_remote_physical_errors", 0xffff),
    ("port_rcv_switch_relay_errors", 0xffff),
    ("port_xmit_discards", 0xffff),
    ("VL15_dropped", 0xffff),
    ("port_xmit_wait", 0xffff_ffff),
    // Of 64 bits where the driver has the extended set, else of 32.
    ("port_xmit_data", 0xffff_ffff),
    ("port_rcv_data", 0xffff_ffff),
    ("port_xmit_packets", 0xffff_ffff),
    ("port_rcv_packets", 0xffff_ffff),
];

/// Counters in a directory of a port or a device (`counters`, `hw_counters`); none where it does not exist.
pub(crate) fn read_counters(root: &Root, dir: &Path, set: &str) -> Vec<Counter> {
    let dir = dir.join(set);
    let names = root.list(&dir).unwrap_or_default();
    let names = names.iter().filter_map(|name| name.to_str()).filter(|name| *name != LIFESPAN);
    names
        .map(|name| {
            let text = read_text(root, &dir.join(name)).map_err(|refusal| refusal.to_string());
            let (value, why) = match text {
                Ok(text) => match text.trim().parse() {
                    Ok(value) => (Some(value), None),
                    Err(_) => (None, Some(text.chars().take(40).collect())),
                },
                Err(why) => (None, Some(why)),
            };
            Counter { file: format!("{set}/{name}"), saturated: is_saturated(set, name, value), value, why }
        })
        .collect()
}

fn is_saturated(set: &str, name: &str, value: Option<u64>) -> bool {
    let most = MAXIMA.iter().find(|(known, _)| *known == name).map(|(_, most)| *most);
    set == "counters" && most.is_some() && value == most
}
