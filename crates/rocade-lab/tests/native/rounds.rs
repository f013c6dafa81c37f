//! The things that befall kubelet, agent and the directory between them, each again and again. After each, all of what
//! `Grants` holds must be as before, every device listed and a new Pod admitted.

use std::cell::Cell;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rocade_lab::kubernetes::Release;
use rocade_lab::native::{NativeNode, Signal};

use crate::grants::Grants;
use crate::{RESOURCES, is_full};

/// Longer than an agent takes to answer what it sees in the directory.
const ANSWERED: Duration = Duration::from_secs(2);

/// `ROCADE_NATIVE_RESTARTS` times another kubelet, after SIGTERM and after SIGKILL in turn. F48: Pods that run are admitted
/// again by each, and fail for good where it does not have their devices yet.
pub(crate) fn restart_kubelets(node: &mut NativeNode) -> Result<()> {
    run(node, "restart", "RESTARTS", |node, round| {
        node.stop_kubelet(in_turn(round))?;
        node.start_kubelet()
    })
}

/// `ROCADE_NATIVE_KILLS` times SIGKILL for the agent. A Pod that comes before the next one fails for good, as it would
/// with any device plugin, so none does.
pub(crate) fn kill_agents(node: &mut NativeNode) -> Result<()> {
    run(node, "kill", "KILLS", |node, _| {
        let before = node.sockets()?;
        node.end_agent(Signal::Kill)?;
        node.wait_for_allocatable(|devices| !is_full(devices))?;
        node.start_agent()?;
        let now = node.wait_for_sockets(&before, RESOURCES.len())?;
        ensure!(node.sockets()? == now, "sockets of the killed agent are left: {:?}", node.sockets()?);
        Ok(())
    })
}

/// `ROCADE_NATIVE_UPDATES` times a second agent that is ready before the first is told to end, as a DaemonSet with
/// maxSurge does it. F46: the time without a plugin, in which Pods fail, is none.
pub(crate) fn update_agents(node: &mut NativeNode) -> Result<()> {
    let longest = Cell::new(None::<Duration>);
    run(node, "update", "UPDATES", |node, _| {
        let before = node.sockets()?;
        let gap = node.watch_allocatable(is_full, |node| {
            node.start_agent()?;
            node.wait_for_sockets(&before, RESOURCES.len())?;
            node.wait_for_ready()?;
            node.end_agent(Signal::Term)?;
            std::thread::sleep(ANSWERED);
            Ok(())
        })?;
        longest.set(longest.get().max(gap));
        // A kubelet before 1.37 ends the new agent's connection together with the old one's, so that it registers again.
        ensure!(gap.is_none() || node.kubernetes() < Release::V1_37, "devices were missing for {gap:?}");
        let now = node.sockets()?;
        ensure!(now.len() == RESOURCES.len() && now.is_disjoint(&before), "{now:?} after {before:?}");
        Ok(())
    })?;
    println!("  longest time without every device: {:.2} s", longest.get().unwrap_or_default().as_secs_f64());
    Ok(())
}

/// `ROCADE_NATIVE_MISHAPS` times the agent's sockets are removed, or other files put in their places.
pub(crate) fn remove_sockets(node: &mut NativeNode) -> Result<()> {
    run(node, "socket", "MISHAPS", |node, round| {
        let before = node.sockets()?;
        for socket in &before {
            let path = node.plugin_dir()?.join(socket);
            if round % 2 == 0 {
                fs::remove_file(&path)?;
            } else {
                let other = path.with_extension("other");
                fs::write(&other, "")?;
                fs::rename(&other, &path)?;
            }
        }
        let now = node.wait_for_sockets(&before, RESOURCES.len())?;
        ensure!(node.sockets()? == now, "sockets are {:?}", node.sockets()?);
        before.iter().filter(|_| round % 2 == 1).try_for_each(|old| {
            fs::remove_file(node.plugin_dir()?.join(old)).context("the stranger's file was not left alone")
        })
    })
}

/// `ROCADE_NATIVE_MISHAPS` times the whole directory is removed under a living kubelet and made again. The kubelet's
/// own socket comes back only with its next start, which ends each round.
pub(crate) fn remove_directory(node: &mut NativeNode) -> Result<()> {
    run(node, "directory", "MISHAPS", |node, round| {
        let dir = node.plugin_dir()?;
        fs::remove_dir_all(&dir)?;
        if round % 2 == 1 {
            std::thread::sleep(ANSWERED);
        }
        fs::create_dir(&dir)?;
        std::thread::sleep(ANSWERED);
        let devices = node.wait_for_allocatable(|_| true)?;
        ensure!(is_full(&devices), "without directory the kubelet lists {devices:?}");
        let mut grants = Grants::default();
        grants.admit(node, format!("without-directory-{round}"))?;
        grants.verify(node)?;
        node.stop_kubelet(in_turn(round))?;
        node.start_kubelet()?;
        node.wait_for_allocatable(is_full)?;
        grants.verify(node)?;
        grants.end(node)
    })
}

/// `ROCADE_NATIVE_MISHAPS` times an agent is killed and the next one starts while the directory's file system has no
/// room for data, and in every other round none for another file either.
pub(crate) fn fill_disk(node: &mut NativeNode) -> Result<()> {
    move_directory(node, "mount -t tmpfs -o size=512k,nr_inodes=32 small $D")?;
    let filled = run(node, "disk", "MISHAPS", |node, round| {
        let before = node.sockets()?;
        node.end_agent(Signal::Kill)?;
        node.wait_for_allocatable(|devices| !is_full(devices))?;
        if round % 2 == 0 {
            node.script("cd /var/lib/kubelet/device-plugins; ! cat /dev/zero > full 2> /dev/null")?;
            node.start_agent()?;
            node.wait_for_sockets(&before, RESOURCES.len())?;
            node.wait_for_allocatable(is_full)?;
        } else {
            node.script(
                "cd /var/lib/kubelet/device-plugins; rm rocade-*.sock; ! cat /dev/zero > full 2> /dev/null
                n=0; while (: > full-$n) 2> /dev/null; do n=$((n + 1)); done",
            )?;
            node.start_agent()?;
            std::thread::sleep(ANSWERED);
            ensure!(node.sockets()?.is_empty(), "the disk was not full: {:?}", node.sockets()?);
            node.require_agents()?;
        }
        node.script("rm /var/lib/kubelet/device-plugins/full*")?;
        node.wait_for_sockets(&before, RESOURCES.len()).map(drop)
    });
    move_directory(node, "umount $D")?;
    filled
}

/// Changes what the directory D is while nobody uses it; the kubelet's checkpoint goes along.
fn move_directory(node: &mut NativeNode, script: &str) -> Result<()> {
    node.end_agent(Signal::Term)?;
    node.stop_kubelet(Signal::Term)?;
    let (dir, file) = ("D=/var/lib/kubelet/device-plugins", "kubelet_internal_checkpoint");
    node.script(&format!("{dir}; cp $D/{file} /run/native; {script}; cp /run/native/{file} $D"))?;
    node.start_kubelet()?;
    node.start_agent()?;
    node.wait_for_allocatable(is_full).map(drop)
}

fn in_turn(round: usize) -> Signal {
    if round.is_multiple_of(2) { Signal::Term } else { Signal::Kill }
}

/// Lets `befall` happen as often as the variable `ROCADE_NATIVE_{count}` says, and holds what must be true after each.
fn run(
    node: &mut NativeNode,
    name: &str,
    count: &str,
    befall: impl Fn(&mut NativeNode, usize) -> Result<()>,
) -> Result<()> {
    let count = times(count)?;
    let (mut listed, mut admitted, mut grants) = (Vec::new(), Vec::new(), Grants::default());
    grants.admit(node, format!("{name}-first"))?;
    for round in 0..count {
        let begun = Instant::now();
        let in_round = || format!("{name}, round {round}");
        befall(node, round).with_context(in_round)?;
        node.wait_for_allocatable(is_full).with_context(in_round)?;
        listed.push(begun.elapsed());
        grants.admit(node, format!("{name}-{round}")).with_context(in_round)?;
        admitted.push(begun.elapsed());
        grants.verify(node).with_context(in_round)?;
        node.require_agents().with_context(in_round)?;
        grants.thin(node)?;
    }
    grants.end(node)?;
    println!("  {count} times {name}: every device listed after {}", summary(&mut listed));
    println!("  {count} times {name}: a new Pod running after {}", summary(&mut admitted));
    Ok(())
}

/// What the variable `ROCADE_NATIVE_{count}` says.
pub(crate) fn times(count: &str) -> Result<usize> {
    let variable = format!("ROCADE_NATIVE_{count}");
    let count = std::env::var(&variable).map_or(Ok(5), |n| n.parse())?;
    ensure!(count > 0, "{variable} must be 1 or more");
    Ok(count)
}

pub(crate) fn summary(times: &mut [Duration]) -> String {
    times.sort();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    format!("{:.2} s (median), {:.2} s (slowest)", median.as_secs_f64(), slowest.as_secs_f64())
}
