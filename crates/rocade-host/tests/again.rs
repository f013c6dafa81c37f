//! Whether a host is as it was: told of every recorded host, and not where something that a test chooses from moved.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use rocade_core::{GidIndex, Host};
use rocade_host::{Root, is_as_before, read_host};

#[path = "hosts/recorded.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod recorded;
use recorded::{recorded_host, recorded_hosts};

#[test]
fn every_recorded_host_is_as_it_was_read() {
    for file in recorded_hosts() {
        let root = Root::open(&file).unwrap();
        let mut host = read_host(&root);
        rocade_core::judge(&mut host);
        assert!(is_as_before(&root, &host), "{}", file.display());
    }
}

type Change = fn(&mut Host);

#[test]
fn whatever_moves_of_what_a_test_chooses_from_is_seen() {
    let root = Root::open(recorded_host("rxe-vm")).unwrap();
    let moved: [(&str, Change); 8] = [
        ("a GID at another index", |host| host.hcas[0].ports[0].gids[1].index = GidIndex(7)),
        ("another GID", |host| host.hcas[0].ports[0].gids[1].gid.0[15] ^= 1),
        ("a GID of another interface", |host| host.hcas[0].ports[0].gids[1].netdev = Some("eth9".into())),
        ("a port that went down", |host| host.hcas[0].ports[0].state = Some("DOWN".into())),
        ("an HCA that came", |host| drop(host.hcas.pop())),
        ("an address that came", |host| host.netdevs.iter_mut().for_each(|it| it.addresses.clear())),
        ("another MTU", |host| host.netdevs[0].mtu += 1),
        ("an interface that came", |host| drop(host.netdevs.pop())),
    ];
    for (what, change) in moved {
        let mut before = read_host(&root);
        change(&mut before);
        assert!(!is_as_before(&root, &before), "{what}");
    }
}
