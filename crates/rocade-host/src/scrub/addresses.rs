//! Replacements for hardware addresses, GUIDs, GIDs and IP addresses, as numbers. Keeps what rules read in them:
//! the vendor's bytes, the kind and the subnet of an address, that equal is equal, and that an address made of a
//! MAC is still made of its replacement. Remembers what it replaced.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::key::Key;

/// Length of a hardware address on IPoIB: flags and queue pair, then the GID.
pub(super) const IPOIB: usize = 20;

/// Bits that every replacement keeps at the end of an IPv4 address: whether it is its subnet's own, its broadcast
/// or a usual gateway. And of an IPv6 prefix: the number of the subnet.
const V4_TAIL: u32 = 8;
const V6_TAIL: u32 = 16;

#[derive(Debug)]
pub(super) struct Addresses {
    key: Key,
    /// Original → replacement, of all that were asked for and that changed.
    seen: RefCell<HashMap<Vec<u8>, Vec<u8>>>,
    /// The part of addresses that many share.
    prefixes: RefCell<HashMap<(String, u64), u64>>,
}

impl Addresses {
    pub(super) fn new(key: &Key) -> Self {
        Addresses { key: key.clone(), seen: RefCell::default(), prefixes: RefCell::default() }
    }

    /// Originals with their replacements, both as the bytes that go over the wire: 4 of IPv4, 6 of a MAC, 8 of a
    /// GUID, 16 of a GID or IPv6 address.
    pub(super) fn seen(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.seen.borrow().iter().map(|(from, to)| (from.clone(), to.clone())).collect()
    }

    /// Zero, broadcast and group addresses are nobody's.
    pub(super) fn mac(&self, mac: [u8; 6]) -> [u8; 6] {
        if mac == [0; 6] || mac[0] & 1 == 1 {
            return mac;
        }
        let [a, b, c, d, e, f] = mac;
        let [d, e, f] = self.serial([a, b, c], [d, e, f]);
        self.keep(mac, [a, b, c, d, e, f])
    }

    /// A GUID is mostly a MAC with two bytes in its middle (`fffe`, or `0300` on ConnectX) or at its end (iWARP).
    pub(super) fn guid(&self, guid: [u8; 8]) -> [u8; 8] {
        if guid == [0; 8] || guid == [0xff; 8] {
            return guid;
        }
        let [a, b, c, d, e, f, g, h] = guid;
        let replacement = match (d, e, g, h) {
            (0xff, 0xfe, ..) | (3, 0, ..) => {
                let [f, g, h] = self.serial([a, b, c], [f, g, h]);
                [a, b, c, d, e, f, g, h]
            }
            (.., 0, 0) => {
                let [d, e, f] = self.serial([a, b, c], [d, e, f]);
                [a, b, c, d, e, f, 0, 0]
            }
            _ => {
                let low = [d, e, f, g, h].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                let [.., d, e, f, g, h] = self.bits("guid", [a, b, c], low, 40).to_be_bytes();
                [a, b, c, d, e, f, g, h]
            }
        };
        self.keep(guid, replacement)
    }

    /// An InfiniBand or RoCE GID, or an iWARP one, which is a MAC and zeros.
    pub(super) fn gid(&self, gid: [u8; 16]) -> [u8; 16] {
        let [a, b, c, d, e, f, rest @ ..] = gid;
        let prefix_only = a == 0xfe || a & 0xfc == 0xfc;
        if rest != [0; 10] || prefix_only {
            return self.v6(gid.into()).octets();
        }
        let mut replacement = [0; 16];
        replacement[..6].copy_from_slice(&self.mac([a, b, c, d, e, f]));
        self.keep(gid, replacement)
    }

    /// The hardware address of an IPoIB interface.
    pub(super) fn ipoib(&self, address: [u8; IPOIB]) -> [u8; IPOIB] {
        let mut gid = [0; 16];
        gid.copy_from_slice(&address[4..]);
        let mut replacement = address;
        replacement[4..].copy_from_slice(&self.gid(gid));
        replacement
    }

    pub(super) fn ip(&self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) => IpAddr::V4(self.v4(v4)),
            IpAddr::V6(v6) => IpAddr::V6(self.v6(v6)),
        }
    }

    pub(super) fn v4(&self, address: Ipv4Addr) -> Ipv4Addr {
        let Some(kind) = v4_kind(address) else { return address };
        let mut bits = address.to_bits();
        // A replacement that falls into another kind (172.5 into 172.16) is replaced again: within one kind, all
        // stay apart.
        loop {
            bits = self.prefix("v4", u64::from(bits), 32, kind, V4_TAIL) as u32;
            let replacement = Ipv4Addr::from_bits(bits);
            if v4_kind(replacement) == Some(kind) {
                return self.keep(address.octets(), replacement.octets()).into();
            }
        }
    }

    pub(super) fn v6(&self, address: Ipv6Addr) -> Ipv6Addr {
        if let Some(v4) = address.to_ipv4_mapped() {
            return self.v4(v4).to_ipv6_mapped();
        }
        if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
            return address;
        }
        let octets = address.octets();
        let mut low = [0; 8];
        low.copy_from_slice(&octets[8..]);
        let high = (address.to_bits() >> 64) as u64;
        let high = match v6_kind(octets) {
            Some(kind) => self.prefix("v6", high, 64, kind, V6_TAIL),
            None => high,
        };
        let low = match low {
            // The number of a host in its subnet, which is replaced.
            [0, 0, 0, 0, 0, 0, ..] if v6_kind(octets).is_some() => low,
            _ => self.guid(low),
        };
        let replacement = u128::from(high) << 64 | u128::from(u64::from_be_bytes(low));
        self.keep(octets, replacement.to_be_bytes()).into()
    }

    /// The maker's own three bytes of a MAC or GUID: bit 1 of the first byte differs between the two.
    fn serial(&self, [a, b, c]: [u8; 3], serial: [u8; 3]) -> [u8; 3] {
        let number = serial.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let [.., d, e, f] = self.bits("serial", [a & !2, b, c], number, 24).to_be_bytes();
        [d, e, f]
    }

    fn bits(&self, kind: &str, vendor: [u8; 3], value: u64, width: u32) -> u64 {
        let [a, b, c] = vendor;
        self.prefix(&format!("{kind} {a:02x}{b:02x}{c:02x}"), value, width, 0, 0)
    }

    /// Replaces all but the first `head` and last `tail` of `width` bits, so that two values which share their
    /// first bits do so afterwards, as far as before (Xu et al., prefix-preserving anonymisation, 2002). The first
    /// replaced bit always changes: nothing is replaced by itself.
    fn prefix(&self, label: &str, value: u64, width: u32, head: u32, tail: u32) -> u64 {
        let shared = value >> tail;
        let cached = self.prefixes.borrow().get(&(format!("{label}/{head}"), shared)).copied();
        let flips = cached.unwrap_or_else(|| {
            let flips = (head..width - tail).fold(0, |flips, at| {
                let before = value.checked_shr(width - at).unwrap_or(0);
                let label = format!("{label}/{at}");
                let flip = at == head || self.key.hash(&label, &before.to_be_bytes()) & 1 == 1;
                flips << 1 | u64::from(flip)
            });
            self.prefixes.borrow_mut().insert((format!("{label}/{head}"), shared), flips);
            flips
        });
        value ^ flips << tail
    }

    fn keep<const N: usize>(&self, original: [u8; N], replacement: [u8; N]) -> [u8; N] {
        if original != replacement {
            self.seen.borrow_mut().insert(original.to_vec(), replacement.to_vec());
        }
        replacement
    }
}

/// How many first bits of an IPv4 address say its kind (RFC 6890); None where the address is nobody's own.
fn v4_kind(address: Ipv4Addr) -> Option<u32> {
    match address.octets() {
        [0 | 127 | 224..=255, ..] => None,
        [172, 16..=31, ..] => Some(12),
        [192, 168, ..] | [169, 254, ..] => Some(16),
        [100, 64..=127, ..] => Some(10),
        _ => Some(8),
    }
}

/// The same of an IPv6 address's upper half; None where it says nothing but the kind: link-local, or none.
fn v6_kind(octets: [u8; 16]) -> Option<u32> {
    match octets {
        [0xfe, 0x80..=0xbf, ..] | [0, 0, 0, 0, 0, 0, 0, 0, ..] => None,
        [0xfe, 0xc0..=0xff, ..] => Some(10),
        [0xfc | 0xfd, ..] => Some(8),
        _ => Some(16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> Addresses {
        Addresses::new(&Key::from_secret(b"a key"))
    }

    #[test]
    fn two_addresses_share_as_many_first_bits_as_before() {
        let map = addresses();
        let shared = |a: Ipv4Addr, b: Ipv4Addr| (a.to_bits() ^ b.to_bits()).leading_zeros();
        let base = Ipv4Addr::new(10, 8, 10, 4);
        for other in [[10, 8, 10, 5], [10, 8, 11, 4], [10, 8, 74, 4], [10, 200, 0, 1], [10, 8, 20, 4]] {
            let other = Ipv4Addr::from(other);
            assert_eq!(shared(map.v4(base), map.v4(other)), shared(base, other), "{other}");
            assert_ne!(map.v4(other), other);
        }
    }

    #[test]
    fn an_address_stays_in_its_kind() {
        let map = addresses();
        for kept in ["127.0.0.1", "0.0.0.0", "255.255.255.0", "224.0.0.1", "::1", "::", "ff02::1"] {
            let address: IpAddr = kept.parse().unwrap();
            assert_eq!(map.ip(address), address);
        }
        for (from, first) in [
            ("192.168.7.9", "192.168."),
            ("169.254.1.1", "169.254."),
            ("10.1.2.3", "10."),
            ("fd00:9::1", "fd"),
            ("fe80::5054:ff:fe12:3456", "fe80::5054:ff:fe"),
            ("::ffff:10.1.2.3", "::ffff:10."),
        ] {
            let to = map.ip(from.parse().unwrap()).to_string();
            assert!(to.starts_with(first) && to != from, "{from} became {to}");
        }
        for last in 0..=255 {
            let to = map.v4(Ipv4Addr::new(172, last, 1, 1));
            assert_eq!(v4_kind(to), v4_kind(Ipv4Addr::new(172, last, 1, 1)), "{to}");
        }
    }

    #[test]
    fn what_is_made_of_a_mac_is_made_of_its_replacement() {
        let map = addresses();
        let mac = [0xa0, 0x88, 0xc2, 0xf2, 0x7c, 0xd6];
        let [a, b, c, d, e, f] = map.mac(mac);
        assert_eq!([a, b, c], [0xa0, 0x88, 0xc2]);
        assert_ne!([d, e, f], [0xf2, 0x7c, 0xd6]);
        let connectx = map.guid([0xa0, 0x88, 0xc2, 3, 0, 0xf2, 0x7c, 0xd6]);
        assert_eq!(connectx, [a, b, c, 3, 0, d, e, f]);
        let eui = map.v6("fe80::a288:c2ff:fef2:7cd6".parse().unwrap()).octets();
        assert_eq!(eui[8..], [a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
        let mut iwarp = [0; 16];
        iwarp[..6].copy_from_slice(&mac);
        assert_eq!(map.gid(iwarp)[..6], [a, b, c, d, e, f]);
    }
}
