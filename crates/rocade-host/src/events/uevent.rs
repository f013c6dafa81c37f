//! Kobject uevents: a header and `KEY=value` texts, each ended by a zero byte (lib/kobject_uevent.c).

use super::Event;

/// Subsystems whose devices decide what HCAs there are and by which nodes they open. Interfaces are not among them:
/// route netlink tells more of those.
const SUBSYSTEMS: [&str; 6] =
    ["infiniband", "infiniband_verbs", "infiniband_mad", "pci", "auxiliary", "misc"];

/// The event of a message; None if it is of no concern or no uevent.
pub fn parse_uevent(message: &[u8]) -> Option<Event> {
    let mut texts = message.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let (_, path) =
        texts.next()?.split_once('@').map(|(action, path)| (action.to_owned(), path.to_owned()))?;
    let (mut action, mut subsystem, mut node) = (None, None, None);
    for text in texts {
        match text.split_once('=') {
            Some(("ACTION", value)) => action = Some(value.to_owned()),
            Some(("SUBSYSTEM", value)) => subsystem = Some(value.to_owned()),
            Some(("DEVNAME", value)) => node = Some(value.to_owned()),
            _ => {}
        }
    }
    let subsystem = subsystem.filter(|name| SUBSYSTEMS.contains(&name.as_str()))?;
    // Of the many miscellaneous devices rdma_cm alone lies below /dev/infiniband.
    if subsystem == "misc" && !node?.starts_with("infiniband/") {
        return None;
    }
    Some(Event::Device { subsystem, action: action?, path })
}
