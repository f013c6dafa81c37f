//! Two soft-RoCE nodes with a real Kubernetes, in namespaces of their own: started, asked, taken down.
//! Owns the order of a start; the parts are its submodules'.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cache::{self, Cache};
use crate::command;
use crate::holder::Holder;
use crate::{disk, host_packages, kernel, preflight};
use control_plane::{Programs, Secrets};

mod control_plane;
mod logs;
mod node;
pub mod plan;
mod ssh;

/// A node that boots, or an API server that starts, in more than this hangs.
const START_LIMIT: Duration = Duration::from_secs(240);

/// What a cluster is started with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A rocade program that nodes have at /usr/local/bin/rocade.
    pub rocade: Option<PathBuf>,
    /// The nodes alone, with their rails: no API server, no containerd, no kubelet that share their CPUs.
    pub without_kubernetes: bool,
}

/// A running cluster. Dropped, it is taken down, unless it was detached or attached to.
#[derive(Debug)]
pub struct Cluster {
    cache: Cache,
    holder: Holder,
    /// By name; empty in a cluster that an earlier process started.
    children: Vec<(String, Child)>,
}

/// Everything a start needs, built.
struct Parts {
    kernel: kernel::Kernel,
    disk: PathBuf,
    programs: Programs,
}

impl Cluster {
    /// Checks the machine, builds what the cache lacks, starts the cluster and waits until all nodes are Ready, or can be
    /// asked where there is no Kubernetes.
    ///
    /// # Errors
    /// The machine lacks something, or a part failed; logs are saved then, the error names where, and all is gone.
    pub fn start(cache: &Cache, options: &Options) -> Result<Self> {
        preflight::require(cache)?;
        host_packages::install(cache)?;
        let parts = prepare(cache)?;
        let holder = cache.steps().run("making the lab's namespaces and bridges", || {
            Holder::start(cache, &plan::render_network())
        })?;
        symlink(&parts.programs.kubectl, holder.folder().join("kubectl"))?;
        let mut cluster = Self { cache: cache.clone(), holder, children: Vec::new() };
        match cluster.bring_up(&parts, options) {
            Ok(()) => Ok(cluster),
            Err(error) => Err(cluster.with_logs(error)),
        }
    }

    /// The cluster that `rocade-lab up` left, None when there is none (any more).
    pub fn attach(cache: &Cache) -> Option<Self> {
        let folder = fs::read_to_string(detached_path(cache)).ok()?;
        let holder = Holder::attach(Path::new(&folder))?;
        Some(Self { cache: cache.clone(), holder, children: Vec::new() })
    }

    /// Leaves the cluster running for [`Cluster::attach`].
    ///
    /// # Errors
    /// The note of where it is cannot be written, or it has ended.
    pub fn detach(self) -> Result<()> {
        let path = detached_path(&self.cache);
        fs::write(&path, self.holder.folder().display().to_string())
            .with_context(|| format!("write {}", path.display()))?;
        self.holder.detach()
    }

    /// Ends everything and waits until it is gone.
    ///
    /// # Errors
    /// Something does not end.
    pub fn stop(mut self) -> Result<()> {
        if fs::read_to_string(detached_path(&self.cache))
            .is_ok_and(|it| Path::new(&it) == self.holder.folder())
        {
            cache::remove(&detached_path(&self.cache))?;
        }
        self.holder.stop()?;
        // These stand outside the namespaces and end with the programs that they entered them for.
        for (name, child) in &mut self.children {
            child.wait().with_context(|| format!("wait for {name}"))?;
        }
        Ok(())
    }

    /// kubectl with access to the cluster, to add arguments to.
    pub fn kubectl_command(&self) -> Command {
        let mut command = self.holder.command(self.holder.folder().join("kubectl"));
        command.env("KUBECONFIG", self.holder.folder().join("kubeconfig"));
        command
    }

    /// Runs kubectl; the caller judges its exit status.
    ///
    /// # Errors
    /// It does not start.
    pub fn kubectl<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Output> {
        output(self.kubectl_command().args(arguments))
    }

    /// Runs a line of the node's shell, as root; the caller judges its exit status.
    ///
    /// # Errors
    /// No node of that name, or ssh does not start.
    pub fn node_sh(&self, node: &str, line: &str) -> Result<Output> {
        output(self.node_command(node)?.arg(line))
    }

    /// A command in a node, to which its shell line is added; without one it is a shell.
    ///
    /// # Errors
    /// No node of that name.
    pub fn node_command(&self, node: &str) -> Result<Command> {
        Ok(ssh::command(&self.holder, number(node)?))
    }

    /// A program in the lab's namespaces, where nodes and API server can be reached.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.holder.command(program)
    }

    /// All that a node's kubelet has logged; its lines carry the node's time.
    ///
    /// # Errors
    /// No node of that name, or the log cannot be read.
    pub fn kubelet_log(&self, node: &str) -> Result<String> {
        let log = format!("{}-kubelet.log", plan::NODES[number(node)? - 1]);
        let path = self.holder.folder().join("logs").join(log);
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }

    /// Waits until every node is Ready.
    ///
    /// # Errors
    /// One is not within `limit`, or the API server does not answer.
    pub fn wait_nodes_ready(&self, limit: Duration) -> Result<()> {
        let path = r#"-o=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}"#;
        let begun = Instant::now();
        loop {
            let said = self.kubectl(&["get", "nodes", path])?;
            let ready =
                String::from_utf8_lossy(&said.stdout).split_whitespace().filter(|it| *it == "True").count();
            if ready == plan::NODES.len() {
                return Ok(());
            }
            if begun.elapsed() > limit {
                let why = String::from_utf8_lossy(&said.stderr).into_owned();
                bail!("{ready} of {} nodes were Ready after {} s {why}", plan::NODES.len(), limit.as_secs());
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Gives a docker-archive to every node's containerd, all at once.
    ///
    /// # Errors
    /// A node does not take it.
    pub fn import_image(&self, archive: &Path) -> Result<()> {
        std::thread::scope(|scope| {
            let imports: Vec<_> =
                plan::NODES.map(|node| scope.spawn(move || self.import_into(node, archive))).into();
            imports.into_iter().try_for_each(|import| match import.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }

    /// Saves every log and what nodes and API server say into `place`.
    ///
    /// # Errors
    /// `place` cannot be written; what a node does not answer is said in its file.
    pub fn collect_logs(&self, place: &Path) -> Result<()> {
        logs::collect(self, place)
    }

    /// Saves logs to a folder of their own, tells where, and gives the error back with that place in it.
    pub fn with_logs(&self, error: anyhow::Error) -> anyhow::Error {
        let seconds =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
        let place = self.cache.folder().join("logs").join(format!("{seconds}-{}", std::process::id()));
        match self.collect_logs(&place) {
            Ok(()) => error.context(format!("failed; the logs are in {}", place.display())),
            Err(why) => error.context(format!("failed; the logs could not be saved: {why:#}")),
        }
    }

    /// Every process of the lab, by command line.
    ///
    /// # Errors
    /// `ps` does not run.
    pub fn processes(&self) -> Result<String> {
        self.holder.processes()
    }

    /// Sets the nice value of the nodes' virtual CPUs. With more than 0 the threads that carry their packets go first.
    ///
    /// # Errors
    /// Nothing runs inside, or a node has no such thread.
    pub fn nice_cpus(&self, nice: i32) -> Result<()> {
        let script = "for machine in $(pgrep -x qemu-system-x86); do renice -n $1 -p $(grep -lx 'CPU .*' \
                      /proc/$machine/task/*/comm | cut -d/ -f5); done";
        let mut shell = self.holder.command("sh");
        command::run(shell.args(["-ec", script, "sh", &nice.to_string()])).map(drop)
    }

    fn bring_up(&mut self, parts: &Parts, options: &Options) -> Result<()> {
        let steps = self.cache.steps();
        let secrets = Secrets::make(self.holder.folder())?;
        let what = if options.without_kubernetes { "" } else { ", etcd and the API server" };
        let what = format!("starting the nodes' machines{what}");
        steps.run(&what, || self.launch(parts, &secrets, options))?;
        if options.without_kubernetes {
            return steps.run("waiting for a shell in each node", || self.open_shells());
        }
        steps.run("waiting for the API server", || self.await_api())?;
        self.children.extend(control_plane::start_control(&self.holder, &parts.programs, &secrets)?);
        steps.run("waiting for a shell in each node", || self.open_shells())?;
        steps.run("waiting until all nodes are Ready", || self.wait_nodes_ready(START_LIMIT))
    }

    fn launch(&mut self, parts: &Parts, secrets: &Secrets, options: &Options) -> Result<()> {
        let seed = node::Seed { secrets, options };
        for (at, name) in plan::NODES.iter().enumerate() {
            let place = self.holder.folder().join(format!("{name}-seed.tar"));
            seed.write(at + 1, &place)?;
            let child = node::start(&self.holder, at + 1, &parts.kernel, &parts.disk, &place)?;
            self.children.push((format!("{name}-qemu"), child));
        }
        if !options.without_kubernetes {
            self.children.extend(control_plane::start_api(&self.holder, &parts.programs, secrets)?);
        }
        Ok(())
    }

    fn await_api(&mut self) -> Result<()> {
        let begun = Instant::now();
        while !self.kubectl(&["get", "--raw", "/readyz"])?.status.success() {
            self.check_children()?;
            if begun.elapsed() > START_LIMIT {
                bail!("the API server was not ready within {} s", START_LIMIT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    fn open_shells(&mut self) -> Result<()> {
        for (at, name) in plan::NODES.iter().enumerate() {
            self.children.push((format!("{name}-ssh"), ssh::open(&self.holder, at + 1, START_LIMIT)?));
        }
        self.check_children()
    }

    /// A process that ended early is said by name, instead of waiting for what it will never do.
    fn check_children(&mut self) -> Result<()> {
        for (name, child) in &mut self.children {
            if let Some(status) = child.try_wait()? {
                bail!("{name} ended early: {status}; see {name}.log");
            }
        }
        Ok(())
    }

    fn import_into(&self, node: &str, archive: &Path) -> Result<()> {
        let file = fs::File::open(archive).with_context(|| format!("open {}", archive.display()))?;
        let mut import = self.node_command(node)?;
        let output = import.arg("ctr -n k8s.io images import -").stdin(file).output().context("start ssh")?;
        if !output.status.success() {
            bail!("{node} did not take {}: {}", archive.display(), String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

fn prepare(cache: &Cache) -> Result<Parts> {
    let programs = Programs::prepare(cache)?;
    let kernel = kernel::newest(cache)?;
    let disk = disk::disk(cache, &kernel)?;
    Ok(Parts { kernel, disk, programs })
}

fn number(node: &str) -> Result<usize> {
    let at = plan::NODES.iter().position(|name| *name == node);
    let at = at.with_context(|| format!("no node {node}: the lab has {}", plan::NODES.join(" and ")))?;
    Ok(at + 1)
}

fn output(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().with_context(|| format!("start {}", command::shown(command)))
}

fn detached_path(cache: &Cache) -> PathBuf {
    cache.folder().join("detached")
}
