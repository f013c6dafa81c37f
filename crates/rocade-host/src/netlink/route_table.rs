//! Routes and routing rules of route netlink. Numbers from include/uapi/linux/rtnetlink.h and fib_rules.h; decoded
//! here since only a few attributes count, and new ones must not make a reply unreadable.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::attributes::Attributes;
use super::rdma::Request;
use super::{RouteRecord, RuleRecord};

const RTM_GETROUTE: u16 = 26;
const RTM_GETRULE: u16 = 34;
/// struct rtmsg and struct fib_rule_hdr.
const HEADER_LEN: usize = 12;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
/// struct rtnexthop.
const NEXTHOP_LEN: usize = 8;
/// Learnt by redirects and the like, not configured.
const RTM_F_CLONED: u32 = 0x200;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FRA_OIFNAME: u16 = 17;

/// Asks for the routes of all tables.
pub(crate) fn routes_request() -> Request {
    (RTM_GETROUTE, true, vec![0; HEADER_LEN])
}

/// Asks for the rules that choose among them.
pub(crate) fn rules_request() -> Request {
    (RTM_GETRULE, true, vec![0; HEADER_LEN])
}

/// The payload of a NEWROUTE message, one record a next hop; none for other families and for cloned routes.
pub(crate) fn parse_route(payload: &[u8]) -> Option<Vec<RouteRecord>> {
    let (header, attributes) = payload.split_at_checked(HEADER_LEN)?;
    let flags = u32::from_ne_bytes(*header.last_chunk()?);
    let Some(any) = unspecified(header[0]).filter(|_| flags & RTM_F_CLONED == 0) else {
        return Some(Vec::new());
    };
    let attributes = Attributes::of(attributes)?;
    let route = RouteRecord {
        table: attributes.word(RTA_TABLE).unwrap_or(u32::from(header[4])),
        kind: kind(header[7]),
        destination: (address(&attributes, RTA_DST).unwrap_or(any), header[1]),
        gateway: address(&attributes, RTA_GATEWAY),
        interface: attributes.word(RTA_OIF),
        metric: attributes.word(RTA_PRIORITY),
        source: address(&attributes, RTA_PREFSRC),
    };
    match attributes.raw(RTA_MULTIPATH) {
        Some(hops) => parse_hops(hops, &route),
        None => Some(vec![route]),
    }
}

fn parse_hops(mut hops: &[u8], route: &RouteRecord) -> Option<Vec<RouteRecord>> {
    let mut routes = Vec::new();
    while !hops.is_empty() {
        let length = usize::from(u16::from_ne_bytes(*hops.first_chunk()?));
        let hop = hops.get(..length).filter(|_| length >= NEXTHOP_LEN)?;
        let interface = u32::from_ne_bytes(*hop.get(4..8)?.first_chunk()?);
        let gateway = address(&Attributes::of(&hop[NEXTHOP_LEN..])?, RTA_GATEWAY);
        routes.push(RouteRecord { interface: Some(interface), gateway, ..route.clone() });
        hops = hops.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(routes)
}

/// The payload of a NEWRULE message; none for other families.
pub(crate) fn parse_rule(payload: &[u8]) -> Option<Vec<RuleRecord>> {
    let (header, attributes) = payload.split_at_checked(HEADER_LEN)?;
    if unspecified(header[0]).is_none() {
        return Some(Vec::new());
    }
    let attributes: Attributes<'_> = Attributes::of(attributes)?;
    let prefix = |kind, length| address(&attributes, kind).map(|address| (address, length));
    Some(vec![RuleRecord {
        ipv6: header[0] == AF_INET6,
        priority: attributes.word(FRA_PRIORITY).unwrap_or(0),
        source: prefix(FRA_SRC, header[2]),
        destination: prefix(FRA_DST, header[1]),
        input: attributes.text(FRA_IIFNAME),
        output: attributes.text(FRA_OIFNAME),
        table: attributes.word(FRA_TABLE).unwrap_or(u32::from(header[4])),
    }])
}

fn unspecified(family: u8) -> Option<IpAddr> {
    match family {
        AF_INET => Some(Ipv4Addr::UNSPECIFIED.into()),
        AF_INET6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    }
}

fn address(attributes: &Attributes<'_>, kind: u16) -> Option<IpAddr> {
    let four = attributes.bytes::<4>(kind).map(IpAddr::from);
    four.or_else(|| attributes.bytes::<16>(kind).map(IpAddr::from))
}

/// RTN_ numbers in iproute2's words.
fn kind(number: u8) -> String {
    let words = [
        "none",
        "unicast",
        "local",
        "broadcast",
        "anycast",
        "multicast",
        "blackhole",
        "unreachable",
        "prohibit",
        "throw",
        "nat",
    ];
    words.get(usize::from(number)).map_or_else(|| number.to_string(), |word| (*word).to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::attributes::attribute;
    use super::*;

    fn message(header: [u8; 8], attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut payload = Vec::from(header);
        payload.extend([0; 4]);
        payload.extend(attributes.concat());
        payload
    }

    #[test]
    fn a_default_route_is_decoded_with_its_metric() {
        let attributes =
            [attribute(4, &3u32.to_ne_bytes()), attribute(5, &[10, 0, 0, 1]), attribute(6, &[100, 0, 0, 0])];
        let routes = parse_route(&message([2, 0, 0, 0, 254, 16, 0, 1], &attributes)).unwrap();
        let text = serde_json::to_string(&routes).unwrap();
        assert_eq!(
            text,
            r#"[{"table":254,"kind":"unicast","destination":["0.0.0.0",0],"gateway":"10.0.0.1","interface":3,"metric":100}]"#
        );
    }

    #[test]
    fn a_route_over_two_interfaces_becomes_two() {
        let hop = |interface: u32| {
            let gateway = attribute(5, &[10, 0, interface as u8, 1]);
            let mut hop = Vec::from((8 + gateway.len() as u16).to_ne_bytes());
            hop.extend([0, 0]);
            hop.extend(interface.to_ne_bytes());
            hop.extend(gateway);
            hop
        };
        let hops = attribute(9, &[hop(2), hop(7)].concat());
        let routes =
            parse_route(&message([2, 8, 0, 0, 254, 16, 0, 1], &[attribute(1, &[10, 0, 0, 0]), hops]))
                .unwrap();
        let seen: Vec<_> = routes.iter().map(|r| (r.interface, r.gateway.unwrap().to_string())).collect();
        assert_eq!(seen, [(Some(2), "10.0.2.1".to_owned()), (Some(7), "10.0.7.1".to_owned())]);
    }

    #[test]
    fn a_source_rule_names_its_table() {
        let attributes = [
            attribute(2, &[10, 50, 0, 11]),
            attribute(6, &32000u32.to_ne_bytes()),
            attribute(15, &301u32.to_ne_bytes()),
        ];
        let rules = parse_rule(&message([2, 0, 32, 0, 0, 0, 0, 1], &attributes)).unwrap();
        let source = Some(("10.50.0.11".parse().unwrap(), 32));
        assert_eq!((rules[0].source, rules[0].priority, rules[0].table), (source, 32000, 301));
    }

    #[test]
    fn messages_cut_anywhere_do_not_panic() {
        let hops = attribute(9, &[12, 0, 0, 0, 2, 0, 0, 0, 8, 0, 5, 0]);
        let whole = message([2, 8, 0, 0, 254, 16, 0, 1], &[attribute(1, &[10, 0, 0, 0]), hops]);
        for end in 0..whole.len() {
            let _ = (parse_route(&whole[..end]), parse_rule(&whole[..end]));
        }
    }
}
