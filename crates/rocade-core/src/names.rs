//! Newtypes for the names and numbers that a mix-up would hurt. Each parses the kernel's own text and prints it
//! back unchanged.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Text that is not of the form a name or number must have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{seen}` is not {wanted}")]
pub struct ParseNameError {
    /// The text as it was given.
    pub seen: String,
    /// The form that was wanted, with an example.
    pub wanted: &'static str,
}

fn wrong<T>(seen: &str, wanted: &'static str) -> Result<T, ParseNameError> {
    Err(ParseNameError { seen: seen.to_owned(), wanted })
}

/// The order in which people count: mlx5_2 before mlx5_10, ibp24s0 before ibp154s0.
pub fn compare_natural(a: &str, b: &str) -> Ordering {
    let key = |text: &str| {
        let parts = text.as_bytes().chunk_by(|x, y| x.is_ascii_digit() == y.is_ascii_digit());
        parts.map(|part| (part[0].is_ascii_digit().then_some(part.len()), part.to_vec())).collect::<Vec<_>>()
    };
    key(a).cmp(&key(b)).then_with(|| a.cmp(b))
}

macro_rules! text_serde {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(D::Error::custom)
            }
        }
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string" })
            }
            fn inline_schema() -> bool {
                true
            }
        }
    };
}

/// The kernel's name of an RDMA device, as `mlx5_0`: an entry of /sys/class/infiniband.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HcaName(String);

impl HcaName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HcaName {
    type Err = ParseNameError;
    /// Any file name below /sys/class/infiniband is an HCA name; a colon is not, since `HCA:PORT` uses it.
    fn from_str(s: &str) -> Result<Self, ParseNameError> {
        match s {
            "" | "." | ".." => wrong(s, "an HCA name, as mlx5_0"),
            _ if s.contains(['/', ':', '\0']) => wrong(s, "an HCA name, as mlx5_0"),
            _ => Ok(HcaName(s.to_owned())),
        }
    }
}

impl fmt::Display for HcaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

text_serde!(HcaName);

/// Number of a port on its HCA, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PortNum(pub u32);

impl fmt::Display for PortNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Index into a port's GID table, from 0. It differs between hosts, Pods and boots; the address is the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct GidIndex(pub u32);

impl fmt::Display for GidIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A 64-bit node or port identifier. Printed as sysfs does, `a088:c203:00f2:7cd6`, most significant first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

impl FromStr for Guid {
    type Err = ParseNameError;
    fn from_str(s: &str) -> Result<Self, ParseNameError> {
        match hex_groups::<4>(s) {
            Some(g) => Ok(Guid(g.iter().fold(0, |sum, part| sum << 16 | u64::from(*part)))),
            None => wrong(s, "a GUID, as a088:c203:00f2:7cd6"),
        }
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.0;
        write!(f, "{:04x}:{:04x}:{:04x}:{:04x}", v >> 48, v >> 32 & 0xffff, v >> 16 & 0xffff, v & 0xffff)
    }
}

text_serde!(Guid);

/// A 128-bit GID in network byte order. Printed as sysfs does: eight groups of four hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// All bytes zero: the text of an unset table entry.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }

    /// The IP address that a RoCE GID stands for: IPv4 for `::ffff:a.b.c.d`, otherwise IPv6; None if zero.
    /// On InfiniBand the result is only a way to print the GID.
    pub fn address(&self) -> Option<IpAddr> {
        let v6 = Ipv6Addr::from(self.0);
        (!self.is_zero()).then(|| v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4))
    }

    /// The GID that RoCE derives from an address (IPv4-mapped for IPv4).
    pub fn from_address(address: IpAddr) -> Gid {
        Gid(match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        })
    }

    /// The link-local GID that RoCE makes of an Ethernet address `52:54:00:12:34:56` (EUI-64); None for other text.
    pub fn from_mac(mac: &str) -> Option<Gid> {
        let mut parts = mac.split(':').map(|p| u8::from_str_radix(p, 16).ok());
        let mut next = || parts.next().flatten();
        let m = [next()?, next()?, next()?, next()?, next()?, next()?];
        parts.next().is_none().then_some(())?;
        Some(Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]]))
    }

    /// fe80::/64 with no interface id: what an unset entry reads as on InfiniBand.
    pub fn is_bare_prefix(&self) -> bool {
        self.0[..2] == [0xfe, 0x80] && self.0[2..] == [0; 14]
    }

    /// fe80::/10, which no router forwards and which needs a scope to be told apart.
    pub fn is_link_local(&self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
    }

    /// The IPv4 address of an IPv4-mapped GID.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self.0).to_ipv4_mapped()
    }
}

impl FromStr for Gid {
    type Err = ParseNameError;
    fn from_str(s: &str) -> Result<Self, ParseNameError> {
        let Some(groups) = hex_groups::<8>(s) else {
            return wrong(s, "a GID, as fe80:0000:0000:0000:a288:c2ff:fef2:7cd6");
        };
        let mut bytes = [0; 16];
        for (pair, group) in bytes.chunks_exact_mut(2).zip(groups) {
            pair.copy_from_slice(&group.to_be_bytes());
        }
        Ok(Gid(bytes))
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pair) in self.0.chunks_exact(2).enumerate() {
            write!(f, "{}{:02x}{:02x}", if i == 0 { "" } else { ":" }, pair[0], pair[1])?;
        }
        Ok(())
    }
}

text_serde!(Gid);

/// A partition key of InfiniBand, printed as `0xffff`: without the highest bit its member is a limited one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pkey(pub u16);

impl Pkey {
    /// Whether its members may talk to full members only.
    pub fn is_limited(self) -> bool {
        self.0 & 0x8000 == 0
    }
}

impl FromStr for Pkey {
    type Err = ParseNameError;
    fn from_str(s: &str) -> Result<Self, ParseNameError> {
        let hex = s.strip_prefix("0x").filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        match hex.and_then(|hex| u16::from_str_radix(hex, 16).ok()) {
            Some(key) => Ok(Pkey(key)),
            None => wrong(s, "a partition key, as 0xffff"),
        }
    }
}

impl fmt::Display for Pkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

text_serde!(Pkey);

/// Where a PCI function sits: `0000:4d:00.0`. The domain may be wider than four digits (VMD, VMBus).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// PCI domain (segment).
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device number, 0 to 31.
    pub device: u8,
    /// Function number, 0 to 7.
    pub function: u8,
}

impl FromStr for PciAddress {
    type Err = ParseNameError;
    fn from_str(s: &str) -> Result<Self, ParseNameError> {
        parse_pci(s).map_or_else(|| wrong(s, "a PCI address, as 0000:4d:00.0"), Ok)
    }
}

fn parse_pci(s: &str) -> Option<PciAddress> {
    let (domain, rest) = s.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let hex = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        let plain = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        plain.then(|| u32::from_str_radix(text, 16).ok()).flatten()
    };
    let (device, function) = (hex(device, 2..=2)?, hex(function, 1..=1)?);
    (device < 32 && function < 8).then_some(())?;
    Some(PciAddress {
        domain: hex(domain, 4..=8)?,
        bus: hex(bus, 2..=2)? as u8,
        device: device as u8,
        function: function as u8,
    })
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

text_serde!(PciAddress);

/// PCI vendor and device id, printed as `15b3:1021`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciId {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
}

impl FromStr for PciId {
    type Err = ParseNameError;
    fn from_str(s: &str) -> Result<Self, ParseNameError> {
        match hex_groups::<2>(s) {
            Some([vendor, device]) => Ok(PciId { vendor, device }),
            None => wrong(s, "PCI vendor and device, as 15b3:1021"),
        }
    }
}

impl fmt::Display for PciId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:04x}", self.vendor, self.device)
    }
}

text_serde!(PciId);

/// An extended resource as Pods ask for it: `rdma/hca_ens18`. Its text is shared by all that name it: each of thousands
/// of grants does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName {
    domain: Arc<str>,
    name: Arc<str>,
}

impl ResourceName {
    /// Joins a prefix (domain) and a name, held to Kubernetes' rules for extended resources
    /// (k8s.io/kubernetes pkg/apis/core/v1/helper IsExtendedResourceName).
    pub fn new(domain: &str, name: &str) -> Result<Self, ParseNameError> {
        if !is_dns_subdomain(domain) || format!("requests.{domain}").len() > 253 {
            return wrong(domain, "a resource prefix, a DNS subdomain as `rdma` or `rdma.example.org`");
        }
        // Kubernetes looks for "kubernetes.io/" anywhere, so that "mykubernetes.io" is taken for its own as well.
        if domain.ends_with("kubernetes.io") || domain.starts_with("requests.") {
            return wrong(
                domain,
                "a prefix of an extended resource: kubernetes.io and requests. are reserved",
            );
        }
        if !is_qualified_name(name) {
            return wrong(
                name,
                "a resource name: at most 63 of [A-Za-z0-9._-], letter or digit at both ends",
            );
        }
        Ok(ResourceName { domain: domain.into(), name: name.into() })
    }

    /// The part before the slash.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The part after the slash.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The variable that tells a container what it was granted: `ROCADE_GRANT_RDMA_HCA_ENS18`.
    pub fn grant_variable(&self) -> String {
        self.variable("GRANT")
    }

    /// The variable that tells a container `what` of the resource: `ROCADE_TC_RDMA_HCA_ENS18` of `TC`.
    pub fn variable(&self, what: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("ROCADE_{what}_{}", self.to_string().chars().map(plain).collect::<String>())
    }
}

impl FromStr for ResourceName {
    type Err = ParseNameError;
    fn from_str(s: &str) -> Result<Self, ParseNameError> {
        match s.split_once('/') {
            Some((domain, name)) => ResourceName::new(domain, name),
            None => wrong(s, "a resource, as rdma/hca_a"),
        }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.name)
    }
}

text_serde!(ResourceName);

fn is_dns_subdomain(s: &str) -> bool {
    !s.is_empty() && s.len() <= 253 && s.split('.').all(is_dns_label)
}

fn is_dns_label(s: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !s.is_empty() && s.bytes().all(inner) && !s.starts_with('-') && !s.ends_with('-')
}

fn is_qualified_name(s: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    s.len() <= 63 && s.bytes().all(inner) && ends(s.bytes().next()) && ends(s.bytes().last())
}

/// N groups of exactly four hexadecimal digits, parted by colons.
fn hex_groups<const N: usize>(s: &str) -> Option<[u16; N]> {
    let mut groups = [0; N];
    if s.len() != 5 * N - 1 {
        return None;
    }
    // Byte by byte: tables of GIDs are long.
    for (group, part) in groups.iter_mut().zip(s.as_bytes().chunks(5)) {
        let (digits, colon) = part.split_at_checked(4)?;
        for digit in digits {
            *group = *group << 4 | u16::try_from(char::from(*digit).to_digit(16)?).ok()?;
        }
        if !matches!(colon, b":" | b"") {
            return None;
        }
    }
    Some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_people_count() {
        let mut names = ["mlx5_10", "mlx5_bond_0", "mlx5_2", "rxe0", "mlx4_0"];
        names.sort_by(|a, b| compare_natural(a, b));
        assert_eq!(names, ["mlx4_0", "mlx5_2", "mlx5_10", "mlx5_bond_0", "rxe0"]);
    }

    #[test]
    fn a_guid_prints_as_sysfs_wrote_it() {
        let guid: Guid = "a088:c203:00f2:7cd6".parse().unwrap();
        assert_eq!(guid.0, 0xa088_c203_00f2_7cd6);
        assert_eq!(guid.to_string(), "a088:c203:00f2:7cd6");
        assert!("a088:c203:00f2".parse::<Guid>().is_err());
        assert!("a088:c203:00f2:7cd6:0000".parse::<Guid>().is_err());
        assert!("+088:c203:00f2:7cd6".parse::<Guid>().is_err());
    }

    #[test]
    fn a_gid_gives_the_address_it_stands_for() {
        let gid: Gid = "0000:0000:0000:0000:0000:ffff:0a08:0a04".parse().unwrap();
        assert_eq!(gid.address(), Some("10.8.10.4".parse().unwrap()));
        assert_eq!(Gid::from_address("10.8.10.4".parse().unwrap()), gid);
        assert_eq!(Gid([0; 16]).address(), None);
        assert!("fe80:0000:0000:0000:a288:c2ff:fef2:7cd6".parse::<Gid>().unwrap().is_link_local());
    }

    #[test]
    fn the_default_gid_follows_from_the_mac() {
        let gid = "fe80:0000:0000:0000:5054:00ff:fe12:3456".parse().unwrap();
        assert_eq!(Gid::from_mac("52:54:00:12:34:56"), Some(gid));
        for bad in ["52:54:00:12:34", "52:54:00:12:34:56:78", "", "52:54:00:12:34:5g"] {
            assert_eq!(Gid::from_mac(bad), None, "{bad}");
        }
    }

    #[test]
    fn pci_addresses_of_wide_domains_keep_their_digits() {
        for text in ["0000:4d:00.0", "0101:00:00.0", "10000:e1:1f.7"] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), text);
        }
        for text in ["4d:00.0", "0000:4d:20.0", "0000:4d:00.8", "0000:4d:00", "0000:+d:00.0"] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn resource_names_follow_kubernetes() {
        assert_eq!(
            "rdma/hca_ens18".parse::<ResourceName>().unwrap().grant_variable(),
            "ROCADE_GRANT_RDMA_HCA_ENS18"
        );
        let long = format!("rdma/{}", "a".repeat(64));
        for bad in [
            "rdma",
            "/a",
            "rdma/",
            "RDMA/a",
            "rdma/_a",
            "rdma/a-",
            "a/b/c",
            "kubernetes.io/a",
            "x.kubernetes.io/a",
            "mykubernetes.io/a",
            "requests.x/a",
            &long,
        ] {
            assert!(bad.parse::<ResourceName>().is_err(), "{bad}");
        }
    }
}
