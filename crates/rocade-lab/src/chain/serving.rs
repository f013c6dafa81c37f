//! Rows of `rocade serve`: clients of rocade and of the stock tools one after another and at once, strangers that cost it
//! nothing, its limits, and that it keeps no RDMA object of a client that went, however it went.

mod service;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rocade_core::pair::perf::Test;

use self::service::{FIRST_PORT, Service};
use super::pingpong::gid_index;
use super::place::Place;
use super::{Chain, Row, Seen, both_streams, passed, wait_for};
use crate::cluster::plan;

/// Set to anything, ten times the clients come before leaks are looked for.
const FULL: &str = "ROCADE_MATRIX_FULL";
const CLIENT: &str = plan::NODES[1];
/// What stock clients do not say, and so is fixed when the service starts.
const FIXED: &str = "-n 20 -s 4096";

/// After the rows of the guide.
pub fn serving_rows() -> Vec<Row<Chain>> {
    vec![
        Row {
            name: "rocade serve serves all six tools and pingpong, rocade's and stock, one after another and at once",
            typed: vec![
                format!("rocade serve {FIXED}"),
                "ib_write_bw -p 18515 …; rocade send-lat -p 18515 …".into(),
            ],
            run: serve_all,
        },
        Row {
            name: "strangers on its ports cost rocade serve no thread, no file and no RDMA object, and are told",
            typed: vec!["yes | nc ADDRESS 18515  (and HTTP, half a message, nothing)".into()],
            run: meet_strangers,
        },
        Row {
            name: "rocade serve refuses in words what is over its limits, and breaks off whose time is up",
            typed: vec!["rocade serve --max-clients 1 --max-memory-mib 4 --max-seconds 15".into()],
            run: keep_limits,
        },
        Row {
            name: "rocade serve holds as many RDMA objects after 20 clients as before, killed and garbled ones among them",
            typed: vec!["rdma resource  (before and after)".into()],
            run: leak_nothing,
        },
    ]
}

/// A client's command line, which must end with 0.
fn lines(chain: &Chain) -> Result<Vec<String>> {
    let index = gid_index(chain, Place::Node(CLIENT))?;
    let address = plan::rail_address(1, 1);
    let mut lines = vec![
        format!("rocade pingpong -d rxe1 -p {FIRST_PORT} --timeout 60 {address}"),
        format!("ibv_rc_pingpong -d rxe1 -g {index} -p {FIRST_PORT} {address}"),
    ];
    for (test, port) in Test::ALL.into_iter().zip(FIRST_PORT..) {
        let stock = test.stock_name();
        lines.push(format!("rocade {test} -d rxe1 -p {port} {FIXED} --timeout 60 {address}"));
        lines.push(format!("{stock} -F -d rxe1 -x {index} -p {port} {FIXED} {address}"));
    }
    // A client of rocade gets any test on any port, and what it asks for.
    lines.push(format!("rocade read-bw -d rxe1 -p {FIRST_PORT} --sizes 64,8K -q 2 -n 10 --check {address}"));
    Ok(lines)
}

fn serve_all(chain: &Chain) -> Result<Seen> {
    let service = Service::start(chain, &format!("{FIXED} --timeout 60 --max-clients 16 -o json"))?;
    let lines = lines(chain)?;
    let told = one_after_another(chain, &lines).and_then(|told| Ok(told + &at_once(chain, &lines[2..])?));
    let ended = service.end(chain)?;
    let told = told.with_context(|| ended.errors.clone())?;
    let results = ended.results.lines().filter(|line| line.starts_with('{')).count();
    // The server of a read's latency has no figures, but a line as well.
    let wanted = lines.len() * 2 - 2;
    ensure!(results == wanted, "{results} results, {wanted} clients\n{}\n{}", ended.results, ended.errors);
    passed(told, format!("{wanted} clients with exit code 0, a result of each; ended by SIGTERM with 0"))
}

fn one_after_another(chain: &Chain, lines: &[String]) -> Result<String> {
    let script: Vec<String> = lines.iter().map(|line| format!("{}\n", judged(line))).collect();
    good(&chain.cluster.node_sh(CLIENT, &script.concat())?, lines.len())
}

fn at_once(chain: &Chain, lines: &[String]) -> Result<String> {
    let script: Vec<String> = lines.iter().map(|line| format!("{{ {}; }} &\n", judged(line))).collect();
    good(&chain.cluster.node_sh(CLIENT, &(script.concat() + "wait\n"))?, lines.len())
}

/// Prints the line with its exit code, and what it said where that is not 0.
fn judged(line: &str) -> String {
    format!("said=$(timeout 80 {line} 2>&1); code=$?; echo \"$code {line}\"; [ $code = 0 ] || echo \"$said\"")
}

fn good(output: &std::process::Output, count: usize) -> Result<String> {
    let said = both_streams(output);
    let good = said.lines().filter(|line| line.starts_with("0 ")).count();
    ensure!(good == count, "{good} of {count} clients ended with 0:\n{said}");
    Ok(said)
}

/// What is sent where a client is expected, as shell lines whose output goes there; some of them stay for as long as it
/// lets them.
const STRANGERS: [&str; 6] = [
    "yes | head -c 100000",
    "printf 'GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'",
    "head -c 4096 /dev/urandom",
    "printf '6.0'; sleep 20",
    "printf '0000:0000'; sleep 20",
    "sleep 20",
];

fn meet_strangers(chain: &Chain) -> Result<Seen> {
    let service = Service::start(chain, FIXED)?;
    let met = strangers(chain, &service);
    let ended = service.end(chain)?;
    let met = met.with_context(|| ended.errors.clone())?;
    let told = ended.errors.lines().filter(|line| line.contains(" turned away: ")).count();
    ensure!(told >= 3 * 4, "{told} of them are told\n{}", ended.errors);
    passed(met + &ended.errors, "as many threads, files and objects as before; a client is served afterwards")
}

fn strangers(chain: &Chain, service: &Service) -> Result<String> {
    let address = plan::rail_address(1, 1);
    let before = service.held(chain)?;
    let mut script = String::new();
    for port in [FIRST_PORT, FIRST_PORT + 3, FIRST_PORT + 5] {
        for stranger in STRANGERS {
            script += &format!("({stranger}) | timeout 20 busybox nc {address} {port} >/dev/null 2>&1 &\n");
        }
    }
    chain.node(CLIENT, &(script + "sleep 2"))?;
    let now = service.held(chain)?;
    // Those that have not said enough yet are connections without a thread.
    ensure!((now.threads, &now.objects) == (before.threads, &before.objects), "{before:?} became {now:?}");
    await_held(chain, service, &before)?;
    let line = format!("rocade write-bw -d rxe1 -p {FIRST_PORT} {FIXED} --timeout 60 {address}");
    good(&chain.cluster.node_sh(CLIENT, &judged(&line))?, 1)?;
    await_held(chain, service, &before)?;
    Ok(format!("{before:?}\n"))
}

fn await_held(chain: &Chain, service: &Service, before: &service::Held) -> Result<()> {
    wait_for(Duration::from_secs(60), || {
        let now = service.held(chain)?;
        Ok(if now == *before { Ok(()) } else { Err(format!("{before:?} became {now:?}")) })
    })
}

fn keep_limits(chain: &Chain) -> Result<Seen> {
    let service = Service::start(chain, "--max-clients 1 --max-memory-mib 4 --max-seconds 15")?;
    let told = limits(chain);
    let ended = service.end(chain)?;
    let told = told.with_context(|| ended.errors.clone())?;
    for wanted in [
        " turned away: as many clients as may be at once (1) are served",
        " broken off: the 15 s that a client has here",
    ] {
        ensure!(ended.errors.contains(wanted), "`{wanted}` wanted in its log\n{}", ended.errors);
    }
    ensure!(!ended.errors.contains("cause: "), "a cause is told of what it did itself\n{}", ended.errors);
    passed(told, "memory, time and clients: refused in words, or broken off; the log says which")
}

fn limits(chain: &Chain) -> Result<String> {
    let address = plan::rail_address(1, 1);
    let base = |test: &str| format!("rocade {test} -d rxe1 -p {FIRST_PORT} --timeout 20");
    let mut told = String::new();
    let long = format!("{} -s 64 -n 100000000 {address}", base("write-bw"));
    // The first is served until its time is up, and the second has no place for 5 s.
    let both = format!(
        "{{ {long}; echo first ended with $?; }} >/tmp/first 2>&1 & sleep 2; {long}; code=$?; wait; cat /tmp/first; exit $code"
    );
    for (line, wanted) in [
        (
            format!("{} -s 8M -n 5 {address}", base("write-bw")),
            ["MiB of memory were asked for, and 4 MiB are left here", "hint: ", ""],
        ),
        (
            format!("{} -s 64 -D 20 {address}", base("write-bw")),
            ["a test of 20 s was asked for, and a client has 15 s here", "hint: ", ""],
        ),
        (
            both,
            [
                "the other end will not: as many clients as may be at once (1) are served, and no place became free within 5 s",
                "the other end gave up: the 15 s that a client has here are up",
                "first ended with 2",
            ],
        ),
    ] {
        let got = chain.cluster.node_sh(CLIENT, &line)?;
        let said = both_streams(&got);
        ensure!(got.status.code() == Some(2), "`{line}`: exit code 2 wanted, {}\n{said}", got.status);
        for wanted in wanted {
            ensure!(said.contains(wanted), "`{line}`: `{wanted}` wanted\n{said}");
        }
        told += &said;
    }
    Ok(told)
}

/// Kinds of clients that take turns; all but the first two fail.
fn turns(chain: &Chain) -> Result<[String; 5]> {
    let index = gid_index(chain, Place::Node(CLIENT))?;
    let address = plan::rail_address(1, 1);
    let killed = |line: &str| format!("({line} >/dev/null 2>&1 & p=$!; sleep 2; kill -9 $p; wait)");
    Ok([
        format!(
            "rocade send-bw -d rxe1 -p {FIRST_PORT} -s 4096 -n 20 --timeout 60 {address} >/dev/null 2>&1 && echo good"
        ),
        format!(
            "ib_write_bw -F -d rxe1 -x {index} -p {FIRST_PORT} -s 4096 -n 20 {address} >/dev/null 2>&1 && echo good"
        ),
        killed(&format!("rocade write-lat -d rxe1 -p {FIRST_PORT} -n 10000000 {address}")),
        killed(&format!("ib_write_bw -F -d rxe1 -x {index} -p {FIRST_PORT} -s 4096 -n 10000000 {address}")),
        // A version, and then what is no size of a page.
        format!(
            "(printf '6.06\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0'; yes | head -c 400; sleep 1) | timeout 5 busybox nc {address} {FIRST_PORT} >/dev/null"
        ),
    ])
}

fn leak_nothing(chain: &Chain) -> Result<Seen> {
    let rounds = if std::env::var_os(FULL).is_some() { 40 } else { 4 };
    let service = Service::start(chain, "--timeout 10")?;
    let looked = leak(chain, &service, rounds);
    let ended = service.end(chain)?;
    let held = looked.with_context(|| ended.errors)?;
    let rounds = rounds * 5;
    passed(held, format!("the same threads, files and objects after {rounds} clients, 2 of 5 good ones"))
}

fn leak(chain: &Chain, service: &Service, rounds: usize) -> Result<String> {
    let turns = turns(chain)?;
    let idle = chain.node(CLIENT, "rdma resource")?;
    // The first ones load what stays.
    chain.node(CLIENT, &format!("{}; {}", turns[0], turns[1]))?;
    wait_for(Duration::from_secs(60), || {
        let now = service.held(chain)?;
        Ok(if now.threads == 1 { Ok(()) } else { Err(format!("{now:?}")) })
    })?;
    let before = service.held(chain)?;
    for _ in 0..rounds {
        let said = chain.node(CLIENT, &format!("{}; true", turns.join("; ")))?;
        ensure!(said.lines().filter(|line| *line == "good").count() == 2, "a good client failed: {said}");
    }
    await_held(chain, service, &before)?;
    let now = chain.node(CLIENT, "rdma resource")?;
    ensure!(now == idle, "the clients' node held {idle}, holds {now}");
    Ok(format!("{before:?}\n"))
}
