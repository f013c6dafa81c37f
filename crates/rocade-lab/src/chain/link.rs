//! A row that times how soon a link that went down is known: from the request to the kernel to the agent's line in its
//! log, and to the kubelet's about the list that came. The figures are told, not judged: the node is emulated and shares
//! its CPUs.

use anyhow::{Context, Result, ensure};

use super::agent::{self, SOON};
use super::{Chain, Row, Seen, passed, timing, wait_for};
use crate::cluster::plan;

const NODE: &str = plan::NODES[0];
/// Of `deploy/lab-health`, told of without a wait.
const RESOURCE: &str = "rdma/eth2_at_once";
const ROUNDS: usize = if cfg!(debug_assertions) { 5 } else { 20 };
/// A day in us.
const DAY: u64 = 86_400_000_000;

/// They give the agent the configuration of `deploy/lab-health`.
pub fn link_rows() -> Vec<Row<Chain>> {
    vec![Row {
        name: "a link that goes down is with the kubelet as an unhealthy list, and comes back with it",
        typed: vec![
            "kubectl apply -k deploy/lab-health".into(),
            "ip link set eth2 down; ip link set eth2 up  (on node1, again and again)".into(),
        ],
        run: time_link,
    }]
}

fn time_link(chain: &Chain) -> Result<Seen> {
    agent::deploy(chain, "lab-health")?;
    agent::wait_for_status(chain, NODE, |seen| agent::offers(seen, RESOURCE, 100, 100))?;
    let (mut asked, mut down, mut up) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let in_round = || format!("round {round}");
        let took = set_link(chain, "down", 0);
        let back = set_link(chain, "up", 100);
        let (at, took) = took.with_context(in_round)?;
        asked.push(at);
        down.push(took);
        up.push(back.with_context(in_round)?.1);
    }
    let profile = if cfg!(debug_assertions) { "built for debugging" } else { "built for release" };
    let told = format!(
        "from `ip link set` to the list in the kubelet, no wait configured ({profile}): down {} ms, of which {} to the \
         agent's own word; up {} ms; medians of {ROUNDS} (least to most)",
        timing::spread(down),
        timing::spread(time_agent(chain, &asked)?),
        timing::spread(up)
    );
    passed(told.clone(), told)
}

/// Sets the link; gives when that was asked (us of the day), and how many ms passed until the kubelet had the list with
/// so many healthy devices.
fn set_link(chain: &Chain, state: &str, healthy: u32) -> Result<(u64, f64)> {
    let before = chain.cluster.kubelet_log(NODE)?.len();
    // `ip` runs already and waits for a line, so that the time is that of the request.
    let line = format!(
        "exec 3>&1; {{ sleep 0.5; echo $EPOCHREALTIME >&3; echo link set eth2 {state}; }} | ip -batch -"
    );
    let said = chain.node(NODE, &line)?;
    let asked = parse_epoch(said.trim()).with_context(|| format!("no time: {said}"))?;
    let came = wait_for(SOON, || {
        let lists = agent::lists_since(chain, NODE, before, RESOURCE)?;
        let list = lists.iter().find(|(_, seen)| *seen == healthy);
        Ok(list.map(|(time, _)| time.clone()).ok_or(format!("{healthy} wanted, the kubelet got {lists:?}")))
    })?;
    let came = parse_clock(&came).with_context(|| format!("no time: {came}"))?;
    let took = (came + DAY - asked) % DAY;
    ensure!(took < DAY / 2, "the list came before the link was set: {came} us, {asked} us");
    Ok((asked, took as f64 / 1e3))
}

/// From each of these times to the agent's next line that the HCA failed, in ms.
fn time_agent(chain: &Chain, asked: &[u64]) -> Result<Vec<f64>> {
    let log = agent::read_log(chain, NODE)?;
    let failed = log.lines().filter(|line| line.contains(": failed hca=rxe2"));
    let at = |line: &str| parse_clock(line.split_once('T')?.1.split_once('Z')?.0);
    let told: Vec<u64> = failed.filter_map(at).collect();
    let next = |asked: &u64| told.iter().map(|told| (told + DAY - asked) % DAY).min();
    let took = asked.iter().map(|asked| Some(next(asked)? as f64 / 1e3)).collect::<Option<_>>();
    took.with_context(|| format!("the agent does not tell that rxe2 failed: {log}"))
}

/// `1764510000.123456` → us since midnight.
fn parse_epoch(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let fraction: u64 = fraction.parse().ok().filter(|_| fraction.len() == 6)?;
    Some((seconds.parse::<u64>().ok()? * 1_000_000 + fraction) % DAY)
}

/// `13:40:00.123456` → us since midnight.
fn parse_clock(text: &str) -> Option<u64> {
    let mut parts = text.split([':', '.']);
    let mut next = || parts.next()?.parse::<u64>().ok();
    let (hour, minute, second, fraction) = (next()?, next()?, next()?, next()?);
    Some(((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_shell_and_of_the_kubelet_are_of_one_day() {
        let time = ((13 * 60 + 40) * 60) * 1_000_000 + 23_456;
        assert_eq!(parse_clock("13:40:00.023456"), Some(time));
        // 2026-11-30T13:40:00 UTC.
        assert_eq!(parse_epoch("1796046000.023456"), Some(time));
        assert_eq!((parse_epoch("1796046000"), parse_clock("words")), (None, None));
    }
}
