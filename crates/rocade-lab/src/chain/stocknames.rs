//! Rows of the tools under their stock names, brought into a Pod by an init container, and of what a test is expected to
//! come to. The other end and the form of what is printed are the stock tools' own.

use anyhow::{Context, Result, ensure};
use rocade_core::pair::perf::{Measure, Test};
use serde_json::json;

use super::pingpong::{gid_index, run_pair};
use super::place::Place;
use super::pods::{NAMESPACE, RESOURCE, pod};
use super::{Chain, Row, Seen, both_streams, passed};
use crate::cluster::plan;
use crate::image;

const POD: &str = "stock-names";
const SERVER: &str = plan::NODES[0];
const BYTES: u32 = 4096;
const MESSAGES: u32 = 20;

/// After the rows of the guide: a resource must be there to ask for.
pub fn stock_name_rows() -> Vec<Row<Chain>> {
    vec![
        Row {
            name: "an init container's rocade install gives a Pod all tools under their stock names, read by scripts as the stock ones",
            typed: vec![
                "rocade install /tools  (init container, a volume of both)".into(),
                "PATH=/tools:$PATH ib_write_bw -F -d rxe1 … ADDRESS  (other end: ib_write_bw of perftest 6.06)".into(),
            ],
            run: stock_names,
        },
        Row {
            name: "what was expected of a test comes to PASS or FAIL, and to its exit code",
            typed: vec![
                "rocade write-bw -o json ADDRESS > result.json".into(),
                "rocade write-bw --expect-from result.json --within 95% ADDRESS".into(),
            ],
            run: expect,
        },
    ]
}

fn stock_names(chain: &Chain) -> Result<Seen> {
    let volume = json!([{"name": "tools", "mountPath": "/tools"}]);
    let mut wanted = pod(POD, &json!({RESOURCE: "1"}));
    wanted["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": plan::NODES[1]});
    wanted["spec"]["volumes"] = json!([{"name": "tools", "emptyDir": {}}]);
    wanted["spec"]["initContainers"] = json!([{"name": "tools", "image": image::ROCADE, "imagePullPolicy": "Never",
        "args": ["install", "/tools"], "volumeMounts": volume}]);
    wanted["spec"]["containers"][0]["volumeMounts"] = volume;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    chain.apply(&[namespace, wanted])?;
    let wait = ["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=120s", "pod", POD];
    let told = chain.kubectl(&wait).and_then(|_| all_tools(chain));
    let ended = chain.kubectl(&["-n", NAMESPACE, "delete", "pod", POD, "--wait"]);
    let told = told?;
    ended?;
    passed(told, "six tools and ibv_rc_pingpong: exit codes, headings and columns of the stock tools")
}

fn all_tools(chain: &Chain) -> Result<String> {
    let mut told = pingpong(chain)?;
    for test in Test::ALL {
        told += &measure(chain, test).with_context(|| test.stock_name())?;
    }
    Ok(told)
}

/// The stock end on the node says the same, but for its own addresses and figures.
fn pingpong(chain: &Chain) -> Result<String> {
    let index = gid_index(chain, Place::Node(SERVER))?;
    let server = format!("ibv_rc_pingpong -d rxe1 -g {index} -n {MESSAGES}");
    let client =
        format!("PATH=/tools:$PATH ibv_rc_pingpong -d rxe1 -n {MESSAGES} {}", plan::rail_address(1, 1));
    let (stock, ours) = both(chain, &server, &client)?;
    ensure!(shape(&stock) == shape(&ours), "ibv_rc_pingpong printed\n{stock}rocade\n{ours}");
    Ok(ours)
}

/// A text without its numbers.
fn shape(said: &str) -> Vec<String> {
    let digits = |letter: char| letter.is_ascii_hexdigit() || matches!(letter, '.' | ':');
    let words = |line: &str| {
        let words = line.split_whitespace().map(|word| word.trim_end_matches(','));
        words.filter(|word| !word.trim_start_matches("0x").chars().all(digits)).collect::<Vec<_>>().join(" ")
    };
    said.lines().map(words).collect()
}

fn both(chain: &Chain, server: &str, client: &str) -> Result<(String, String)> {
    let client = format!("sh -c '{client}'");
    let (served, asked) = run_pair(chain, (Place::Node(SERVER), server), (Place::Pod(POD), &client))?;
    for (line, output) in [(server, &served), (client.as_str(), &asked)] {
        ensure!(output.status.success(), "`{line}`: {}\n{}", output.status, both_streams(output));
    }
    let text = |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((text(&served), text(&asked)))
}

fn measure(chain: &Chain, test: Test) -> Result<String> {
    let index = gid_index(chain, Place::Node(SERVER))?;
    let bandwidth = test.measure == Measure::Bandwidth;
    let gbits = if bandwidth { " --report_gbits" } else { "" };
    let options = format!("-F -d rxe1 -s {BYTES} -n {MESSAGES}{gbits}");
    let server = format!("debian12 {} -x {index} {options}", test.stock_name());
    let client = format!("PATH=/tools:$PATH {} {options} {}", test.stock_name(), plan::rail_address(1, 1));
    let (stock, ours) = both(chain, &server, &client)?;
    let row = row(&ours).with_context(|| format!("no row in\n{ours}"))?;
    let fields: Vec<f64> =
        row.split_whitespace().map(str::parse).collect::<Result<_, _>>().with_context(|| row.to_owned())?;
    ensure!(fields.len() == if bandwidth { 5 } else { 9 }, "{row}");
    ensure!(fields[0] == f64::from(BYTES) && fields[1] == f64::from(MESSAGES), "{row}");
    ensure!(fields[2..4].iter().all(|figure| *figure > 0.0), "{row}");
    // The end that is read from for latency prints none.
    if let Some(theirs) = heading(&stock) {
        ensure!(heading(&ours) == Some(theirs), "the stock tool's heading is\n{theirs}\nours\n{ours}");
    }
    Ok(format!("{}\n{row}\n", heading(&ours).unwrap_or_default()))
}

fn heading(said: &str) -> Option<&str> {
    said.lines().find(|line| line.trim_start().starts_with("#bytes"))
}

/// As scripts find it: the line below the heading.
fn row(said: &str) -> Option<&str> {
    said.lines().skip_while(|line| !line.trim_start().starts_with("#bytes")).nth(1)
}

/// What the client adds to its line, what it must print, and its exit code. `earlier` is a result of the same test a
/// moment ago, `better` the same with a bandwidth that does not come again.
const EXPECTED: [(&str, &str, &str, i32); 8] = [
    ("write-bw", "--expect-from /tmp/earlier --within 5%", "PASS: ", 0),
    ("write-bw", "--expect-from /tmp/better --within 95%", "FAIL: ", 1),
    ("write-bw", "--expect-gbps 0.0001", "PASS: ", 0),
    ("write-bw", "--expect-gbps 100 -o json", "\"pass\": false", 1),
    ("write-lat", "--expect-us 10000000", "PASS: ", 0),
    ("write-lat", "--expect-us 0.01", "FAIL: ", 1),
    ("write-lat", "--expect-gbps 1", "nothing to judge", 2),
    ("write-lat", "--expect-from /tmp/earlier", "nothing to judge", 2),
];

fn expect(chain: &Chain) -> Result<Seen> {
    let [at, from] = plan::NODES.map(Place::Node);
    let address = plan::rail_address(1, 1);
    let line = |test: &str, more: &str| {
        format!("rocade {test} -d rxe1 -s {BYTES} -n {MESSAGES} --timeout 30 {more} {address}")
    };
    let server = |test: &str| format!("rocade {test} -d rxe1 --timeout 30");
    // Of a Pod against its host the first would be the host's.
    let keep = format!(
        "sh -c '{} >/tmp/earlier && sed \"s/\\\"average_gbps\\\": /&9/\" /tmp/earlier >/tmp/better'",
        line("write-bw", "-o json")
    );
    let (_, kept) = run_pair(chain, (at, &server("write-bw")), (from, &keep))?;
    ensure!(kept.status.success(), "{}\n{}", kept.status, both_streams(&kept));
    let mut told = String::new();
    for (test, more, wanted, code) in EXPECTED {
        let line = line(test, more);
        // What cannot be judged is refused before anybody is asked.
        let asked = match code {
            2 => chain.cluster.node_sh(from.name(), &line)?,
            _ => run_pair(chain, (at, &server(test)), (from, &line))?.1,
        };
        let said = both_streams(&asked);
        ensure!(
            asked.status.code() == Some(code),
            "`{line}`: exit code {code} wanted, {}\n{said}",
            asked.status
        );
        let verdict = said.lines().find(|line| line.contains(wanted));
        told += &format!(
            "{more}: {}\n",
            verdict.with_context(|| format!("`{line}`: `{wanted}` wanted\n{said}"))?
        );
    }
    passed(told, "PASS with 0, FAIL with 1, what the test does not measure with 2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_words_and_no_numbers() {
        let said = "  local address:  LID 0x0000, QPN 0x000012, PSN 0x29a650, GID ::ffff:10.8.10.1\n8 iters in 0.1 seconds";
        assert_eq!(shape(said), ["local address: LID QPN PSN GID", "iters in seconds"]);
    }
}
