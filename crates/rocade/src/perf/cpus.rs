//! Which CPUs a test runs on. Whoever started it may have bound it already: taskset, numactl and Slurm do so for a reason.

use anyhow::Context;
use rocade_core::HcaName;
use rocade_host::Root;
use rocade_verbs::placement::Placement;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::options::Where;
use crate::outcome::Advice;
use crate::source::Source;

/// Those that were asked for; else, of those that the thread may run on already, the ones near the HCA. None leaves it
/// where it is: nothing near is known, or it is bound elsewhere.
pub(crate) fn usable_cpus(place: &Where, hca: &HcaName) -> anyhow::Result<Option<Vec<usize>>> {
    let root = Source { from: None }.open()?;
    let asked = match (&place.cpus, place.numa) {
        (Some(list), _) => rocade_host::parse_cpus(list),
        (None, Some(node)) => rocade_host::read_node_cpus(&root, node).ok(),
        (None, None) => return Ok(near_cpus(&root, hca)),
    };
    let hint =
        "see `lscpu`, and which of them this container may use (Cpus_allowed_list in /proc/self/status)";
    let advice = || Advice::new("cannot run on the CPUs asked for", hint);
    let cpus = asked.filter(|cpus| !cpus.is_empty()).with_context(advice)?;
    let cpus: Vec<usize> = cpus.into_iter().map(|cpu| cpu as usize).collect();
    usable(&cpus).with_context(advice)?;
    Ok(Some(cpus))
}

/// Those that the thread may run on now, as 0-3,8; None where the kernel has more than 1024, of which it is not asked.
pub(crate) fn cpus_in_words() -> Option<String> {
    Some(in_words(&allowed()?))
}

fn near_cpus(root: &Root, hca: &HcaName) -> Option<Vec<usize>> {
    let near = rocade_host::read_near_cpus(root, hca).ok()?;
    let is_near = |cpu: &usize| near.iter().any(|near| *near as usize == *cpu);
    let cpus: Vec<usize> = allowed()?.into_iter().filter(is_near).collect();
    (!cpus.is_empty() && usable(&cpus).is_ok()).then_some(cpus)
}

fn allowed() -> Option<Vec<usize>> {
    let set = sched_getaffinity(None).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Tries to run on them, for a moment.
fn usable(cpus: &[usize]) -> anyhow::Result<()> {
    Placement::pin(cpus)?;
    Ok(())
}

/// As the kernel prints a list.
fn in_words(cpus: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus.iter().copied() {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let words = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(words).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread;

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
        let first = allowed().unwrap()[0];
        assert_eq!(cpus(&["--cpus", &first.to_string()]).unwrap(), Some(vec![first]));
        for unusable in [["--cpus", "8000"], ["--cpus", "a"], ["--cpus", ""], ["--numa", "4000"]] {
            let said = format!("{:#}", cpus(&unusable).unwrap_err());
            assert!(said.starts_with("cannot run on the CPUs asked for"), "{said}");
        }
    }

    #[test]
    fn without_a_wish_an_hca_without_a_slot_leaves_the_thread_where_it_is() {
        assert_eq!(cpus(&[]).unwrap(), None);
    }

    fn near(hca: &str) -> Option<Vec<usize>> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/dgx-h100.host");
        near_cpus(&Root::open(file).unwrap(), &hca.parse().unwrap())
    }

    /// As taskset, numactl and Slurm bind a process. The host has two sockets, with mlx5_0 on one and mlx5_6 on the other.
    #[test]
    fn a_thread_that_is_bound_stays_within_its_binding() {
        let first = allowed().unwrap()[0];
        let (close, far) = if first < 56 { ("mlx5_0", "mlx5_6") } else { ("mlx5_6", "mlx5_0") };
        assert!(near(close).unwrap().contains(&first));
        let bound = thread::spawn(move || {
            let _binding = Placement::pin(&[first]).unwrap();
            (near(close), near(far), cpus_in_words())
        });
        assert_eq!(bound.join().unwrap(), (Some(vec![first]), None, Some(first.to_string())));
    }

    #[test]
    fn a_list_is_written_as_the_kernel_prints_it() {
        for list in ["", "0", "0-3,8", "1,3,5-6"] {
            let cpus: Vec<usize> =
                rocade_host::parse_cpus(list).unwrap().into_iter().map(|cpu| cpu as usize).collect();
            assert_eq!(in_words(&cpus), list);
        }
    }
}
