//! Kubernetes' own programs, built from the Go module proxy by the go.mod beside this crate's `src`.
//! Owns their version (read from go.mod) and how they are linked.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::command;

/// The programs a cluster needs, kubelet first: the native bench needs it alone, and it fills Go's build cache.
pub const PROGRAMS: [&str; 5] =
    ["kubelet", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl"];

const GO_MOD: &str = include_str!("../kubernetes/go.mod");

/// One of [`PROGRAMS`], static, from the cache or built by `go build` (minutes for the first).
///
/// # Errors
/// Go is missing or the build failed; the error holds its last lines.
pub fn binary(cache: &Cache, program: &str) -> Result<PathBuf> {
    let version = version()?;
    // One at a time: each build uses every core, and all share most packages.
    let _one = cache.lock("go-build")?;
    cache.entry(&format!("kubernetes/{version}/{program}"), |place| {
        let mut go = command::contained("go");
        go.arg("build").arg("-C").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes"));
        go.args(["-trimpath", "-ldflags", &link_flags(version), "-o"]).arg(place);
        go.arg(format!("k8s.io/kubernetes/cmd/{program}")).env("CGO_ENABLED", "0");
        command::run(&mut go).map(drop)
    })
}

/// The version go.mod asks for, such as `v1.37.2`.
///
/// # Errors
/// go.mod does not require k8s.io/kubernetes.
pub fn version() -> Result<&'static str> {
    let words = GO_MOD.lines().map(|line| line.trim().trim_start_matches("require "));
    let mut versions = words.filter_map(|line| line.strip_prefix("k8s.io/kubernetes "));
    let version = versions.next().and_then(|rest| rest.split_whitespace().next());
    version.context("kubernetes/go.mod requires no k8s.io/kubernetes")
}

/// Without a version in it the node reports v0.0.0-master and version skew checks go wrong.
fn link_flags(version: &str) -> String {
    let package = "k8s.io/component-base/version";
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_linked_with_the_version_that_go_mod_asks_for() {
        let flags = link_flags(version().unwrap());
        assert!(GO_MOD.contains(&format!("k8s.io/kubernetes {}", version().unwrap())));
        assert!(flags.contains(&format!("gitVersion={} ", version().unwrap())), "{flags}");
        assert!(flags.contains("gitMajor=1 ") && !flags.ends_with('='), "{flags}");
    }
}
