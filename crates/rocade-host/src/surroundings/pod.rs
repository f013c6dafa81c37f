//! The Pod that is looked at from inside: its annotations by the downward API's file, its grants by its environment.

use std::collections::BTreeMap;
use std::path::Path;

use rocade_core::Host;
use rocade_core::host::{Pod, PodGrant};

use crate::attributes::read_text;
use crate::root::Root;
use crate::surroundings::settings;

pub(crate) const ANNOTATIONS: &str = "/etc/podinfo/annotations";
pub(crate) const ENVIRONMENT: &str = "/proc/self/environ";
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// Beginnings of the variables that say something about RDMA; others may be secret.
const VARIABLES: &[&str] = &[
    "PCIDEVICE_",
    "ROCADE_",
    "NCCL_",
    "UCX_",
    "NVSHMEM_",
    "FI_VERBS_",
    "GLOO_",
    "NVIDIA_VISIBLE_DEVICES=",
    "KUBERNETES_SERVICE_HOST=",
    "POD_NAME=",
    "POD_NAMESPACE=",
];

/// Fills the Pod; there is none in the host's first network namespace, unless something says so.
pub(super) fn read(root: &Root, host: &mut Host) {
    let record = root.pod().ok();
    let annotations = read_text(root, Path::new(ANNOTATIONS)).ok();
    let variables = read_variables(root);
    let in_pod =
        record.is_some() || annotations.is_some() || variables.contains_key("KUBERNETES_SERVICE_HOST");
    if !in_pod && host.initial_netns.is_none() {
        settings::read_netns(root, host);
    }
    if !in_pod && host.initial_netns != Some(false) {
        return;
    }
    let annotations = annotations.map(|text| parse_annotations(&text)).unwrap_or_default();
    let status = annotations.get(NETWORK_STATUS).and_then(|text| serde_json::from_str(text).ok());
    let by_environment = grants(&variables);
    let record = record.unwrap_or_default();
    let by_record = record.granted.map(|hcas| {
        let grant = |hca| PodGrant { source: "granted".into(), hca: Some(hca), ..PodGrant::default() };
        hcas.into_iter().map(grant).collect()
    });
    let of = |key: &str| variables.get(key).cloned();
    host.pod = Some(Pod {
        name: Some(record.name).filter(|name| !name.is_empty()).or_else(|| of("POD_NAME")),
        namespace: Some(record.namespace).filter(|name| !name.is_empty()).or_else(|| of("POD_NAMESPACE")),
        resources: record.resources,
        networks: annotations.get(NETWORKS).cloned(),
        network_status: status.unwrap_or_default(),
        annotations,
        grants: Some(by_environment).filter(|grants| !grants.is_empty()).or(by_record),
    });
}

/// The variables of this process, or of the recorded one, that say something about RDMA; empty where they cannot be read.
pub fn read_variables(root: &Root) -> BTreeMap<String, String> {
    let environment = root.read(ENVIRONMENT).unwrap_or_default();
    variables(&environment).filter_map(|v| v.split_once('=').map(|(k, v)| (k.into(), v.into()))).collect()
}

/// The part of an environment that is read.
pub(crate) fn keep_variables(content: &[u8]) -> Vec<u8> {
    variables(content).flat_map(|variable| [variable, "\0".into()]).collect::<String>().into_bytes()
}

fn variables(content: &[u8]) -> impl Iterator<Item = String> {
    let texts = content.split(|b| *b == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    texts.filter(|text| VARIABLES.iter().any(|beginning| text.starts_with(beginning)))
}

/// `key="value"` with Go's escapes, a line each.
fn parse_annotations(text: &str) -> BTreeMap<String, String> {
    let line = |line: &str| {
        let (key, value) = line.split_once('=')?;
        Some((key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())))
    };
    text.lines().filter_map(line).collect()
}

/// Grants by the variables of the SR-IOV device plugin and of rocade.
fn grants(variables: &BTreeMap<String, String>) -> Vec<PodGrant> {
    let mut grants = Vec::new();
    for (name, value) in variables {
        let each = value.split(',').map(str::trim).filter(|part| !part.is_empty());
        if name.starts_with("PCIDEVICE_") && !name.ends_with("_INFO") {
            let info =
                variables.get(&format!("{name}_INFO")).and_then(|info| serde_json::from_str(info).ok());
            grants.extend(each.map(|address| PodGrant {
                source: name.clone(),
                hca: None,
                pci_address: address.parse().ok(),
                nodes: info.as_ref().map(|info| nodes(info, address)).unwrap_or_default(),
            }));
        } else if name.starts_with("ROCADE_GRANT_") {
            let hca = |port: &str| Some(port.rsplit_once(':').map_or(port, |(hca, _)| hca).to_owned());
            grants.extend(each.map(|port| PodGrant {
                source: name.clone(),
                hca: hca(port),
                ..PodGrant::default()
            }));
        }
    }
    grants
}

/// `{"0000:52:00.0":{"rdma":{"uverbs":"/dev/infiniband/uverbs2"}}}` → the nodes of an address.
fn nodes(info: &serde_json::Value, address: &str) -> Vec<String> {
    let rdma = info[address]["rdma"].as_object();
    rdma.into_iter()
        .flat_map(|rdma| rdma.values())
        .filter_map(|node| node.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_environment_only_what_rdma_needs_is_kept() {
        let kept = keep_variables(b"PATH=/bin\0TOKEN=secret\0PCIDEVICE_A=0000:01:00.0\0");
        assert_eq!(kept, b"PCIDEVICE_A=0000:01:00.0\0");
    }

    #[test]
    fn grants_of_both_plugins_are_read() {
        let text = b"PCIDEVICE_A=0000:52:00.0\0PCIDEVICE_A_INFO={\"0000:52:00.0\":{\"rdma\":{\"uverbs\":\"/dev/u2\"}}}\0\
                     ROCADE_GRANT_RDMA_A=mlx5_0:1,mlx5_1:1\0";
        let variables = variables(text).filter_map(|v| v.split_once('=').map(|(k, v)| (k.into(), v.into())));
        let grants = grants(&variables.collect());
        let seen: Vec<_> = grants
            .iter()
            .map(|g| (g.hca.as_deref(), g.pci_address.map(|a| a.to_string()), g.nodes.len()))
            .collect();
        let wanted =
            [(None, Some("0000:52:00.0".into()), 1), (Some("mlx5_0"), None, 0), (Some("mlx5_1"), None, 0)];
        assert_eq!(seen, wanted);
    }
}
