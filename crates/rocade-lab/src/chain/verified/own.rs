//! Rows of a privileged Pod without a resource, which makes a soft-RoCE HCA of its own: usable, and granted by nobody.

use anyhow::{Result, ensure};

use super::super::{Chain, Row, Seen, passed};
use super::kinds::PRIVILEGED;
use super::{Container, TEST, Wanted};
use crate::cluster::plan;

const NODE: &str = plan::NODES[1];
const HCA: &str = "rxe_own";
/// A process of the Pod, in the shell of its node.
const PID: &str = "for e in /proc/[0-9]*/environ; do tr '\\0' '\\n' 2>/dev/null <$e | grep -qx HOSTNAME=own-rxe && \
                   echo $e; done 2>/dev/null | head -1 | cut -d/ -f3";
/// The device was made after the container's /dev.
const NODES: &str = "for kind in verbs:uverbs mad:umad; do for d in /sys/class/infiniband_${kind%:*}/${kind#*:}*; do \
                     n=$(cat $d/dev 2>/dev/null) && [ \"$(cat $d/ibdev)\" = rxe_own ] && \
                     mknod /dev/infiniband/${d##*/} c ${n%:*} ${n#*:}; done; done; ls /dev/infiniband";

pub(super) fn rows() -> Vec<Row<Chain>> {
    vec![Row {
        name: "verify: a privileged Pod's own soft-RoCE HCA is usable, granted by nobody, and moves bytes",
        typed: vec![
            format!("rdma link add {HCA} type rxe netdev eth0  (in the Pod's network namespace)"),
            "rocade verify --traffic; rocade env  (in the Pod, which is privileged and asks for no resource)"
                .into(),
            "mount -t tmpfs none /proc; rocade verify".into(),
        ],
        run: own,
    }]
}

fn own(chain: &Chain) -> Result<Seen> {
    let pod = Container(PRIVILEGED, TEST);
    // All of the host's HCAs open, and none has an address here.
    let without = pod.ask(chain, "")?;
    let found = ["error RDC601", "error RDC601", "error RDC604", "note RDC613"];
    let mut output = without.hold(&Wanted { exit: 1, found: &found, devices: &[], range: None })?;
    let pid = chain.node(NODE, PID)?;
    chain.node(NODE, &format!("nsenter -t {} -n rdma link add {HCA} type rxe netdev eth0", pid.trim()))?;
    let told = with_own(chain, pod);
    let undone = chain.node(NODE, &format!("rdma link delete {HCA}"));
    output += &told?;
    undone?;
    passed(output, "FAIL without it; PASS with it alone, over which bytes were moved")
}

fn with_own(chain: &Chain, pod: Container) -> Result<String> {
    let made = pod.output(chain, NODES)?;
    let listed = String::from_utf8_lossy(&made.stdout);
    ensure!(listed.contains("uverbs2"), "no node of {HCA}: {listed}");
    let told = pod.ask(chain, "--traffic")?;
    let found = ["warning RDC601", "warning RDC601", "note RDC613"];
    let device = format!("{HCA}:1");
    let wanted = Wanted { exit: 0, found: &found, devices: &[&device], range: Some("10.244.2.0/24") };
    let reason = told.hold(&wanted)?;
    let hca = told.hca(HCA)?;
    ensure!(hca["granted"].is_null() && hca["opens"] == true && hca["usable"] == true, "{hca}");
    let traffic = &hca["ports"][0]["traffic"];
    ensure!(traffic["shown"] == "proven", "no bytes were moved: {hca}");
    // Nothing says that it is a Pod, nor what memory may be locked; nodes and addresses still do.
    let hidden =
        pod.ask_in(chain, "", "unshare -m sh -c \"mount -t tmpfs none /proc; exec sh -c \\\"\\$0\\\"\"")?;
    hidden.hold(&Wanted { found: &[], ..wanted })?;
    Ok(format!("{reason}\n{}", told.said))
}
