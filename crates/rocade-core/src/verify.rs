//! The Pod's one verdict: PASS or FAIL, with the reason that counts most. The rules are `check`'s; here is which of them
//! concern a Pod, which of them fail it, and what to write into its manifest. Reads nothing.

use std::net::IpAddr;

use serde::Serialize;

use crate::check::{Against, Shown, Traffic, Unjudged, Within, check, traffic};
use crate::finding::{Finding, Severity};
use crate::host::{Accessible, GidType, Hca, Host, LinkLayer, Port, Transport, Usable};
use crate::names::{GidIndex, PortNum};
use crate::pod::{Opens, Tried, held, lost_grants};

mod remedy;
mod weight;

/// What a Pod is told.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// Whether RDMA works here as far as can be told without traffic: all that was granted can be used, and nothing found
    /// is an error. Where nothing says what was granted, one HCA that can be used is enough.
    pub pass: bool,
    /// The one reason that counts most; with a pass, what can be used.
    pub reason: String,
    /// The HCAs that were granted or open here.
    pub hcas: Vec<Own>,
    /// HCAs that are seen and were not granted: no library may use them.
    pub seen_only: Vec<String>,
    /// What was found, the worst first.
    pub findings: Vec<Judged>,
    /// What could not be judged, which is not the same as good.
    pub unjudged: Vec<Unjudged>,
}

/// A finding with the lines that mend it.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    /// As `check` has it.
    #[serde(flatten)]
    pub finding: Finding,
    /// Lines for the Pod's manifest; empty where none help.
    pub lines: Vec<String>,
}

/// An HCA of this Pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Own {
    /// Its name.
    pub hca: String,
    /// Whether the grant names it; None where nothing says what was granted.
    pub granted: Option<bool>,
    /// Whether its node opens; None where that is not known.
    pub opens: Option<bool>,
    /// Whether a port of it can be used from here, and writes to itself if that was tried.
    pub usable: bool,
    /// Its ports.
    pub ports: Vec<OwnPort>,
}

/// A port of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnPort {
    /// Its number.
    pub port: PortNum,
    /// What speaks over it: on Ethernet an interface of the Pod with an address is needed, on InfiniBand none.
    pub link_layer: LinkLayer,
    /// Whether an RC test can start on it.
    pub usable: Usable,
    /// Why not; empty with yes.
    pub reason: String,
    /// Usable RoCE v2 GIDs of this Pod's own addresses, link-local ones left out. Empty on InfiniBand, where GIDs are the
    /// port's own.
    pub gids: Vec<OwnGid>,
    /// What writes of the port to itself came to; left out where none were made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
}

/// A GID of an address of this Pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnGid {
    /// Its index, which is another one in the next Pod.
    pub index: GidIndex,
    /// The address.
    pub address: IpAddr,
    /// The Pod's interface that has it.
    pub netdev: Option<String>,
}

/// Judges a host that was looked at from inside a Pod; its ports must have been judged ([`crate::judge`]).
pub fn verify(host: &Host, within: &Within) -> Verdict {
    let host = &as_tried(host, &within.tried);
    let hcas = own(host, within);
    let against = Against { within: Some(within), ..Against::default() };
    let report = check(host, &against);
    let mut findings: Vec<Finding> = report.findings.into_iter().filter(weight::concerns).collect();
    let usable = is_usable(host, &hcas);
    if usable {
        let bound = is_bound(host, &hcas);
        let milder = findings.iter_mut().filter(|finding| !bound || weight::is_of_others(finding));
        milder.for_each(|finding| weight::soften(finding, &hcas));
    }
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), weight::rank(finding.code)));
    let error = findings.first().filter(|finding| finding.severity == Severity::Error);
    let pass = usable && error.is_none();
    let reason = match error {
        Some(finding) => format!("{}: {} [{}]", finding.subject, finding.seen, finding.code),
        None if pass => can_use(&hcas),
        None => cannot_use(host, &hcas),
    };
    let unjudged = report.unjudged.into_iter().filter(|unjudged| weight::is_of_pod(unjudged.code)).collect();
    let seen_only = host.hcas.iter().map(|hca| hca.name.to_string());
    let seen_only = seen_only.filter(|name| hcas.iter().all(|own| own.hca != *name)).collect();
    let judge = |finding: Finding| Judged { lines: remedy::lines(host, within, &finding), finding };
    let findings = findings.into_iter().map(judge).collect();
    Verdict { pass, reason, hcas, seen_only, findings, unjudged }
}

/// The host as the attempts have shown it: a node that refuses is of no more use than one that is missing.
fn as_tried(host: &Host, tried: &Tried) -> Host {
    let mut host = host.clone();
    let refused = |hca: &Hca| tried.get(&hca.name).cloned().flatten();
    for hca in &mut host.hcas {
        let refused = refused(hca);
        if let (Some(_), Some(device)) = (&refused, &mut hca.uverbs) {
            device.accessible = Accessible::Missing;
        }
    }
    crate::usable::judge(&mut host);
    for hca in &mut host.hcas {
        let (Some(errno), Some(device)) = (refused(hca), &hca.uverbs) else { continue };
        let missing = format!("{} missing", device.path());
        let said = format!("{} does not open ({errno})", device.path());
        for port in hca.ports.iter_mut().filter(|port| port.reason == missing) {
            port.reason.clone_from(&said);
        }
    }
    host.nodes
        .retain(|node| node.hca.as_ref().is_none_or(|name| !tried.get(name).is_some_and(Option::is_some)));
    host
}

fn own(host: &Host, within: &Within) -> Vec<Own> {
    let is_own = |held: &crate::pod::Held<'_>| held.granted == Some(true) || held.opens == Opens::Yes;
    let own = held(host, &within.tried).into_iter().filter(is_own);
    own.map(|held| {
        let opens = match held.opens {
            Opens::Yes => Some(true),
            Opens::No(_) => Some(false),
            Opens::Unknown(_) => None,
        };
        let ports: Vec<OwnPort> =
            held.hca.ports.iter().map(|port| own_port(host, within, held.hca, port)).collect();
        let works = |port: &OwnPort| {
            port.usable != Usable::No
                && port.traffic.as_ref().is_none_or(|traffic| traffic.shown != Shown::Failed)
        };
        let usable = opens != Some(false) && ports.iter().any(works);
        Own { hca: held.hca.name.to_string(), granted: held.granted, opens, usable, ports }
    })
    .collect()
}

fn own_port(host: &Host, within: &Within, hca: &Hca, port: &Port) -> OwnPort {
    let v2 = port.gids.iter().filter(|gid| gid.gid_type == Some(GidType::V2) && !gid.gid.is_link_local());
    let own = v2.filter(|gid| port.transport == Transport::Roce && host.owns(gid));
    let gids = own
        .filter_map(|gid| {
            Some(OwnGid { index: gid.index, address: gid.address?, netdev: gid.netdev.clone() })
        })
        .collect();
    OwnPort {
        port: port.port,
        link_layer: port.link_layer.clone(),
        usable: port.usable,
        reason: port.reason.clone(),
        gids,
        traffic: traffic::of_port(host, within, &hca.name, port.port),
    }
}

/// Whether all that was granted can be used; without a grant, whether anything can.
fn is_usable(host: &Host, hcas: &[Own]) -> bool {
    let mut granted = hcas.iter().filter(|own| own.granted == Some(true)).peekable();
    if granted.peek().is_some() || !lost_grants(host).is_empty() {
        return lost_grants(host).is_empty() && granted.all(|own| own.usable);
    }
    hcas.iter().any(|own| own.granted.is_none() && own.usable)
}

/// Whether each HCA that opens here was meant for this Pod: a grant says so, or others do not open. Without a grant
/// where all open (a privileged container, or no Pod at all) none was meant more than another.
fn is_bound(host: &Host, hcas: &[Own]) -> bool {
    let says = hcas.iter().any(|own| own.granted.is_some());
    says || (host.pod.is_some() && hcas.len() < host.hcas.len())
}

fn can_use(hcas: &[Own]) -> String {
    let ports = hcas.iter().filter(|own| own.usable && own.granted != Some(false)).flat_map(|own| {
        own.ports.iter().filter(|port| port.usable != Usable::No).map(move |port| {
            let gids: Vec<String> =
                port.gids.iter().map(|gid| format!("{} at index {}", gid.address, gid.index)).collect();
            let with = if gids.is_empty() { String::new() } else { format!(" with {}", gids.join(", ")) };
            format!("{}/{}{with}{}", own.hca, port.port, proof(port))
        })
    });
    format!("usable: {}", ports.collect::<Vec<_>>().join("; "))
}

/// What traffic adds to a usable port.
fn proof(port: &OwnPort) -> &'static str {
    match port.traffic.as_ref().map(|traffic| traffic.shown) {
        Some(Shown::Proven) => ", proven by a write to itself",
        Some(Shown::Inconclusive) => ", a write to itself inconclusive",
        Some(Shown::Failed) | None => "",
    }
}

fn cannot_use(host: &Host, hcas: &[Own]) -> String {
    let why = hcas.iter().flat_map(|own| {
        own.ports
            .iter()
            .filter(|port| port.usable == Usable::No)
            .map(move |port| format!("{}/{}: {}", own.hca, port.port, port.reason))
    });
    let why: Vec<String> = why.collect();
    if !why.is_empty() {
        return format!("no granted HCA can be used: {}", why.join("; "));
    }
    match host.hcas.is_empty() {
        true => "no RDMA device is seen here".into(),
        false => "no HCA is known to open here".into(),
    }
}
