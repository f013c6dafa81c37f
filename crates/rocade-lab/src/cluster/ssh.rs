//! Commands in a node: one OpenSSH connection per node is kept open and shared, as a handshake is slow under
//! emulation. stdout, stderr, stdin and the exit code pass as they are.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::plan;
use crate::holder::Holder;

/// `ssh NODE`, to which a command line for the node's shell may be added. Number is the node's, from 1.
pub(super) fn command(holder: &Holder, number: usize) -> Command {
    let mut ssh = base(holder, number);
    ssh.arg("-oControlMaster=no").arg(format!("root@{}", plan::address(number))).arg("--");
    ssh
}

/// Opens the shared connection; it lasts until the holder ends.
pub(super) fn open(holder: &Holder, number: usize, limit: Duration) -> Result<Child> {
    let begun = Instant::now();
    let name = plan::NODES[number - 1];
    let mut master = spawn(holder, number)?;
    while !is_open(holder, number) {
        if begun.elapsed() > limit {
            bail!("{name} did not take a connection within {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(300));
        if master.try_wait()?.is_some() {
            master = spawn(holder, number)?;
        }
    }
    Ok(master)
}

fn spawn(holder: &Holder, number: usize) -> Result<Child> {
    let mut master = base(holder, number);
    master.args(["-M", "-N"]).arg(format!("root@{}", plan::address(number)));
    holder.spawn(&format!("{}-ssh", plan::NODES[number - 1]), &mut master)
}

fn is_open(holder: &Holder, number: usize) -> bool {
    let mut check = base(holder, number);
    check.args(["-O", "check"]).arg(format!("root@{}", plan::address(number)));
    check
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}

fn base(holder: &Holder, number: usize) -> Command {
    let mut ssh = holder.command("ssh");
    ssh.args(["-F", "/dev/null", "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null"]);
    ssh.args(["-oLogLevel=ERROR", "-oBatchMode=yes", "-oConnectTimeout=10", "-oIdentitiesOnly=yes", "-i"]);
    ssh.arg(login(holder)).arg(format!("-oControlPath=/run/ssh-{}", plan::NODES[number - 1]));
    ssh
}

fn login(holder: &Holder) -> PathBuf {
    holder.folder().join("login")
}
