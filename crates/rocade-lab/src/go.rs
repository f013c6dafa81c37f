//! Programs built from the Go module proxy by a go.mod of this crate's own, which pins every module by its hash.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::command;

/// A program to build.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    /// Folder of the go.mod, below this crate's own.
    pub(crate) module: &'a str,
    /// Import path of the program's package.
    pub(crate) package: &'a str,
    /// For the linker, besides what leaves symbols out.
    pub(crate) link_flags: &'a str,
}

/// The program, static, from the cache or built by `go build` (minutes for a large one).
///
/// # Errors
/// Go is missing or the build failed; the error holds its last lines.
pub(crate) fn build(cache: &Cache, key: &str, program: &Program<'_>) -> Result<PathBuf> {
    // One at a time: each build uses every core, and all share most packages.
    let _one = cache.lock("go-build")?;
    cache.entry(key, |place| {
        let mut go = command::contained("go");
        go.arg("build").arg("-C").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(program.module));
        go.args(["-trimpath", "-ldflags", format!("-s -w {}", program.link_flags).trim(), "-o"]).arg(place);
        go.arg(program.package).env("CGO_ENABLED", "0");
        command::run(&mut go).map(drop)
    })
}

/// The version in which a go.mod requires `module`.
///
/// # Errors
/// It requires no such module.
pub(crate) fn version<'a>(go_mod: &'a str, module: &str) -> Result<&'a str> {
    let words = go_mod.lines().map(|line| line.trim().trim_start_matches("require "));
    let mut rest = words.filter_map(|line| line.strip_prefix(module)?.strip_prefix(' '));
    let version = rest.next().and_then(|rest| rest.split_whitespace().next());
    version.with_context(|| format!("the go.mod requires no {module}"))
}
