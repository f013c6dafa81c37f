//! What is expected of a host (`kind: Policy`): text → types. Whether a host meets it is `check`'s matter, and where
//! the text comes from the door's.

use garde::Validate;
use serde::Deserialize;

use crate::check::is_code;
use crate::host::NetnsMode;

mod select;
#[cfg(test)]
mod tests;

pub use select::Select;

/// The version of the form that this build reads.
pub const API_VERSION: &str = "rocade.dev/v1alpha1";

/// A text that is no policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// No YAML, an unknown key, a value that cannot be meant.
    #[error("{name}:{line}: {what}")]
    Wrong {
        /// What the text is called: its file.
        name: String,
        /// Line of the mistake, from 1.
        line: u64,
        /// What is wrong there.
        what: String,
    },
    /// Written for another version of the form.
    #[error("{name}:{line}: apiVersion `{seen}`, wanted {API_VERSION}")]
    Version {
        /// What the text is called: its file.
        name: String,
        /// Line of `apiVersion`.
        line: u64,
        /// What stands there.
        seen: String,
    },
    /// Another kind of document.
    #[error("{name}:{line}: kind `{seen}`, wanted Policy")]
    Kind {
        /// What the text is called: its file.
        name: String,
        /// Line of `kind`.
        line: u64,
        /// What stands there.
        seen: String,
    },
}

/// Expectations by group of hosts, and findings not to be told. The default expects nothing.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Validate)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// Always [`API_VERSION`] once parsed.
    #[serde(default)]
    #[garde(skip)]
    pub api_version: String,
    /// Always `Policy` once parsed.
    #[serde(default)]
    #[garde(skip)]
    pub kind: String,
    /// Codes of findings that are neither told nor counted.
    #[serde(default)]
    #[garde(inner(custom(known_code)))]
    pub silence: Vec<String>,
    /// What is expected, by group of hosts. Every group that a host is in counts.
    #[serde(default)]
    #[garde(dive)]
    pub groups: Vec<Group>,
}

/// Hosts of which the same is expected.
#[derive(Debug, Clone, PartialEq, Deserialize, Validate)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Group {
    /// Its name, which `--group` takes.
    #[garde(length(min = 1))]
    pub name: String,
    /// Host names, `*` standing for any text; empty: every host.
    #[serde(default)]
    #[garde(skip)]
    pub hosts: Vec<String>,
    /// What is expected of ports.
    #[serde(default)]
    #[garde(dive)]
    pub ports: Vec<PortExpectation>,
    /// Name below /proc/sys with dots (`net.ipv4.conf.all.rp_filter`) → value.
    #[serde(default)]
    #[garde(skip)]
    pub sysctls: std::collections::BTreeMap<String, i64>,
    /// RDMA network namespace mode.
    #[serde(default)]
    #[garde(skip)]
    pub netns_mode: Option<NetnsMode>,
    /// Kernel release, `*` standing for any text.
    #[serde(default)]
    #[garde(skip)]
    pub kernel: Option<String>,
}

/// What is expected of the ports that a selection means.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Validate)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortExpectation {
    /// Which ports are meant; empty: those of role fabric.
    #[serde(default)]
    #[garde(skip)]
    pub select: Select,
    /// How many usable ports there are at least. Without it one.
    #[serde(default)]
    #[garde(range(min = 1))]
    pub count: Option<u32>,
    /// Rate of each at least, 10⁹ bit/s.
    #[serde(default)]
    #[garde(range(min = 1.0))]
    pub rate_gbps: Option<f64>,
    /// MTU of each netdev, bytes.
    #[serde(default)]
    #[garde(range(min = 68))]
    pub mtu: Option<u32>,
    /// Firmware version, `*` standing for any text.
    #[serde(default)]
    #[garde(skip)]
    pub firmware: Option<String>,
    /// The priorities with PFC, all of them.
    #[serde(default)]
    #[garde(custom(known_priorities))]
    pub pfc: Option<Vec<u8>>,
    /// Priorities that must have ECN, in both roles (notification and reaction point).
    #[serde(default)]
    #[garde(custom(known_priorities))]
    pub ecn: Option<Vec<u8>>,
    /// DSCP of RoCE's packets: the port trusts DSCP and marks them so.
    #[serde(default)]
    #[garde(range(max = 63))]
    pub dscp: Option<u8>,
    /// Maximum PCIe read request, bytes.
    #[serde(default)]
    #[garde(range(min = 128, max = 4096))]
    pub max_read_request: Option<u32>,
}

/// The form's head, whose mistakes come before all others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: serde_saphyr::Spanned<String>,
    kind: serde_saphyr::Spanned<String>,
}

impl Policy {
    /// Reads a policy; `name` is what errors call it.
    pub fn parse(name: &str, text: &str) -> Result<Policy, PolicyError> {
        let wrong = |error: serde_saphyr::Error| wrong(name, &error);
        let head: Head = serde_saphyr::from_str(text).map_err(wrong)?;
        let line = |at: &serde_saphyr::Spanned<String>| at.referenced.line();
        if head.kind.value != "Policy" {
            let (line, seen) = (line(&head.kind), head.kind.value);
            return Err(PolicyError::Kind { name: name.into(), line, seen });
        }
        if head.api_version.value != API_VERSION {
            let (line, seen) = (line(&head.api_version), head.api_version.value);
            return Err(PolicyError::Version { name: name.into(), line, seen });
        }
        serde_saphyr::from_str_valid(text).map_err(wrong)
    }

    /// The groups that a host of this name is in; with `group` only that one. None of the names that are asked for
    /// need be known.
    pub fn groups_of<'a>(&'a self, host: Option<&'a str>, group: Option<&'a str>) -> Vec<&'a Group> {
        let meant = |g: &&Group| match group {
            Some(group) => g.name == group,
            None => {
                g.hosts.is_empty() || host.is_some_and(|host| g.hosts.iter().any(|glob| matches(glob, host)))
            }
        };
        self.groups.iter().filter(meant).collect()
    }
}

/// Whether a text fits a pattern in which `*` stands for any text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return text.ends_with(part);
        }
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    true
}

fn known_code(code: &str, _: &()) -> garde::Result {
    if is_code(code) {
        return Ok(());
    }
    Err(garde::Error::new(format!("`{code}` is no code of a check; docs/checks.md lists them")))
}

fn known_priorities(priorities: &Option<Vec<u8>>, _: &()) -> garde::Result {
    match priorities.iter().flatten().find(|priority| **priority > 7) {
        Some(priority) => Err(garde::Error::new(format!("{priority} is no priority: they are 0 to 7"))),
        None => Ok(()),
    }
}

fn wrong(name: &str, error: &serde_saphyr::Error) -> PolicyError {
    let line = error.location().map_or(1, |location| location.line());
    PolicyError::Wrong { name: name.into(), line, what: error.without_snippet().to_string() }
}
