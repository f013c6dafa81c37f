//! The native node's configuration files and manifests, as text. Paths are those inside its namespaces, where the run
//! folder is /run/native.

use std::path::Path;

use rocade_core::Host;
use rocade_core::host::{Accessible, CharDevice};

/// The image of pause and probes.
pub(super) const IMAGE: &str = "localhost/native:lab";

/// Set before setup.sh.
pub(super) fn variables(folder: &Path, cgroup: &str, host: &Host) -> String {
    let ports = host.hcas.iter().flat_map(|hca| &hca.ports);
    let devices = ports.flat_map(|port| port.umad.iter().chain(&port.issm));
    let devices = devices.chain(host.hcas.iter().filter_map(|hca| hca.uverbs.as_ref())).chain(&host.rdma_cm);
    let there = devices.filter(|device| device.accessible == Accessible::Yes);
    let line = |d: &CharDevice| format!("{} {} {}", d.node, d.major, d.minor);
    let nodes = there.map(line).collect::<Vec<_>>().join("\n");
    format!("FOLDER='{}'\nCGROUP={cgroup}\nNODES='{nodes}'\n", folder.display())
}

/// For the init of the namespaces: what it does when the process that owns the node was killed. Groups outlive their
/// processes, so it ends those first.
pub(super) fn at_exit(cgroup: &str) -> String {
    let groups = format!("find /sys/fs/cgroup -depth -type d -path '*/{cgroup}*'");
    format!(
        r#"left() {{ kill -KILL -1; n=0; while [ $n -lt 200 ] && {groups} | grep -q .; do
    {groups} -exec rmdir {{}} \; 2> /dev/null; n=$((n + 1)); sleep 0.05; done; }}
trap left EXIT
"#
    )
}

pub(super) fn containerd(runc: &Path) -> String {
    let cri = "plugins.\"io.containerd.grpc.v1.cri\"";
    format!(
        r#"version = 2
root = "/run/native/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = "/run/containerd/containerd.sock"
[{cri}]
sandbox_image = "{IMAGE}"
restrict_oom_score_adj = true
tolerate_missing_hugetlb_controller = true
[{cri}.cni]
conf_dir = "/run/native/cni"
[{cri}.containerd]
snapshotter = "native"
default_runtime_name = "runc"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
BinaryName = "{}"
SystemdCgroup = false
"#,
        runc.display()
    )
}

pub(super) fn kubelet(cgroup: &str) -> String {
    format!(
        r#"apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
cgroupsPerQOS: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
enforceNodeAllocatable: []
evictionHard: {{memory.available: "0%", nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%"}}
failCgroupV1: false
failSwapOn: false
featureGates: {{KubeletInUserNamespace: true}}
fileCheckFrequency: 1s
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
podLogsDir: /run/native/pods
staticPodPath: /run/native/manifests
volumePluginDir: /run/native/volume-plugins
"#
    )
}

/// A Pod that asks for one of each resource, says what it has in /dev/infiniband, and stays.
pub(super) fn probe(name: &str, resources: &[&str]) -> String {
    let list = resources.iter().map(|r| format!("{r}: 1")).collect::<Vec<_>>().join(", ");
    format!(
        r#"apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers:
  - name: probe
    image: {IMAGE}
    imagePullPolicy: Never
    command: [/bin/busybox, sh, -c, "echo has $(cd /dev/infiniband && echo *); exec /bin/busybox sleep 1000000000"]
    resources:
      requests: {{{list}}}
      limits: {{{list}}}
"#
    )
}
