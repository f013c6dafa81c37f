//! Row of a pingpong whose other end does not keep to the exchange: an error in time, that says what was wanted.

use anyhow::{Context, Result, ensure};

use super::{Chain, Row, both_streams, passed};
use crate::cluster::plan;

/// Seconds given to a wait for the other end, and in all before it counts as a hang.
const TIMEOUT: u32 = 2;
const HANG: u32 = 30;
const PORT: u16 = 18600;

/// What the other end does, as a shell line around busybox's nc, whether it is the server, and what must be said.
const PEERS: [(&str, &str, bool, &str); 7] = [
    ("nobody listens", ":", true, "cannot connect"),
    ("a server says nothing", "sleep 60 | nc -l -p 18600", true, "the other end's address"),
    ("a server closes", "nc -l -p 18600 -e /bin/true", true, "the other end's address"),
    (
        "a server sends garbage",
        "(yes | head -c 52; sleep 60) | nc -l -p 18600",
        true,
        "the other end's address",
    ),
    ("a client says nothing", "sleep 60 | nc ADDRESS 18600", false, "the other end's address"),
    ("a client closes", "nc ADDRESS 18600 -e /bin/true", false, "the other end's address"),
    (
        "a client sends garbage",
        "(yes | head -c 52; sleep 60) | nc ADDRESS 18600",
        false,
        "the other end's address",
    ),
];

pub(super) fn row() -> Row<Chain> {
    Row {
        name: "pingpong whose other end is absent, silent, closed or sends garbage ends in time and says why",
        typed: vec![format!("rocade pingpong -p {PORT} --timeout {TIMEOUT} ADDRESS  (and as the server)")],
        run: |chain| {
            let mut output = String::new();
            for peer in PEERS {
                output += &meet(chain, peer).with_context(|| peer.0)?;
            }
            passed(output, format!("exit code 2 within {HANG} s in {} cases", PEERS.len()))
        },
    }
}

fn meet(chain: &Chain, (name, peer, peer_serves, wanted): (&str, &str, bool, &str)) -> Result<String> {
    let address = plan::rail_address(1, 1);
    let peer = peer.replace("nc ", "busybox nc ").replace("ADDRESS", &address);
    let listening = format!(
        "for i in $(seq 50); do grep -qs ':{PORT:04X} .* 0A ' /proc/net/tcp* && break; sleep 0.1; done"
    );
    let rocade = format!("timeout {HANG} rocade pingpong -p {PORT} --timeout {TIMEOUT}");
    // Both in the background, so that the peer is ended by its process group whatever rocade does.
    let line = match (peer_serves, peer.as_str()) {
        (true, ":") => format!("{rocade} {address}; echo ended with $?"),
        (true, _) => format!(
            "setsid sh -c '{peer}' & {listening}; {rocade} {address}; echo ended with $?; kill -- -$!"
        ),
        (false, _) => format!(
            "({rocade}; echo ended with $?) & us=$!; {listening}; setsid sh -c '{peer}' & them=$!; wait $us; kill -- -$them"
        ),
    };
    let said = both_streams(&chain.cluster.node_sh(plan::NODES[0], &line)?);
    ensure!(said.contains("ended with 2"), "wanted exit code 2: {said}");
    ensure!(said.contains(wanted), "wanted `{wanted}` to be named: {said}");
    let told: Vec<_> =
        said.lines().filter(|line| line.starts_with("rocade: ") && !line.contains("waiting")).collect();
    Ok(format!("{name}: {}\n", told.join(" ")))
}
