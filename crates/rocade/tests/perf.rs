//! The commands of the tests as a whole: command lines that are refused before anything is tested. What needs an HCA is
//! tested on the bench.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::process::{Command, Output};

use rocade_core::pair::perf::{Options, Test};
use serde_json::{Value, json};

const TESTS: [&str; 6] = ["write-bw", "write-lat", "read-bw", "read-lat", "send-bw", "send-lat"];

fn run(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rocade")).args(line.split_whitespace()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// stderr of a command that could not look, and printed no data.
fn refused(line: &str) -> String {
    let output = run(line);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{line}: {}", stderr(&output));
    stderr(&output)
}

#[test]
fn every_test_takes_the_stock_letters_beside_long_names() {
    for test in TESTS {
        let many = if test.ends_with("bw") { "-q 4 -b -t 64 -Q 10" } else { "" };
        let line =
            "-d nonexistent0 -i 1 -p 18516 -s 64 -n 100 -x 3 -F -m 1024 -S 1 -u 14 -o table --report_gbits";
        let said = refused(&format!("{test} {line} {many} 127.0.0.1"));
        assert!(said.starts_with("rocade: no HCA"), "{said}");
        let long =
            "--hca nonexistent0 --hca-port 1 --tcp-port 18516 --size 64 --iterations 100 --gid-index 3";
        let said =
            refused(&format!("{test} {long} --timeout 5 --wait 1 --bind 127.0.0.1 --check=3 127.0.0.1"));
        assert!(said.starts_with("rocade: no HCA"), "{said}");
    }
}

#[test]
fn options_that_do_not_go_together_are_refused_ahead_of_everything_else() {
    for (line, wanted) in [
        ("write-lat -q 2 10.0.0.1", "rocade: write-lat: 2 QPs in write-lat: only a bandwidth test has that"),
        ("read-bw --inline 64", "rocade: read-bw: inline messages in read-bw"),
        ("send-bw -a -D 2", "rocade: send-bw: all sizes by time"),
        ("write-lat --expect-gbps 10", "rocade: nothing to judge: write-lat measures no bandwidth"),
        ("write-bw --expect-us 10", "rocade: nothing to judge: write-bw measures no latency"),
        ("write-bw --expect-from /nonexistent.json", "rocade: --expect-from /nonexistent.json: No such file"),
    ] {
        let said = refused(line);
        assert!(said.starts_with(wanted) && said.contains("\nhint: "), "{said}");
    }
    assert!(refused("write-bw --within 90%").contains("--expect-from"));
    for wrong in ["nan", "-1", "inf", "0", "soon"] {
        let said = refused(&format!("write-lat --expect-us={wrong}"));
        assert!(said.contains("a latency is a number of microseconds, more than 0"), "{said}");
    }
    assert!(refused("write-bw --expect-gbps 110%").contains("a percentage is more than 0 and at most 100%"));
}

/// F81: -R fails where connections over TCP work.
#[test]
fn options_of_perftest_that_rocade_lacks_are_refused_with_their_reason_under_its_own_names_too() {
    for test in TESTS {
        for (option, wanted) in [
            ("-R", "-R (--rdma_cm): connections are made over TCP"),
            ("-z", "-z (--comm_rdma_cm): connections are made over TCP"),
            ("-T 104", "-T (--tos): it is an option of rdma_cm; --tclass sets"),
            ("--use_cuda=0", "--use_cuda: buffers are memory of the host"),
            ("-w 90", "-w (--limit_bw): --expect-gbps fails"),
            ("-H", "-H (--report-histogram): every result has percentiles"),
        ] {
            let said = refused(&format!("{test} {option} 127.0.0.1"));
            assert!(said.starts_with(&format!("rocade: rocade has no {wanted}")), "{said}");
            assert!(
                said.contains(&format!(
                    "\nhint: leave the option out, or take ib_{}",
                    &test.replace('-', "_")
                ))
            );
        }
        let said = refused(&format!("{test} -c RC -d nonexistent0 -D 4 -f 1 127.0.0.1"));
        assert!(said.starts_with("rocade: no HCA"), "{said}");
        assert!(refused(&format!("{test} -c UD 127.0.0.1")).contains("rocade tests RC alone"));
    }
}

#[test]
fn a_service_that_has_nothing_to_test_over_does_not_listen() {
    let said = refused("serve --hca nonexistent0 --bind 127.0.0.1 --tcp-port 28515");
    assert!(said.starts_with("rocade: no HCA") && !said.contains("listening"), "{said}");
    assert!(refused("serve --tcp-port 65535").contains("65535 is not in 1..=65530"));
}

/// A result of write-bw as `-o json` writes it, of one size.
fn earlier() -> Value {
    let mut earlier = serde_json::to_value(Options::stock(Test::ALL[0])).unwrap();
    let rest = json!({
        "role": "client", "hca": "mlx5_0", "port": 1, "gid": null, "reason": "asked for", "warnings": [],
        "remote": null, "remote_gid": null, "peer": "perftest 6.06", "path_mtu_bytes": 4096, "loopback": null,
        "results": [{
            "message_bytes": 65536, "messages": 5000, "seconds": 1.0, "latency": null,
            "bandwidth": {
                "average_gbps": 100.0, "peak_gbps": null, "messages_per_second": 1.0, "intervals": null
            }
        }],
        "counters": {}
    });
    earlier.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    earlier
}

#[test]
fn an_earlier_result_that_this_test_cannot_be_compared_with_is_refused_before_anybody_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("result.json");
    let ask = |text: &str, line: &str| {
        std::fs::write(&file, text).unwrap();
        refused(&format!("{line} -d nonexistent0 --expect-from {} 127.0.0.1", file.display()))
    };
    let whole = earlier().to_string();
    for line in ["write-bw", "write-bw -a", "write-bw --sizes 2,64K --within 0.1%"] {
        let said = ask(&whole, line);
        assert!(said.starts_with("rocade: no HCA"), "{line}: {said}");
    }
    for (line, wanted) in [
        ("write-bw -b", "the earlier result is of one direction, this test of both directions"),
        ("write-bw -q 4", "the earlier result is of 1 QP, this test of 4 QPs"),
        ("write-bw -s 64", "the earlier result has figures of other sizes than this test: 65536 bytes"),
        ("read-bw", "the earlier result is of write-bw, this test is read-bw"),
    ] {
        let said = ask(&whole, line);
        assert!(said.starts_with(&format!("rocade: nothing to judge: {wanted}\nhint: ")), "{said}");
    }
    let said = ask(&whole, "pingpong");
    assert!(said.starts_with("rocade: --expect-from ") && said.contains("\nhint: it takes"), "{said}");
    for part in [0, 1, whole.len() / 2, whole.len() - 1] {
        let said = ask(&whole[..part], "write-bw");
        assert!(said.starts_with("rocade: --expect-from ") && said.contains("\nhint: it takes"), "{said}");
    }
    for within in ["0", "101%", "nan", "-5", "most"] {
        let said = ask(&whole, &format!("write-bw --within={within}"));
        assert!(said.contains("a percentage is more than 0 and at most 100%"), "{said}");
    }
}

#[test]
fn a_test_that_cannot_be_made_is_a_json_document_too_where_a_result_would_have_been_one() {
    for test in TESTS.into_iter().chain(["pingpong"]) {
        let output = run(&format!("{test} -d nonexistent0 -o json 127.0.0.1"));
        assert_eq!(output.status.code(), Some(2), "{test}");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let failure = &told["failure"];
        assert_eq!(
            (&told["test"], &failure["phase"], &failure["of_rdma"]),
            (&json!(test), &json!("opening"), &json!(false))
        );
        let said = stderr(&output);
        for (word, part) in [("rocade", "error"), ("cause", "cause"), ("hint", "cure")] {
            let text = failure[part].as_str().unwrap();
            assert!(!text.is_empty() && said.contains(&format!("{word}: {text}")), "{told}\n{said}");
        }
    }
    // What is wrong with the command line is no test's failure.
    assert!(refused("write-lat -o json -q 2").starts_with("rocade: write-lat: "));
}
