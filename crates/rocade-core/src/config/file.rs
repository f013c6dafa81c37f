//! A configuration file of either dialect: which it is, and what it says for a node.

use std::collections::{BTreeMap, BTreeSet};

use super::agent_config::{Document, parse_document};
use super::{Config, Dialect, Parsed, parse_config_json};
use crate::finding::{Finding, Severity};
use crate::names::ResourceName;

/// A configuration file, read.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigFile(Said);

#[derive(Debug, Clone, PartialEq)]
enum Said {
    /// The same for every node.
    Everywhere(Config),
    /// With sections for some, or without.
    Document(Box<Document>),
}

impl ConfigFile {
    /// What it says for the node of that name with these labels. Where the name is not known, sections that ask for it
    /// do not count; nor do those that ask for labels that the node lacks, so that no labels are needed while
    /// [`ConfigFile::needs_node_labels`] says so.
    pub fn for_node(&self, name: Option<&str>, labels: &BTreeMap<String, String>) -> Config {
        match &self.0 {
            Said::Everywhere(config) => config.clone(),
            Said::Document(document) => document.for_node(name, labels),
        }
    }

    /// The name of every resource that it makes on some node, once each.
    pub fn resource_names(&self) -> BTreeSet<ResourceName> {
        match &self.0 {
            Said::Everywhere(config) => {
                config.resources.iter().map(|resource| resource.name.clone()).collect()
            }
            Said::Document(document) => document.resource_names(),
        }
    }

    /// Whether a node's labels make a difference, so that they have to be asked of the API server.
    pub fn needs_node_labels(&self) -> bool {
        matches!(&self.0, Said::Document(document) if document.needs_node_labels())
    }

    /// What is wrong where its sections ask for facts of a node whose name nobody knows; `file` is the name to call it.
    pub fn check_node_name(&self, file: &str, name: Option<&str>) -> Option<Finding> {
        let Said::Document(document) = &self.0 else { return None };
        let (severity, seen) = match (document.needs_node_labels(), document.needs_node_name()) {
            (true, _) => (Severity::Error, "node labels are asked for, and nobody knows of which node"),
            (false, true) => (Severity::Warning, "nodes are asked for by name, and this one's is not known"),
            (false, false) => return None,
        };
        name.is_none().then(|| Finding {
            code: "RDC719",
            severity,
            subject: format!("{file} sections"),
            seen: seen.into(),
            wanted: "the name of this node".into(),
            cure: "set the variable NODE_NAME from the Pod's spec.nodeName, or give --node-name".into(),
        })
    }

    /// How it is written.
    pub fn dialect(&self) -> Dialect {
        match &self.0 {
            Said::Everywhere(config) => config.dialect,
            Said::Document(_) => Dialect::AgentConfig,
        }
    }
}

impl From<Config> for ConfigFile {
    fn from(config: Config) -> Self {
        ConfigFile(Said::Everywhere(config))
    }
}

/// Reads the text of a configuration of either dialect; `file` is the name to call it in findings.
///
/// Gives the configuration and what is odd about it, or, if any finding is an error, the findings alone. `strict`
/// makes every warning an error; in a `kind: AgentConfig` every mistake is an error anyway.
///
/// # Errors
/// All findings, at least one of them an error.
pub fn parse_config(file: &str, text: &str, strict: bool) -> Parsed<ConfigFile> {
    match dialect_of(file, text) {
        Dialect::ConfigJson => {
            parse_config_json(file, text, strict).map(|(config, findings)| (config.into(), findings))
        }
        Dialect::AgentConfig => parse_document(file, text)
            .map(|(document, findings)| (ConfigFile(Said::Document(Box::new(document))), findings)),
    }
}

/// Which of the two a text means to be. JSON is YAML too, so its keys count; where they do not tell, the file's name.
fn dialect_of(file: &str, text: &str) -> Dialect {
    let is_object = text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
    let has = |word: &str| text.contains(word);
    match (is_object, file.ends_with(".json")) {
        (true, _) if has("apiVersion") && has("kind") => Dialect::AgentConfig,
        (true, _) | (false, true) => Dialect::ConfigJson,
        (false, false) => Dialect::AgentConfig,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_holds_tells_its_dialect_before_its_name_does() {
        let json = r#"{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "devices": ["e"]}]}"#;
        let yaml = "apiVersion: rocade.dev/v1alpha1\nkind: AgentConfig\nresources:\n- name: a\n  \
                    sharing: {mode: hca}\n  selectors: {netdevs: [e]}\n";
        let yaml_as_json = r#"{"apiVersion": "rocade.dev/v1alpha1", "kind": "AgentConfig", "resources":
            [{"name": "a", "sharing": {"mode": "hca"}, "selectors": {"netdevs": ["e"]}}]}"#;
        for (file, text, dialect) in [
            ("config.json", json, Dialect::ConfigJson),
            ("..data/config", json, Dialect::ConfigJson),
            ("agent.yaml", json, Dialect::ConfigJson),
            ("agent.yaml", yaml, Dialect::AgentConfig),
            ("config", yaml, Dialect::AgentConfig),
            ("config.json", yaml_as_json, Dialect::AgentConfig),
            ("config.json", &yaml_as_json.replace('"', ""), Dialect::AgentConfig),
        ] {
            let (config, findings) =
                parse_config(file, text, true).unwrap_or_else(|f| panic!("{file}: {f:?}"));
            assert_eq!((config.dialect(), findings.len()), (dialect, 0), "{file}");
            assert_eq!(config.for_node(None, &BTreeMap::new()).resources[0].name.to_string(), "rdma/a");
        }
        assert_eq!(parse_config("config.json", "", false).unwrap_err()[0].code, "RDC701");
        assert_eq!(parse_config("agent.yaml", "", false).unwrap_err()[0].code, "RDC713");
    }
}
