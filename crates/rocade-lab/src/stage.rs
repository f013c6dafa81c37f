//! Namespaces in which a recorded host looks like the machine: its tree over /sys, its device nodes, netdevs of its
//! names, and a kubelet's directory with nobody in it. Programs that read a live host run here, one after another.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::command;
use crate::holder::Holder;
use crate::host_tree;
use crate::launch::read_stamp;
use crate::process::{Process, Signal};

/// The namespaces; they end with the value.
#[derive(Debug)]
pub struct Stage {
    holder: Holder,
    /// `rocade-lab` itself, which becomes the programs.
    launcher: PathBuf,
    started: u32,
}

/// A program that runs on a stage.
#[derive(Debug)]
pub struct Player {
    process: Process,
    stamp: PathBuf,
    log: PathBuf,
    /// /proc as it is inside.
    proc: PathBuf,
}

impl Stage {
    /// Lays the host recorded in `host` out. `launcher` is the program `rocade-lab`.
    ///
    /// # Errors
    /// No right to make namespaces, or the host cannot be laid out.
    pub fn start(cache: &Cache, host: &Path, launcher: &Path) -> Result<Stage> {
        let holder = Holder::start(cache, "")?;
        let netdevs = host_tree::lay_out(host, &holder.folder().join("host"))?;
        let variables = format!("FOLDER='{}'\nNETDEVS='{}'\n", holder.folder().display(), netdevs.join(" "));
        let setup = format!("{variables}{}", include_str!("stage/setup.sh"));
        command::run(holder.command("sh").args(["-ec", &setup]))?;
        Ok(Stage { holder, launcher: launcher.to_owned(), started: 0 })
    }

    /// The kubelet's device-plugin directory as it is inside.
    pub fn plugin_dir(&self) -> PathBuf {
        self.holder.inside("var/lib/kubelet/device-plugins")
    }

    /// The folder that is the same inside and outside.
    pub fn folder(&self) -> &Path {
        self.holder.folder()
    }

    /// Starts a program, which finds no RDMA netlink (see [`crate::launch::hide_rdma_netlink`]), and waits for nothing.
    ///
    /// # Errors
    /// It does not start.
    pub fn play(&mut self, program: &Command) -> Result<Player> {
        self.started += 1;
        let (name, folder) = (format!("player-{:03}", self.started), self.holder.folder());
        let stamp = folder.join(format!("{name}.stamp"));
        let mut launch = Command::new(&self.launcher);
        launch.args(["launch", "--hide-rdma-netlink", "--stamp"]).arg(&stamp).arg("--");
        launch.arg(program.get_program()).args(program.get_args());
        launch.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let process = Process::start(&self.holder, &name, &launch)?;
        let log = folder.join("logs").join(format!("{name}.log"));
        Ok(Player { process, stamp, log, proc: self.holder.inside("proc") })
    }

    /// What is answered by HTTP inside, with its headers.
    ///
    /// # Errors
    /// Nothing listens at `address` (IP:PORT).
    pub fn get(&self, address: &str, path: &str) -> Result<String> {
        let place = address.replace(':', "/");
        let ask = format!(
            "printf 'GET {path} HTTP/1.1\\r\\nHost: {address}\\r\\nConnection: close\\r\\n\\r\\n' >&3"
        );
        let script = format!("exec 3<>/dev/tcp/{place}; {ask}; cat <&3");
        command::run_text(self.holder.command("bash").args(["-ec", &script]))
    }

    /// Ends a program.
    ///
    /// # Errors
    /// It had ended before, or does not.
    pub fn end(&self, player: Player) -> Result<()> {
        player.process.end(&self.holder, Signal::Term)
    }
}

impl Player {
    /// When it was started.
    ///
    /// # Errors
    /// It was not.
    pub fn started(&self) -> Result<SystemTime> {
        read_stamp(&self.stamp)
    }

    /// The most memory that it ever had in use, in KiB (VmHWM, proc_pid_status(5)).
    ///
    /// # Errors
    /// It has ended.
    pub fn peak_kib(&self) -> Result<u64> {
        field(&self.proc.join(self.process.pid()?).join("status"), "VmHWM:")
    }

    /// All that it has written.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_else(|error| error.to_string())
    }

    /// How often its threads gave up the processor of themselves, all that live now.
    ///
    /// # Errors
    /// It has ended.
    pub fn voluntary_switches(&self) -> Result<u64> {
        let tasks = self.proc.join(self.process.pid()?).join("task");
        let tasks = fs::read_dir(&tasks).with_context(|| format!("list {}", tasks.display()))?.flatten();
        // A thread may end while it is looked at.
        let counts =
            tasks.filter_map(|task| field(&task.path().join("status"), "voluntary_ctxt_switches:").ok());
        Ok(counts.sum())
    }
}

fn field(status: &Path, name: &str) -> Result<u64> {
    let text = fs::read_to_string(status).with_context(|| format!("read {}", status.display()))?;
    let value =
        text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    value.with_context(|| format!("{} has no {name}", status.display()))
}
