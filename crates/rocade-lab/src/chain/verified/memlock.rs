//! Rows of memory that can be locked: what is told where the runtime's limit holds, and each way in which it was raised.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::super::agent::SOON;
use super::super::pods::{NAMESPACE, pod};
use super::super::{Chain, Row, Seen, both_streams, passed, wait_for};
use super::kinds::{HOST_NETWORK, MEMORY, RANGE, at, container};
use super::{Container, TEST, Wanted};
use crate::cluster::plan;

const NODE: &str = plan::NODES[1];
const REGISTER: &str = "--register 64MiB";
/// Pods with a container `user`, whose user is 1000 and has no capability: by its RuntimeClass, by containerd's own
/// limit, by a neighbour in the Pod.
const BY_CLASS: &str = "memory-by-class";
const BY_RUNTIME: &str = "memory-by-runtime";
const BY_SIDECAR: &str = "memory-by-sidecar";
/// What may be locked, and what was asked for, is well.
const GOOD: Wanted<'static> =
    Wanted { exit: 0, found: &["note RDC609", "note RDC613"], devices: &["rxe1:1"], range: Some(RANGE) };

pub(super) fn rows() -> Vec<Row<Chain>> {
    vec![
        Row {
            name: "verify: 8 MiB of lockable memory fails, with the cure for root and the one for any other user",
            typed: vec![format!("rocade verify {REGISTER}  (as root and as user 1000, with IPC_LOCK and without)")],
            run: too_small,
        },
        Row {
            name: "verify: memory can be locked as another user after each way of raising the runtime's limit",
            typed: vec![
                "base_runtime_spec with RLIMIT_MEMLOCK for the handler of a RuntimeClass".into(),
                "prlimit --pid $(pidof containerd) --memlock=unlimited  (as LimitMEMLOCK= does)".into(),
                "prlimit --pid PID --memlock=unlimited  (by a privileged sidecar, with shareProcessNamespace)".into(),
                "ulimit -l unlimited; su user -c …  (root with SYS_RESOURCE steps down)".into(),
            ],
            run: raised,
        },
    ]
}

fn too_small(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    let untried = ["error RDC106", "note RDC609", "note RDC613"];
    let tried = ["error RDC612", "error RDC106", "note RDC609", "note RDC613"];
    for (name, helps) in
        [("root", "add: [IPC_LOCK]"), ("user", "LimitMEMLOCK"), ("user-lock", "LimitMEMLOCK")]
    {
        let at = Container(MEMORY, name);
        let wanted = Wanted { exit: 1, found: &untried, ..GOOD };
        at.ask(chain, "")?.hold(&wanted)?;
        let told = at.ask(chain, REGISTER)?;
        let reason = told.hold(&Wanted { found: &tried, ..wanted })?;
        ensure!(reason.contains("64 MiB could not be registered"), "{name}: {reason}");
        ensure!(reason.contains("8 MiB"), "{name}: the limit is not told: {reason}");
        for code in ["RDC612", "RDC106"] {
            let cure = told.cure(code)?;
            ensure!(cure.contains(helps), "{name}: {code} does not say {helps}: {cure}");
            ensure!(name == "root" || !cure.contains("add:"), "{name}: the capability is no cure: {cure}");
        }
        output += &format!("{name}: {reason}\n{}\n", told.cure("RDC106")?);
    }
    passed(
        output,
        "FAIL by RDC106, and by RDC612 once tried; IPC_LOCK for root, the runtime's limit for others",
    )
}

fn raised(chain: &Chain) -> Result<Seen> {
    chain.apply(&[by_class(), by_sidecar()])?;
    // Each before the runtime's limit is raised, which they would get as well.
    wait_ready(chain, BY_CLASS)?;
    wait_ready(chain, BY_SIDECAR)?;
    let limit =
        chain.node(NODE, "prlimit --pid $(pidof containerd) --memlock --output SOFT,HARD --noheadings")?;
    let old = limit.split_whitespace().collect::<Vec<_>>().join(":");
    let set = |limit: &str| chain.node(NODE, &format!("prlimit --pid $(pidof containerd) --memlock={limit}"));
    set("unlimited:unlimited")?;
    let started = start(chain, BY_RUNTIME);
    let undone = set(&old);
    started?;
    undone?;
    let mut output = step_down(chain)?;
    let root = Container(HOST_NETWORK, TEST).ask(chain, REGISTER)?;
    output += &format!("IPC_LOCK as root: {}\n", root.hold(&GOOD)?);
    for name in [BY_CLASS, BY_RUNTIME] {
        let told = Container(name, "user").ask(chain, REGISTER)?;
        output += &format!("{name}: {}\n", told.hold(&GOOD)?);
    }
    output += &raised_by_sidecar(chain)?;
    passed(output, "64 MiB registered as user 1000 by all four")
}

fn by_class() -> serde_json::Value {
    let mut by_class = at(1, "memlock", pod(BY_CLASS, &json!({})));
    by_class["spec"]["containers"] = json!([container("user", json!({"runAsUser": 1000}))]);
    by_class
}

fn start(chain: &Chain, name: &str) -> Result<()> {
    let mut by_runtime = at(1, "rail1", pod(name, &json!({})));
    by_runtime["spec"]["containers"] = json!([container("user", json!({"runAsUser": 1000}))]);
    chain.apply(&[by_runtime])?;
    wait_ready(chain, name)
}

fn wait_ready(chain: &Chain, name: &str) -> Result<()> {
    chain
        .kubectl(&["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=120s", "pod", name])
        .map(drop)
}

/// In the container that has SYS_RESOURCE: root may raise even the hard limit, and who comes after it keeps that.
fn step_down(chain: &Chain) -> Result<String> {
    let at = Container(MEMORY, "resource");
    let user = at.output(chain, "echo user:x:1000:1000::/:/bin/sh >>/etc/passwd")?;
    ensure!(user.status.success(), "no user 1000");
    let told = at.ask_in(chain, REGISTER, "ulimit -l unlimited; exec su user -c")?;
    ensure!(told.verdict["hcas"][0]["granted"] == true, "su lost the environment: {}", told.said);
    Ok(format!("SYS_RESOURCE: {}\n", told.hold(&GOOD)?))
}

/// The job's first process waits for its limit; a process that kubectl starts has the runtime's.
const JOB: &str = "until [ \"$(ulimit -l)\" = unlimited ]; do sleep 0.2; done; \
                   rocade verify -o json --register 64MiB; echo \"@$?\"; sleep 1000000";
/// By the system call of the node's prlimit, on the only process of user 1000.
const SIDECAR: &str = "while :; do for p in /proc/[0-9]*; do [ \"$(stat -c %u $p 2>/dev/null)\" = 1000 ] && \
                       chroot /node prlimit --pid ${p#/proc/} --memlock=unlimited && exec sleep 1000000; \
                       done; sleep 0.2; done";

fn by_sidecar() -> serde_json::Value {
    let mut by_sidecar = at(1, "rail1", pod(BY_SIDECAR, &json!({})));
    let spec = &mut by_sidecar["spec"];
    let mut job = container("user", json!({"runAsUser": 1000}));
    job["command"] = json!(["sh", "-c", JOB]);
    let mut sidecar = container("sidecar", json!({}));
    sidecar["command"] = json!(["sh", "-c", SIDECAR]);
    sidecar["securityContext"] = json!({"privileged": true});
    sidecar["resources"] = json!({});
    sidecar["volumeMounts"] = json!([{"name": "node", "mountPath": "/node", "readOnly": true}]);
    spec["shareProcessNamespace"] = json!(true);
    spec["volumes"] = json!([{"name": "node", "hostPath": {"path": "/"}}]);
    spec["containers"] = json!([job, sidecar]);
    by_sidecar
}

fn raised_by_sidecar(chain: &Chain) -> Result<String> {
    let said = wait_for(SOON, || {
        let said = chain.kubectl(&["-n", NAMESPACE, "logs", BY_SIDECAR, "-c", "user"])?;
        Ok(if said.contains('@') { Ok(said) } else { Err(said) })
    })?;
    let (verdict, exit) = said.split_once('@').context("no exit code")?;
    let verdict: serde_json::Value = serde_json::from_str(verdict).with_context(|| said.clone())?;
    ensure!(exit.trim() == "0" && verdict["pass"] == true, "{said}");
    let beside = Container(BY_SIDECAR, "user").output(chain, "ulimit -l")?;
    ensure!(beside.stdout == b"8192\n", "a process of kubectl exec has {}", both_streams(&beside));
    Ok(format!("{BY_SIDECAR}: {}\n", verdict["reason"]))
}
