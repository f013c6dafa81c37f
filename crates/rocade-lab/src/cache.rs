//! The one folder that keeps what was built, keyed by version. An entry is built beside its place and renamed, so
//! an interrupted build is never taken for a finished one. Owns places and atomicity, not what is in an entry.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command;
use crate::steps::Steps;

/// The cache folder and where its steps are told.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    steps: Steps,
}

impl Cache {
    /// `$ROCADE_LAB_CACHE`, else `$XDG_CACHE_HOME/rocade-lab`, else `~/.cache/rocade-lab`; made where it lacks.
    ///
    /// # Errors
    /// None of the three variables is set, or the folder cannot be made.
    pub fn open(steps: Steps) -> Result<Self> {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = var("ROCADE_LAB_CACHE")
            .or_else(|| Some(var("XDG_CACHE_HOME")?.join("rocade-lab")))
            .or_else(|| Some(var("HOME")?.join(".cache/rocade-lab")));
        let Some(folder) = folder else {
            bail!(
                "no place for the cache: set ROCADE_LAB_CACHE to a folder (XDG_CACHE_HOME and HOME are unset)"
            );
        };
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let folder = folder.canonicalize().with_context(|| format!("resolve {}", folder.display()))?;
        Ok(Self { folder, steps })
    }

    /// The folder itself, absolute.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where steps are told.
    pub fn steps(&self) -> Steps {
        self.steps
    }

    /// The entry `key` (a relative path that names its version), built by `build` at the path it is handed (which
    /// does not exist yet) unless it is there. Two processes that want one entry wait for each other.
    ///
    /// # Errors
    /// The build failed; what it left is removed by the next one.
    pub fn entry(&self, key: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let place = self.folder.join(key);
        let _lock = self.lock(key)?;
        if place.exists() {
            self.steps.note(&format!("{key}: in the cache"));
            return Ok(place);
        }
        let parent = place.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
        let unfinished = self.folder.join("unfinished").join(key.replace('/', "_"));
        remove(&unfinished)?;
        fs::create_dir_all(self.folder.join("unfinished"))?;
        self.steps.run(&format!("building {key}"), || build(&unfinished))?;
        fs::rename(&unfinished, &place).with_context(|| format!("rename to {}", place.display()))?;
        Ok(place)
    }

    /// Waits for, and holds, the lock named `key` until the file is dropped.
    ///
    /// # Errors
    /// The lock file cannot be made.
    pub fn lock(&self, key: &str) -> Result<File> {
        let locks = self.folder.join("locks");
        fs::create_dir_all(&locks).with_context(|| format!("make {}", locks.display()))?;
        let path = locks.join(key.replace('/', "_"));
        let file = File::create(&path).with_context(|| format!("make {}", path.display()))?;
        file.lock().with_context(|| format!("lock {}", path.display()))?;
        Ok(file)
    }
}

/// Removes a file or a whole folder; nothing there is no error.
///
/// # Errors
/// Something is there and cannot be removed.
pub fn remove(path: &Path) -> Result<()> {
    let result = match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    result.with_context(|| format!("remove {}", path.display()))
}

/// Sixteen hexadecimal digits that stand for `text` in a key.
///
/// # Errors
/// `sha256sum` (coreutils) does not run.
pub fn digest(text: &str) -> Result<String> {
    let script = "printf %s \"$1\" | sha256sum | cut -c1-16";
    Ok(command::run_text(Command::new("sh").args(["-c", script, "sh", text]))?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { folder: folder.path().to_path_buf(), steps: Steps::new() };
        (folder, cache)
    }

    #[test]
    fn an_interrupted_build_is_not_taken_for_a_finished_one() {
        let (_folder, cache) = cache();
        let broken = cache.entry("thing/1", |path| {
            fs::write(path, "half")?;
            bail!("interrupted")
        });
        assert!(broken.is_err());
        let built = cache.entry("thing/1", |path| Ok(fs::write(path, "whole")?)).unwrap();
        assert_eq!(fs::read_to_string(built).unwrap(), "whole");
    }

    #[test]
    fn a_second_request_does_not_build_again() {
        let (_folder, cache) = cache();
        cache.entry("thing/1", |path| Ok(fs::write(path, "first")?)).unwrap();
        let again = cache.entry("thing/1", |_| bail!("built twice")).unwrap();
        assert_eq!(fs::read_to_string(again).unwrap(), "first");
    }
}
