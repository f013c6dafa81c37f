//! What the writer says in its log, once per change.

use std::collections::BTreeMap;
use std::time::SystemTime;

use rocade_core::plan::Pool;
use rocade_core::{Finding, HcaName, Severity};

use crate::state::{Condition, HcaState, LastError};

/// One line for each pool that is new or changed: with HCAs what they are, without why there are none.
pub(super) fn log_pools(old: &[Pool], new: &[Pool]) {
    for pool in new.iter().filter(|pool| !old.contains(pool)) {
        let resource = &pool.resource;
        for near_miss in &pool.near_misses {
            tracing::warn!(%resource, "{near_miss}");
        }
        match &pool.why_no_slots {
            Some(why) if pool.is_removed() => tracing::info!(%resource, "{why}"),
            Some(why) => {
                let out: Vec<_> =
                    pool.left_out.iter().map(|out| format!("{}: {}", out.hca, out.reason)).collect();
                tracing::warn!(%resource, left_out = out.join("; "), "no device is offered: {why}");
            }
            None => {
                tracing::info!(%resource, slots = pool.slots, hcas = pool.ports_text(), "found HCAs");
            }
        }
    }
    let gone = old.iter().filter(|old| new.iter().all(|pool| pool.resource != old.resource));
    gone.for_each(|pool| tracing::info!(resource = %pool.resource, "the resource is offered no more"));
}

/// One line for each finding that is new. That nothing stands behind a resource is said with the pool.
pub(super) fn log_findings(old: &[Finding], new: &[Finding]) {
    for finding in new.iter().filter(|finding| finding.code != "RDC730" && !old.contains(finding)) {
        match finding.severity {
            Severity::Note => tracing::info!("{finding}"),
            Severity::Warning | Severity::Error => tracing::warn!("{finding}"),
        }
    }
}

/// One line for each HCA whose health changed.
pub(super) fn log_health(old: &BTreeMap<HcaName, HcaState>, new: &BTreeMap<HcaName, HcaState>) {
    for (hca, now) in new {
        let before = old.get(hca).map(|old| (old.condition, old.healthy));
        if before == Some((now.condition, now.healthy)) {
            continue;
        }
        let reason = now.reason.as_str();
        match (now.condition, now.healthy) {
            (Condition::Up, true) if before.is_some() => tracing::info!(%hca, "well again"),
            (Condition::Up, true) => {}
            (Condition::Up, false) => tracing::info!(%hca, "ACTIVE again, not for long enough yet"),
            (Condition::InUse, _) => tracing::info!(%hca, reason, "in use"),
            (Condition::Down | Condition::Gone, true) => tracing::warn!(%hca, reason, "down, not for long"),
            (Condition::Down | Condition::Gone, false) => tracing::warn!(%hca, reason, "failed"),
        }
    }
}

/// An error that happened now.
pub(crate) fn error(subject: &str, text: &str) -> LastError {
    LastError { at: SystemTime::now(), subject: subject.to_owned(), text: text.to_owned(), times: 1 }
}
