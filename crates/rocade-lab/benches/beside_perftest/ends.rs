//! The two nodes: a shell on each that stays open, and a test between them. Owns how a test is started and ended.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rocade_core::{GidIndex, Host};
use rocade_lab::cluster::{Cluster, plan};

/// What a shell says after a line, with the line's status.
const END: &str = "beside_perftest: status";
/// No test takes longer unless it hangs, s.
const LIMIT: u32 = 120;

/// The serving and the asking node.
pub(crate) struct Ends {
    server: Shell,
    client: Shell,
    gid_index: GidIndex,
}

impl Ends {
    pub(crate) fn open(cluster: &Cluster) -> Result<Ends> {
        let [server, client] = plan::NODES.map(|node| Shell::open(cluster, node));
        let (mut server, mut client) = (server?, client?);
        let index = gid_index(&mut server, 1)?;
        ensure!(gid_index(&mut client, 2)? == index, "the nodes' GID tables differ");
        Ok(Ends { server, client, gid_index: index })
    }

    /// Index of the GID of both nodes' addresses on the first rail.
    pub(crate) fn gid_index(&self) -> GidIndex {
        self.gid_index
    }

    /// perftest as its package calls it.
    pub(crate) fn version(&mut self) -> Result<String> {
        self.client
            .run("dpkg-query -W -f '${Package} ${Version}' perftest")
            .map(|said| said.trim().to_owned())
    }

    /// What the nodes are, in words.
    pub(crate) fn machines(&mut self) -> Result<String> {
        let cpus = self.client.run("nproc")?;
        let host = std::thread::available_parallelism()?;
        Ok(format!("2 emulated nodes of {} CPU each on {host} CPUs", cpus.trim()))
    }

    /// A line on the asking node: its stdout and stderr; an error unless it exits 0.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String> {
        self.client.run(line)
    }

    /// Runs a server that listens on TCP port 18515 and then a client, both to a good end, and gives what the client
    /// said. `before` goes before the client's line.
    pub(crate) fn test(&mut self, server: &str, before: &str, client: &str) -> Result<String> {
        // The port in state LISTEN (0A), in the form of /proc/net/tcp.
        self.server.run(&format!(
            "timeout {LIMIT} {server} >/tmp/served 2>&1 & served=$!; until \
             grep -qE ':4853 [0-9A-F]+:0000 0A' /proc/net/tcp /proc/net/tcp6; do kill -0 $served || break; sleep 0.05; done"
        ))?;
        let asked = self.client.run(&format!("{before} timeout {LIMIT} {client}"));
        let served = self.server.run("wait $served; status=$?; cat /tmp/served; (exit $status)");
        let served = served.with_context(|| format!("server: {server}"));
        match (asked.with_context(|| format!("client: {client}")), served) {
            (Ok(asked), Ok(_)) => Ok(asked),
            (Err(asked), Err(served)) => bail!("{asked:#}; {served:#}"),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }
}

/// Index of the GID of a node's address on the first rail.
fn gid_index(shell: &mut Shell, number: usize) -> Result<GidIndex> {
    let host: Host = serde_json::from_str(&shell.run("rocade inventory -o json")?)?;
    let own = plan::rail_address(number, 1).parse()?;
    let port = host.hca("rxe1").and_then(|hca| hca.ports.first()).context("no rxe1/1")?;
    let gid = port.gids.iter().find(|gid| gid.address == Some(own));
    Ok(gid.with_context(|| format!("no GID of {own}"))?.index)
}

/// A shell on a node, which takes a line at a time: a connection for each would cost more than the short tests.
struct Shell {
    node: &'static str,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Shell {
    fn open(cluster: &Cluster, node: &'static str) -> Result<Shell> {
        let mut command = cluster.node_command(node)?;
        let mut child = command.arg("bash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to = child.stdin.take().context("no stdin")?;
        let from = BufReader::new(child.stdout.take().context("no stdout")?);
        Ok(Shell { node, child, to, from })
    }

    /// Both streams of a line; an error unless it exits 0.
    fn run(&mut self, line: &str) -> Result<String> {
        writeln!(self.to, "{{ {line}\n}} 2>&1 </dev/null; printf '\\n{END} %d\\n' $?")?;
        self.to.flush()?;
        let mut said = String::new();
        loop {
            let mut next = String::new();
            if self.from.read_line(&mut next)? == 0 {
                bail!("the shell on {} ended: {said}", self.node);
            }
            match next.strip_prefix(END).map(str::trim) {
                Some("0") => return Ok(said),
                Some(status) => bail!("on {}: exit status {status}\n{said}", self.node),
                None => said += &next,
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It ends with the node, or here before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
