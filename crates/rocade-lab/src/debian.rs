//! Packages of other Debian suites, beside the machine's own: a private apt state per suite, unpacked without
//! installing. The mirror is the one that the machine's own apt uses. Installs nothing (`host_packages` does).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use crate::cache::{self, Cache};
use crate::command;

pub mod mirror;

/// Package lists older than this are fetched again; when that fails, the old ones serve.
const LISTS_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// A suite: its own package lists and nothing else's, so that no pinning is needed.
#[derive(Debug, Clone)]
pub struct Suite {
    name: String,
    folder: PathBuf,
}

impl Suite {
    /// Opens `name` (`trixie`, `trixie-backports`, `sid`), with lists not older than a week.
    ///
    /// # Errors
    /// The machine's apt names no Debian mirror, or the lists cannot be fetched.
    pub fn open(cache: &Cache, name: &str) -> Result<Self> {
        let suite = Self { name: name.to_string(), folder: cache.folder().join("apt").join(name) };
        let _lock = cache.lock(&format!("apt/{name}"))?;
        let stamp = suite.folder.join("fetched");
        let age = fs::metadata(&stamp).and_then(|meta| meta.modified()).ok();
        let age = age.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        if age.is_some_and(|age| age < LISTS_AGE) {
            return Ok(suite);
        }
        let fetched =
            cache.steps().run(&format!("fetching the package lists of {name}"), || suite.fetch_lists());
        match fetched {
            Err(error) if age.is_none() => return Err(error),
            Err(error) => cache.steps().note(&format!("keeping the old lists of {name}: {error:#}")),
            Ok(()) => fs::write(&stamp, "")?,
        }
        Ok(suite)
    }

    /// `PACKAGE=VERSION` of each of `packages` as the suite offers them, in their order.
    ///
    /// # Errors
    /// It lacks one of them.
    pub fn versions(&self, packages: &[&str]) -> Result<Vec<String>> {
        let shown = self.show(packages)?;
        let version = |package: &&str| {
            let stanza = shown.split("\n\n").find(|stanza| field(stanza, "Package") == Some(*package));
            let version = stanza.and_then(|stanza| field(stanza, "Version"));
            let version = version.with_context(|| format!("{} has no package {package}", self.name))?;
            Ok(format!("{package}={version}"))
        };
        packages.iter().map(version).collect()
    }

    /// The direct dependencies of `package`, first alternative each, without version conditions.
    ///
    /// # Errors
    /// The suite offers no such package.
    pub fn depends(&self, package: &str) -> Result<Vec<String>> {
        Ok(parse_depends(field(&self.show(&[package])?, "Depends").unwrap_or_default()))
    }

    /// The one-line source entry, for tools that make a root file system.
    ///
    /// # Errors
    /// The machine's apt names no Debian mirror.
    pub fn source(&self) -> Result<String> {
        Ok(mirror::read()?.source(&self.name))
    }

    fn show(&self, packages: &[&str]) -> Result<String> {
        command::run_text(self.apt("apt-cache").args(["show", "--no-all-versions"]).args(packages))
    }

    fn fetch_lists(&self) -> Result<()> {
        for part in ["state/lists/partial", "cache/archives/partial", "none"] {
            fs::create_dir_all(self.folder.join(part))
                .with_context(|| format!("make a folder for {}", self.name))?;
        }
        fs::write(self.folder.join("sources.list"), self.source()? + "\n")?;
        fs::write(self.folder.join("apt.conf"), self.configuration())?;
        command::run(self.apt("apt-get").args(["-q", "-o", "APT::Update::Error-Mode=any", "update"]))
            .map(drop)
    }

    fn configuration(&self) -> String {
        let at = self.folder.display();
        format!(
            "Dir::State \"{at}/state\";\nDir::State::status \"/dev/null\";\nDir::Cache \"{at}/cache\";\n\
             Dir::Etc::SourceList \"{at}/sources.list\";\nDir::Etc::SourceParts \"{at}/none\";\n\
             Dir::Etc::PreferencesParts \"{at}/none\";\nAcquire::Languages \"none\";\n\
             Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\nAPT::Sandbox::User \"root\";\n"
        )
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // On the command line, as a machine made to be small forbids apt this index in its own files.
        command
            .arg("-o")
            .arg(format!("Dir::Cache::pkgcache={}", self.folder.join("cache/pkgcache.bin").display()));
        command.env("APT_CONFIG", self.folder.join("apt.conf")).env("LC_ALL", "C");
        command
    }
}

/// `packages` of the suite, unpacked into one folder of the cache that is keyed by their versions. No script of
/// theirs is run and no dependency is followed.
///
/// # Errors
/// The suite lacks one of them, or it cannot be fetched or unpacked.
pub fn unpack(cache: &Cache, suite: &str, packages: &[&str]) -> Result<PathBuf> {
    let suite = Suite::open(cache, suite)?;
    let names = suite.versions(packages)?;
    let Some(first) = names.first() else { bail!("nothing to unpack from {}", suite.name) };
    let others =
        if names.len() > 1 { format!("+{}", cache::digest(&names.join("\n"))?) } else { String::new() };
    let key = format!("debian/{}/{}{others}", suite.name, first.replace('=', "_"));
    cache.entry(&key, |place| {
        let debs = tempfile::tempdir()?;
        let mut download = suite.apt("apt-get");
        command::run(download.args(["-q", "download"]).args(&names).current_dir(debs.path()))?;
        for deb in fs::read_dir(debs.path())? {
            command::run(Command::new("dpkg-deb").arg("--extract").arg(deb?.path()).arg(place))?;
        }
        Ok(())
    })
}

/// Whether `path` (relative) is below `root`, where packages may have put it in /usr or not.
pub fn find_below(root: &Path, path: &str) -> Option<PathBuf> {
    ["", "usr"].iter().map(|prefix| root.join(prefix).join(path)).find(|place| place.exists())
}

/// A field of the first stanza that has it.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn parse_depends(text: &str) -> Vec<String> {
    let first = |choice: &str| choice.split(['|', '(', ':']).next().map(|name| name.trim().to_string());
    text.split(',').filter_map(first).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_lose_versions_alternatives_and_architectures() {
        let text = "linux-image-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1), dracut | initramfs-tools, python3:any";
        assert_eq!(parse_depends(text), ["linux-image-7.3.4+deb13-amd64", "dracut", "python3"]);
        assert!(parse_depends("").is_empty());
    }
}
