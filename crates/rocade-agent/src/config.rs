//! Which configuration file is read. What it means is core's to say.

use std::fs;
use std::path::Path;

use rocade_core::Finding;
use rocade_core::config::{Config, parse_config_json};

use crate::error::Error;

/// Where the k8s-rdma-shared-dev-plugin has its configuration, and so this agent too.
pub const CONFIG_JSON: &str = "/k8s-rdma-shared-dev-plugin/config.json";

/// Reads a config.json: the configuration and what is odd about it. `strict` makes every warning an error.
///
/// # Errors
/// The file cannot be read, or what it says is refused.
pub fn read_config(path: &Path, strict: bool) -> Result<(Config, Vec<Finding>), Error> {
    let bytes = fs::read(path).map_err(|source| Error::ReadConfig { path: path.to_owned(), source })?;
    // Go's decoder replaces what is not UTF-8 as well.
    let text = String::from_utf8_lossy(&bytes);
    parse_config_json(&path.display().to_string(), &text, strict)
        .map_err(|findings| Error::ConfigRefused { path: path.to_owned(), findings })
}
