//! Questions by generic netlink: pause frames (ethtool) and health reporters (devlink). Numbers from
//! include/uapi/linux/genetlink.h, ethtool_netlink.h and devlink.h.

use super::attributes::{Attributes, put, split};
use super::rdma::Request;
use super::{HealthRecord, PauseRecord};

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const ETHTOOL_MSG_PAUSE_GET: u8 = 21;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_HEADER_FLAGS: u16 = 3;
const ETHTOOL_FLAG_STATS: u32 = 1 << 2;
const ETHTOOL_A_PAUSE_HEADER: u16 = 1;
const ETHTOOL_A_PAUSE_STATS: u16 = 5;
const ETHTOOL_A_PAUSE_STAT_TX_FRAMES: u16 = 2;
const ETHTOOL_A_PAUSE_STAT_RX_FRAMES: u16 = 3;

const DEVLINK_CMD_HEALTH_REPORTER_GET: u8 = 52;
const DEVLINK_ATTR_BUS_NAME: u16 = 1;
const DEVLINK_ATTR_DEV_NAME: u16 = 2;
const DEVLINK_ATTR_HEALTH_REPORTER: u16 = 114;
const DEVLINK_ATTR_HEALTH_REPORTER_NAME: u16 = 115;
const DEVLINK_ATTR_HEALTH_REPORTER_STATE: u16 = 116;
const DEVLINK_ATTR_HEALTH_REPORTER_ERR_COUNT: u16 = 117;
const DEVLINK_ATTR_HEALTH_REPORTER_RECOVER_COUNT: u16 = 118;

/// struct genlmsghdr.
const HEADER_LEN: usize = 4;
const NLA_F_NESTED: u16 = 1 << 15;

/// Asks for the number of a family, as `ethtool`.
pub(crate) fn family_request(name: &str) -> Request {
    let mut payload = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
    put(&mut payload, CTRL_ATTR_FAMILY_NAME, format!("{name}\0").as_bytes());
    (GENL_ID_CTRL, false, payload)
}

pub(crate) fn parse_family(payload: &[u8]) -> Option<u16> {
    Attributes::of(payload.get(HEADER_LEN..)?)?.bytes(CTRL_ATTR_FAMILY_ID).map(u16::from_ne_bytes)
}

/// Asks for the pause frames of all interfaces.
pub(crate) fn pauses_request(family: u16) -> Request {
    let mut header = Vec::new();
    put(&mut header, ETHTOOL_A_HEADER_FLAGS, &ETHTOOL_FLAG_STATS.to_ne_bytes());
    let mut payload = vec![ETHTOOL_MSG_PAUSE_GET, 1, 0, 0];
    put(&mut payload, ETHTOOL_A_PAUSE_HEADER | NLA_F_NESTED, &header);
    (family, true, payload)
}

pub(crate) fn parse_pause(payload: &[u8]) -> Option<PauseRecord> {
    let attributes = Attributes::of(payload.get(HEADER_LEN..)?)?;
    let header = Attributes::of(attributes.raw(ETHTOOL_A_PAUSE_HEADER)?)?;
    let stats = Attributes::of(attributes.raw(ETHTOOL_A_PAUSE_STATS).unwrap_or_default())?;
    let count = |kind| stats.bytes(kind).map(u64::from_ne_bytes);
    Some(PauseRecord {
        netdev: header.text(ETHTOOL_A_HEADER_DEV_NAME)?,
        sent: count(ETHTOOL_A_PAUSE_STAT_TX_FRAMES),
        received: count(ETHTOOL_A_PAUSE_STAT_RX_FRAMES),
    })
}

/// Asks for the health reporters of all devices.
pub(crate) fn health_request(family: u16) -> Request {
    (family, true, vec![DEVLINK_CMD_HEALTH_REPORTER_GET, 1, 0, 0])
}

pub(crate) fn parse_health(payload: &[u8]) -> Option<HealthRecord> {
    let attributes = Attributes::of(payload.get(HEADER_LEN..)?)?;
    let reporter: std::collections::HashMap<u16, &[u8]> =
        split(attributes.raw(DEVLINK_ATTR_HEALTH_REPORTER)?)?.into_iter().collect();
    let name = reporter.get(&DEVLINK_ATTR_HEALTH_REPORTER_NAME)?;
    let count =
        |kind| reporter.get(&kind).and_then(|bytes| bytes.first_chunk()).map(|b| u64::from_ne_bytes(*b));
    Some(HealthRecord {
        bus: attributes.text(DEVLINK_ATTR_BUS_NAME)?,
        device: attributes.text(DEVLINK_ATTR_DEV_NAME)?,
        reporter: String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(name)).into_owned(),
        // enum devlink_health_reporter_state: 0 healthy, 1 error.
        healthy: reporter
            .get(&DEVLINK_ATTR_HEALTH_REPORTER_STATE)
            .is_none_or(|state| state.first() == Some(&0)),
        errors: count(DEVLINK_ATTR_HEALTH_REPORTER_ERR_COUNT),
        recoveries: count(DEVLINK_ATTR_HEALTH_REPORTER_RECOVER_COUNT),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nest(kind: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        for (kind, value) in attributes {
            put(&mut inner, *kind, value);
        }
        put(&mut outer, kind | NLA_F_NESTED, &inner);
        outer
    }

    fn pause() -> Vec<u8> {
        let mut reply = vec![0, 1, 0, 0];
        reply.extend(nest(1, &[(1, &7u32.to_ne_bytes()), (2, b"ens1np0\0")]));
        reply.extend(nest(5, &[(2, &3u64.to_ne_bytes()), (3, &4711u64.to_ne_bytes())]));
        reply
    }

    fn health() -> Vec<u8> {
        let mut reply = vec![52, 1, 0, 0];
        put(&mut reply, 1, b"pci\0");
        put(&mut reply, 2, b"0000:4d:00.0\0");
        let fields: [(u16, &[u8]); 4] =
            [(115, b"fw_fatal\0"), (116, &[1]), (117, &2u64.to_ne_bytes()), (118, &1u64.to_ne_bytes())];
        reply.extend(nest(114, &fields));
        reply
    }

    #[test]
    fn pause_frames_are_decoded() {
        let wanted = PauseRecord { netdev: "ens1np0".into(), sent: Some(3), received: Some(4711) };
        assert_eq!(parse_pause(&pause()), Some(wanted));
    }

    #[test]
    fn a_health_reporter_is_decoded() {
        let wanted = HealthRecord {
            bus: "pci".into(),
            device: "0000:4d:00.0".into(),
            reporter: "fw_fatal".into(),
            healthy: false,
            errors: Some(2),
            recoveries: Some(1),
        };
        assert_eq!(parse_health(&health()), Some(wanted));
    }

    #[test]
    fn replies_cut_anywhere_do_not_panic() {
        for (whole, parse) in
            [(pause(), (|b| drop(parse_pause(b))) as fn(&[u8])), (health(), |b| drop(parse_health(b)))]
        {
            (0..whole.len()).for_each(|end| parse(&whole[..end]));
        }
    }
}
