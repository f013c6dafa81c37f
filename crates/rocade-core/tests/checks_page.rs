//! docs/checks.md is written from the table of rules and compared here. `make docs` writes it anew.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use rocade_core::check::{ITEMS, rules};
use rocade_core::{Severity, lint};

const HEAD: &str = "\
# What `rocade check` finds

`rocade check` judges a host: this one, or with `--from FILE` a recorded one. It exits with 1 if it finds something at
or over `--fail-on` (error by default), with 2 if it cannot look. A code keeps its meaning; a policy silences it
(docs/policy.md).

`rocade verify` judges the Pod that it runs in (docs/verify.md): RDC611 and up it finds alone.

`rocade lint` judges manifests before they are applied (docs/lint.md): its codes are RDC740 and up.

Errors keep RDMA from working. Warnings are odd and cost speed or safety. Notes are worth knowing. What lacks its facts,
because a right is missing or a recording is old, is `not judged`: that is not the same as good.

This page is written from the code (`make docs`).
";

const FAMILIES: &[(char, &str)] = &[
    ('1', "Host and kernel"),
    ('2', "Ports and links"),
    ('3', "GIDs and RoCE"),
    ('4', "PCIe and NUMA"),
    ('5', "Counters"),
    ('6', "Pods and grants"),
    ('7', "Manifests"),
];

/// A row of the page.
struct Row {
    code: &'static str,
    severity: Severity,
    title: &'static str,
    why: &'static str,
    cure: &'static str,
}

fn rows() -> Vec<Row> {
    let of_hosts = rules().map(|r| (r.code, r.severity, r.title, r.why, r.cure));
    let of_manifests = lint::rules().map(|r| (r.code, r.severity, r.title, r.why, r.cure));
    let all = of_hosts.chain(of_manifests);
    all.map(|(code, severity, title, why, cure)| Row { code, severity, title, why, cure }).collect()
}

#[test]
fn the_page_of_checks_says_what_the_code_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/checks.md");
    let page = render();
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page, "docs/checks.md is not what the code says: run `make docs`");
}

#[test]
fn every_code_is_one_rule_of_a_known_family() {
    let mut seen = BTreeSet::new();
    for rule in rows() {
        let digits = rule.code.strip_prefix("RDC").unwrap();
        assert!(digits.len() == 3 && digits.parse::<u32>().is_ok(), "{}", rule.code);
        assert!(FAMILIES.iter().any(|(digit, _)| digits.starts_with(*digit)), "{}", rule.code);
        assert!(seen.insert(rule.code), "{} stands for two rules", rule.code);
        assert!(!rule.title.is_empty() && !rule.why.is_empty(), "{}", rule.code);
    }
}

#[test]
fn every_item_names_rules_that_exist_or_says_why_not() {
    let known: BTreeSet<&str> = rules().map(|rule| rule.code).collect();
    for item in ITEMS {
        assert!(!item.codes.is_empty() || !item.unread.is_empty(), "{}", item.name);
        for code in item.codes {
            assert!(known.contains(code), "{}: {code} is no rule", item.name);
        }
    }
}

fn render() -> String {
    let mut page = HEAD.to_owned();
    for (digit, title) in FAMILIES {
        let _ = writeln!(page, "\n## {title}");
        let mut family: Vec<Row> =
            rows().into_iter().filter(|rule| rule.code[3..].starts_with(*digit)).collect();
        family.sort_by_key(|rule| rule.code);
        for rule in family {
            let cure = if rule.cure.is_empty() { "each finding says it." } else { rule.cure };
            let _ = writeln!(page, "\n### {} {}", rule.code, rule.title);
            let _ = writeln!(page, "\nSeverity: {}. {}", rule.severity, rule.why);
            let _ = writeln!(page, "\nTo mend it: {cure}");
        }
    }
    page.push_str("\n## What readiness hangs on\n\n");
    page.push_str("| item | read from | judged by | not read |\n| --- | --- | --- | --- |\n");
    for item in ITEMS {
        let codes = if item.codes.is_empty() { "nothing".to_owned() } else { item.codes.join(", ") };
        let _ = writeln!(page, "| {} | {} | {codes} | {} |", item.name, item.read_from, item.unread);
    }
    page
}

#[test]
fn the_example_of_the_policy_page_is_a_policy() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    let page = std::fs::read_to_string(file).unwrap();
    let example = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let policy = rocade_core::policy::Policy::parse("docs/policy.md", example).unwrap();
    assert_eq!(policy.groups.len(), 2);
}
