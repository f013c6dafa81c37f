//! A row of tests over IPv6, of GIDs and where the tools can of TCP too, with the stock tools at either end. What a stock
//! version cannot do is tried as well, and named.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use rocade_core::Host;

use super::pingpong::run_pair;
use super::place::Place;
use super::{Chain, Row, Seen, both_streams, passed};
use crate::cluster::plan;

/// Lines of both ends, where `SERVER` and `CLIENT` are the indexes of their GIDs of [`address`].
struct Cell {
    name: &'static str,
    server: &'static str,
    client: &'static str,
}

const CELLS: &[Cell] = &[
    Cell {
        name: "rocade -> ib_write_bw of Debian 13, TCP over IPv6",
        server: "ib_write_bw -F -d rxe1 -x SERVER -n 64 --ipv6-addr",
        client: "rocade write-bw -d rxe1 -n 64 fd01::1",
    },
    Cell {
        name: "ib_send_lat of Debian 13 -> rocade, TCP over IPv6",
        server: "rocade send-lat -d rxe1 -n 50",
        client: "ib_send_lat -F -d rxe1 -x CLIENT -n 50 --ipv6-addr fd01::1",
    },
    Cell {
        name: "ibv_rc_pingpong -> rocade, TCP over IPv6",
        server: "rocade pingpong -d rxe1 -n 50",
        client: "ibv_rc_pingpong -d rxe1 -g CLIENT -n 50 fd01::1",
    },
    Cell {
        name: "rocade -> ibv_rc_pingpong, TCP over IPv4",
        server: "ibv_rc_pingpong -d rxe1 -g SERVER -n 50",
        client: "rocade pingpong -d rxe1 -x CLIENT -n 50 10.8.10.1",
    },
    Cell {
        name: "rocade -> rocade read-bw --check, TCP over IPv6",
        server: "rocade read-bw -d rxe1",
        client: "rocade read-bw -d rxe1 -n 64 --check fd01::1",
    },
    Cell {
        name: "rocade -> ib_write_bw of Debian 12, TCP over IPv4",
        server: "debian12 ib_write_bw -F -d rxe1 -x SERVER -n 64",
        client: "debian12 rocade write-bw -d rxe1 -x CLIENT -n 64 10.8.10.1",
    },
    Cell {
        name: "ib_read_bw of Debian 12 -> rocade, TCP over IPv4",
        server: "debian12 rocade read-bw -d rxe1 -x SERVER",
        client: "debian12 ib_read_bw -F -d rxe1 -x CLIENT -n 64 10.8.10.1",
    },
];

/// What perftest of Debian 12 says of TCP over IPv6.
const CANNOT: (&str, &str) = ("debian12 ib_write_bw --ipv6-addr", "unrecognized option '--ipv6-addr'");

/// After the rows of the matrix.
pub(super) fn row() -> Row<Chain> {
    Row {
        name: "all tools over IPv6, and which of them cannot",
        typed: vec!["ib_write_bw -x INDEX --ipv6-addr  (other end: rocade write-bw fd01::1)".into()],
        run: |chain| {
            let nodes = plan::NODES.iter().enumerate();
            let change = |what: &str| -> Result<()> {
                nodes.clone().try_for_each(|(at, node)| {
                    let line = format!("ip addr {what} {}/64 dev eth1 nodad", address(at));
                    chain.node(node, &line).map(drop)
                })
            };
            let seen = change("add").and_then(|()| met(chain));
            // Where adding failed, the second node has none to take away.
            let gone = change("del");
            seen.and_then(|seen| gone.map(|()| seen))
        },
    }
}

/// Of a node, counted from 0.
fn address(at: usize) -> String {
    format!("fd01::{}", at + 1)
}

fn met(chain: &Chain) -> Result<Seen> {
    let (server, client) = (gid_index(chain, 0)?, gid_index(chain, 1)?);
    let filled = |line: &str| line.replace("SERVER", &server).replace("CLIENT", &client);
    let mut table = String::new();
    for Cell { name, server, client } in CELLS {
        let lines = (filled(server), filled(client));
        let [at, from] = plan::NODES.map(Place::Node);
        let (served, asked) = run_pair(chain, (at, &lines.0), (from, &lines.1))?;
        for (at, line, output) in [(0, &lines.0, served), (1, &lines.1, asked)] {
            let said = both_streams(&output);
            ensure!(output.status.success(), "`{line}`: {}\n{said}", output.status);
            ensure!(names(&said, at), "`{line}` does not name its GID of {}:\n{said}", address(at));
        }
        writeln!(table, "{name:<52} exit 0, server 0")?;
    }
    let (line, why) = CANNOT;
    let refused = Place::Node(plan::NODES[0]).command(chain, line)?.output()?;
    let said = both_streams(&refused);
    ensure!(!refused.status.success() && said.contains(why), "`{line}`: {}\n{said}", refused.status);
    writeln!(table, "{:<52} cannot: {why}", "ib_*_bw and ib_*_lat of Debian 12, TCP over IPv6")?;
    println!("{table}");
    passed(table, format!("{} cells over IPv6; one that a stock version cannot do", CELLS.len()))
}

/// perftest writes each byte of a GID as a number.
fn names(said: &str, at: usize) -> bool {
    let bytes = format!("253:01{}:{:02}", ":00".repeat(13), at + 1);
    said.contains(&address(at)) || said.contains(&bytes)
}

fn gid_index(chain: &Chain, at: usize) -> Result<String> {
    let said = chain.node(plan::NODES[at], "rocade inventory -o json")?;
    let host: Host = serde_json::from_str(&said)?;
    let own = Some(address(at).parse()?);
    let gid = host.hca("rxe1").and_then(|hca| hca.ports.first()?.gids.iter().find(|gid| gid.address == own));
    Ok(gid.with_context(|| format!("rxe1 has no GID of {}", address(at)))?.index.to_string())
}
