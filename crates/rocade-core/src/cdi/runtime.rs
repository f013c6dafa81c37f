//! Which container runtimes honour CDI names in the kubelet's request (CRI field CDI_devices): containerd has done so
//! since 1.7.2, where its setting enable_cdi says so, and by default since 2.0; CRI-O since 1.28.

use std::fmt;
use std::str::FromStr;

use crate::names::ParseNameError;

/// A container runtime as it names itself, or as an administrator states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// `containerd`, `cri-o`.
    pub name: String,
    /// Major, minor and patch number.
    pub version: (u32, u32, u32),
    /// Whether CDI is on in its configuration; None where it was not told.
    pub enabled: Option<bool>,
}

impl FromStr for Runtime {
    type Err = ParseNameError;
    /// `containerd 2.0.1`, `containerd://2.0.1` as the node's status has it, `containerd 1.7.24 enable_cdi`.
    fn from_str(s: &str) -> Result<Self, ParseNameError> {
        let wrong = || ParseNameError {
            seen: s.to_owned(),
            wanted: "a container runtime and its version, as containerd 2.0.1",
        };
        let text = s.replace("://", " ");
        let mut words = text.split_whitespace();
        let (name, version) = (words.next().ok_or_else(wrong)?, words.next().ok_or_else(wrong)?);
        let enabled = match words.next() {
            None => None,
            Some("enable_cdi") => Some(true),
            Some(_) => return Err(wrong()),
        };
        let version = numbers(version).ok_or_else(wrong)?;
        Ok(Runtime { name: name.to_lowercase(), version, enabled })
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.version;
        write!(f, "{} {major}.{minor}.{patch}", self.name)
    }
}

/// `v2.1.0-rc.1+x` → 2, 1, 0; the patch number may be missing.
fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let numeric = version.trim_start_matches('v').split(['-', '+', '~']).next()?;
    let mut parts = numeric.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?))
}

/// Why grants by CDI names would reach no container of this runtime; None where it is known to honour them. Older ones
/// ignore the field without a word, so that a Pod would start without its HCA.
pub fn refuse_runtime(runtime: &Runtime) -> Option<String> {
    match (runtime.name.as_str(), runtime.version) {
        _ if runtime.enabled == Some(false) => {
            Some(format!("CDI is off in the configuration of {runtime}: enable_cdi = true"))
        }
        ("containerd", (2.., ..)) => None,
        ("containerd", version) if version < (1, 7, 2) => {
            Some(format!("{runtime} ignores CDI names that the kubelet hands on, 1.7.2 and newer do not"))
        }
        ("containerd", _) if runtime.enabled == Some(true) => None,
        ("containerd", _) => Some(format!(
            "{runtime} honours CDI names only with enable_cdi = true: state it as runtime: \"{runtime} enable_cdi\", or mount its socket"
        )),
        ("cri-o", version) if version >= (1, 28, 0) => None,
        ("cri-o", _) => {
            Some(format!("{runtime} ignores CDI names that the kubelet hands on, 1.28 and newer do not"))
        }
        _ => Some(format!(
            "{runtime} is not known to honour CDI names: containerd 1.7.2, CRI-O 1.28 and newer are"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Option<String> {
        refuse_runtime(&text.parse().unwrap())
    }

    #[test]
    fn runtimes_that_ignore_cdi_names_are_refused_with_the_reason() {
        for (runtime, word) in [
            ("containerd 1.6.20", "1.7.2"),
            ("containerd 1.7.1 enable_cdi", "1.7.2"),
            ("containerd 1.7.24", "enable_cdi"),
            ("cri-o 1.27.9", "1.28"),
            ("docker 27.0.3", "not known"),
        ] {
            assert!(
                refusal(runtime).is_some_and(|why| why.contains(word)),
                "{runtime}: {:?}",
                refusal(runtime)
            );
        }
    }

    #[test]
    fn runtimes_that_honour_them_are_not() {
        for runtime in [
            "containerd 2.0.1",
            "containerd://2.3.4",
            "containerd v2.1.0-rc.1",
            "containerd 1.7.24 enable_cdi",
            "cri-o 1.28.0",
            "CRI-O 1.31",
        ] {
            assert_eq!(refusal(runtime), None, "{runtime}");
        }
    }

    #[test]
    fn a_runtime_that_says_that_cdi_is_off_is_refused_whatever_its_version() {
        let runtime = Runtime { enabled: Some(false), .."containerd 2.0.0".parse().unwrap() };
        assert!(refuse_runtime(&runtime).is_some_and(|why| why.contains("enable_cdi")));
    }

    #[test]
    fn a_statement_without_version_is_no_runtime() {
        for text in ["", "containerd", "containerd two", "containerd 2.0.1 sometimes"] {
            assert!(text.parse::<Runtime>().is_err(), "{text}");
        }
    }
}
