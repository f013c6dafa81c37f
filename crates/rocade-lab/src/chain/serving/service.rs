//! A `rocade serve` on the first node: started, asked what it holds, told to end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::chain::{Chain, wait_for};
use crate::cluster::plan;

/// Of the six.
pub(super) const FIRST_PORT: u16 = 18515;
const NODE: &str = plan::NODES[0];
const OUT: &str = "/tmp/served";
const ERR: &str = "/tmp/served.err";

/// It runs until it is told to end; whatever a row does in between.
#[derive(Debug)]
pub(super) struct Service {
    pid: u32,
}

/// What it holds of its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) threads: u32,
    pub(super) files: u32,
    /// The kernel's count of the node's RDMA objects.
    pub(super) objects: String,
}

/// What it wrote.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) results: String,
    pub(super) errors: String,
}

impl Service {
    /// With these options, listening.
    pub(super) fn start(chain: &Chain, options: &str) -> Result<Service> {
        let line = format!("setsid rocade serve {options} </dev/null >{OUT} 2>{ERR} & echo $!");
        let pid = chain.node(NODE, &line)?.trim().parse().context("no process number")?;
        let service = Service { pid };
        wait_for(Duration::from_secs(30), || {
            let said = chain.node(NODE, &format!("cat {ERR}; [ -d /proc/{pid} ] || echo ended"))?;
            Ok(if said.contains("clients at once") { Ok(()) } else { Err(said) })
        })?;
        Ok(service)
    }

    /// Now.
    pub(super) fn held(&self, chain: &Chain) -> Result<Held> {
        let pid = self.pid;
        let line = format!("ls /proc/{pid}/task | wc -l; ls /proc/{pid}/fd | wc -l; rdma resource");
        let said = chain.node(NODE, &line)?;
        let mut lines = said.lines();
        let mut count = || lines.next().and_then(|line| line.trim().parse().ok()).context("no count");
        let (threads, files) = (count()?, count()?);
        Ok(Held { threads, files, objects: lines.collect::<Vec<_>>().join("\n") })
    }

    /// By SIGTERM, with exit code 0 of its own: it is gone in time.
    pub(super) fn end(self, chain: &Chain) -> Result<Ended> {
        let pid = self.pid;
        chain.node(NODE, &format!("kill -TERM {pid}"))?;
        let gone = wait_for(Duration::from_secs(30), || {
            let said =
                chain.node(NODE, &format!("[ -d /proc/{pid} ] && cat /proc/{pid}/status || echo gone"))?;
            Ok(if said.trim() == "gone" { Ok(()) } else { Err(said) })
        });
        let ended = Ended {
            results: chain.node(NODE, &format!("cat {OUT}"))?,
            errors: chain.node(NODE, &format!("cat {ERR}"))?,
        };
        if gone.is_err() {
            chain.node(NODE, &format!("kill -9 {pid}; true"))?;
        }
        gone.with_context(|| ended.errors.clone())?;
        let is_well = !["panicked", "Sanitizer:"].iter().any(|word| ended.errors.contains(word));
        ensure!(is_well, "{}", ended.errors);
        Ok(ended)
    }
}
