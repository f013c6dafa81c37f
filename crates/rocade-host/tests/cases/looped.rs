//! What `rocade verify --traffic` makes of a port's writes to itself: proven, failed, or nothing that can be said.

use rocade_core::check::{Broke, Looped, Shown, Within};
use rocade_core::diagnose::{Counted, Failure, State};
use rocade_core::gid::{Wish, choose_gid};
use rocade_core::host::{Counter, LinkLayer, Transport, Usable};
use rocade_core::names::Pkey;
use rocade_core::verify::{OwnPort, Verdict, verify};
use rocade_core::{Host, Severity};

use super::Recording;

const BYTES: u64 = 256 << 10;

/// A Pod with one VF that it can use.
fn good() -> Host {
    Recording::of("pod-sriov-exclusive").host()
}

/// The one port that can be used wrote to itself.
fn after(host: &Host, ended: Result<u64, Broke>, counted: &[(&str, u64)], pkey: Option<Pkey>) -> Within {
    let choice = choose_gid(host, &Wish::default()).unwrap();
    let counter = |name: &str, value| Counter {
        file: format!("counters/{name}"),
        value: Some(value),
        saturated: false,
        why: None,
    };
    let before: Vec<Counter> = counted.iter().map(|(name, _)| counter(name, 7)).collect();
    let now: Vec<Counter> = counted.iter().map(|(name, grown)| counter(name, 7 + grown)).collect();
    let tried = [(choice.hca.clone(), None)].into();
    let looped = vec![Looped { choice, pkey, counted: Counted::between(&before, &now), ended }];
    Within { tried, looped: Some(looped), ..Within::default() }
}

fn broke(failure: Failure) -> Result<u64, Broke> {
    Err(Broke { why: "as it was said".into(), failure: Some(failure) })
}

fn judged(host: &Host, ended: Result<u64, Broke>) -> Verdict {
    verify(host, &after(host, ended, &[], None))
}

fn port(verdict: &Verdict) -> &OwnPort {
    verdict.hcas.iter().flat_map(|own| &own.ports).find(|port| port.traffic.is_some()).unwrap()
}

fn shown(verdict: &Verdict) -> Shown {
    port(verdict).traffic.as_ref().unwrap().shown
}

/// F88: an end point that comes up proves no data path; bytes that arrived do, and the port's counters say that it was
/// the HCA (in words of four bytes) and not TCP.
#[test]
fn bytes_that_arrived_prove_the_path_and_the_port_counts_them_in_words_of_four() {
    let host = good();
    let words = BYTES / 4 + 64;
    let within = after(&host, Ok(BYTES), &[("port_xmit_data", words), ("port_rcv_errors", 0)], None);
    let verdict = verify(&host, &within);
    assert!(verdict.pass, "{}", verdict.reason);
    assert_eq!(verdict.reason, "usable: mlx5_2/1 with 10.56.41.22 at index 3, proven by a write to itself");
    let traffic = port(&verdict).traffic.as_ref().unwrap();
    assert_eq!((traffic.shown, traffic.bytes), (Shown::Proven, BYTES));
    assert_eq!(traffic.data_sent_bytes(), Some(BYTES + 256));
    assert_eq!(
        traffic.counted.keys().collect::<Vec<_>>(),
        ["port_xmit_data"],
        "what did not grow is left out"
    );
    let untouched = verify(&host, &Within { looped: None, ..within });
    assert!(
        !untouched.reason.contains("proven"),
        "connected and addressed is not proven: {}",
        untouched.reason
    );
    assert!(untouched.hcas.iter().flat_map(|own| &own.ports).all(|port| port.traffic.is_none()));
}

#[test]
fn silence_of_hardware_is_inconclusive_and_fails_nothing() {
    const RETRY_EXC_ERR: u32 = 12;
    for failure in [Failure::Completion { status: RETRY_EXC_ERR, done: 0 }, Failure::Silence { done: 0 }] {
        let verdict = judged(&good(), broke(failure.clone()));
        assert!(verdict.pass, "{failure:?}: {}", verdict.reason);
        assert!(verdict.reason.ends_with("a write to itself inconclusive"), "{}", verdict.reason);
        assert_eq!(shown(&verdict), Shown::Inconclusive, "{failure:?}");
        let said = verdict.unjudged.iter().find(|unjudged| unjudged.code == "RDC615").unwrap();
        assert_eq!(said.subject, "mlx5_2/1");
        assert!(
            said.why.contains("may not loop back") && said.why.contains("rocade pingpong"),
            "{}",
            said.why
        );
    }
}

#[test]
fn what_loop_back_that_is_off_cannot_explain_fails_the_pod() {
    let transition = |to, errno| Failure::Transition { to, errno };
    let verb = |verb: &str, errno| Failure::Verb { verb: verb.into(), errno, bytes: Some(131_072) };
    let event = Failure::Event { event: "port error".into(), on: "mlx5_2/1".into(), done: 0 };
    for (failure, words) in [
        // F89: the nearest HCA of a virtual machine changed what it carried.
        (Failure::Data, "data arrived changed"),
        (Failure::Completion { status: 12, done: 2 }, "after 2 messages"),
        (Failure::Silence { done: 3 }, "after 3 messages"),
        (Failure::Completion { status: 10, done: 0 }, "memory does not take"),
        (Failure::Completion { status: 4, done: 0 }, "gave up a work request"),
        (transition(State::Rtr, 110), "no way from 10.56.41.22 on net1 to itself"),
        (transition(State::Rtr, 101), "no way from 10.56.41.22 on net1 to itself"),
        (transition(State::Rtr, 22), "the kernel refuses the path"),
        (verb("ibv_reg_mr", 12), "memory"),
        (verb("ibv_create_qp", 1), "refuses ibv_create_qp"),
        (event, "port error"),
        (Failure::Library { reason: "libibverbs.so.1: cannot open".into() }, "libibverbs"),
        (Failure::NotOffered { hca: "mlx5_2".into(), offered: Vec::new() }, "mlx5_2"),
    ] {
        let verdict = judged(&good(), broke(failure.clone()));
        assert!(!verdict.pass, "{failure:?}");
        assert!(verdict.reason.ends_with("[RDC615]"), "{failure:?}: {}", verdict.reason);
        assert!(verdict.reason.contains("as it was said"), "{failure:?}: {}", verdict.reason);
        let finding =
            &verdict.findings.iter().find(|judged| judged.finding.code == "RDC615").unwrap().finding;
        assert!(finding.seen.contains(words), "`{words}` of {failure:?} is not in {finding}");
        assert!(!finding.cure.is_empty(), "{failure:?}");
        assert_eq!(shown(&verdict), Shown::Failed, "{failure:?}");
    }
    let unnamed = judged(&good(), Err(Broke { why: "GID index 3 is not set".into(), failure: None }));
    assert!(!unnamed.pass && unnamed.reason.contains("GID index 3 is not set"), "{}", unnamed.reason);
}

#[test]
fn an_hca_of_software_always_loops_back_so_its_silence_fails() {
    let mut host = good();
    host.hcas.iter_mut().for_each(|hca| hca.software = true);
    let verdict = judged(&host, broke(Failure::Completion { status: 12, done: 0 }));
    assert!(!verdict.pass && verdict.reason.contains("always loops back"), "{}", verdict.reason);
}

#[test]
fn silence_of_infiniband_between_limited_members_is_explained_and_fails() {
    let mut host = good();
    let port = host.hcas.iter_mut().flat_map(|hca| &mut hca.ports).find(|p| p.usable == Usable::Yes).unwrap();
    (port.link_layer, port.transport) = (LinkLayer::InfiniBand, Transport::Infiniband);
    (port.sm_lid, port.lid) = (Some(1), Some(9));
    let silent = || broke(Failure::Completion { status: 12, done: 0 });
    let limited = verify(&host, &after(&host, silent(), &[], Some(Pkey(0x7fff))));
    assert!(!limited.pass && limited.reason.contains("limited members"), "{}", limited.reason);
    let full = verify(&host, &after(&host, silent(), &[], Some(Pkey(0xffff))));
    assert_eq!(shown(&full), Shown::Inconclusive, "{}", full.reason);
}

/// Where nothing says what was granted and all opens, one HCA that works is enough.
#[test]
fn one_hca_that_writes_to_itself_is_enough_where_none_was_granted_more_than_another() {
    let mut host = Recording::of("seed-4hca-bond").host();
    host.pod = Some(rocade_core::host::Pod::default());
    rocade_core::judge(&mut host);
    let name = choose_gid(&host, &Wish::default()).unwrap().hca;
    let bad = verify(&host, &after(&host, broke(Failure::Data), &[], None));
    let own = bad.hcas.iter().find(|own| own.hca == name.as_str()).unwrap();
    assert!(!own.usable, "{name} changed what it carried");
    let finding = &bad.findings.iter().find(|judged| judged.finding.code == "RDC615").unwrap().finding;
    assert_eq!(finding.severity, Severity::Warning, "another can be used: {finding}");
    let untried = bad.unjudged.iter().filter(|unjudged| unjudged.code == "RDC615").count();
    assert!(untried > 0, "ports that were left out are named");
}
