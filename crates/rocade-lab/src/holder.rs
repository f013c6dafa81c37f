//! One process that owns everything a lab runs: init of a PID namespace, with a mount and a network namespace beside
//! it. When it ends, however that comes, the kernel ends every process in it, and bridges, taps and mounts vanish.
//! Owns these namespaces and the run folder; what runs in them is `cluster`'s.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::cache::{self, Cache};
use crate::command;
use crate::steps::tell;

/// Ends when its caller closes the pipe (or dies), unless it was told to stay.
const INIT: &str = include_str!("holder/init.sh");

/// Run folders whose holders this process must end when it is interrupted.
static OURS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A live holder, seen from the process that started it or from a later one.
#[derive(Debug)]
pub struct Holder {
    folder: PathBuf,
    pid: i32,
    /// None when a process before this one started it and left it.
    owned: Option<Owned>,
}

#[derive(Debug)]
struct Owned {
    child: Child,
    pipe: ChildStdin,
}

impl Holder {
    /// Makes a run folder and the namespaces, and waits until `setup` (a shell script run inside) has passed.
    ///
    /// # Errors
    /// No right to make namespaces, or `setup` failed; nothing is left then.
    pub fn start(cache: &Cache, setup: &str) -> Result<Self> {
        sweep(cache)?;
        let runs = cache.folder().join("run");
        fs::create_dir_all(&runs).with_context(|| format!("make {}", runs.display()))?;
        let prefix = format!("{}-", std::process::id());
        let folder =
            tempfile::Builder::new().prefix(&prefix).tempdir_in(&runs).context("make a run folder")?.keep();
        fs::create_dir(folder.join("logs")).context("make the run's folder for logs")?;
        // The lock goes with the open file to the holder (as its stderr), so it is held as long as that lives.
        let lock = File::create(lock_path(&folder)).context("make the run folder's lock")?;
        lock.lock().context("lock the run folder")?;
        OURS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(folder.clone());
        let started = spawn(&folder, lock, setup);
        if started.is_err() {
            forget(&folder);
        }
        started
    }

    /// The one left behind by a process that has ended, in `folder`; None when it no longer lives.
    pub fn attach(folder: &Path) -> Option<Self> {
        let pid = fs::read_to_string(folder.join("holder.pid")).ok()?.trim().parse().ok()?;
        (!is_free(folder)).then(|| Self { folder: folder.to_path_buf(), pid, owned: None })
    }

    /// Where logs, sockets and disks of this run lie; it goes away with the holder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is at `path` (from the root) inside, whatever is mounted there; for as long as the holder lives.
    pub fn inside(&self, path: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join("root").join(path)
    }

    /// `program` inside the namespaces.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid.to_string(), "--mount", "--net", "--pid", "--"]).arg(program);
        command
    }

    /// Starts `program` inside, its output going to `logs/NAME.log`, out of reach of the terminal's Ctrl-C.
    ///
    /// # Errors
    /// The log cannot be made or nsenter does not start.
    pub fn spawn(&self, name: &str, command: &mut Command) -> Result<Child> {
        use std::os::unix::process::CommandExt;
        let path = self.folder.join("logs").join(format!("{name}.log"));
        let log = File::create(&path).with_context(|| format!("make {}", path.display()))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        command.spawn().with_context(|| format!("start {}", command::shown(command)))
    }

    /// Processes inside, by command line.
    ///
    /// # Errors
    /// `ps` does not run inside.
    pub fn processes(&self) -> Result<String> {
        command::run_text(self.command("ps").args(["-eo", "pid,rss,etime,args", "--cols", "150"]))
    }

    /// Lets the holder live on when this process ends.
    ///
    /// # Errors
    /// The holder has ended already.
    pub fn detach(mut self) -> Result<()> {
        let Some(mut owned) = self.owned.take() else { return Ok(()) };
        owned.pipe.write_all(b"stay\n").context("tell the holder to stay")?;
        OURS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).retain(|it| *it != self.folder);
        Ok(())
    }

    /// Ends every process inside and waits until all is gone; removes the run folder.
    ///
    /// # Errors
    /// It does not end within 30 s, or the folder cannot be removed.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        kill(self.pid);
        if let Some(mut owned) = self.owned.take() {
            drop(owned.pipe);
            owned.child.wait().context("wait for the holder")?;
        }
        await_free(&self.folder)?;
        OURS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).retain(|it| *it != self.folder);
        cache::remove(&self.folder)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if self.owned.is_some()
            && let Err(error) = self.end()
        {
            tell(&format!("rocade-lab: taking the lab down: {error:#}"));
        }
    }
}

/// Ends every holder that this process started and did not detach: for a process that was interrupted.
pub fn end_ours() {
    let folders: Vec<_> = OURS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).drain(..).collect();
    for folder in folders {
        forget(&folder);
    }
}

/// Removes run folders of labs that ended without doing so themselves.
///
/// # Errors
/// One cannot be removed.
pub fn sweep(cache: &Cache) -> Result<()> {
    let Ok(runs) = fs::read_dir(cache.folder().join("run")) else { return Ok(()) };
    for run in runs.flatten().map(|run| run.path()) {
        let of_living =
            run.file_name().and_then(|name| name.to_str()?.split('-').next()?.parse::<u32>().ok());
        let starting = of_living.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists());
        if !starting && is_free(&run) {
            cache::remove(&run)?;
        }
    }
    Ok(())
}

fn spawn(folder: &Path, lock: File, setup: &str) -> Result<Holder> {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
        "sh",
        "-ec",
        INIT,
    ]);
    // Named by its run folder, so that whose it is shows on its command line.
    command.arg(folder).arg(setup).process_group(0);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(lock)
        .spawn()
        .context("start unshare (util-linux)")?;
    let pipe = child.stdin.take().context("the holder has no stdin")?;
    let mut said = String::new();
    BufReader::new(child.stdout.take().context("the holder has no stdout")?).read_line(&mut said)?;
    if said.trim() != "ready" {
        drop(pipe);
        let status = child.wait()?;
        let why = fs::read_to_string(lock_path(folder)).unwrap_or_default();
        bail!("making the lab's namespaces: {status}\n{why}");
    }
    let pid = init_of(child.id())?;
    fs::write(folder.join("holder.pid"), pid.to_string()).context("write holder.pid")?;
    Ok(Holder { folder: folder.to_path_buf(), pid, owned: Some(Owned { child, pipe }) })
}

/// unshare's only child: init of the new PID namespace, by the number it has out here.
fn init_of(unshare: u32) -> Result<i32> {
    let path = format!("/proc/{unshare}/task/{unshare}/children");
    let children = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let first = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    first.with_context(|| format!("{path} names no process"))
}

fn lock_path(folder: &Path) -> PathBuf {
    folder.join("logs/holder.log")
}

/// A shared lock, since two that ask at once must not take each other for the holder.
fn is_free(folder: &Path) -> bool {
    File::open(lock_path(folder)).map_or(true, |file| file.try_lock_shared().is_ok())
}

fn await_free(folder: &Path) -> Result<()> {
    let begun = Instant::now();
    while !is_free(folder) {
        if begun.elapsed() > Duration::from_secs(30) {
            bail!("the lab's holder did not end within 30 s; see {}", folder.display());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn kill(pid: i32) {
    // Its lock is held, so the number is still its own; an error means that it ended a moment ago.
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn forget(folder: &Path) {
    if let Some(mut holder) = Holder::attach(folder) {
        let _ = holder.end();
    }
    let _ = cache::remove(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_folder_is_free_once_its_holder_has_gone_however_many_ask() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("logs")).unwrap();
        let holder = File::create(lock_path(folder.path())).unwrap();
        holder.lock().unwrap();
        assert!(!is_free(folder.path()));
        drop(holder);
        let another_asks = File::open(lock_path(folder.path())).unwrap();
        another_asks.lock_shared().unwrap();
        assert!(is_free(folder.path()));
    }
}
