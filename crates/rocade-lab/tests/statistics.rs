//! The ioctl on a real driver: veth, in a network namespace of its own. Needs root, ip and ethtool, and fails where one
//! is missing.

use std::process::Command;

use rocade_host::Root;
use rocade_lab::{command, statistics};

const WITHIN: &str = "ROCADE_TEST_WITHIN";

#[test]
fn what_veth_counts_is_what_ethtool_shows() {
    if std::env::var_os(WITHIN).is_none() {
        // The same again in a namespace that takes the interfaces with it.
        let mut again = Command::new("unshare");
        again.arg("--net").arg(std::env::current_exe().expect("this program"));
        again.args(["--exact", "what_veth_counts_is_what_ethtool_shows"]).env(WITHIN, "1");
        let said = command::run_text(&mut again).expect("the same within a network namespace");
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    let pair =
        "link add here0 numrxqueues 3 numtxqueues 3 type veth peer name there0 numrxqueues 3 numtxqueues 3";
    command::run(Command::new("ip").args(pair.split(' '))).expect("ip, from iproute2");
    let ethtool = || command::run_text(Command::new("ethtool").args(["-S", "here0"])).expect("ethtool");
    let root = Root::live("/").expect("this machine");
    let (before, ours, after) =
        (ethtool(), root.statistics("here0").expect("veth has statistics"), ethtool());
    assert!(ours.contains_key("rx_queue_*_xdp_drops"), "{ours:?}");
    statistics::compare(&ours, &before, &after).expect("the same");
    // The name of the peer's index tells of no trouble.
    assert!(after.contains("peer_ifindex") && !ours.contains_key("peer_ifindex"));
}
