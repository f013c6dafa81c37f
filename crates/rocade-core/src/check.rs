//! Judges a host: the rules, one table of them, and what they find. What a host has is `host`'s matter, what is
//! expected of it `policy`'s; nothing here reads or prints.

use std::fmt::Display;

use serde::Serialize;

use crate::finding::{Finding, Severity};
use crate::host::{Accessible, Hca, Host, Parent, Port, RoleKind, Unknown};
use crate::policy::{Group, Policy};

mod address;
mod baseline;
mod compare;
mod counters;
mod expect;
mod gid;
mod gpu;
mod items;
mod kernel;
mod pcie;
mod pod;
mod port;
mod qos;
mod rails;
mod within;

pub use items::{ITEMS, Item};
use rails::At;
pub(crate) use within::traffic;
pub use within::traffic::{Broke, Looped, Shown, Traffic};
pub use within::{Refused, Registered, Within};

/// One rule: a row of docs/checks.md.
#[derive(Debug)]
pub struct Rule {
    /// Stable: RDC and three digits.
    pub code: &'static str,
    /// How bad what it finds is, unless the finding itself says otherwise.
    pub severity: Severity,
    /// What it finds, in a few words.
    pub title: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// How to mend it; empty where each finding says it for itself.
    pub cure: &'static str,
    judge: fn(&Case<'_>, &mut Sheet<'_>),
}

/// What a host is judged by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Against<'a> {
    /// What is expected; None expects nothing.
    pub policy: Option<&'a Policy>,
    /// The one group of the policy that counts; None takes those that name the host.
    pub group: Option<&'a str>,
    /// The same host when it was good.
    pub baseline: Option<&'a Host>,
    /// The same host a while ago: counters are judged by what they grew since.
    pub earlier: Option<&'a Host>,
    /// What the process that looks may do; None judges the host alone.
    pub within: Option<&'a Within>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The worst first, then by code.
    pub findings: Vec<Finding>,
    /// What could not be judged, which is not the same as good.
    pub unjudged: Vec<Unjudged>,
    /// How many findings the policy silences.
    pub silenced: usize,
}

/// A rule that lacked its facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unjudged {
    /// Code of the rule.
    pub code: &'static str,
    /// What it is about.
    pub subject: String,
    /// Which fact is missing and why.
    pub why: String,
    /// Whether a policy expects it: then the host cannot be said to be as expected.
    pub expected: bool,
}

/// All rules, by family.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let families = [
        kernel::RULES,
        gpu::RULES,
        expect::RULES,
        baseline::RULES,
        port::RULES,
        compare::RULES,
        gid::RULES,
        qos::RULES,
        address::RULES,
        pcie::RULES,
        counters::RULES,
        counters::OF_INTERFACES,
        pod::RULES,
        within::RULES,
    ];
    families.into_iter().flatten()
}

/// Whether there is a rule of that code.
pub fn is_code(code: &str) -> bool {
    rules().any(|rule| rule.code == code)
}

/// Judges a host whose ports are judged already (`usable::judge`).
pub fn check(host: &Host, against: &Against<'_>) -> Report {
    let case = Case::of(host, against);
    let mut report = Report { findings: Vec::new(), unjudged: Vec::new(), silenced: 0 };
    for rule in rules() {
        let mut sheet = Sheet { rule, findings: Vec::new(), unjudged: Vec::new() };
        (rule.judge)(&case, &mut sheet);
        // Who is inside a Pod does not build the host: PCIe is worth knowing there, no more.
        if host.pod.is_some() && rule.code.starts_with("RDC4") {
            sheet.findings.iter_mut().for_each(|finding| finding.severity = Severity::Note);
        }
        if against.policy.is_some_and(|policy| policy.silence.iter().any(|code| code == rule.code)) {
            report.silenced += sheet.findings.len();
        } else {
            report.findings.extend(sheet.findings);
            report.unjudged.extend(sheet.unjudged);
        }
    }
    // Stable: within a code the order in which the host has things stays.
    report.findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.code.cmp(b.code)));
    report.unjudged.sort_by(|a, b| a.code.cmp(b.code));
    report
}

impl Report {
    /// How bad the worst finding is.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// What the rules look at.
struct Case<'a> {
    host: &'a Host,
    against: &'a Against<'a>,
    /// The groups of the policy that the host is in.
    groups: Vec<&'a Group>,
    /// Rails of one kind, which are compared with each other.
    alike: Vec<Vec<At<'a>>>,
}

impl<'a> Case<'a> {
    fn of(host: &'a Host, against: &'a Against<'a>) -> Self {
        let name = host.hostname.as_deref();
        let groups = against.policy.map_or_else(Vec::new, |policy| policy.groups_of(name, against.group));
        let mut case = Case { host, against, groups, alike: Vec::new() };
        case.alike = rails::alike(&case);
        case
    }

    /// Whether the HCA is this host's to use: inside a Pod only what was granted is.
    fn is_own(&self, hca: &Hca) -> bool {
        self.host.pod.is_none() || is_reached(hca)
    }

    /// All ports that are this host's to use.
    fn ports(&self) -> impl Iterator<Item = At<'a>> + use<'a> {
        let pod = self.host.pod.is_some();
        let own = self.host.hcas.iter().filter(move |hca| !pod || is_reached(hca));
        own.flat_map(|hca| hca.ports.iter().map(move |port| (hca, port)))
    }

    /// The ports that carry the traffic of jobs.
    fn rails(&self) -> Vec<At<'a>> {
        self.ports().filter(rails::is_rail).collect()
    }

    /// The HCAs that are PCI functions of their own and carry traffic: a VF's registers are its PF's.
    fn functions(&self) -> impl Iterator<Item = &'a Hca> + use<'a> {
        let pod = self.host.pod.is_some();
        self.host.hcas.iter().filter(move |hca| {
            let own = hca.parent == Parent::Pci && hca.physical_function.is_none() && !hca.software;
            own && hca.role.kind != RoleKind::Bridge && (!pod || is_reached(hca))
        })
    }

    /// The rail that carries the default route, and the interface that does.
    fn default_route_rail(&self) -> Option<(&'a Hca, &'a str)> {
        if self.host.pod.is_some() { None } else { address::default_route_rail(self) }
    }

    /// What counters are compared with.
    fn earlier(&self) -> Option<&'a Host> {
        self.against.earlier.or(self.against.baseline)
    }
}

/// Where a rule writes down what it finds.
struct Sheet<'a> {
    rule: &'a Rule,
    findings: Vec<Finding>,
    unjudged: Vec<Unjudged>,
}

impl Sheet<'_> {
    /// Writes a finding with the rule's severity and cure, which the caller may change.
    fn find(
        &mut self,
        subject: impl Display,
        seen: impl Into<String>,
        wanted: impl Into<String>,
    ) -> &mut Finding {
        let finding = Finding {
            code: self.rule.code,
            severity: self.rule.severity,
            subject: subject.to_string(),
            seen: seen.into(),
            wanted: wanted.into(),
            cure: self.rule.cure.into(),
        };
        let at = self.findings.len();
        self.findings.push(finding);
        &mut self.findings[at]
    }

    /// Writes a finding as it is.
    fn say(&mut self, subject: impl Display, seen: impl Into<String>, wanted: impl Into<String>) {
        self.find(subject, seen, wanted);
    }

    /// Says that a fact is missing.
    fn unjudged(&mut self, subject: impl Display, why: impl Into<String>) {
        let expected = expect::RULES.iter().any(|rule| rule.code == self.rule.code);
        let (code, subject, why) = (self.rule.code, subject.to_string(), why.into());
        self.unjudged.push(Unjudged { code, subject, why, expected });
    }
}

/// `mlx5_0/1`.
fn port_name(hca: &Hca, port: &Port) -> String {
    format!("{}/{}", hca.name, port.port)
}

/// Whether the HCA's verbs node can be opened from here.
fn is_reached(hca: &Hca) -> bool {
    hca.uverbs.as_ref().is_some_and(|device| device.accessible == Accessible::Yes)
}

/// Why a field is null: `state: EINVAL`.
fn why(unknown: &Unknown, field: &str) -> String {
    match unknown.get(field) {
        Some(reason) => format!("{field} could not be read ({reason})"),
        None => format!("{field} is not known"),
    }
}
