//! A row that lets `rocade check --watch` look at a node while RDMA runs on it and while some of it is lost, and holds
//! what it says of the counters against the kernel's files.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::place::Place;
use super::{Chain, Row, Seen, both_streams, nodes, passed, pingpong};
use crate::cluster::plan;

const NODE: &str = plan::NODES[0];
const PEER: &str = plan::NODES[1];
const PORT: &str = "rxe1/1";

/// On nodes that are Ready.
pub fn watching_rows() -> Vec<Row<Chain>> {
    vec![Row {
        name: "what grew while rocade check watches is what the port's counters say",
        typed: vec![
            "rocade check --watch 20 -o json".into(),
            "rocade pingpong 10.8.10.2  (meanwhile, with rocade pingpong there)".into(),
            "ibv_rc_pingpong -d rxe1 ADDRESS  (meanwhile, to a queue pair that nobody has)".into(),
        ],
        run: watch,
    }]
}

/// Looks, watches, and looks again. Between the two looks of the check, messages go to a queue pair that the peer has not
/// got, until the tool is ended: without an acknowledgement they are sent again and again, and soft-RoCE takes the stock
/// tool's 7 retries for endless. Then messages that arrive. The stand-in for that tool's server answers with its text
/// `LID:QPN:PSN:GID` and a zero byte (libibverbs/examples/rc_pingpong.c). Calls 35 and 230 are the two nanosleeps.
const SCRIPT: &str = r#"cd /sys/class/infiniband/rxe1/ports/1/hw_counters
grep . * | sed "s/^/before:/"
rocade check --watch 20 --fail-on warning -o json >/tmp/watched.json </dev/null & check=$!
until read -r call rest </proc/$check/syscall && [ "$call" = 35 -o "$call" = 230 ]; do sleep 0.1; done
(printf "0000:0fffff:000001:@GID@\\000"; sleep 4) | busybox nc -l -p 18999 >/dev/null &
until grep -q :4A37 /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
timeout 4 ibv_rc_pingpong -d rxe1 -g @INDEX@ -p 18999 127.0.0.1 </dev/null
@TALK@ </dev/null || exit 1
kill -0 $check || { echo "the traffic outlasted the watch"; exit 1; }
wait $check
echo "check: $?"
grep . * | sed "s/^/after:/"
cat /tmp/watched.json"#;

fn watch(chain: &Chain) -> Result<Seen> {
    let (node, peer) = (Place::Node(NODE), Place::Node(PEER));
    let (own, theirs) = (node.rail_address(chain)?, peer.rail_address(chain)?);
    let host = nodes::read_host(chain, NODE)?;
    let gids = host.hca("rxe1").and_then(|hca| hca.ports.first()).map(|port| &port.gids);
    let index = gids.into_iter().flatten().find(|gid| gid.address == Some(own)).context("no GID of eth1")?;
    let gid = rocade_core::Gid::from_address(theirs).to_string().replace(':', "");
    let talk = pingpong::rocade(chain, node, Some(&theirs.to_string()))?;
    let script = SCRIPT.replace("@GID@", &gid).replace("@INDEX@", &index.index.to_string());
    let script = format!("sh -c '{}'", script.replace("@TALK@", &talk));
    let served = pingpong::rocade(chain, peer, None)?;
    let (served, asked) = pingpong::run_pair(chain, (peer, &served), (node, &script))?;
    let said = both_streams(&asked);
    ensure!(served.status.success() && asked.status.success(), "{}\n{said}", both_streams(&served));
    let moved = moved(&said)?;
    ensure!(moved.get("completer_retry_err").is_some_and(|by| *by > 0), "nothing was sent again: {said}");
    ensure!(said.contains("check: 1"), "the check did not fail: {said}");
    let document = said.find("\n{").context("no report")?;
    let report: Value = serde_json::from_str(&said[document..])?;
    compare(&report, &moved).with_context(|| said.clone())
}

/// By how much each counter of the port moved between the first and the last look.
fn moved(said: &str) -> Result<BTreeMap<String, u64>> {
    let read = |look: &str| -> Result<BTreeMap<String, u64>> {
        let lines = said.lines().filter_map(|line| line.strip_prefix(look)?.split_once(':'));
        lines.map(|(name, value)| Ok((name.to_owned(), value.parse()?))).collect()
    };
    let (before, after) = (read("before:")?, read("after:")?);
    let moved = after.into_iter().map(|(name, value)| {
        let by = value.checked_sub(*before.get(&name)?)?;
        Some((name, by))
    });
    moved.collect::<Option<_>>().context("a counter came or fell")
}

/// Each growth that the report tells of the port is that of the file, and the loss is told by its code.
fn compare(report: &Value, moved: &BTreeMap<String, u64>) -> Result<Seen> {
    let findings = report["findings"].as_array().context("no findings")?;
    let of_port: Vec<&Value> = findings.iter().filter(|finding| finding["subject"] == PORT).collect();
    let mut told = 0;
    for finding in &of_port {
        let seen = finding["seen"].as_str().unwrap_or_default().trim_end_matches(" while watched");
        for (name, by) in seen.split(", ").filter_map(|part| part.split_once(" grew by ")) {
            let wanted = moved.get(name).with_context(|| format!("the port has no counter {name}"))?;
            ensure!(by == wanted.to_string(), "{name}: the check says {by}, the files {wanted}");
            told += 1;
        }
    }
    let loss = of_port.iter().find(|finding| finding["code"] == "RDC504").context("no RDC504")?;
    ensure!(
        loss["seen"].as_str().is_some_and(|seen| seen.contains("completer_retry_err")),
        "seen of another counter"
    );
    let others = findings.iter().filter(|finding| finding["subject"] == "rxe2/1").count();
    ensure!(others == 0, "{others} findings of rxe2/1, on which nothing ran");
    passed(
        serde_json::to_string_pretty(report)?,
        format!("{told} counters, each as the files say: {}", loss["seen"]),
    )
}
