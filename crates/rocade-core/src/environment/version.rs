//! Versions of NCCL, and what changed with them. Owns the numbers that rules ask for.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A version, as 2.26.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NcclVersion(pub u32, pub u32, pub u32);

/// How a version is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NcclSource {
    /// The user said it.
    Asked,
    /// The name of a library's file says it.
    Library(String),
    /// Nothing says it.
    Assumed,
}

impl NcclVersion {
    /// What is taken where nothing says it: from this version on a Pod's GID tables are read to their end.
    pub const ASSUMED: NcclVersion = NcclVersion(2, 26, 2);
    /// The first that chooses a GID itself, and knows the family, the RoCE version and the range.
    const CHOOSES: NcclVersion = NcclVersion(2, 21, 0);

    /// Whether it chooses a GID itself; older ones take index 0.
    pub fn chooses_gid(self) -> bool {
        self >= NcclVersion::CHOOSES
    }

    /// Whether an entry whose type cannot be read does not end its search.
    pub fn skips_unreadable_types(self) -> bool {
        self >= NcclVersion::ASSUMED
    }
}

impl fmt::Display for NcclVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Serialize for NcclVersion {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// No version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version of NCCL: wanted 2.26.2 or 2.26")]
pub struct NotAVersion(String);

impl FromStr for NcclVersion {
    type Err = NotAVersion;

    /// Two or three numbers; a packager's suffix after `-` or `+` is left out.
    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let wrong = || NotAVersion(text.to_owned());
        let plain = text.split(['-', '+']).next().unwrap_or(text);
        let numbers: Vec<u32> =
            plain.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
        match numbers[..] {
            [major, minor] => Ok(NcclVersion(major, minor, 0)),
            [major, minor, patch] => Ok(NcclVersion(major, minor, patch)),
            _ => Err(wrong()),
        }
    }
}

/// The version in the name of a library's file: libnccl.so.2.26.2. None for libnccl.so.2 and for other files.
pub fn version_of_library(file: &str) -> Option<NcclVersion> {
    let version = file.strip_prefix("libnccl.so.")?;
    (version.split('.').count() == 3).then(|| version.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_two_or_three_numbers() {
        assert_eq!("2.26.2".parse(), Ok(NcclVersion(2, 26, 2)));
        assert_eq!("2.21".parse(), Ok(NcclVersion(2, 21, 0)));
        assert_eq!("2.26.2-1+cuda12.8".parse(), Ok(NcclVersion(2, 26, 2)));
        for wrong in ["", "2", "2.x", "2.1.2.3", "v2.26.2"] {
            assert!(wrong.parse::<NcclVersion>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_librarys_file_says_its_version_where_all_of_it_stands_there() {
        assert_eq!(version_of_library("libnccl.so.2.20.5"), Some(NcclVersion(2, 20, 5)));
        for silent in ["libnccl.so", "libnccl.so.2", "libnccl-net.so.2.20.5", "libnccl.so.2.20.x"] {
            assert_eq!(version_of_library(silent), None, "{silent}");
        }
    }
}
