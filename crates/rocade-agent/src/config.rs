//! Which configuration file is read, and for which node. What it means is core's to say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocade_core::config::{Cdi, Config, parse_config};
use rocade_core::{Finding, Severity};
use tokio::time::sleep;

use crate::cluster::Access;
use crate::error::Error;

/// Where the agent's own configuration is.
pub const AGENT_YAML: &str = "/etc/rocade/agent.yaml";

/// Where the k8s-rdma-shared-dev-plugin has its configuration, and so this agent too.
pub const CONFIG_JSON: &str = "/k8s-rdma-shared-dev-plugin/config.json";

/// Where a configuration comes from, the same at each reading.
#[derive(Debug, Clone, Default)]
pub struct ConfigSource {
    /// The file; None: [`AGENT_YAML`], where that is not there [`CONFIG_JSON`].
    pub file: Option<PathBuf>,
    /// Whether every warning is an error.
    pub strict: bool,
    /// Name of this node, for sections that ask for it.
    pub node: Option<String>,
    /// Who knows the node's labels; asked only where sections ask for them.
    pub api_server: Access,
    /// Whether CDI is asked for beside the file.
    pub use_cdi: bool,
}

/// A configuration as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Configured {
    /// What this node is to offer.
    pub config: Config,
    /// The file that was read.
    pub file: PathBuf,
    /// What is odd about it.
    pub findings: Vec<Finding>,
}

/// Pause after the API server did not tell the node's labels.
const PAUSE: Duration = Duration::from_secs(5);

impl ConfigSource {
    /// The files that it may come from.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let defaults = || [AGENT_YAML, CONFIG_JSON].map(PathBuf::from).to_vec();
        self.file.clone().map_or_else(defaults, |file| vec![file])
    }

    /// Finds the file, reads it and takes from it what counts on this node.
    ///
    /// # Errors
    /// The file cannot be read, what it says is refused, or the node's labels are asked for and cannot be had.
    pub async fn read(&self) -> Result<Configured, Error> {
        let (file, mut findings) =
            find_config(self.file.as_deref(), [AGENT_YAML, CONFIG_JSON].map(Path::new));
        let bytes = fs::read(&file).map_err(|source| Error::ReadConfig { path: file.clone(), source })?;
        // Go's decoder replaces what is not UTF-8 as well.
        let text = String::from_utf8_lossy(&bytes);
        let name = file.display().to_string();
        let refuse = |findings| Error::ConfigRefused { path: file.clone(), findings };
        let (read, said) = parse_config(&name, &text, self.strict).map_err(refuse)?;
        findings.extend(said);
        findings.extend(read.check_node_name(&name, self.node.as_deref()));
        if findings.iter().any(|finding| finding.severity == Severity::Error) {
            return Err(refuse(findings));
        }
        let labels = match &self.node {
            Some(node) if read.needs_node_labels() => self.node_labels(node).await?,
            _ => BTreeMap::new(),
        };
        let mut config = read.for_node(self.node.as_deref(), &labels);
        if self.use_cdi && config.cdi == Cdi::Off {
            config.cdi = Cdi::On { runtime: None };
        }
        Ok(Configured { config, file, findings })
    }

    /// The same, but waits for the API server where only that is missing.
    ///
    /// # Errors
    /// As [`ConfigSource::read`], but for the node's labels.
    pub async fn read_patiently(&self) -> Result<Configured, Error> {
        loop {
            match self.read().await {
                Err(error @ Error::NodeLabels { .. }) => {
                    tracing::warn!(error = error.chain(), "no configuration yet, trying again");
                    sleep(PAUSE).await;
                }
                read => return read,
            }
        }
    }

    async fn node_labels(&self, node: &str) -> Result<BTreeMap<String, String>, Error> {
        let read = self.api_server.read_node_labels(node).await;
        read.map_err(|why| Error::NodeLabels { node: node.to_owned(), why: why.to_string() })
    }
}

/// The given file, else the first of the usual ones that is there, with a warning where the second is there too; the last
/// where none is. A file of which that cannot be told counts as there: reading it will say why.
fn find_config(given: Option<&Path>, usual: [&Path; 2]) -> (PathBuf, Vec<Finding>) {
    let is_there = |path: &Path| path.try_exists().unwrap_or(true);
    let [first, second] = usual;
    match (given, is_there(first), is_there(second)) {
        (Some(given), _, _) => (given.to_owned(), Vec::new()),
        (None, true, true) => (first.to_owned(), vec![passed_over(first, second)]),
        (None, true, false) => (first.to_owned(), Vec::new()),
        (None, false, _) => (second.to_owned(), Vec::new()),
    }
}

fn passed_over(read: &Path, other: &Path) -> Finding {
    Finding {
        code: "RDC718",
        severity: Severity::Warning,
        subject: read.display().to_string(),
        seen: format!("{} is there too, and is not read", other.display()),
        wanted: "one configuration".into(),
        cure: "remove the other one, or name the one that is meant with --config".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "apiVersion: rocade.dev/v1alpha1\nkind: AgentConfig\nsections:\n- nodes: [gpu-1]\n  resources:\n  \
                        - name: a\n    sharing: {mode: hca}\n    selectors: {netdevs: [e]}\n";

    fn source(file: PathBuf) -> ConfigSource {
        ConfigSource { file: Some(file), ..ConfigSource::default() }
    }

    #[test]
    fn the_given_file_is_read_then_the_yaml_then_the_plugins() {
        let temp = tempfile::tempdir().unwrap();
        let [given, yaml, json] = ["given", "agent.yaml", "config.json"].map(|name| temp.path().join(name));
        let find = |given: Option<&Path>| find_config(given, [&yaml, &json]);
        assert_eq!(find(None), (json.clone(), Vec::new()));
        fs::write(&json, "{}").unwrap();
        assert_eq!(find(None), (json.clone(), Vec::new()));
        fs::write(&yaml, "").unwrap();
        let (found, findings) = find(None);
        assert_eq!((found, findings.len()), (yaml.clone(), 1));
        let said = findings[0].to_string();
        assert!(
            said.contains("agent.yaml: ") && said.contains("config.json is there too, and is not read"),
            "{said}"
        );
        fs::remove_file(&json).unwrap();
        assert_eq!(find(None), (yaml.clone(), Vec::new()));
        assert_eq!(find(Some(&given)), (given.clone(), Vec::new()));
    }

    #[tokio::test]
    async fn what_is_read_is_for_this_node_and_cdi_may_be_asked_for_beside_it() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("agent.yaml");
        fs::write(&file, YAML).unwrap();
        let node =
            |node: Option<&str>| ConfigSource { node: node.map(str::to_owned), ..source(file.clone()) };
        let here = node(Some("gpu-1")).read().await.unwrap();
        assert_eq!((here.config.resources.len(), here.findings.len()), (1, 0));
        assert_eq!(node(Some("gpu-2")).read().await.unwrap().config.resources, []);
        let unnamed = node(None).read().await.unwrap();
        assert!(unnamed.findings[0].to_string().contains("NODE_NAME"), "{:?}", unnamed.findings);
        assert_eq!(here.config.cdi, Cdi::Off);
        let asked = ConfigSource { use_cdi: true, ..node(Some("gpu-1")) }.read().await.unwrap();
        assert_eq!(asked.config.cdi, Cdi::On { runtime: None });
    }

    #[tokio::test]
    async fn sections_by_node_label_are_refused_without_the_name_of_the_node() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("agent.yaml");
        fs::write(&file, YAML.replace("nodes: [gpu-1]", "nodeLabels: {pool: gpu}")).unwrap();
        let Err(Error::ConfigRefused { findings, .. }) = source(file).read().await else { panic!() };
        assert!(findings[0].to_string().contains("NODE_NAME"), "{findings:?}");
    }
}
