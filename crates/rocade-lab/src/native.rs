//! The second, faster bench: a real standalone kubelet with containerd on the test machine itself, in namespaces of
//! its own, and the agent on a recorded host whose char devices are made with mknod. Pods are static: a manifest
//! in a folder. Owns this node from start to end; nothing of it outlives the value, nor the process.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use rocade_host::{Root, read_host};

use crate::cache::Cache;
use crate::command;
use crate::holder::Holder;
use crate::kubernetes::Release;
use crate::process::{Process, wait};
use crate::steps::tell;
use crate::{host_packages, preflight};

pub mod cgroups;
mod parts;
mod plugins;
pub mod pod_resources;
mod render;

pub use crate::process::Signal;
use parts::Parts;
use pod_resources::Devices;

/// What a node is started with.
#[derive(Debug)]
pub struct Options {
    /// The product.
    pub rocade: PathBuf,
    /// The recorded host that it serves.
    pub host: PathBuf,
    /// The config.json that it reads.
    pub config: PathBuf,
    /// The release that its kubelet is of.
    pub kubernetes: Release,
    /// The program `rocade-lab` itself.
    pub launcher: PathBuf,
}

/// A running node.
#[derive(Debug)]
pub struct NativeNode {
    cache: Cache,
    parts: Parts,
    options: Options,
    cgroup: String,
    /// None only while it ends.
    holder: Option<Holder>,
    kubelet: Option<Process>,
    /// Oldest first.
    agents: VecDeque<Process>,
    /// How many programs of the two kinds were started, for names of logs.
    started: u32,
}

impl NativeNode {
    /// Builds what the cache lacks and starts containerd, the agent and a kubelet.
    ///
    /// # Errors
    /// The machine lacks something or a part does not start; logs are saved then, the error names where.
    pub fn start(cache: &Cache, options: Options) -> Result<NativeNode> {
        preflight::require(cache)?;
        host_packages::install(cache)?;
        cgroups::sweep()?;
        let parts = parts::prepare(cache, options.kubernetes)?;
        let cgroup = cgroups::name();
        let holder = Holder::start(cache, &render::at_exit(&cgroup))?;
        let mut node = NativeNode {
            cache: cache.clone(),
            parts,
            options,
            cgroup,
            holder: Some(holder),
            kubelet: None,
            agents: VecDeque::new(),
            started: 0,
        };
        let started = cache.steps().run("starting the native node", || node.bring_up());
        node.with_logs(started)?;
        Ok(node)
    }

    /// Starts a kubelet; returns when that made kubelet.sock.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_kubelet(&mut self) -> Result<()> {
        let socket = self.plugin_dir()?.join("kubelet.sock");
        let before = inode(&socket);
        let mut kubelet = Command::new(&self.parts.kubelet);
        kubelet.args(["--config=/run/native/kubelet.yaml", "--hostname-override=native", "--v=2"]);
        self.started += 1;
        let process = Process::start(self.holder()?, &format!("kubelet-{:03}", self.started), &kubelet)?;
        let process = self.kubelet.insert(process);
        wait("the kubelet to make kubelet.sock", || {
            let now = inode(&socket);
            (now != before && now.is_some() || !matches!(process.ended(), Ok(None))).then_some(())
        })?;
        match process.ended()? {
            Some(status) => bail!("the kubelet ended: {status}"),
            None => Ok(()),
        }
    }

    /// Ends the kubelet, if one runs.
    ///
    /// # Errors
    /// It does not end.
    pub fn stop_kubelet(&mut self, signal: Signal) -> Result<()> {
        let Some(process) = self.kubelet.take() else { return Ok(()) };
        process.end(self.holder()?, signal)
    }

    /// The kubelet's devices, once `wanted` holds for them.
    ///
    /// # Errors
    /// It does not come to hold; the error shows what the kubelet said last.
    pub fn wait_for_allocatable(&self, wanted: impl Fn(&Devices) -> bool) -> Result<Devices> {
        let mut last = String::new();
        let socket = self.pod_resources_socket()?;
        wait("the kubelet to list all devices", || {
            match pod_resources::allocatable(&socket) {
                Ok(devices) if wanted(&devices) => return Some(devices),
                Ok(devices) => {
                    last = format!("{:?}", devices.iter().map(|(r, ids)| (r, ids.len())).collect::<Vec<_>>())
                }
                Err(error) => last = format!("{error:#}"),
            }
            None
        })
        .with_context(|| format!("the kubelet's last answer: {last}"))
    }

    /// Looks at the kubelet's devices all through `during`, and gives the longest time for which `wanted` did not hold
    /// for them; None when it always held.
    ///
    /// # Errors
    /// `during` failed.
    pub fn watch_allocatable(
        &mut self,
        wanted: impl Fn(&Devices) -> bool + Sync,
        during: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Option<Duration>> {
        let (socket, over) = (self.pod_resources_socket()?, AtomicBool::new(false));
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let (mut missing, mut longest) = (None, None);
                while !over.load(Ordering::Relaxed) {
                    let there = pod_resources::allocatable(&socket).is_ok_and(|devices| wanted(&devices));
                    missing = (!there).then(|| missing.unwrap_or_else(Instant::now));
                    longest = longest.max(missing.map(|since| since.elapsed()));
                    // The kubelet answers 100 questions a second and no more.
                    std::thread::sleep(Duration::from_millis(20));
                }
                longest
            });
            let result = during(self);
            over.store(true, Ordering::Relaxed);
            let longest = looks.join().map_err(|_| anyhow!("looking at the devices panicked"))?;
            result.map(|()| longest)
        })
    }

    /// The release that the kubelet is of.
    pub fn kubernetes(&self) -> Release {
        self.options.kubernetes
    }

    /// Has a new Pod admitted that asks for one of each resource, and gives the nodes that it sees in /dev/infiniband.
    ///
    /// # Errors
    /// It does not come to run.
    pub fn run_probe(&self, name: &str, resources: &[&str]) -> Result<Vec<String>> {
        // Under a name that the kubelet skips until it is whole.
        let (whole, part) = (self.manifest(name)?, self.folder()?.join("manifests").join(format!(".{name}")));
        fs::write(&part, render::probe(name, resources))?;
        fs::rename(&part, &whole)?;
        let said = wait(&format!("Pod {name} to run"), || self.probe_said(name).ok().flatten())?;
        Ok(said.split_whitespace().map(str::to_owned).collect())
    }

    /// Takes a Pod away.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn remove_probe(&self, name: &str) -> Result<()> {
        fs::remove_file(self.manifest(name)?).with_context(|| format!("remove Pod {name}"))
    }

    /// The devices that a running Pod holds, in the kubelet's words; a kubelet that started a moment ago is given time to
    /// learn of it.
    ///
    /// # Errors
    /// The kubelet does not answer or learns of no such Pod.
    pub fn granted(&self, pod: &str) -> Result<Devices> {
        let (socket, name) = (self.pod_resources_socket()?, format!("{pod}-native"));
        wait(&format!("the kubelet to know {pod}"), || pod_resources::granted(&socket).ok()?.remove(&name))
    }

    /// A program in the node's namespaces.
    ///
    /// # Errors
    /// The node has ended.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        Ok(self.holder()?.command(program))
    }

    /// Passes a good result on. With an error, saves all logs, and names the folder in it.
    ///
    /// # Errors
    /// The error it was given.
    pub fn with_logs<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| match self.save_logs() {
            Ok(place) => error.context(format!("logs are in {}", place.display())),
            Err(worse) => error.context(format!("and the logs could not be saved: {worse:#}")),
        })
    }

    /// Ends everything and waits until it is gone.
    ///
    /// # Errors
    /// Something does not end.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn bring_up(&mut self) -> Result<()> {
        let host = read_host(&Root::open(&self.options.host)?);
        let folder = self.folder()?;
        let setup =
            format!("{}{}", render::variables(folder, &self.cgroup, &host), include_str!("native/setup.sh"));
        command::run(self.command("sh")?.args(["-ec", &setup]))?;
        fs::write(folder.join("containerd.toml"), render::containerd(&self.parts.runc))?;
        fs::write(folder.join("kubelet.yaml"), render::kubelet(&self.cgroup))?;
        self.start_containerd()?;
        self.start_agent()?;
        self.start_kubelet()
    }

    fn start_containerd(&self) -> Result<()> {
        let mut containerd = self.command(&self.parts.containerd)?;
        self.holder()?.spawn("containerd", containerd.args(["--config", "/run/native/containerd.toml"]))?;
        let mut last = Ok(());
        let imported = wait("containerd to take the image", || {
            let mut ctr = self.command(&self.parts.ctr).ok()?;
            ctr.args(["-a", "/run/containerd/containerd.sock", "-n", "k8s.io", "images", "import"]);
            last = command::run(ctr.arg(&self.parts.image)).map(drop);
            last.is_ok().then_some(())
        });
        imported.map_err(|limit| last.err().map_or(limit, |error| error))
    }

    /// What the Pod's container wrote, once it wrote a line.
    fn probe_said(&self, name: &str) -> Result<Option<String>> {
        let prefix = format!("default_{name}-native_");
        for pod in fs::read_dir(self.folder()?.join("pods"))?.flatten() {
            if pod.file_name().to_string_lossy().starts_with(&prefix) {
                let log = fs::read_to_string(pod.path().join("probe/0.log"))?;
                return Ok(log
                    .lines()
                    .find_map(|line| line.split_once(" has "))
                    .map(|(_, said)| said.to_owned()));
            }
        }
        Ok(None)
    }

    fn save_logs(&self) -> Result<PathBuf> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("{}-{}-native", since.as_secs(), std::process::id());
        let place = self.cache.folder().join("logs").join(name);
        fs::create_dir_all(&place)?;
        for log in fs::read_dir(self.folder()?.join("logs"))?.flatten() {
            fs::copy(log.path(), place.join(log.file_name()))?;
        }
        let asked = [
            ("dmesg", vec!["dmesg"]),
            ("processes", vec!["ps", "-ef"]),
            ("sockets", vec!["ls", "-la", "/var/lib/kubelet/device-plugins"]),
        ];
        for (name, words) in asked {
            let said = command::run_text(self.command(words[0])?.args(&words[1..]));
            fs::write(
                place.join(format!("{name}.log")),
                said.unwrap_or_else(|error| format!("{error:#}\n")),
            )?;
        }
        Ok(place)
    }

    fn manifest(&self, name: &str) -> Result<PathBuf> {
        Ok(self.folder()?.join("manifests").join(format!("{name}.yaml")))
    }

    fn pod_resources_socket(&self) -> Result<PathBuf> {
        Ok(self.folder()?.join("kubelet/pod-resources/kubelet.sock"))
    }

    fn folder(&self) -> Result<&Path> {
        Ok(self.holder()?.folder())
    }

    fn holder(&self) -> Result<&Holder> {
        self.holder.as_ref().context("the native node has ended")
    }

    fn end(&mut self) -> Result<()> {
        let Some(holder) = self.holder.take() else { return Ok(()) };
        holder.stop()?;
        let mut processes = self.kubelet.take().into_iter().chain(self.agents.drain(..));
        processes.try_for_each(Process::reap)?;
        cgroups::remove(&self.cgroup)
    }
}

impl Drop for NativeNode {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tell(&format!("rocade-lab: taking the native node down: {error:#}"));
        }
    }
}

fn inode(path: &Path) -> Option<(u64, i64, i64)> {
    let meta = path.symlink_metadata().ok()?;
    Some((meta.ino(), meta.ctime(), meta.ctime_nsec()))
}
