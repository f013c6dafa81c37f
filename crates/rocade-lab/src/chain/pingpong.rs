//! Rows in which two ends talk RDMA: between hosts, between Pods, and with the stock tool at either end.

use std::process::{Output, Stdio};

use anyhow::{Context, Result, bail, ensure};

use rocade_core::GidIndex;

use super::place::Place;
use super::{Chain, Row, Seen, both_streams, passed, pods};
use crate::cluster::plan;

/// Round trips of a run: soft-RoCE under emulation takes milliseconds for each.
const ITERATIONS: u32 = 100;
const MESSAGE_BYTES: u64 = 4096;
/// No run takes longer unless it hangs, s.
const LIMIT: u32 = 90;

pub(super) fn rows() -> Vec<Row<Chain>> {
    vec![
        Row {
            name: "Pod to Pod: rocade at both ends",
            typed: vec![
                format!("rocade pingpong -n {ITERATIONS}"),
                format!("rocade pingpong -n {ITERATIONS} ADDRESS  (in the other Pod)"),
            ],
            run: |chain| pods_talk(chain, rocade, rocade),
        },
        Row {
            name: "Pod to Pod: stock ibv_rc_pingpong asks, rocade answers",
            typed: vec![
                format!("rocade pingpong -n {ITERATIONS}"),
                format!("ibv_rc_pingpong -d rxe1 -g INDEX -n {ITERATIONS} ADDRESS"),
            ],
            run: |chain| pods_talk(chain, rocade, stock),
        },
        Row {
            name: "Pod to Pod: rocade asks, stock ibv_rc_pingpong answers",
            typed: vec![
                format!("ibv_rc_pingpong -d rxe1 -g INDEX -n {ITERATIONS}"),
                format!("rocade pingpong -n {ITERATIONS} ADDRESS"),
            ],
            run: |chain| pods_talk(chain, stock, rocade),
        },
    ]
}

/// Why the HCA's share of macvlan is not shown.
const MACVLAN: &str = "soft-RoCE takes packets from its own netdev alone, so the bench brings those for a macvlan child \
                       there by a tc rule; everything else between the two Pods is as it came. A hardware HCA does \
                       this itself, which takes one to show";

/// What people do and this bench cannot show.
pub fn unproven_rows() -> Vec<Row<Chain>> {
    vec![Row {
        name: "an HCA's own steering of packets for a macvlan",
        typed: vec!["ibv_rc_pingpong -d mlx5_0 -g 4 ADDRESS  (between Pods on hardware HCAs)".into()],
        run: |_| Ok(Seen::NotProven { reason: MACVLAN.into() }),
    }]
}

/// Host to host, before any part of Kubernetes has a share in it.
pub(super) fn host_to_host() -> Row<Chain> {
    Row {
        name: "host to host, before any part of Kubernetes",
        typed: vec![
            format!("ibv_rc_pingpong -d rxe1 -g INDEX -n {ITERATIONS}  (other end: with 10.8.10.1)"),
            format!(
                "rocade pingpong -n {ITERATIONS}  (other end: rocade pingpong -n {ITERATIONS} 10.8.10.1)"
            ),
        ],
        run: |chain| talk(chain, [Place::Node(plan::NODES[0]), Place::Node(plan::NODES[1])], rocade, rocade),
    }
}

/// Gives the command line of one end: None as peer is the server.
type Tool = fn(&Chain, Place, peer: Option<&str>) -> Result<String>;

pub(super) fn rocade(_: &Chain, _: Place, peer: Option<&str>) -> Result<String> {
    Ok(format!("rocade pingpong -n {ITERATIONS} {}", peer.unwrap_or("")))
}

/// The stock tool must be told the index, which a person looks up first.
fn stock(chain: &Chain, place: Place, peer: Option<&str>) -> Result<String> {
    let index = gid_index(chain, place)?;
    Ok(format!("ibv_rc_pingpong -d rxe1 -g {index} -n {ITERATIONS} {}", peer.unwrap_or("")))
}

/// Index of the GID of the first rail's address.
pub(super) fn gid_index(chain: &Chain, place: Place) -> Result<GidIndex> {
    let own = place.rail_address(chain)?;
    let said = place.run(chain, "rocade inventory -o json")?;
    let host: rocade_core::Host = serde_json::from_str(&said)?;
    let port = host.hca("rxe1").and_then(|hca| hca.ports.first()).context("no rxe1/1")?;
    let gid = port.gids.iter().find(|gid| gid.address == Some(own));
    Ok(gid.context("no GID of the rail's address")?.index)
}

fn pods_talk(chain: &Chain, server: Tool, client: Tool) -> Result<Seen> {
    talk(chain, pods::PODS.map(Place::Pod), server, client)
}

/// Runs both ends over the first rail and holds what they say, and the port's counters, against what was sent.
fn talk(chain: &Chain, [at, from]: [Place; 2], server: Tool, client: Tool) -> Result<Seen> {
    let node = at.node(chain)?;
    let address = at.rail_address(chain)?.to_string();
    let lines = (server(chain, at, None)?, client(chain, from, Some(&address))?);
    let before = counters(chain, &node)?;
    let (served, asked) = run_pair(chain, (at, &lines.0), (from, &lines.1))?;
    let after = counters(chain, &node)?;
    let bytes = MESSAGE_BYTES * u64::from(ITERATIONS) * 2;
    for (end, output) in [(at, &served), (from, &asked)] {
        let said = both_streams(output);
        ensure!(output.status.success(), "{}: {}\n{said}", end.name(), output.status);
        ensure!(said.contains(&format!("{bytes} bytes in ")), "{}: {bytes} bytes wanted\n{said}", end.name());
        ensure!(
            said.contains(&format!("GID ::ffff:{address}")),
            "{}: no GID of {address}\n{said}",
            end.name()
        );
    }
    let moved: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let each_way = bytes / 2;
    // Headers and, on a busy machine, repeats come on top.
    ensure!(
        moved.iter().all(|moved| *moved >= each_way),
        "{node}: rxe1's sent_bytes and rcvd_bytes grew by {moved:?}, wanted {each_way} at least"
    );
    let shown =
        |end: Place, line: &str, output: &Output| format!("{}$ {line}\n{}", end.name(), both_streams(output));
    let output = shown(at, &lines.0, &served) + &shown(from, &lines.1, &asked);
    let figure = figure(&both_streams(&asked));
    passed(output, format!("{bytes} bytes, {figure}; rxe1 sent {} and received {} bytes", moved[0], moved[1]))
}

/// `4.50 usec/iter` of the client's last line.
fn figure(said: &str) -> String {
    let line = said.lines().find(|line| line.ends_with("usec/iter"));
    line.and_then(|line| line.split(" = ").nth(1)).unwrap_or("no figure").to_owned()
}

/// Runs a server that listens on pingpong's port and then a client, neither for longer than the limit.
pub(super) fn run_pair(
    chain: &Chain,
    server: (Place, &str),
    client: (Place, &str),
) -> Result<(Output, Output)> {
    let limited = |line: &str| format!("timeout {LIMIT} {line}");
    let mut serving = server.0.command(chain, &limited(server.1))?;
    serving.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let serving = serving.spawn().context("start the server")?;
    // Port 18515 in state LISTEN (0A), in the form of /proc/net/tcp.
    let listening = "for i in $(seq 100); do cat /proc/net/tcp /proc/net/tcp6 | grep -qE ':4853 [0-9A-F]+:0000 0A' \
                     && exit 0; sleep 0.1; done; exit 1";
    let waited = server.0.run(chain, listening);
    let asked = waited.and_then(|_| Ok(client.0.command(chain, &limited(client.1))?.output()?));
    let served = serving.wait_with_output()?;
    match asked {
        Ok(asked) => {
            // Of a program that was built with one (`product`).
            let found =
                [&served, &asked].map(both_streams).into_iter().find(|said| said.contains("Sanitizer:"));
            ensure!(found.is_none(), "{}", found.unwrap_or_default());
            Ok((served, asked))
        }
        Err(error) => bail!("{error:#}; the server said: {}", both_streams(&served)),
    }
}

/// sent_bytes and rcvd_bytes of a node's first rail.
pub(super) fn counters(chain: &Chain, node: &str) -> Result<Vec<u64>> {
    let folder = "/sys/class/infiniband/rxe1/ports/1/hw_counters";
    let said = chain.node(node, &format!("cat {folder}/sent_bytes {folder}/rcvd_bytes"))?;
    said.lines().map(|line| line.parse().with_context(|| format!("a counter reads {line}"))).collect()
}
