//! Hosts of odd shapes: what cannot be read is named, and all the rest is read.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fmt::Write;

use rocade_core::Host;
use rocade_host::{Archive, Root, read_host};

/// A host of these HCAs, each with these lines in the directory of its port.
fn host(names: &[&str], port: &str) -> String {
    let mut text = String::from("rocade-host 1\ndir /sys/class/infiniband\n");
    for name in names {
        let _ = writeln!(text, " link {name} ../../devices/virtual/infiniband/{name}");
    }
    for name in names {
        let dir = format!("/sys/devices/virtual/infiniband/{name}");
        let _ =
            writeln!(text, "dir {dir}\n text node_type 1: CA\ndir {dir}/ports\ndir {dir}/ports/1\n{port}");
    }
    text
}

fn read(text: &str) -> Host {
    let lines = text.lines().count();
    read_host(&Root::from(Archive::parse(format!("{text}end {lines}\n").as_bytes()).unwrap()))
}

const PORT: &str = " text link_layer Ethernet\n text rate 400 Gb/sec (4X NDR)\n text state 4: ACTIVE";

#[test]
fn five_hundred_and_twelve_hcas_are_all_read_in_their_order() {
    let names: Vec<String> = (0..512).map(|n| format!("mlx5_{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let read = read(&host(&names, PORT));
    assert_eq!(read.hcas.iter().map(|hca| hca.name.as_str()).collect::<Vec<_>>(), names);
    assert!(read.hcas.iter().all(|hca| hca.ports[0].rate_gbps == Some(400.0)));
}

#[test]
fn a_gid_table_of_65535_entries_is_read_to_its_end() {
    let mut text = host(&["mlx5_0"], PORT);
    text.push_str("dir /sys/devices/virtual/infiniband/mlx5_0/ports/1/gids\n");
    text.push_str(" text 0..65533 0000:0000:0000:0000:0000:0000:0000:0000\n");
    text.push_str(" text 65534 0000:0000:0000:0000:0000:ffff:0a08:0a04\n");
    let port = &read(&text).hcas[0].ports[0];
    assert_eq!((port.gid_table_len, port.gids.len(), port.gids[0].index.0), (Some(65_535), 1, 65_534));
}

#[test]
fn text_where_a_number_should_be_is_named_and_the_port_is_read() {
    let port = PORT.replace("400 Gb/sec (4X NDR)", "fast\u{7}") + "\n text lid 0x1ffff\n bytes sm_lid ff00fe";
    let host = read(&host(&["mlx5_0"], &port));
    let port = &host.hcas[0].ports[0];
    assert_eq!((port.rate_gbps, port.lid, port.sm_lid), (None, None, None));
    assert_eq!(port.unknown["rate_gbps"], "unexpected text `fast\\u{7}`");
    assert_eq!(port.unknown["lid"], "unexpected text `0x1ffff`");
    assert!(port.unknown["sm_lid"].starts_with("unexpected text"), "{:?}", port.unknown);
    assert_eq!(port.state.as_deref(), Some("ACTIVE"));
}

#[test]
fn names_that_are_no_text_and_loops_of_links_are_named_and_the_others_are_read() {
    let text =
        host(&["mlx5_0", "rxe%ff"], PORT).replace(" link mlx5_0", " link loop loop\n link mlx5_0").replace(
            "\ndir /sys/devices/virtual/infiniband/mlx5_0\n",
            "\ndir /sys/devices/virtual/infiniband/mlx5_0\n link device ../mlx5_0\n",
        );
    let host = read(&text);
    assert_eq!(host.hcas.iter().map(|hca| hca.name.as_str()).collect::<Vec<_>>(), ["mlx5_0"]);
    assert_eq!(host.hcas[0].ports[0].rate_gbps, Some(400.0));
    let unread: Vec<_> = host
        .unknown
        .keys()
        .filter_map(|key| key.strip_prefix("hcas."))
        .filter(|key| !key.starts_with("ports"))
        .collect();
    assert_eq!(unread, ["loop", "rxe\u{fffd}"], "{:?}", host.unknown);
}
