//! What users of RDMA on Kubernetes ran into, each as a recorded host that shows it: the finding has to have its code,
//! its subject and its cure. A recording is one of fixtures/hosts with the case's own change, or a few lines.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::Path;

use rocade_core::check::{Against, Report, check};
use rocade_core::policy::Policy;
use rocade_core::{Finding, Host, Severity};
use rocade_host::{Root, read_host};

mod absent;
mod counted;
mod expected;
mod gids;
mod looped;
mod names;
mod nodes;
mod pods;
mod settings;
mod statistics;
mod verified;

/// The text of a recorded host, to be changed.
struct Recording(String);

impl Recording {
    /// One of fixtures/hosts.
    fn of(kind: &str) -> Recording {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
        Recording(fs::read_to_string(folder.join(kind).with_extension("host")).unwrap())
    }

    /// One of a few lines; the first and the last are added.
    fn small(lines: &str) -> Recording {
        Recording(format!("rocade-host 2\n{lines}end 0\n"))
    }

    /// Other text everywhere; it has to occur.
    fn with(self, text: &str, other: &str) -> Recording {
        assert!(self.0.contains(text), "`{text}` is not in the recording");
        Recording(self.0.replace(text, other))
    }

    /// Other text within the section whose heading ends so.
    fn within(self, section: &str, text: &str, other: &str) -> Recording {
        let is_heading = |line: &str| !line.starts_with(' ') && line.ends_with(section);
        let mut inside = false;
        let mut changed = false;
        let mut lines = String::new();
        for line in self.0.split_inclusive('\n') {
            if !line.starts_with(' ') {
                inside = is_heading(line.trim_end());
            }
            let new = if inside { line.replace(text, other) } else { line.to_owned() };
            changed |= new != line;
            lines.push_str(&new);
        }
        assert!(changed, "`{text}` is not in a section {section}");
        Recording(lines)
    }

    /// Without the lines that hold a text; there has to be one.
    fn without(self, text: &str) -> Recording {
        let kept: String = self.0.split_inclusive('\n').filter(|line| !line.contains(text)).collect();
        assert!(kept.len() < self.0.len(), "`{text}` is not in the recording");
        Recording(kept)
    }

    /// With one module more loaded.
    fn with_module(self, name: &str) -> Recording {
        self.count_modules(&format!("  |{name} 16384 0 - Live 0x0000000000000000\n"), 1)
            .and(&format!("dir /sys/module/{name}\n"))
    }

    /// Without a module that is loaded.
    fn without_module(self, name: &str) -> Recording {
        let recording = self.without(&format!("  |{name} ")).count_modules("", -1);
        let heading = format!("dir /sys/module/{name}\n");
        let at = recording.0.find(&heading).unwrap();
        let rest = &recording.0[at + heading.len()..];
        let end =
            rest.split_inclusive('\n').take_while(|line| line.starts_with(' ')).map(str::len).sum::<usize>();
        Recording(format!("{}{}", &recording.0[..at], &rest[end..]))
    }

    /// /proc/modules with another count of lines, and further ones at its head.
    fn count_modules(self, lines: &str, more: isize) -> Recording {
        const FILE: &str = " lines modules ";
        let count: isize = self.0.split(FILE).nth(1).unwrap().lines().next().unwrap().parse().unwrap();
        self.with(&format!("{FILE}{count}\n"), &format!("{FILE}{}\n{lines}", count + more))
    }

    /// One more section.
    fn and(self, section: &str) -> Recording {
        let at = self.0.find("\ndir ").or_else(|| self.0.find("\npart ")).unwrap() + 1;
        Recording(format!("{}{section}{}", &self.0[..at], &self.0[at..]))
    }

    fn host(&self) -> Host {
        let lines: Vec<&str> = self.0.lines().filter(|line| !line.starts_with("end ")).collect();
        let text = format!("{}\nend {}\n", lines.join("\n"), lines.len());
        let root = Root::recorded("case.host", text.as_bytes()).unwrap_or_else(|error| {
            panic!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string))
        });
        let mut host = read_host(&root);
        rocade_core::judge(&mut host);
        host
    }

    fn check(&self) -> Report {
        check(&self.host(), &Against::default())
    }

    fn check_against(&self, policy: &str) -> Report {
        let head = "apiVersion: rocade.dev/v1alpha1\nkind: Policy\ngroups:\n- name: rails\n  ports:\n";
        let policy = Policy::parse("policy.yaml", &format!("{head}{policy}")).unwrap();
        check(&self.host(), &Against { policy: Some(&policy), ..Against::default() })
    }
}

/// The finding of that code about that subject, whose text and cure hold these words.
fn assert_found<'a>(report: &'a Report, code: &str, subject: &str, seen: &str, cure: &str) -> &'a Finding {
    let of_code: Vec<&Finding> = report.findings.iter().filter(|finding| finding.code == code).collect();
    let found = of_code.iter().find(|finding| finding.subject == subject);
    let finding = found.unwrap_or_else(|| panic!("no {code} about {subject}, there is {of_code:#?}"));
    assert!(finding.seen.contains(seen), "`{seen}` is not in {finding}");
    assert!(finding.cure.contains(cure), "`{cure}` is not in {finding}");
    finding
}

fn assert_none_of(report: &Report, codes: &[&str]) {
    let found: Vec<String> =
        report.findings.iter().filter(|f| codes.contains(&f.code)).map(ToString::to_string).collect();
    assert!(found.is_empty(), "found {found:#?}");
}

fn worst_of<'a>(report: &'a Report, subject: &str) -> Option<&'a Finding> {
    report.findings.iter().filter(|finding| finding.subject == subject).max_by_key(|finding| finding.severity)
}

fn is_error(finding: Option<&Finding>) -> bool {
    finding.is_some_and(|finding| finding.severity == Severity::Error)
}
