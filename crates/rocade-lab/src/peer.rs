//! The k8s-rdma-shared-dev-plugin, which most clusters run, built from the Go module proxy by the go.mod in the folder
//! `peer`: to be measured beside rocade and taken over from.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::cache::Cache;
use crate::debian;
use crate::go::{self, Program};

const MODULE: &str = "github.com/Mellanox/k8s-rdma-shared-dev-plugin";
const GO_MOD: &str = include_str!("../peer/go.mod");

/// The version that is built, such as `v1.5.3`.
///
/// # Errors
/// The go.mod does not require it.
pub fn version() -> Result<&'static str> {
    go::version(GO_MOD, MODULE)
}

/// What it is run from.
#[derive(Debug)]
pub struct Peer {
    program: PathBuf,
    /// The list of PCI IDs, without which it ends; its own image has it.
    pci_ids: PathBuf,
}

impl Peer {
    /// Builds and fetches what the cache lacks.
    ///
    /// # Errors
    /// Go is missing, the build failed, or Debian's mirror does not answer.
    pub fn prepare(cache: &Cache) -> Result<Peer> {
        let package = format!("{MODULE}/cmd/k8s-rdma-shared-dp");
        let program = Program { module: "peer", package: &package, link_flags: "" };
        let program = go::build(cache, &format!("peer/{}/k8s-rdma-shared-dp", version()?), &program)?;
        let pci_ids = debian::unpack(cache, "trixie", &["pci.ids"])?.join("usr/share/misc/pci.ids");
        Ok(Peer { program, pci_ids })
    }

    /// It, with its configuration.
    pub fn command(&self, config: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env("PCIDB_PATH", &self.pci_ids).arg("-config-file").arg(config);
        command
    }
}
