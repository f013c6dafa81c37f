//! One sick device among healthy ones: it is named, and the others are read as if it were well.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::Path;

use rocade_core::{Hca, Host};
use rocade_host::{Root, read_host};

const SICK: &str = "mlx5_3";

/// The recorded host seed-4hca-bond, with the lines that `change` gives for each of its own.
fn read_changed(change: impl Fn(&str) -> String) -> Host {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/seed-4hca-bond.host");
    let text = fs::read_to_string(file).unwrap();
    let body: Vec<String> = text.lines().filter(|line| !line.starts_with("end ")).map(change).collect();
    let count = body.iter().flat_map(|line| line.lines()).count();
    read_host(&Root::recorded("changed", format!("{}\nend {count}\n", body.join("\n")).as_bytes()).unwrap())
}

/// An HCA without what is told by comparing it with others.
fn alone(hca: &Hca) -> Hca {
    Hca { companions: Vec::new(), ..hca.clone() }
}

fn assert_others_well(host: &Host) {
    let well = read_changed(str::to_owned);
    for hca in well.hcas.iter().filter(|hca| hca.name.as_str() != SICK) {
        assert_eq!(host.hca(hca.name.as_str()).map(alone), Some(alone(hca)));
    }
}

fn is_class_link(line: &str) -> bool {
    line.starts_with(&format!(" link {SICK} ../../devices/"))
        && line.ends_with(&format!("/infiniband/{SICK}"))
}

#[test]
fn a_link_that_loops_is_named() {
    let host = read_changed(|line| match is_class_link(line) {
        true => format!(" link {SICK} {SICK}"),
        false => line.to_owned(),
    });
    assert_eq!(host.unknown.get("hcas.mlx5_3").map(String::as_str), Some("ELOOP"));
    assert!(host.hca(SICK).is_none());
    assert_others_well(&host);
}

#[test]
fn an_interface_whose_driver_does_not_answer_is_named() {
    let section = "ethtool statistics\n {\"netdev\":\"ens18np0\",\"values\":{\"rx_discards_phy\":7}}\n \
                   {\"netdev\":\"ens21np0\",\"failed\":\"ETIMEDOUT\"}\n {\"netdev\":\"ens20np0\",\"failed\":\"EOPNOTSUPP\"}";
    let host = read_changed(|line| match line {
        "netlink links" => format!("{section}\n{line}"),
        _ => line.to_owned(),
    });
    let of = |netdev: &str| host.netdev(netdev).unwrap().statistics.clone();
    assert_eq!(of("ens18np0").unwrap().into_iter().collect::<Vec<_>>(), [("rx_discards_phy".into(), 7)]);
    assert_eq!((of("ens21np0"), of("ens20np0")), (None, None));
    let unread: Vec<_> = host.unknown.iter().filter(|(field, _)| field.ends_with("statistics")).collect();
    // Of the members of the bond nothing was recorded.
    let wanted = [("netdevs.ens21np0.statistics", "ETIMEDOUT"), ("netdevs.statistics", "not recorded")];
    assert!(unread.iter().map(|(field, why)| (field.as_str(), why.as_str())).eq(wanted), "{unread:?}");
    assert_others_well(&host);
}

#[test]
fn a_name_that_is_no_text_is_named_as_far_as_it_can_be() {
    let host = read_changed(|line| match is_class_link(line) {
        true => format!("{line}\n link %ff%fe ../../devices/gone"),
        false => line.to_owned(),
    });
    let why = host.unknown.iter().find(|(field, _)| field.starts_with("hcas.\u{fffd}")).unwrap().1;
    assert!(why.contains("not UTF-8"), "{why}");
    assert!(host.hca(SICK).is_some());
    assert_others_well(&host);
}

#[test]
fn text_where_a_number_should_be_is_unknown_and_says_what_was_seen() {
    let at = std::cell::Cell::new(false);
    let host = read_changed(|line| {
        if line.starts_with("dir ") {
            at.set(line.ends_with(&format!("/{SICK}/ports/1")));
        }
        match line.strip_prefix(" text rate ") {
            Some(_) if at.get() => " text rate very fast".into(),
            _ => line.to_owned(),
        }
    });
    let port = &host.hca(SICK).unwrap().ports[0];
    assert_eq!((port.rate_gbps, port.width), (None, None));
    assert_eq!(port.unknown.get("rate_gbps").map(String::as_str), Some("unexpected text `very fast`"));
    assert_others_well(&host);
}

#[test]
fn a_gid_table_of_65535_entries_is_read_to_its_end() {
    let device = "/sys/devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0";
    let zero = "0000:0000:0000:0000:0000:0000:0000:0000";
    let text = format!(
        "rocade-host 2\ndir /sys/class/infiniband\n link mlx5_0 ../../devices{}\npart {device}/ports/1\n \
         text link_layer Ethernet\ndir {device}/ports/1/gids\n text 0..65533 {zero}\n \
         text 65534 0000:0000:0000:0000:0000:ffff:0a00:0001\ndir {device}/ports/1/gid_attrs/types\n \
         text 65534 RoCE v2\nend 10\n",
        device.strip_prefix("/sys/devices").unwrap()
    );
    // Directories that lead to a listed one are known only by it.
    let text = text.replace("end 10", &format!("dir {device}/ports\nend 11"));
    let host = read_host(&Root::recorded("made", text.as_bytes()).unwrap());
    let port = &host.hcas[0].ports[0];
    assert_eq!((port.gid_table_len, port.gids_set), (Some(65535), Some(1)));
    assert_eq!((port.gids[0].index.0, port.gids[0].address.unwrap().to_string()), (65534, "10.0.0.1".into()));
}
