//! Data centre bridging by route netlink (RTM_GETDCB). Numbers and structs from include/uapi/linux/dcbnl.h.

use super::DcbRecord;
use super::attributes::{Attributes, split};
use super::rdma::Request;

const RTM_GETDCB: u16 = 78;
const DCB_CMD_IEEE_GET: u8 = 21;

const DCB_ATTR_IFNAME: u16 = 1;
const DCB_ATTR_IEEE: u16 = 13;
const DCB_ATTR_DCBX: u16 = 14;
const DCB_ATTR_IEEE_ETS: u16 = 1;
const DCB_ATTR_IEEE_PFC: u16 = 2;
const DCB_ATTR_IEEE_APP_TABLE: u16 = 3;
/// struct dcbmsg.
const HEADER_LEN: usize = 4;

/// Asks for the IEEE settings of one interface.
pub(crate) fn dcb_request(netdev: &str) -> Request {
    let mut payload = vec![0, DCB_CMD_IEEE_GET, 0, 0];
    payload.extend((netdev.len() as u16 + 5).to_ne_bytes());
    payload.extend(DCB_ATTR_IFNAME.to_ne_bytes());
    payload.extend(netdev.bytes());
    payload.push(0);
    payload.resize(payload.len().next_multiple_of(4), 0);
    (RTM_GETDCB, false, payload)
}

/// The payload of a reply.
pub(crate) fn parse_dcb(payload: &[u8]) -> Option<DcbRecord> {
    let attributes = Attributes::of(payload.get(HEADER_LEN..)?)?;
    let ieee = Attributes::of(attributes.raw(DCB_ATTR_IEEE).unwrap_or_default())?;
    // struct ieee_pfc: how many priorities can have it, which have it.
    let pfc = ieee.raw(DCB_ATTR_IEEE_PFC);
    // struct ieee_ets: willing, ets_cap, cbs, tc_tx_bw[8], tc_rx_bw[8], tc_tsa[8], prio_tc[8].
    let ets = |at: usize| ieee.raw(DCB_ATTR_IEEE_ETS)?.get(at..at + 8).map(<[u8]>::to_vec);
    Some(DcbRecord {
        netdev: attributes.text(DCB_ATTR_IFNAME)?,
        dcbx: attributes.byte(DCB_ATTR_DCBX),
        pfc_cap: pfc.and_then(|pfc| pfc.first().copied()),
        pfc_enabled: pfc.and_then(|pfc| pfc.get(1).copied()),
        tx_bw: ets(3),
        prio_tc: ets(27),
        apps: parse_apps(ieee.raw(DCB_ATTR_IEEE_APP_TABLE).unwrap_or_default())?,
    })
}

/// Rows of struct dcb_app: selector, priority, protocol.
fn parse_apps(table: &[u8]) -> Option<Vec<(u8, u16, u8)>> {
    let row = |(_, app): (u16, &[u8])| match app {
        [selector, priority, protocol @ ..] => {
            Some((*selector, u16::from_ne_bytes(*protocol.first_chunk()?), *priority))
        }
        _ => None,
    };
    split(table)?.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::attributes::attribute;
    use super::*;

    fn reply() -> Vec<u8> {
        let mut ets = vec![0, 8, 0];
        ets.extend([10, 20, 70, 0, 0, 0, 0, 0]);
        ets.extend([0; 8]);
        ets.extend([2; 8]);
        ets.extend([1, 0, 2, 3, 4, 5, 6, 7]);
        ets.resize(59, 0);
        let mut pfc = vec![8, 1 << 3];
        pfc.resize(136, 0);
        let app = attribute(1, &[5, 3, 26, 0]);
        let ieee = [attribute(1, &ets), attribute(2, &pfc), attribute(3, &app)].concat();
        let mut reply = vec![0, 21, 0, 0];
        reply.extend([attribute(1, b"ens1np0\0"), attribute(13, &ieee), attribute(14, &[13])].concat());
        reply
    }

    #[test]
    fn flow_control_classes_and_dscp_are_decoded() {
        let dcb = parse_dcb(&reply()).unwrap();
        assert_eq!((dcb.netdev.as_str(), dcb.dcbx), ("ens1np0", Some(13)));
        assert_eq!((dcb.pfc_cap, dcb.pfc_enabled), (Some(8), Some(8)));
        assert_eq!(dcb.prio_tc.as_deref(), Some(&[1, 0, 2, 3, 4, 5, 6, 7][..]));
        assert_eq!(dcb.tx_bw.unwrap()[..3], [10, 20, 70]);
        assert_eq!(dcb.apps, [(5, 26, 3)]);
    }

    #[test]
    fn replies_cut_anywhere_do_not_panic() {
        let whole = reply();
        for end in 0..whole.len() {
            let _ = parse_dcb(&whole[..end]);
        }
    }
}
