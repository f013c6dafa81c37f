//! `rocade lint` over manifests as public guides print them, retold: every rule has a wrong file, which gives its code and
//! no other, and a right one, which gives none. What a file is judged with stands in its first line.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::rc::Rc;

use rocade_core::config::{ConfigFile, parse_config};
use rocade_core::lint::{Against, Report, Source, lint as judge_manifests, rules};
use rocade_core::{Host, judge};
use rocade_host::{Root, read_host};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Runs `rocade lint` in fixtures, with that text on stdin.
fn lint(arguments: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
    command.current_dir(fixtures()).arg("lint").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // What does not read it, as for a wrong flag, may be gone.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn codes(document: &Value) -> Vec<String> {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

/// Name, facts and text of each file of that folder.
fn manifests(kind: &str) -> Vec<(String, Facts, String)> {
    let files = fs::read_dir(fixtures().join("manifests").join(kind)).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut hosts: BTreeMap<String, Rc<Host>> = BTreeMap::new();
    let mut read = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        let arguments = text.lines().next().unwrap().strip_prefix("# lint: ").unwrap_or_default();
        let facts = Facts::of(arguments, &mut hosts);
        (file.file_stem().unwrap().to_string_lossy().into_owned(), facts, text)
    };
    files.iter().map(&mut read).collect()
}

/// What the first line of a file says that it is judged with, as the arguments of `rocade lint`.
#[derive(Default)]
struct Facts {
    namespace: Option<String>,
    config: Option<ConfigFile>,
    host: Option<Rc<Host>>,
}

impl Facts {
    fn of(arguments: &str, hosts: &mut BTreeMap<String, Rc<Host>>) -> Facts {
        let mut facts = Facts::default();
        let words: Vec<&str> = arguments.split_whitespace().collect();
        for pair in words.chunks(2) {
            let file = fixtures().join(pair[1]);
            match pair[0] {
                "-n" => facts.namespace = Some(pair[1].to_owned()),
                "--config" => {
                    let text = fs::read_to_string(&file).unwrap();
                    facts.config = Some(parse_config(pair[1], &text, true).unwrap().0);
                }
                "--from" => {
                    let host = hosts.entry(pair[1].to_owned());
                    facts.host = Some(host.or_insert_with(|| read_recorded(&file)).clone());
                }
                other => panic!("{other} in {arguments}"),
            }
        }
        facts
    }

    fn judge(&self, text: &str) -> Report {
        let against = Against {
            namespace: self.namespace.as_deref(),
            config: self.config.as_ref(),
            host: self.host.as_deref(),
        };
        judge_manifests(&[source(text)], &against)
    }
}

fn source(text: &str) -> Source<'_> {
    Source { name: "stdin", text }
}

fn read_recorded(file: &Path) -> Rc<Host> {
    let mut host = read_host(&Root::open(file).unwrap());
    judge(&mut host);
    Rc::new(host)
}

fn codes_of(report: &Report) -> Vec<&'static str> {
    report.findings.iter().map(|found| found.finding.code).collect()
}

#[test]
fn every_wrong_manifest_gives_its_code_and_no_other() {
    for (name, facts, text) in manifests("wrong") {
        let report = facts.judge(&text);
        let found = codes_of(&report);
        assert!(!found.is_empty() && found.iter().all(|code| *code == &name[..6]), "{name}: {found:?}");
        let lines = u32::try_from(text.lines().count()).unwrap();
        assert!(report.findings.iter().all(|found| (1..=lines).contains(&found.line)), "{name}: {report:?}");
    }
}

#[test]
fn no_right_manifest_gives_a_finding() {
    for (name, facts, text) in manifests("right") {
        assert_eq!(codes_of(&facts.judge(&text)), [] as [&str; 0], "{name}");
    }
}

#[test]
fn every_rule_has_a_wrong_and_a_right_manifest() {
    for kind in ["wrong", "right"] {
        let told: BTreeSet<String> =
            manifests(kind).into_iter().map(|(name, ..)| name[..6].to_owned()).collect();
        let missing: Vec<&str> = rules().map(|rule| rule.code).filter(|code| !told.contains(*code)).collect();
        assert!(missing.is_empty(), "{kind}: {missing:?}");
    }
}

/// Applies a unified diff; every line that it keeps or removes must be there.
fn patched(text: &str, diff: &str) -> String {
    let old: Vec<&str> = text.split_inclusive('\n').collect();
    let (mut new, mut at) = (Vec::new(), 0);
    for line in diff.split_inclusive('\n').skip(2) {
        if let Some(header) = line.strip_prefix("@@ -") {
            let from: usize = header.split(',').next().unwrap().parse().unwrap();
            new.extend(&old[at..from - 1]);
            at = from - 1;
        } else if let Some(added) = line.strip_prefix('+') {
            new.push(added);
        } else {
            assert_eq!(old[at], &line[1..], "{diff}");
            if line.starts_with(' ') {
                new.push(old[at]);
            }
            at += 1;
        }
    }
    new.extend(&old[at..]);
    new.concat()
}

#[test]
fn a_manifest_with_its_patch_is_right() {
    let mut mended = BTreeSet::new();
    for (name, facts, text) in manifests("wrong") {
        let diff = facts.judge(&text).patch(0, &source(&text));
        if diff.is_empty() {
            continue;
        }
        assert!(diff.starts_with("--- a/stdin\n+++ b/stdin\n@@ -"), "{name}: {diff}");
        let found = facts.judge(&patched(&text, &diff));
        assert_eq!(codes_of(&found), [] as [&str; 0], "{name}: {diff}");
        mended.insert(name[..6].to_owned());
    }
    let wanted = [
        "RDC741", "RDC743", "RDC745", "RDC747", "RDC749", "RDC750", "RDC752", "RDC753", "RDC755", "RDC760",
        "RDC763",
    ];
    for code in wanted.into_iter().chain(["RDC773", "RDC780", "RDC781"]) {
        assert!(mended.contains(code), "{code} is mended by no patch: {mended:?}");
    }
}

/// The Pod of a published guide: pinned by nodeName, with the attachment of another rail from another namespace, and
/// looked for in `default`.
const OF_A_GUIDE: &str = r#"apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: compute-a-net, namespace: nad}
spec:
  config: '{"cniVersion": "0.3.1", "type": "macvlan", "master": "ens18np0", "mode": "bridge",
    "ipam": {"type": "host-local", "subnet": "10.8.10.0/24", "rangeStart": "10.8.10.200", "rangeEnd": "10.8.10.220"}}'
---
apiVersion: v1
kind: Pod
metadata:
  name: rdma-pod4
  namespace: demo
  annotations:
    k8s.v1.cni.cncf.io/networks: '[{"name":"compute-a-net","namespace":"nad"}]'
spec:
  nodeName: gpu-worker-4
  containers:
    - name: perf
      image: perftest:24.04
      securityContext: {capabilities: {add: ["IPC_LOCK"]}}
      resources:
        limits: {rdma/hca_ens20: "1"}
        requests: {rdma/hca_ens20: "1"}
---
apiVersion: v1
kind: Pod
metadata:
  name: rdma-pod5
  namespace: demo
  annotations:
    k8s.v1.cni.cncf.io/networks: '[{"name":"compute-a-net","namespace":"nad"}]'
spec:
  nodeName: gpu-worker-5
  containers:
    - name: perf
      image: perftest:24.04
      securityContext: {capabilities: {add: ["IPC_LOCK"]}}
      resources:
        limits: {rdma/hca_ens20: "1"}
"#;

#[test]
fn the_patch_of_the_command_is_the_one_of_the_findings() {
    let text = fs::read_to_string(fixtures().join("manifests/wrong/RDC750-no-ipc-lock.yaml")).unwrap();
    let diff = stdout(&lint(&["-", "-o", "patch"], &text));
    assert_eq!(diff, Facts::default().judge(&text).patch(0, &source(&text)));
    let yaml = stdout(&lint(&["-", "-o", "yaml"], &text));
    assert!(yaml.contains("code: RDC750") && yaml.contains("file: stdin"), "{yaml}");
    let added = "     - name: perf\n+      securityContext:\n+        capabilities:\n+          add: [IPC_LOCK]\n       image:";
    assert!(diff.contains(added), "{diff}");
}

#[test]
fn what_a_published_guide_gets_wrong_is_found() {
    let facts = ["--config", "configs/three-rails.json", "--from", "hosts/seed-4hca-bond.host"];
    let output = lint(&[&facts[..], &["-n", "default", "-o", "json", "-"]].concat(), OF_A_GUIDE);
    assert_eq!(output.status.code(), Some(1));
    let of_pod = ["RDC748", "RDC764", "RDC747", "RDC761"];
    // The attachment's namespace is not `default` either.
    let wanted: Vec<&str> = ["RDC748", "RDC772"].into_iter().chain(of_pod).chain(of_pod).collect();
    assert_eq!(codes(&document(&output)), wanted);
    let table = stdout(&lint(&[&facts[..], &["-"]].concat(), OF_A_GUIDE));
    assert!(table.contains("rdma/hca_ens20 is mlx5_4\n  (ens20np0), and compute-a-net is on ens18np0; wanted an attachment on ens20np0"), "{table}");
    assert!(
        table.contains("    +   nodeSelector:\n    +     kubernetes.io/hostname: gpu-worker-4\n"),
        "{table}"
    );
}

#[test]
fn the_exit_code_says_whether_it_looked_and_from_which_severity_on_it_failed() {
    let warning = fs::read_to_string(fixtures().join("manifests/wrong/RDC780-in-env.yaml")).unwrap();
    let good = fs::read_to_string(fixtures().join("manifests/right/RDC754-device-plugin.yaml")).unwrap();
    for (arguments, text, wanted) in [
        (&["-"][..], good.as_str(), 0),
        (&["-"], &warning, 0),
        (&["-", "--fail-on", "warning"], &warning, 1),
        (&["-", "--fail-on", "note"], &warning, 1),
        (&["-", "--fail-on", "never"], &warning, 0),
        (&["-", "--fail-on", "never"], "a: {{ .Values.a }}\n", 2),
        (&["/nonexistent/pod.yaml"], "", 2),
        (&["-", "--config", "/nonexistent/agent.yaml"], "", 2),
        (&["-", "--from", "/nonexistent/a.host"], "", 2),
        (&[], "", 2),
        (&["-"], "", 0),
    ] {
        assert_eq!(lint(arguments, text).status.code(), Some(wanted), "{arguments:?}: {text}");
    }
}

/// F58: the same manifest fails on RoCE and passes on InfiniBand, which is addressed without an interface.
#[test]
fn an_interface_of_its_own_is_asked_for_on_roce_alone() {
    let bare = |resource: &str| {
        format!(
            "kind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n  - name: a\n    securityContext: {{capabilities: {{add: \
             [IPC_LOCK]}}}}\n    resources:\n      limits: {{{resource}: 1}}\n"
        )
    };
    let severity = |arguments: &[&str], resource: &str| {
        let document = document(&lint(&[arguments, &["-", "-o", "json"]].concat(), &bare(resource)));
        document["findings"][0]["severity"].as_str().map(str::to_owned)
    };
    let roce = ["--config", "configs/three-rails.json", "--from", "hosts/seed-4hca-bond.host"];
    let infiniband = ["--config", "configs/ib-rail.yaml", "--from", "hosts/ib-hdr-mixed.host"];
    assert_eq!(severity(&roce, "rdma/hca_ens20").as_deref(), Some("error"));
    assert_eq!(severity(&infiniband, "rdma/hca_ibs20"), None);
    assert_eq!(severity(&[], "rdma/hca_ibs20").as_deref(), Some("note"));
}

#[test]
fn several_files_are_judged_together_and_named_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (network, pod) = (dir.path().join("nad.yaml"), dir.path().join("pod.yaml"));
    let (nad, pods) = OF_A_GUIDE.split_once("---\n").unwrap();
    fs::write(&network, nad).unwrap();
    fs::write(&pod, pods).unwrap();
    let facts = ["--config", "configs/three-rails.json", "--from", "hosts/seed-4hca-bond.host", "-o", "json"];
    let files = [network.to_str().unwrap(), pod.to_str().unwrap()];
    let document = document(&lint(&[&facts[..], &files].concat(), ""));
    let wrong_rail =
        document["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == "RDC761");
    let wrong_rail = wrong_rail.unwrap();
    assert_eq!(
        (wrong_rail["file"].as_str(), wrong_rail["line"].as_u64()),
        (pod.to_str(), Some(15)),
        "{wrong_rail}"
    );
}

#[test]
fn configurations_of_the_agent_are_judged_by_their_own_rules() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rdma-devices}\ndata:\n  config.json: |\n    {\"configList\": [\n      \
               {\"resourceName\": \"a\", \"rdmaHcaMax\": 1,\n       \"selectors\": {\"drivers\": [\"irdma\"]}}]}\n";
    let found = document(&lint(&["-", "-o", "json"], map));
    assert_eq!((codes(&found), found["findings"][0]["line"].as_u64()), (vec!["RDC714".into()], Some(8)));
    let agent = "---\nkind: Service\n---\napiVersion: rocade.dev/v1alpha1\nkind: AgentConfig\nresources:\n- name: a\n  share: 1\n";
    let found = document(&lint(&["-", "-o", "json"], agent));
    assert_eq!((codes(&found), found["findings"][0]["line"].as_u64()), (vec!["RDC702".into()], Some(8)));
    let json = fs::read_to_string(fixtures().join("configs/three-rails.json")).unwrap();
    assert_eq!(stdout(&lint(&["-"], &json)), "nothing found\n");
}

#[test]
fn the_manifests_of_this_project_are_right() {
    let deploy = fixtures().join("../deploy");
    let mut files = Vec::new();
    let mut folders = vec![deploy];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let extension = entry.extension().and_then(|it| it.to_str()).unwrap_or_default().to_owned();
            match extension.as_str() {
                _ if entry.is_dir() => folders.push(entry),
                "yaml" | "json" => files.push(entry),
                _ => {}
            }
        }
    }
    assert!(files.len() >= 5, "{files:?}");
    let files: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    let output = lint(&[&files[..], &["-o", "json"]].concat(), "");
    assert_eq!(codes(&document(&output)), Vec::<String>::new());
}

#[test]
fn the_pods_of_every_kind_are_judged() {
    let spec = "{containers: [{name: a, resources: {limits: {rdma/hca_a: 1}}}], hostNetwork: true}";
    let template = format!("{{spec: {spec}}}");
    let mut rows = vec![
        ("Pod", format!("spec: {spec}"), "spec.containers[0]".to_owned()),
        (
            "CronJob",
            format!("spec: {{jobTemplate: {{spec: {{template: {template}}}}}}}"),
            "spec.jobTemplate.spec.template.spec".into(),
        ),
        (
            "JobSet",
            format!("spec: {{replicatedJobs: [{{template: {{spec: {{template: {template}}}}}}}]}}"),
            "spec.replicatedJobs[0].template".into(),
        ),
        (
            "Job",
            format!("spec: {{tasks: [{{replicas: 2, template: {template}}}]}}"),
            "spec.tasks[0].template.spec".into(),
        ),
        (
            "MPIJob",
            format!("spec: {{mpiReplicaSpecs: {{Worker: {{template: {template}}}}}}}"),
            "spec.mpiReplicaSpecs.Worker.template".into(),
        ),
        (
            "PyTorchJob",
            format!("spec: {{pytorchReplicaSpecs: {{Master: {{template: {template}}}}}}}"),
            "spec.pytorchReplicaSpecs.Master".into(),
        ),
        (
            "LeaderWorkerSet",
            format!("spec: {{leaderWorkerTemplate: {{workerTemplate: {template}}}}}"),
            "spec.leaderWorkerTemplate.workerTemplate".into(),
        ),
    ];
    for kind in ["Deployment", "DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"] {
        rows.push((
            kind,
            format!("spec: {{template: {template}}}"),
            "spec.template.spec.containers[0]".into(),
        ));
    }
    for (kind, spec, path) in rows {
        let report = Facts::default().judge(&format!("kind: {kind}\nmetadata: {{name: a}}\n{spec}\n"));
        assert_eq!(codes_of(&report), ["RDC750"], "{kind}");
        let subject = &report.findings[0].finding.subject;
        assert!(subject.starts_with(&format!("stdin:3 {kind} a {path}")), "{subject}");
    }
}

#[test]
fn quantities_that_no_number_holds_are_added_up_all_the_same() {
    let most = u64::MAX;
    let container = format!("{{name: a, resources: {{limits: {{nvidia.com/mlnxnics: {most}}}}}}}");
    let text = format!(
        "kind: NetworkAttachmentDefinition\nmetadata: {{name: a, annotations: {{k8s.v1.cni.cncf.io/resourceName: \
         nvidia.com/mlnxnics}}}}\nspec: {{config: '{{\"type\": \"ib-sriov\"}}'}}\n---\nkind: Pod\nmetadata: {{name: a, annotations: \
         {{k8s.v1.cni.cncf.io/networks: a}}}}\nspec: {{containers: [{container}, {container}]}}\n"
    );
    assert_eq!(codes_of(&Facts::default().judge(&text)), ["RDC750", "RDC750"]);
}

#[test]
fn kinds_that_say_nothing_of_rdma_are_passed_over_by_name() {
    let output = lint(
        &["-"],
        "kind: List\nitems:\n- kind: Service\n  metadata: {name: a}\n- kind: Role\n  metadata: {name: b}\n",
    );
    let wanted = "stdin:3 Service a: passed over, nothing of RDMA is judged in this kind\n\
                  stdin:5 Role b: passed over, nothing of RDMA is judged in this kind\nnothing found\n";
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), wanted));
}
