//! A lean reading, which is a probe's, against a whole one: the verdict on a Pod is the same.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use proptest::prelude::*;
use rocade_core::check::Within;
use rocade_core::verify::{Verdict, verify};
use rocade_host::{Root, Scope, read_parts};

#[path = "hosts/recorded.rs"]
mod recorded;
use recorded::{changed_host, recorded_host, recorded_hosts};

fn verdict(root: &Root, scope: Scope) -> Verdict {
    let mut host = read_parts(root, scope);
    rocade_core::judge(&mut host);
    verify(&host, &Within::default())
}

fn whole(root: &Root) -> Verdict {
    verdict(root, Scope { counters: false, ..Scope::ALL })
}

#[test]
fn every_recorded_host_gets_the_verdict_of_a_whole_reading() {
    let (mut passed, mut failed) = (0, 0);
    for file in recorded_hosts() {
        let root = Root::open(&file).unwrap();
        let (lean, whole) = (verdict(&root, Scope::POD), whole(&root));
        assert_eq!(lean.pass, whole.pass, "{}: {} / {}", file.display(), lean.reason, whole.reason);
        *if lean.pass { &mut passed } else { &mut failed } += 1;
    }
    assert!(passed >= 5 && failed >= 5, "{passed} passed, {failed} failed: one of both shows nothing");
}

/// Of HCAs without a node here nothing but name, place and number is read.
#[test]
fn of_hcas_that_were_not_granted_no_more_is_read_than_tells_that() {
    let root = Root::open(recorded_host("seed-pod-wrong-rail")).unwrap();
    let host = read_parts(&root, Scope::POD);
    let (own, seen): (Vec<_>, Vec<_>) =
        host.hcas.iter().partition(|hca| hca.uverbs.as_ref().is_some_and(|device| device.is_there()));
    assert_eq!((own.len(), seen.len()), (1, 3));
    assert!(own.iter().all(|hca| !hca.ports.is_empty() && hca.node_type.is_some()));
    assert!(
        seen.iter().all(|hca| hca.ports.is_empty() && hca.node_type.is_none() && hca.pci_address.is_some())
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_changed_recording_gets_the_verdict_of_a_whole_reading(
        changes in prop::collection::vec((any::<prop::sample::Index>(), "[ -~]{0,12}"), 1..6),
        kind in prop::sample::select(vec!["pod-sriov-exclusive", "seed-pod-wrong-rail", "stale-grant-pod", "rxe-vm"]),
    ) {
        if let Ok(root) = Root::recorded(kind, changed_host(kind, &changes).as_bytes()) {
            let (lean, whole) = (verdict(&root, Scope::POD), whole(&root));
            prop_assert_eq!(lean.pass, whole.pass, "{} / {}", lean.reason, whole.reason);
        }
    }
}
