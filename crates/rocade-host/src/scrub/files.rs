//! Files whose content must be understood to be scrubbed: tables in hexadecimal, command lines, environments,
//! descriptions. All others are scrubbed by the form of what they hold.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::Scrubber;
use super::text::Kind;
use super::words::{replace_hex, replace_name, replace_word};

/// Parameters of the kernel whose values name disks, hosts or people.
const TELLING_PARAMETERS: &[&str] = &[
    "cryptdevice",
    "ds",
    "hostname",
    "initrd",
    "inst.ks",
    "inst.repo",
    "ip",
    "ks",
    "luks",
    "netroot",
    "nfsroot",
    "ostree",
    "rd.iscsi",
    "rd.luks",
    "rd.lvm",
    "rd.md",
    "real_root",
    "resume",
    "root",
    "rootflags",
    "url",
    "systemd.hostname",
    "systemd.machine_id",
];
/// Beginnings of environment variables that say something about RDMA and nothing about people.
const KEPT_VARIABLES: &[&str] = &[
    "PCIDEVICE_",
    "ROCADE_",
    "NCCL_",
    "UCX_",
    "PATH",
    "NVIDIA_",
    "CUDA_",
    "KUBERNETES_",
    "MLX",
    "IB",
    "RDMAV_",
];
/// Variables that hold the name of a host, a Pod or a namespace.
pub(super) const NAMING_VARIABLES: &[&str] =
    &["HOSTNAME", "NODE_NAME", "NODENAME", "POD_NAME", "POD_NAMESPACE", "HOST"];
/// Parts of annotation keys whose values are kept.
const KEPT_ANNOTATIONS: &[&str] =
    &["k8s.v1.cni.cncf.io/", "k8s.ovn.org/", "rdma", "sriov", "nvidia", "mellanox"];
/// What vendors write into node descriptions.
const VENDORS_WORDS: &[&str] =
    &["stack", "driver", "technologies", "adapter", "connectx", "rxe", "siw", "hns", "hfi1"];

impl Scrubber {
    /// The content of the file at a path.
    pub(super) fn replace_content(&self, path: &Path, content: &[u8]) -> Vec<u8> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match name {
            "vpd" => return self.replace_vpd(content),
            "config" => return self.replace_config(content),
            _ => {}
        }
        let Ok(text) = str::from_utf8(content) else { return self.replace_bytes_within(content) };
        let in_folder = |folder: &str| path.parent().is_some_and(|dir| dir.ends_with(folder));
        match name {
            "route" if in_folder("net") => by_line(text, |line| self.replace_route(line)),
            "if_inet6" | "ipv6_route" => by_word(text, |word| self.replace_bare_v6(word)),
            "cmdline" => by_word(text, |word| self.replace_parameter(word)),
            "version" if in_folder("proc") => by_word(text, |word| self.replace_builder(word)),
            "environ" => text.split('\0').map(|v| self.replace_variable(v)).collect::<Vec<_>>().join("\0"),
            "annotations" | "labels" if in_folder("podinfo") => {
                by_line(text, |line| self.replace_annotation(line))
            }
            "node_desc" => by_line(text, |line| self.replace_description(line)),
            "hostname" | "domainname" => by_line(text, |line| replace_name(&self.key, line)),
            "ifalias" | "subsysnqn" | "hostnqn" => by_line(text, |line| self.replace_free_text(line)),
            "phys_switch_id" | "phys_port_id" => by_line(text, |line| self.replace_id(line)),
            _ if is_serial(name) => by_line(text, |line| self.replace_serial(line)),
            _ => self.replace(text, kind_of(name)),
        }
        .into_bytes()
    }

    /// A row of /proc/net/route: addresses as hexadecimal numbers in the machine's byte order.
    fn replace_route(&self, line: &str) -> String {
        let columns: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| {
            let digits = columns.get(at).filter(|digits| digits.len() == 8)?;
            u32::from_str_radix(digits, 16).ok()
        };
        let (Some(target), Some(gateway), Some(mask)) = (number(1), number(2), number(7)) else {
            return self.replace(line, Kind::Plain);
        };
        let replace = |raw: u32| {
            let replacement = self.addresses.v4(Ipv4Addr::from(raw.to_ne_bytes()));
            u32::from_ne_bytes(replacement.octets())
        };
        let subnet = if target & mask == target { replace(target) & mask } else { replace(target) };
        let cell = |(at, cell): (usize, &&str)| match at {
            0 => self.replace_name_of(cell),
            1 => format!("{subnet:08X}"),
            2 => format!("{:08X}", replace(gateway)),
            _ => (*cell).to_owned(),
        };
        columns.iter().enumerate().map(cell).collect::<Vec<_>>().join("\t")
    }

    fn replace_bare_v6(&self, word: &str) -> String {
        let plain = word.len() == 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
        match u128::from_str_radix(word, 16).ok().filter(|_| plain) {
            Some(bits) => format!("{:032x}", self.addresses.v6(Ipv6Addr::from_bits(bits)).to_bits()),
            None => self.replace(word, Kind::Plain),
        }
    }

    fn replace_parameter(&self, parameter: &str) -> String {
        let Some((name, value)) = parameter.split_once('=') else {
            return self.replace(parameter, Kind::Plain);
        };
        let telling =
            TELLING_PARAMETERS.iter().any(|known| name == *known || name.starts_with(&format!("{known}.")));
        let kind = if telling { Kind::Free } else { Kind::Plain };
        format!("{name}={}", self.replace(value, kind))
    }

    /// `(builder@host)`.
    fn replace_builder(&self, word: &str) -> String {
        match word.split_once('@') {
            Some((user, host)) => {
                format!("{}@{}", replace_word(&self.key, user), replace_name(&self.key, host))
            }
            None => self.replace(word, Kind::Version),
        }
    }

    fn replace_variable(&self, variable: &str) -> String {
        let Some((name, value)) = variable.split_once('=') else {
            return self.replace(variable, Kind::Plain);
        };
        let value = match name {
            _ if NAMING_VARIABLES.iter().any(|naming| name.ends_with(naming)) => {
                replace_name(&self.key, value)
            }
            _ if KEPT_VARIABLES.iter().any(|kept| name.starts_with(kept)) => self.replace(value, Kind::Plain),
            _ => self.replace_free_text(value),
        };
        format!("{name}={value}")
    }

    /// `key="value"`, as the downward API writes it.
    fn replace_annotation(&self, line: &str) -> String {
        match line.split_once('=') {
            Some((key, value)) if !KEPT_ANNOTATIONS.iter().any(|kept| key.contains(kept)) => {
                format!("{key}={}", self.replace_free_text(value))
            }
            _ => self.replace(line, Kind::Plain),
        }
    }

    /// `gpu17 mlx5_0`, `gpu17 HCA-1`, or a vendor's own words.
    fn replace_description(&self, line: &str) -> String {
        match parse_described_host(line) {
            Some(host) => line.replacen(host, &replace_name(&self.key, host), 1),
            None => self.replace(line, Kind::Version),
        }
    }

    fn replace_free_text(&self, text: &str) -> String {
        self.replace(text, Kind::Free)
    }

    /// An identifier in hexadecimal: with a known address in it, or one of its own.
    fn replace_id(&self, id: &str) -> String {
        match self.replace_hex(id) {
            same if same == id => replace_hex(&self.key, id),
            replaced => replaced,
        }
    }
}

/// The name of a host at the beginning of a node description.
pub(super) fn parse_described_host(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let (host, device) = (words.next()?, words.next());
    let is_device = |word: &str| {
        word.starts_with("HCA-") || word.ends_with(|c: char| c.is_ascii_digit()) && word.contains('_')
    };
    let lower = line.to_lowercase();
    match (device, words.next()) {
        (Some(device), None) => is_device(device).then_some(host),
        (None, _) => {
            (!is_device(host) && !VENDORS_WORDS.iter().any(|word| lower.starts_with(word))).then_some(host)
        }
        _ => (!VENDORS_WORDS.iter().any(|word| lower.contains(word))).then_some(host),
    }
}

/// Files that hold one serial number.
pub(super) fn is_serial(name: &str) -> bool {
    matches!(
        name,
        "serial" | "serial_number" | "unique_id" | "uuid" | "hostid" | "machine-id" | "product_uuid"
    ) || name.ends_with("_serial")
}

/// What a file or field of that name may hold.
pub(super) fn kind_of(name: &str) -> Kind {
    let is_version =
        name.contains("version") || matches!(name, "fw_ver" | "fw" | "hw_rev" | "board_id" | "kernel");
    if is_version { Kind::Version } else { Kind::Plain }
}

fn by_line(text: &str, replace: impl Fn(&str) -> String) -> String {
    text.split('\n').map(replace).collect::<Vec<_>>().join("\n")
}

fn by_word(text: &str, replace: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end_matches(char::is_whitespace);
        out.push_str(&replace(word));
        out.push_str(&piece[word.len()..]);
    }
    out
}
