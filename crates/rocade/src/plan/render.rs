//! A plan as text for people and as a document for programs. Decides nothing.

use std::fmt::Write as _;

use anyhow::Context;
use rocade_core::plan::{Pool, PoolMember};
use rocade_core::{Finding, Host};
use serde_json::{Value, json};

use crate::columns::{GAP, lay_out};

/// Version of the document; raised when a field changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// A plan and what is odd about it.
pub(super) struct Shown<'a> {
    pub(super) host: &'a Host,
    pub(super) pools: &'a [Pool],
    pub(super) findings: &'a [Finding],
}

impl Shown<'_> {
    /// Each resource with a line for each HCA of the host, then the findings.
    pub(super) fn table(&self, wide: bool) -> String {
        let mut text = String::new();
        for pool in self.pools {
            let ids = id_range(pool).filter(|_| wide).map(|ids| format!(", IDs {ids}")).unwrap_or_default();
            let worth = match &pool.why_no_slots {
                Some(why) => format!("nothing: {why}"),
                None => pool.worth_text(),
            };
            let _ = writeln!(text, "{} ({}): {worth}{ids}", pool.resource, pool.sharing_text());
            for near in &pool.near_misses {
                let _ = writeln!(text, "{GAP}{near}");
            }
            let rows = self.host.hcas.iter().map(|hca| self.row(pool, hca.name.as_str(), wide));
            let rows: Vec<Vec<String>> = std::iter::once(heading(wide)).chain(rows).collect();
            if rows.len() > 1 {
                text.extend(lay_out(&rows).lines().map(|line| format!("{GAP}{line}\n")));
            }
            text.push('\n');
        }
        // That nothing stands behind a resource was said at the resource.
        let rest = self.findings.iter().filter(|finding| finding.code != "RDC730");
        text.extend(rest.map(|finding| format!("{finding}\n")));
        text
    }

    fn row(&self, pool: &Pool, hca: &str, wide: bool) -> Vec<String> {
        let found = self.host.hca(hca);
        let address = found.and_then(|hca| hca.pci_address).map_or("-".to_owned(), |a| a.to_string());
        let member = pool.members.iter().find(|member| member.hca.as_str() == hca);
        let reason =
            pool.left_out.iter().find(|out| out.hca.as_str() == hca).map(|out| out.reason.to_string());
        let mut row = vec![hca.to_owned(), address];
        if wide {
            row.extend(member.map_or_else(|| vec!["-".to_owned(); 4], places));
        }
        row.push(if member.is_some() { "in" } else { "out" }.to_owned());
        row.push(member.map_or(reason.unwrap_or_default(), why_in));
        row
    }

    /// The plan for programs.
    pub(super) fn document(&self) -> anyhow::Result<Value> {
        let resources = self.pools.iter().map(document_of).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(json!({
            "schema_version": SCHEMA_VERSION,
            "host": self.host.hostname,
            "resources": resources,
            "findings": self.findings,
        }))
    }
}

fn heading(wide: bool) -> Vec<String> {
    let places: &[&str] = if wide { &["PORTS", "ID", "NUMA", "NODES"] } else { &[] };
    let all = ["HCA", "PCI"].iter().chain(places).chain(&["", "WHY"]);
    all.map(|word| (*word).to_owned()).collect()
}

fn places(member: &PoolMember) -> Vec<String> {
    let ports: Vec<_> = member.ports.iter().map(ToString::to_string).collect();
    let nodes: Vec<_> = member.nodes.iter().map(|n| n.trim_start_matches("/dev/infiniband/")).collect();
    let numa = member.numa_node.map_or("?".to_owned(), |node| node.to_string());
    vec![ports.join(","), member.id.clone(), numa, nodes.join(",")]
}

/// How it was found, and what goes with it.
fn why_in(member: &PoolMember) -> String {
    let with = member.companions.iter().map(|hca| format!("with {hca}, a half of the same port"));
    member.found_by.iter().cloned().chain(with).collect::<Vec<_>>().join("; ")
}

/// `0 to 62`; of HCAs the first and the last.
fn id_range(pool: &Pool) -> Option<String> {
    let first = pool.devices().next()?.id;
    let last = pool.devices().nth(pool.slots.checked_sub(1)? as usize)?.id;
    Some(if first == last { first } else { format!("{first} to {last}") })
}

/// A resource with every reason in words beside its parts.
fn document_of(pool: &Pool) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(pool)?;
    let fields = value.as_object_mut().context("a resource is an object")?;
    let whys = pool
        .left_out
        .iter()
        .map(|out| json!({ "hca": out.hca, "reason": out.reason, "why": out.reason.to_string() }));
    fields.insert("left_out".into(), whys.collect());
    fields.insert("worth".into(), pool.worth_text().into());
    fields.insert("why_no_slots".into(), pool.why_no_slots.as_ref().map(ToString::to_string).into());
    Ok(value)
}
