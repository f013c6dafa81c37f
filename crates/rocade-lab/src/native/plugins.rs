//! The device plugins of the native node: agents that come and go, and the sockets that they leave for the kubelet.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rocade_core::status::Status;

use super::NativeNode;
use crate::command;
use crate::host_tree;
use crate::peer::Peer;
use crate::process::{Process, Signal, wait};

impl NativeNode {
    /// Starts an agent, beside those that run.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_agent(&mut self) -> Result<()> {
        self.start_agent_with(&self.options.config.clone())
    }

    /// Starts an agent with another configuration than the node's.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_agent_with(&mut self, config: &Path) -> Result<()> {
        let mut agent = Command::new(&self.options.rocade);
        agent.arg("agent").arg("--from").arg(&self.options.host).arg("--config").arg(config);
        self.start_plugin("agent", &agent)
    }

    /// Starts the k8s-rdma-shared-dev-plugin with the node's configuration, as one more agent: over the recorded host
    /// laid out as files in place of /sys, and on a kernel that seems to be from before RDMA netlink.
    ///
    /// # Errors
    /// It cannot be built or does not start.
    pub fn start_peer(&mut self) -> Result<()> {
        let peer = Peer::prepare(&self.cache)?;
        let tree = self.folder()?.join("host");
        if !tree.exists() {
            let netdevs = host_tree::lay_out(&self.options.host, &tree)?.join(" ");
            let tun = "mkdir -p /dev/net; mknod /dev/net/tun c 10 200";
            self.script(&format!("{tun}; for name in {netdevs}; do ip tuntap add dev $name mode tap; done"))?;
        }
        let program = peer.command(&self.options.config);
        let mut start = Command::new("unshare");
        start.args(["--mount", "sh", "-ec", "mount --bind \"$0\" /sys; exec \"$@\""]).arg(tree.join("sys"));
        start.arg(&self.options.launcher).args(["launch", "--hide-rdma-netlink", "--"]);
        start.arg(program.get_program()).args(program.get_args());
        start.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.start_plugin("peer", &start)
    }

    fn start_plugin(&mut self, kind: &str, program: &Command) -> Result<()> {
        self.started += 1;
        let process = Process::start(self.holder()?, &format!("{kind}-{:03}", self.started), program)?;
        self.agents.push_back(process);
        Ok(())
    }

    /// Ends the agent that has run for longest.
    ///
    /// # Errors
    /// There is none, it had ended by itself, or it does not end.
    pub fn end_agent(&mut self, signal: Signal) -> Result<()> {
        let agent = self.agents.pop_front().context("no agent runs")?;
        agent.end(self.holder()?, signal)
    }

    /// That each agent which was started and not ended still runs.
    ///
    /// # Errors
    /// One has ended.
    pub fn require_agents(&mut self) -> Result<()> {
        for agent in &mut self.agents {
            if let Some(status) = agent.ended()? {
                bail!("an agent ended by itself: {status}");
            }
        }
        Ok(())
    }

    /// The kubelet's device-plugin directory as it is inside.
    ///
    /// # Errors
    /// The node has ended.
    pub fn plugin_dir(&self) -> Result<PathBuf> {
        Ok(self.holder()?.inside("var/lib/kubelet/device-plugins"))
    }

    /// Names of the sockets in that directory, the kubelet's own left out.
    ///
    /// # Errors
    /// There is no directory.
    pub fn sockets(&self) -> Result<BTreeSet<String>> {
        let dir = self.plugin_dir()?;
        let entries = fs::read_dir(&dir).with_context(|| format!("list {}", dir.display()))?.flatten();
        let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
        let names = sockets.map(|entry| entry.file_name().to_string_lossy().into_owned());
        Ok(names.filter(|name| name != "kubelet.sock").collect())
    }

    /// Those of them that somebody is connected to: the kubelet dials each that it took (proc_net_unix(5), state 3).
    ///
    /// # Errors
    /// The kernel's list cannot be read.
    pub fn dialled(&self) -> Result<BTreeSet<String>> {
        let listed = command::run_text(self.command("cat")?.arg("/proc/net/unix"))?;
        let connected = listed.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, _, _, _, _, "03", _, path] = words[..] else { return None };
            path.strip_prefix("/var/lib/kubelet/device-plugins/").map(str::to_owned)
        });
        Ok(self.sockets()?.intersection(&connected.collect()).cloned().collect())
    }

    /// Waits until `count` sockets are there that are not among `before`, each with the kubelet connected.
    ///
    /// # Errors
    /// That does not come about.
    pub fn wait_for_sockets(&self, before: &BTreeSet<String>, count: usize) -> Result<BTreeSet<String>> {
        let mut last = BTreeSet::new();
        wait("the kubelet to dial new sockets", || {
            last = self.dialled().ok()?.difference(before).cloned().collect();
            (last.len() >= count).then(|| last.clone())
        })
        .with_context(|| format!("sockets {:?}, before {before:?}", self.sockets()))
    }

    /// Waits until the agent that was started last says that all is served, as a DaemonSet's probe of readiness does.
    ///
    /// # Errors
    /// It does not come to say so; the error holds what it said last.
    pub fn wait_for_ready(&self) -> Result<()> {
        let newest = self.agents.back().context("no agent runs")?.pid()?;
        let mut last = String::new();
        wait("the newest agent to be ready", || {
            let mut status = self.command(&self.options.rocade).ok()?;
            let said = status.args(["status", "-o", "json"]).output().ok()?;
            last = String::from_utf8_lossy(&[&said.stdout[..], &said.stderr].concat()).into_owned();
            let document: Status = serde_json::from_slice(&said.stdout).ok()?;
            (said.status.success() && document.agent.pid.to_string() == newest).then_some(())
        })
        .with_context(|| format!("agent {newest}; said last: {last}"))
    }

    /// A script inside.
    ///
    /// # Errors
    /// It fails; the error holds its last lines.
    pub fn script(&self, script: &str) -> Result<()> {
        ensure!(!script.is_empty(), "no script");
        command::run(self.command("sh")?.args(["-ec", script])).map(drop)
    }
}
