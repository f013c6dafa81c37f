//! A configuration file of either dialect: which it is, and what it says for a node.

use std::collections::BTreeMap;

use super::{Config, Parsed, parse_config_json};

/// A configuration file, read.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigFile {
    base: Config,
}

impl ConfigFile {
    /// What it says for the node of that name with these labels.
    pub fn for_node(&self, _name: Option<&str>, _labels: &BTreeMap<String, String>) -> Config {
        self.base.clone()
    }

    /// Whether a node's labels make a difference, so that they have to be asked of the API server.
    pub fn needs_node_labels(&self) -> bool {
        false
    }
}

impl From<Config> for ConfigFile {
    fn from(base: Config) -> Self {
        ConfigFile { base }
    }
}

/// Reads the text of a configuration; `file` is the name to call it in findings.
///
/// Gives the configuration and what is odd about it, or, if any finding is an error, the findings alone. `strict`
/// makes every warning an error.
///
/// # Errors
/// All findings, at least one of them an error.
pub fn parse_config(file: &str, text: &str, strict: bool) -> Parsed<ConfigFile> {
    parse_config_json(file, text, strict).map(|(config, findings)| (config.into(), findings))
}
