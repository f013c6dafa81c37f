//! Scrubbing: a scrubbed recording says what the original says, in other addresses and names, and holds none of the
//! original ones in any spelling.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

use rocade_core::check::{Against, check};
use rocade_core::{Host, Usable, judge};
use rocade_host::{Archive, Key, Root, Scrubber, read_host, record};
use serde_json::{Value, json};

fn key() -> Key {
    Key::from_secret(b"the key of these tests")
}

#[test]
fn every_recorded_host_scrubbed_says_the_same_of_other_names_and_keeps_no_original() {
    for file in recorded_hosts() {
        scrub_and_compare(&file.display().to_string(), &Archive::parse(&fs::read(&file).unwrap()).unwrap());
    }
}

#[test]
fn this_machine_scrubbed_says_the_same_and_keeps_nothing() {
    scrub_and_compare("this machine", &record(&Root::live("/").unwrap()));
}

#[test]
fn two_hosts_with_one_key_agree_and_another_key_differs() {
    let scrub = |name: &str, key: &Key| {
        let archive = Archive::parse(&fs::read(folder().join(name)).unwrap()).unwrap();
        let scrubber = Scrubber::of(&archive, key);
        json!([
            scrubber.replace_json(&json!("10.8.10.4")),
            scrubber.replace_json(&json!("a0:88:c2:f2:7c:d6")),
            scrubber.replace_json(&json!("fe80:0000:0000:0000:a288:c2ff:fef2:7cd6")),
        ])
    };
    let first = scrub("seed-4hca-bond.host", &key());
    assert_eq!(first, scrub("ib-hdr-mixed.host", &key()));
    assert_ne!(first, scrub("seed-4hca-bond.host", &Key::fresh().unwrap()));
}

/// Every spelling that a fact about a host has been seen in, in files that no fixture holds.
#[test]
fn originals_are_found_in_every_spelling() {
    let host = r#"rocade-host 1
dir /sys/class/net/enx0c42a1036700
 text address 0c:42:a1:03:67:00
 text phys_switch_id 10000003a1420c00
 text ifalias to leaf-3 port 7, call Ann
dir /sys/class/net/rack7-rail0
 text address 0C:42:A1:03:67:01
dir /sys/class/infiniband/rocex0c42a10300036702
 text node_desc rack7 mlx5_0
 text node_guid 0c42:a103:0003:6702
 text fw_ver 226.0.145.0
dir /proc
 text cmdline BOOT_IMAGE=/vmlinuz root=UUID=0a1b2c3d-1111-2222-3333-444455556666 ip=10.8.10.4::10.8.10.1:255.255.255.0:rack7:eth0:off iommu=pt
dir /proc/self
 bytes environ 484f53544e414d453d7261636b37005345435245543d68756e74657232005043494445564943455f413d303030303a34643a30302e30004e56494449415f56495349424c453d4750552d30613162326333642d313131312d323232322d333333332d34343434353535353636363600
 text mountinfo 36 35 0:50 / /scratch/ann rw - lustre 10.9.0.1@o2ib:10.9.0.2@o2ib:/home7 rw,addr=10.9.0.1,proto=rdma
dir /proc/net
 lines route 2
  |Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
  |rack7-rail0	000A080A	010A080A	0001	0	0	0	00FFFFFF	0	0	0
 text if_inet6 fe800000000000000e42a1fffe036700 02 40 20 80 enx0c42a1036700
dir /proc/net/bonding
 lines bond0 2
  |Partner Mac Address: 0c:42:a1:03:67:09
  |  system mac address: 0c-42-a1-03-67-0a
dir /proc/sys/kernel
 text hostname rack7.example.org
dir /etc/kubernetes
 text kubelet.conf     server: https://api.rack.example.org:6443
dir /etc/podinfo
 lines annotations 2
  |k8s.v1.cni.cncf.io/network-status="[{\"name\":\"default/rail\",\"ips\":[\"10.8.10.113\",\"fd00:8::a\"],\"mac\":\"ca:4e:18:00:0a:71\"}]"
  |owner="Ann"
netlink links
 {"index":2,"name":"enx0c42a1036700","link_type":1,"flags":3,"mtu":1500,"mac":"0c:42:a1:03:67:00"}
netlink addresses
 {"index":2,"address":"10.8.10.4","prefix":24}
ethtool statistics
 {"netdev":"enx0c42a1036700","values":{"rx_prio3_discards":184467440737095,"[*]: rx_discards":4711}}
 {"netdev":"rack7-rail0","failed":"EIO"}
"#;
    let text = format!("{host}end {}\n", host.lines().count());
    let archive = Archive::parse(text.as_bytes()).unwrap();
    let scrubbed = Scrubber::of(&archive, &key()).replace_archive(&archive).print();
    for original in [
        "0c42a1036700",
        "0c:42:a1:03:67",
        "0C:42:A1:03:67",
        "0c-42-a1-03-67",
        "0c42a10300036702",
        "0c42:a103:0003:6702",
        "10000003a1420c00",
        "rack7",
        "leaf",
        "Ann",
        "0a1b2c3d",
        "55556666",
        "10.8.10",
        "10.9.0",
        "scratch",
        "home7",
        "api.rack",
        "000A080A",
        "010A080A",
        "0e42a1fffe036700",
        "example",
        "68756e74657232",
        "34343434353535353636363",
        "7261636b37",
        "ca:4e:18:00:0a:71",
        "fd00:8:",
    ] {
        assert!(text.contains(original), "{original} is not in the input");
        assert!(!scrubbed.contains(original), "{original} is left:\n{scrubbed}");
    }
    for kept in [
        "226.0.145.0",
        "iommu=pt",
        "proto=rdma",
        "@o2ib:10.",
        "server: https://",
        ":6443",
        "255.255.255.0",
        "00FFFFFF",
        "5043494445564943455f413d303030303a34643a30302e30",
        "enx0c42a1",
        "default/rail",
        r#""values":{"[*]: rx_discards":4711,"rx_prio3_discards":184467440737095}"#,
        r#""failed":"EIO""#,
    ] {
        assert!(scrubbed.contains(kept), "{kept} is gone:\n{scrubbed}");
    }
}

fn scrub_and_compare(name: &str, archive: &Archive) {
    let scrubber = Scrubber::of(archive, &key());
    let scrubbed = scrubber.replace_archive(archive);
    let text = scrubbed.print();
    assert_eq!(Archive::parse(text.as_bytes()).unwrap(), scrubbed, "{name}");
    check_says_the_same(name, archive, &scrubber, &scrubbed);
    check_nothing_is_left(name, archive, &text.to_lowercase());
}

fn check_says_the_same(name: &str, archive: &Archive, scrubber: &Scrubber, scrubbed: &Archive) {
    let wanted = scrubber.replace_json(&serde_json::to_value(read(archive)).unwrap());
    let got = serde_json::to_value(read(scrubbed)).unwrap();
    let mut differences = Vec::new();
    compare("", &got, &wanted, &mut differences);
    assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
    assert_eq!(verdicts(&read(scrubbed)), verdicts(&read(archive)), "{name}");
    let wanted = findings(archive, |finding| scrubber.replace_json(&finding));
    let got = findings(scrubbed, |finding| finding);
    assert!(got == wanted, "{name}: {:#?}", got.symmetric_difference(&wanted).collect::<Vec<_>>());
}

fn findings(archive: &Archive, replace: impl Fn(Value) -> Value) -> BTreeSet<String> {
    let report = check(&read(archive), &Against::default());
    // Sentences are the rules' own: a host whose name is a common word stands in them by accident.
    let facts = report.findings.iter().map(|f| json!([f.code, f.severity, f.subject]));
    facts.map(|facts| replace(facts).to_string()).collect()
}

fn verdicts(host: &Host) -> Vec<Usable> {
    host.hcas.iter().flat_map(|hca| &hca.ports).map(|port| port.usable).collect()
}

fn compare(at: &str, got: &Value, wanted: &Value, out: &mut Vec<String>) {
    match (got, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                compare(&format!("{at}.{key}"), &got[key], &wanted[key], out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (n, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{at}[{n}]"), a, b, out);
            }
        }
        _ if got != wanted => out.push(format!("{at}: {got}, wanted {wanted}")),
        _ => {}
    }
}

fn check_nothing_is_left(name: &str, archive: &Archive, scrubbed: &str) {
    let original = archive.print().to_lowercase();
    let spellings = spellings(&original, &read(archive));
    assert!(!spellings.is_empty() || read(archive).netdevs.len() <= 1, "{name}: nothing to look for");
    let left: Vec<&String> = spellings.iter().filter(|spelling| is_in(scrubbed, spelling)).collect();
    assert!(left.is_empty(), "{name}: {} are left: {left:?}", left.len());
}

fn is_in(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // Bare digits may stand in the middle of others; a name or dotted address may not.
        let bare = word.len() >= 12 && word.bytes().all(|b| b.is_ascii_hexdigit());
        bare || !text[..at].ends_with(|c| is_part(c) || c == '.')
            && !text[at + word.len()..].starts_with(is_part)
    })
}

/// All that tells the host, gathered from its text by form and from what was read of it, in every spelling.
fn spellings(text: &str, host: &Host) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut bytes: BTreeSet<Vec<u8>> = BTreeSet::new();
    for word in text.split(|c: char| !c.is_ascii_hexdigit() && c != ':') {
        let groups: Vec<&str> = word.split(':').collect();
        let is_hex = |width: usize| groups.iter().all(|group| group.len() == width);
        let digits = groups.concat();
        if is_hex(2) && matches!(groups.len(), 6 | 20) || is_hex(4) && matches!(groups.len(), 4 | 8) {
            let raw: Vec<u8> = (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
                .collect();
            bytes.insert(raw);
        }
    }
    for netdev in &host.netdevs {
        bytes.extend(netdev.addresses.iter().map(|(address, _)| octets(*address)));
    }
    for gid in host.hcas.iter().flat_map(|hca| &hca.ports).flat_map(|port| &port.gids) {
        bytes.insert(gid.gid.0.to_vec());
        bytes.extend(gid.address.map(octets));
    }
    for raw in bytes.iter().filter(|raw| is_someones(raw)) {
        spell(raw, &mut all);
    }
    for line in text.lines().filter_map(|line| line.strip_prefix(" text node_desc ")) {
        all.extend(
            line.split_once(" hca-")
                .or(line.split_once(" mlx4_"))
                .map(|(host, _)| host.to_owned())
                .filter(|host| host != "@"),
        );
    }
    // The serial number in vital product data, as text in hexadecimal: `SN` and a length.
    for vpd in text.lines().filter_map(|line| line.strip_prefix(" bytes vpd ")) {
        let at = vpd.find("534e").unwrap();
        let length = usize::from_str_radix(&vpd[at + 4..at + 6], 16).unwrap();
        all.insert(vpd[at + 6..at + 6 + 2 * length].to_owned());
    }
    all
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// Not loopback, broadcast, multicast, unset, or a bare prefix.
fn is_someones(raw: &[u8]) -> bool {
    match raw {
        [0 | 127 | 224.., _, _, _] => false,
        [first, ..] if raw.len() == 6 => first & 1 == 0 && raw.iter().any(|b| *b != 0),
        [0xff, ..] => false,
        _ if raw.len() == 16 || raw.len() == 20 => {
            raw[raw.len() - 8..].iter().any(|b| *b != 0)
                && raw[raw.len() - 16..raw.len() - 1].iter().any(|b| *b != 0)
                && raw[4..6] != [0xff, 0x12]
        }
        _ => raw.iter().any(|b| *b != 0),
    }
}

fn spell(raw: &[u8], out: &mut BTreeSet<String>) {
    let hex = |raw: &[u8], by: &str, width: usize| {
        raw.chunks(width)
            .map(|c| c.iter().map(|b| format!("{b:02x}")).collect::<String>())
            .collect::<Vec<_>>()
            .join(by)
    };
    let swapped: Vec<u8> = raw.iter().rev().copied().collect();
    out.extend([hex(raw, "", 1), hex(&swapped, "", 1)]);
    match raw.len() {
        4 => out.extend([raw.iter().map(u8::to_string).collect::<Vec<_>>().join(".")]),
        6 => {
            out.extend([hex(raw, ":", 1), hex(raw, "-", 1)]);
            // The interface id that is made of it.
            out.insert(hex(&[raw[0] ^ 2, raw[1], raw[2], 0xff, 0xfe, raw[3], raw[4], raw[5]], ":", 2));
        }
        8 => out.extend([hex(raw, ":", 2), hex(raw, ":", 1)]),
        16 => {
            let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(raw).unwrap());
            out.extend([hex(raw, ":", 2), v6.to_string()]);
        }
        _ => out.extend([hex(raw, ":", 1)]),
    }
}

fn read(archive: &Archive) -> Host {
    let mut host = read_host(&Root::from(archive.clone()));
    judge(&mut host);
    host
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts")
}

fn recorded_hosts() -> Vec<PathBuf> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let hosts: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|e| e == "host")).collect();
    assert!(hosts.len() >= 34, "only {} recorded hosts", hosts.len());
    hosts
}
