//! One judged fact: a stable code, how bad it is, about what, and what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Odd; what was asked for still happens.
    Warning,
    /// What was asked for cannot happen.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// One judged fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// RDC and three digits: 1 host and kernel, 2 port and link, 3 GID and RoCE, 4 PCIe and NUMA, 5 counters,
    /// 6 Pod and grant, 7 configuration and manifests, 8 cluster and fabric.
    pub code: &'static str,
    /// How bad.
    pub severity: Severity,
    /// What it is about: `mlx5_0/1`, `config.json:7 configList[1].resourceName`.
    pub subject: String,
    /// What was seen.
    pub seen: String,
    /// What was wanted.
    pub wanted: String,
    /// What to do; empty when that is plain.
    pub cure: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}[{}]: {}: {}, wanted {}",
            self.severity, self.code, self.subject, self.seen, self.wanted
        )?;
        if !self.cure.is_empty() {
            write!(f, "; {}", self.cure)?;
        }
        Ok(())
    }
}
