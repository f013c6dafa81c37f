//! Which CPUs a test runs on.

use anyhow::Context;
use rocade_core::HcaName;
use rocade_verbs::placement::Placement;

use super::options::Where;
use crate::outcome::Advice;
use crate::source::Source;

/// Those that were asked for; else, where they are known and may be used, those near the HCA.
pub(super) fn usable_cpus(place: &Where, hca: &HcaName) -> anyhow::Result<Option<Vec<usize>>> {
    let root = Source { from: None }.open()?;
    let asked = match (&place.cpus, place.numa) {
        (Some(list), _) => rocade_host::parse_cpus(list),
        (None, Some(node)) => rocade_host::read_node_cpus(&root, node).ok(),
        (None, None) => {
            let near = rocade_host::read_near_cpus(&root, hca).ok();
            return Ok(near.and_then(|near| usable(near).ok()));
        }
    };
    let hint =
        "see `lscpu`, and which of them this container may use (Cpus_allowed_list in /proc/self/status)";
    let advice = || Advice::new("cannot run on the CPUs asked for", hint);
    let cpus = asked.filter(|cpus| !cpus.is_empty()).with_context(advice)?;
    Ok(Some(usable(cpus).with_context(advice)?))
}

/// Tries to run on them, for a moment.
fn usable(cpus: Vec<u32>) -> anyhow::Result<Vec<usize>> {
    let cpus: Vec<usize> = cpus.into_iter().map(|cpu| cpu as usize).collect();
    Placement::pin(&cpus)?;
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        place: Where,
    }

    fn cpus(arguments: &[&str]) -> anyhow::Result<Option<Vec<usize>>> {
        let line = Line::parse_from([&["test"], arguments].concat());
        usable_cpus(&line.place, &"nonexistent0".parse().unwrap())
    }

    #[test]
    fn cpus_that_were_asked_for_are_taken_or_named_as_unusable() {
        let allowed = std::fs::read_to_string("/proc/self/status").unwrap();
        let list = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let first = rocade_host::parse_cpus(list).unwrap()[0];
        assert_eq!(cpus(&["--cpus", &first.to_string()]).unwrap(), Some(vec![first as usize]));
        for unusable in [["--cpus", "8000"], ["--cpus", "a"], ["--cpus", ""], ["--numa", "4000"]] {
            let said = format!("{:#}", cpus(&unusable).unwrap_err());
            assert!(said.starts_with("cannot run on the CPUs asked for"), "{said}");
        }
    }

    #[test]
    fn without_a_wish_an_hca_without_a_slot_leaves_the_thread_where_it_is() {
        assert_eq!(cpus(&[]).unwrap(), None);
    }
}
