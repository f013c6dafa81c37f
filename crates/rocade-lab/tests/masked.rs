//! The product in Pods of which a part is hidden: no grant, no /sys, a masked or read-only one, no /proc. Each gives a verdict
//! with its reason, and nothing crashes. Needs root.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::path::Path;
use std::process::Output;

use rocade_lab::product;
use rocade_lab::steps::Steps;

#[path = "../../rocade/benches/probe/pod.rs"]
mod pod;

/// What is hidden, and what `rocade verify` says then.
struct Case {
    what: &'static str,
    /// Nodes that are there, of two HCAs that are seen.
    granted: usize,
    /// What the environment says.
    grant: Option<&'static str>,
    /// Shell lines that hide it.
    hide: &'static str,
    verdict: &'static str,
}

const GRANTED: Option<&str> = Some("mlx5_0:1");

const CASES: &[Case] = &[
    Case {
        what: "nothing",
        granted: 1,
        grant: GRANTED,
        hide: "",
        verdict: "PASS usable: mlx5_0/1 with 10.0.0.4",
    },
    Case {
        what: "a grant that the environment does not tell",
        granted: 1,
        grant: None,
        hide: "",
        verdict: "PASS usable: mlx5_0/1 with 10.0.0.4",
    },
    Case {
        what: "the grant",
        granted: 0,
        grant: None,
        hide: "",
        verdict: "FAIL pod: mlx5_0, mlx5_1 seen in /sys, no node",
    },
    Case { what: "the node of what was granted", granted: 0, grant: GRANTED, hide: "", verdict: "FAIL " },
    Case {
        what: "writing to /sys",
        granted: 1,
        grant: GRANTED,
        hide: "mount -o remount,bind,ro /sys",
        verdict: "PASS usable: mlx5_0/1 with 10.0.0.4",
    },
    Case {
        what: "/sys",
        granted: 1,
        grant: GRANTED,
        hide: "mount -t tmpfs none /sys",
        verdict: "FAIL host: ROCADE_GRANT_RDMA_A says that an HCA was granted",
    },
    Case {
        what: "the class of RDMA devices",
        granted: 1,
        grant: GRANTED,
        hide: "mount -t tmpfs none /sys/class/infiniband",
        verdict: "FAIL host: uverbs0, uverbs1 belong to HCAs of other network namespaces",
    },
    Case {
        what: "a port's directory",
        granted: 1,
        grant: GRANTED,
        hide: "mount -t tmpfs none /sys/class/infiniband/mlx5_0/ports",
        verdict: "FAIL ",
    },
    Case {
        what: "a port's GIDs",
        granted: 1,
        grant: GRANTED,
        hide: "mount -t tmpfs none /sys/class/infiniband/mlx5_0/ports/1/gids",
        verdict: "FAIL pod: resource rdma/a is mlx5_0, the network leads to mlx5_1",
    },
    Case {
        what: "/proc",
        granted: 1,
        grant: GRANTED,
        hide: "mount -t tmpfs none /proc",
        verdict: "PASS usable: mlx5_0/1 with 10.0.0.4",
    },
    Case {
        what: "/proc and /sys",
        granted: 1,
        grant: GRANTED,
        hide: "mount -t tmpfs none /proc; mount -t tmpfs none /sys",
        verdict: "FAIL host: ",
    },
    Case {
        what: "the device nodes",
        granted: 1,
        grant: GRANTED,
        hide: "mount -t tmpfs none /dev/infiniband",
        verdict: "FAIL ",
    },
];

impl Case {
    fn run(&self, tree: &Path, rocade: &Path, arguments: &[&str]) -> Output {
        let hidden = format!("{}\nexec \"$@\"", self.hide);
        let mut command = pod::enter(tree, 2);
        command.args(["sh", "-c", &hidden, "sh"]).arg(rocade).args(arguments).env_remove(pod::GRANT);
        command.env(pod::IN_KUBERNETES.0, pod::IN_KUBERNETES.1).env("RUST_BACKTRACE", "0");
        command.envs(self.grant.map(|grant| (pod::GRANT, grant)));
        let output = command.output().expect("unshare");
        let said = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        assert!(!said.contains("panicked"), "without {}, {arguments:?}: {said}", self.what);
        assert!(matches!(code, Some(0..=2)), "without {}, {arguments:?}: {code:?} {said}", self.what);
        output
    }
}

#[test]
fn whatever_is_hidden_from_a_pod_it_gets_a_verdict_and_its_probe_the_same() {
    let rocade = product::build(Steps::new()).expect("rocade is built");
    let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
    for (number, case) in CASES.iter().enumerate() {
        let tree = scratch.path().join(number.to_string());
        pod::lay_out(&tree, case.granted, 2).unwrap();
        let told = case.run(&tree, &rocade, &["verify"]);
        let words = String::from_utf8(told.stdout).unwrap();
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.starts_with(case.verdict), "without {}: {words}", case.what);
        let code = Some(i32::from(!case.verdict.starts_with("PASS")));
        assert_eq!(told.status.code(), code, "without {}: {words}", case.what);
        let probe = case.run(&tree, &rocade, &["verify", "--probe"]);
        assert_eq!(probe.status.code(), code, "without {}: {words}", case.what);
        assert!(probe.stdout.is_empty() && probe.stderr.is_empty(), "without {}", case.what);
        for arguments in [
            &["verify", "--traffic", "--register", "1MiB"][..],
            &["env"],
            &["inventory"],
            &["check"],
            &["exec", "--", "true"],
        ] {
            case.run(&tree, &rocade, arguments);
        }
        let exec = case.run(&tree, &rocade, &["exec", "--", "false"]);
        assert_eq!(exec.status.code(), Some(1), "without {}", case.what);
    }
}
