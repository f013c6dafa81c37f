//! The views of `rocade inventory` over every recorded host: what each says is held against the JSON, which the
//! comparison with the hosts' expected answers covers.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rocade_core::host::Accelerator;
use rocade_core::{GidEntry, GidType, Hca, Host, Port, Transport, Usable};
use serde_json::Value;

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let hosts: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|it| it == "host")).collect();
    assert!(hosts.len() >= 34, "only {} recorded hosts", hosts.len());
    hosts
}

fn view(view: &str, host: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rocade"))
        .args(["inventory", "-o", view, "--from"])
        .arg(host)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Every recorded host with what the JSON says of it, read once.
fn hosts() -> &'static [(PathBuf, Host)] {
    static HOSTS: OnceLock<Vec<(PathBuf, Host)>> = OnceLock::new();
    HOSTS.get_or_init(|| {
        let read = |file: PathBuf| {
            let host = serde_json::from_str(&view("json", &file)).unwrap();
            (file, host)
        };
        fixtures().into_iter().map(read).collect()
    })
}

fn ports(host: &Host) -> impl Iterator<Item = (&Hca, &Port)> {
    host.hcas.iter().flat_map(|hca| hca.ports.iter().map(move |port| (hca, port)))
}

/// The one line of a table that is about a port.
fn line<'a>(table: &'a str, hca: &Hca, port: &Port) -> &'a str {
    let start = format!("{}/{} ", hca.name, port.port);
    let lines: Vec<&str> = table.lines().filter(|line| line.starts_with(&start)).collect();
    let [line] = lines[..] else { panic!("{start} has {} lines in\n{table}", lines.len()) };
    line
}

#[test]
fn every_port_has_one_line_within_100_columns_with_its_netdev_state_and_verdict() {
    for (file, host) in hosts() {
        let table = view("table", file);
        for (hca, port) in ports(host) {
            let line = line(&table, hca, port);
            assert!(line.chars().count() <= 100, "{}: {line}", file.display());
            let verdict = match port.usable {
                Usable::Yes => "  yes",
                Usable::Limited => "  limited",
                Usable::No => "  no",
            };
            let netlink = port.netlink_netdev.as_deref();
            for part in [port.netdev.as_deref(), port.state.as_deref(), netlink, Some(verdict)] {
                assert!(part.is_none_or(|part| line.contains(part)), "{part:?} is not in {line}");
            }
            assert!(table.contains(&port.reason), "{}: {}", file.display(), port.reason);
        }
    }
}

#[test]
fn the_table_holds_every_routable_v2_index_of_this_namespace_and_none_of_another() {
    for (file, host) in hosts() {
        let table = view("table", file);
        for (hca, port) in ports(host) {
            let routable = |gid: &&GidEntry| gid.gid_type == Some(GidType::V2) && !gid.gid.is_link_local();
            let row = line(&table, hca, port);
            let note = format!("] {}/{}: ", hca.name, port.port);
            let noted = table.split_once(&note).map_or("", |(_, rest)| rest);
            let noted: Vec<&str> = noted.split("\n[").next().unwrap().split_whitespace().collect();
            for gid in port.gids.iter().filter(routable) {
                let start = format!("{}→", gid.address.unwrap());
                let words = row.split_whitespace().chain(noted.iter().copied());
                let indexes = words.filter_map(|word| word.strip_prefix(&start)).flat_map(|it| it.split(','));
                let found =
                    indexes.map(|it| it.split('(').next().unwrap()).any(|it| it == gid.index.to_string());
                assert_eq!(
                    found,
                    host.owns(gid),
                    "{}: {}/{} {gid:?}\n{row}",
                    file.display(),
                    hca.name,
                    port.port
                );
            }
        }
    }
}

#[test]
fn gids_has_a_line_for_each_set_gid_that_says_whose_it_is() {
    for (file, host) in hosts() {
        let shown = view("gids", file);
        let mut lines = shown.lines().skip(1);
        for (hca, port) in ports(host) {
            for gid in &port.gids {
                let words: Vec<&str> = lines.next().expect("a line").split_whitespace().collect();
                let whose = match port.transport {
                    Transport::Roce if host.owns(gid) => "this",
                    Transport::Roce => "other",
                    _ => "-",
                };
                let place = format!("{}/{}", hca.name, port.port);
                assert_eq!(words[..3], [&place, &gid.index.to_string(), &gid.gid.to_string()]);
                assert_eq!(words.last(), Some(&whose), "{}: {words:?}", file.display());
            }
        }
        assert_eq!(lines.next(), None, "{}", file.display());
    }
}

#[test]
fn wide_has_each_port_in_one_line_with_its_devices_and_reason() {
    for (file, host) in hosts() {
        let table = view("wide", file);
        for (hca, port) in ports(host) {
            let line = line(&table, hca, port);
            let device = hca.uverbs.as_ref().map_or("-", |uverbs| &uverbs.node);
            let address = hca.pci_address.map_or_else(String::new, |it| it.to_string());
            assert!(
                line.contains(device) && line.contains(&address) && line.ends_with(&port.reason),
                "{line}"
            );
        }
    }
}

#[test]
fn yaml_says_what_json_says() {
    for (file, host) in hosts() {
        let yaml: Value = serde_saphyr::from_str(&view("yaml", file)).unwrap();
        assert_eq!(yaml, serde_json::to_value(host).unwrap(), "{}", file.display());
    }
}

#[test]
fn views_of_a_host_without_rdma_are_empty_and_its_documents_whole() {
    let without: Vec<_> = hosts().iter().filter(|(_, host)| host.hcas.is_empty()).collect();
    assert!(!without.is_empty());
    for (file, _) in without {
        for name in ["table", "wide", "gids"] {
            assert_eq!(view(name, file), "");
        }
        let yaml: Value = serde_saphyr::from_str(&view("yaml", file)).unwrap();
        assert_eq!(yaml["schema_version"], 1);
    }
}

#[test]
fn the_readmes_example_is_what_the_binary_prints() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(checkout.join("README.md")).unwrap();
    let command = "\n$ rocade inventory --from fixtures/hosts/seed-4hca-bond.host\n";
    let example = readme.split_once(command).unwrap().1.split_once("```").unwrap().0;
    assert_eq!(example, view("table", &checkout.join("fixtures/hosts/seed-4hca-bond.host")));
}

#[test]
fn topology_has_the_distance_of_each_hca_to_each_accelerator() {
    let mut accelerators = 0;
    for (file, host) in hosts().iter().filter(|(_, host)| !host.hcas.is_empty()) {
        let shown = view("topology", file);
        for (hca, line) in host.hcas.iter().zip(shown.lines().skip(1)) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let role = hca.role.kind.to_string();
            assert_eq!((words[0], words[3]), (hca.name.as_str(), role.as_str()), "{}", file.display());
            let distances = host.accelerators.iter().map(|it| it.distances[hca.name.as_str()].to_string());
            assert!(
                distances.eq(words[4..].iter().map(|word| (*word).to_owned())),
                "{}: {line}",
                file.display()
            );
        }
        accelerators += host.accelerators.len();
        let named = |it: &Accelerator| {
            shown.lines().any(|line| line.starts_with("GPU") && line.contains(&it.pci_address.to_string()))
        };
        assert!(host.accelerators.iter().all(named), "{}: {shown}", file.display());
    }
    assert!(accelerators > 0, "no recorded host has an accelerator");
}
