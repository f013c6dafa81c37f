//! Rows of tests that are broken on purpose: each cause that soft-RoCE can show is made, and its sentence and exit code
//! must come.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};

mod case;
mod ends;
mod midway;
mod namespaces;
mod ways;

use self::ends::ENDS;
use self::midway::MIDWAY;
use self::ways::WAYS;
use super::pingpong::run_pair;
use super::place::Place;
use super::{Chain, Row, Seen, both_streams, passed};
use crate::cluster::plan;

/// One end alone: what is broken, a line on the first node, and what must be said. Exit code 2.
const BEFORE: &[(&str, &str, &str)] = &[
    ("name", "rocade write-bw nowhere.invalid", "no address could be found for the name"),
    ("nobody listens", "rocade write-bw -p 18699 10.8.10.2", "nothing listens on TCP port 18699"),
    (
        "nobody there",
        "rocade write-bw --timeout 20 10.8.10.99",
        "neither 10.8.10.99 nor a router on the way to it answers",
    ),
    ("no route", "rocade write-bw 203.0.113.9", "this end has no route to 203.0.113.9"),
    (
        "no device node",
        "unshare -m sh -c 'mount -t tmpfs none /dev/infiniband; rocade write-bw -d rxe1 10.8.10.2'",
        "has no device node here",
    ),
    (
        "no provider (F80)",
        "unshare -m sh -c 'mount -t tmpfs none /etc/libibverbs.d; rocade write-bw -d rxe1 10.8.10.2'",
        "libibverbs here has no provider rxe for it",
    ),
    (
        "no libibverbs",
        "unshare -m sh -c 'mount --bind /dev/null $(ldconfig -p | sed -n \"s/.*libibverbs.so.1 .*=> //p\" | head -1); \
         rocade write-bw 10.8.10.2'",
        "libibverbs cannot be loaded",
    ),
    (
        "no own interface on the rail (F57)",
        "ip netns add alone; ip -n alone link set lo up; ip netns exec alone rocade write-bw -d rxe1 127.0.0.1",
        "no GID of it belongs to this network namespace",
    ),
    ("unset index", "rocade write-bw -d rxe1 -x 77 10.8.10.2", "no address stands at GID index 77"),
    ("another service", "rocade write-bw -p 22 10.8.10.2", "SSH answers on that TCP port"),
];

/// A server on the first node and a client on the second, which of them must say what, and its exit code.
const BETWEEN: &[Pair] = &[
    Pair {
        what: "no GID at the stock end",
        server: "rocade pingpong -d rxe1 --timeout 20",
        client: "ibv_rc_pingpong -d rxe1 10.8.10.1",
        teller: Teller::Server,
        wanted: "the other end sent no GID, which RoCE needs",
        code: 1,
    },
    Pair {
        what: "a link-local GID at one end (F73)",
        server: "rocade pingpong -d rxe1 --timeout 20",
        client: "ibv_rc_pingpong -d rxe1 -g 0 10.8.10.1",
        teller: Teller::Server,
        wanted: "one GID is link-local, the other is not",
        code: 1,
    },
    Pair {
        what: "packets of RoCE are dropped",
        server: "iptables -t raw -A PREROUTING -p udp --dport 4791 -j DROP; \
                 rocade pingpong -d rxe1 --timeout 15; iptables -t raw -F PREROUTING",
        client: "rocade pingpong -d rxe1 --timeout 10 10.8.10.1",
        teller: Teller::Client,
        wanted: "a filter of UDP port 4791",
        code: 1,
    },
    Pair {
        what: "the server's memory is smaller than the message",
        server: "ib_write_bw -F -d rxe1 -x 1 -s 4096",
        client: "rocade write-bw -d rxe1 -s 65536 --timeout 20 10.8.10.1",
        teller: Teller::Client,
        wanted: "the other end's memory does not take messages of 65536 bytes",
        code: 1,
    },
    Pair {
        what: "unlike numbers of QPs",
        server: "ib_write_bw -F -d rxe1 -x 1 -q 2",
        client: "rocade write-bw -d rxe1 -q 1 --timeout 20 10.8.10.1",
        teller: Teller::Client,
        wanted: "the ends differ in their number of QPs (-q)",
        code: 2,
    },
    Pair {
        what: "another tool at the other end",
        server: "ib_write_bw -F -d rxe1 -x 1",
        client: "rocade pingpong -d rxe1 --timeout 20 10.8.10.1",
        teller: Teller::Client,
        wanted: "speaks the protocol of ib_write_bw and its kin",
        code: 2,
    },
    Pair {
        what: "memory that may not be locked (F77)",
        server: "rocade pingpong -d rxe1 -s 1048576 --timeout 20",
        client: "prlimit --memlock=65536:65536 setpriv --reuid 65534 --clear-groups \
                 rocade pingpong -d rxe1 -s 1048576 --timeout 20 10.8.10.1",
        teller: Teller::Client,
        wanted: "this process may lock 64 KiB in all (RLIMIT_MEMLOCK)",
        code: 2,
    },
    Pair {
        what: "the other end stops midway",
        server: "ibv_rc_pingpong -d rxe1 -g 1 -n 10",
        client: "rocade pingpong -d rxe1 -n 1000000 --timeout 5 10.8.10.1",
        teller: Teller::Client,
        wanted: "fell silent after",
        code: 1,
    },
];

struct Pair {
    what: &'static str,
    server: &'static str,
    client: &'static str,
    teller: Teller,
    wanted: &'static str,
    code: i32,
}

#[derive(Clone, Copy, PartialEq)]
enum Teller {
    Server,
    Client,
}

/// After the rows of the guide.
pub fn broken_rows() -> Vec<Row<Chain>> {
    vec![
        Row {
            name: "a test that cannot be made says why and what to do, with exit code 2",
            typed: BEFORE.iter().map(|(_, line, _)| (*line).to_owned()).collect(),
            run: cannot_be_made,
        },
        Row {
            name: "a test that fails between two ends says the cause and the cure",
            typed: BETWEEN.iter().map(|pair| format!("{}  (server: {})", pair.client, pair.server)).collect(),
            run: fails_between,
        },
        Row {
            name: "a test that one end is not fit for, or whose ends are unlike, says which",
            typed: case::typed(ENDS),
            run: |chain| case::run_all(chain, ENDS),
        },
        Row {
            name: "a test whose packets find no way says where they stay, and passes once they fit or are carried",
            typed: case::typed(WAYS),
            run: |chain| case::run_all(chain, WAYS),
        },
        Row {
            name: "a test that is broken off midway says how, with exit code 1",
            typed: case::typed(MIDWAY),
            run: |chain| case::run_all(chain, MIDWAY),
        },
        Row {
            name: "a Pod with the device files by path, and without the resource, is told of its device cgroup",
            typed: vec!["rocade write-bw -d rxe1 10.8.10.1  (in a Pod with hostPath /dev/infiniband)".into()],
            run: namespaces::device_cgroup,
        },
    ]
}

/// Ahead of all rows with Pods.
pub fn exclusive_rows() -> Vec<Row<Chain>> {
    vec![Row {
        name: "with RDMA namespaces in exclusive mode a test in another one says so",
        typed: vec!["rdma system set netns exclusive; ip netns exec alone rocade write-bw 127.0.0.1".into()],
        run: namespaces::exclusive,
    }]
}

fn cannot_be_made(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    for (what, line, wanted) in BEFORE {
        let line = format!("{line}; code=$?; ip netns del alone 2>/dev/null; exit $code");
        let got = chain.cluster.node_sh(plan::NODES[0], &format!("timeout 60 sh -c {}", quoted(&line)))?;
        let said = both_streams(&got);
        ensure!(got.status.code() == Some(2), "{what}: exit code 2 wanted, {}\n{said}", got.status);
        output += &judge(what, &said, wanted)?;
    }
    passed(output, format!("{} causes", BEFORE.len()))
}

fn fails_between(chain: &Chain) -> Result<Seen> {
    let [at, from] = plan::NODES.map(Place::Node);
    let mut output = String::new();
    for pair in BETWEEN {
        let server = format!("sh -c {}", quoted(pair.server));
        let (served, asked) =
            run_pair(chain, (at, &server), (from, pair.client)).with_context(|| pair.what)?;
        let teller = if pair.teller == Teller::Server { &served } else { &asked };
        let said = both_streams(teller);
        let (what, code) = (pair.what, pair.code);
        ensure!(
            teller.status.code() == Some(code),
            "{what}: exit code {code} wanted, {}\n{said}",
            teller.status
        );
        output += &judge(what, &said, pair.wanted)?;
    }
    passed(output, format!("{} causes", BETWEEN.len()))
}

/// The sentences, where the wanted one is among them and a cure stands beside.
fn judge(what: &str, said: &str, wanted: &str) -> Result<String> {
    let is_said = wanted.split('|').any(|wanted| said.contains(wanted));
    ensure!(is_said, "{what}: `{wanted}` wanted, said\n{said}");
    ensure!(said.contains("hint: "), "{what}: no hint\n{said}");
    let mut told = format!("{what}:\n");
    for line in
        said.lines().filter(|line| ["rocade: ", "cause: ", "hint: "].iter().any(|it| line.starts_with(it)))
    {
        writeln!(told, "  {line}")?;
    }
    Ok(told)
}

/// As one word of a shell.
fn quoted(line: &str) -> String {
    format!("'{}'", line.replace('\'', "'\\''"))
}
