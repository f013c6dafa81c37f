//! Kubernetes' own programs, built from the Go module proxy by the go.mod files in the folder `kubernetes` beside this
//! crate's `src`. Owns their versions (read from go.mod) and how they are linked.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail};

use crate::cache::Cache;
use crate::go::{self, Program};

/// The programs a cluster needs, kubelet first: the native bench needs it alone, and it fills Go's build cache.
pub const PROGRAMS: [&str; 5] =
    ["kubelet", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl"];

/// A minor release of Kubernetes. The older ones have a kubelet only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 1.35.
    V1_35,
    /// 1.36.
    V1_36,
    /// 1.37, which the cluster runs. The first that tells endpoints of one resource apart by their sockets.
    #[default]
    V1_37,
}

impl Release {
    /// The folder of its go.mod, and that file.
    fn module(self) -> (&'static str, &'static str) {
        match self {
            Release::V1_35 => ("kubernetes/v1.35", include_str!("../kubernetes/v1.35/go.mod")),
            Release::V1_36 => ("kubernetes/v1.36", include_str!("../kubernetes/v1.36/go.mod")),
            Release::V1_37 => ("kubernetes", include_str!("../kubernetes/go.mod")),
        }
    }

    /// The version its go.mod asks for, such as `v1.37.2`.
    ///
    /// # Errors
    /// go.mod does not require k8s.io/kubernetes.
    pub fn version(self) -> Result<&'static str> {
        go::version(self.module().1, "k8s.io/kubernetes")
    }
}

impl FromStr for Release {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Release> {
        match text {
            "1.35" => Ok(Release::V1_35),
            "1.36" => Ok(Release::V1_36),
            "1.37" => Ok(Release::V1_37),
            _ => bail!("{text:?} is no release of Kubernetes that is built here: 1.35, 1.36 or 1.37"),
        }
    }
}

/// One of [`PROGRAMS`], static, from the cache or built by `go build` (minutes for the first).
///
/// # Errors
/// Go is missing or the build failed; the error holds its last lines.
pub fn binary(cache: &Cache, program: &str) -> Result<PathBuf> {
    build(cache, Release::default(), program)
}

/// The kubelet of a release, as [`binary`].
///
/// # Errors
/// As [`binary`].
pub fn kubelet(cache: &Cache, release: Release) -> Result<PathBuf> {
    build(cache, release, "kubelet")
}

fn build(cache: &Cache, release: Release, program: &str) -> Result<PathBuf> {
    let version = release.version()?;
    let package = format!("k8s.io/kubernetes/cmd/{program}");
    let program_of =
        Program { module: release.module().0, package: &package, link_flags: &link_flags(version) };
    go::build(cache, &format!("kubernetes/{version}/{program}"), &program_of)
}

/// Without a version in it the node reports v0.0.0-master and version skew checks go wrong.
fn link_flags(version: &str) -> String {
    let package = "k8s.io/component-base/version";
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("-X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_linked_with_the_version_that_its_go_mod_asks_for() {
        for (release, minor) in [(Release::V1_35, 35), (Release::V1_36, 36), (Release::V1_37, 37)] {
            let version = release.version().unwrap();
            assert_eq!(format!("1.{minor}").parse::<Release>().unwrap(), release);
            assert!(version.starts_with(&format!("v1.{minor}.")), "{version}");
            let flags = link_flags(version);
            assert!(flags.contains(&format!("gitVersion={version} ")), "{flags}");
            assert!(flags.contains("gitMajor=1 ") && flags.ends_with(&format!("={minor}")), "{flags}");
        }
    }
}
