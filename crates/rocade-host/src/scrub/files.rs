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
    "NVSHMEM_",
    "FI_VERBS_",
    "GLOO_",
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
/// Options of mounts whose values name people, secrets or places.
const TELLING_OPTIONS: &[&str] =
    &["credentials", "domain", "fsid", "mds_namespace", "name", "password", "secret", "user", "username"];
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
        let folder =
            path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        match str::from_utf8(content) {
            Ok(text) => self.replace_text(folder, name, text).into_bytes(),
            Err(_) => self.replace_bytes_within(content),
        }
    }

    /// The text of a file of that name in a folder of that name, or of a field that is read from one.
    pub(super) fn replace_text(&self, folder: &str, name: &str, text: &str) -> String {
        match (folder, name) {
            ("net", "route") => by_line(text, |line| self.replace_route(line)),
            (_, "if_inet6" | "ipv6_route") => by_word(text, |word| self.replace_bare_v6(word)),
            (_, "cmdline") => by_word(text, |word| self.replace_parameter(word)),
            ("proc", "version") => by_word(text, |word| self.replace_builder(word)),
            (_, "environ") => {
                text.split('\0').map(|v| self.replace_variable(v)).collect::<Vec<_>>().join("\0")
            }
            (_, "mountinfo") => by_line(text, |line| self.replace_mount(line)),
            ("podinfo", "annotations" | "labels") => by_line(text, |line| self.replace_annotation(line)),
            (_, "node_desc") => by_line(text, |line| self.replace_description(line)),
            (_, "hostname" | "domainname") => by_line(text, |line| replace_name(&self.key, line)),
            (_, "ifalias" | "subsysnqn" | "hostnqn") => by_line(text, |line| self.replace(line, Kind::Free)),
            (_, "phys_switch_id" | "phys_port_id" | "switch_id") => {
                by_line(text, |line| self.replace_id(line))
            }
            _ if is_serial(name) => by_line(text, |line| self.replace_serial(line)),
            _ => self.replace(text, kind_of(name)),
        }
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
            _ => self.replace(value, Kind::Free),
        };
        format!("{name}={value}")
    }

    /// `key="value"`, as the downward API writes it.
    fn replace_annotation(&self, line: &str) -> String {
        let Some((key, value)) = line.split_once('=') else { return self.replace(line, Kind::Plain) };
        match serde_json::from_str::<String>(value) {
            Ok(value) => format!("{key}={}", serde_json::Value::from(self.replace_annotated(key, &value))),
            Err(_) => format!("{key}={}", self.replace_annotated(key, value)),
        }
    }

    /// The value of an annotation: only those of networks and devices are more than somebody's words.
    pub(super) fn replace_annotated(&self, key: &str, value: &str) -> String {
        let is_kept = KEPT_ANNOTATIONS.iter().any(|kept| key.contains(kept));
        self.replace(value, if is_kept { Kind::Plain } else { Kind::Free })
    }

    /// A line of mountinfo (proc(5)): `36 35 0:50 / /data rw - nfs4 10.0.0.1:/x rw,addr=10.0.0.1`.
    fn replace_mount(&self, line: &str) -> String {
        let Some((place, mounted)) = line.split_once(" - ") else { return self.replace(line, Kind::Free) };
        let field = |(at, field): (usize, &str)| match at {
            3 | 4 => self.replace(field, Kind::Free),
            _ => field.to_owned(),
        };
        let place: Vec<String> = place.split(' ').enumerate().map(field).collect();
        let mounted = mounted.split(' ').enumerate().map(|(at, field)| match at {
            1 => self.replace_mounted(field),
            2 => {
                field.split(',').map(|option| self.replace_mount_option(option)).collect::<Vec<_>>().join(",")
            }
            _ => field.to_owned(),
        });
        format!("{} - {}", place.join(" "), mounted.collect::<Vec<_>>().join(" "))
    }

    /// `server:/path`, `10.0.0.1@o2ib:10.0.0.2@o2ib:/path`: the network after an @ is nobody's.
    fn replace_mounted(&self, source: &str) -> String {
        let (servers, path) = source.split_at(source.find(":/").unwrap_or(0));
        let server = |server: &str| match server.split_once('@') {
            Some((server, network)) => format!("{}@{network}", self.replace(server, Kind::Free)),
            None => self.replace(server, Kind::Free),
        };
        // The colons of an IPv6 address are not those between servers.
        let servers = if servers.contains('@') {
            servers.split(':').map(server).collect::<Vec<_>>().join(":")
        } else {
            server(servers)
        };
        format!("{servers}{}", self.replace(path, Kind::Free))
    }

    fn replace_mount_option(&self, option: &str) -> String {
        match option.split_once('=') {
            Some((key, value)) if TELLING_OPTIONS.contains(&key) => {
                format!("{key}={}", self.replace(value, Kind::Free))
            }
            _ => self.replace(option, Kind::Plain),
        }
    }

    /// `gpu17 mlx5_0`, `gpu17 HCA-1`, or a vendor's own words.
    fn replace_description(&self, line: &str) -> String {
        match parse_described_host(line) {
            Some(host) => line.replacen(host, &replace_name(&self.key, host), 1),
            None => self.replace(line, Kind::Version),
        }
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
fn kind_of(name: &str) -> Kind {
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
