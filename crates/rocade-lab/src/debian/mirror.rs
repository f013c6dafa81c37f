//! The Debian mirror that the machine's own apt uses, read from its sources. Names no host itself.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Where packages come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// As apt takes it, such as `http://HOST/debian`.
    pub uri: String,
    /// The keyring that the entry names; None leaves the choice to apt.
    pub signed_by: Option<String>,
}

impl Mirror {
    /// A one-line source entry of `suite`'s main component.
    pub fn source(&self, suite: &str) -> String {
        let signed = self.signed_by.as_ref().map(|path| format!("[signed-by={path}] ")).unwrap_or_default();
        format!("deb {signed}{} {suite} main", self.uri)
    }
}

/// Reads /etc/os-release and /etc/apt/sources.list{,.d}: the mirror of the running release's main component.
///
/// # Errors
/// The release has no codename, or no entry serves it.
pub fn read() -> Result<Mirror> {
    let release = fs::read_to_string("/etc/os-release").context("read /etc/os-release")?;
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let codename = codename.context("/etc/os-release has no VERSION_CODENAME")?.trim_matches('"');
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(parts) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(parts.flatten().map(|part| part.path()));
    }
    files.sort();
    let found = files.iter().find_map(|file| parse(file, &fs::read_to_string(file).ok()?, codename));
    found.with_context(|| format!("no entry of /etc/apt/sources.list{{,.d}} serves {codename} main"))
}

/// The first entry of one sources file that serves `codename` main.
fn parse(file: &Path, text: &str, codename: &str) -> Option<Mirror> {
    if file.extension().is_some_and(|extension| extension == "sources") {
        return text.replace('\r', "").split("\n\n").find_map(|stanza| parse_stanza(stanza, codename));
    }
    text.lines().find_map(|line| parse_line(line, codename))
}

/// `deb [options] URI suite component…` (sources.list(5)).
fn parse_line(line: &str, codename: &str) -> Option<Mirror> {
    let rest = line.trim().strip_prefix("deb ")?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let (uri, suite) = (words.next()?, words.next()?);
    let serves = suite == codename && words.any(|component| component == "main");
    let signed = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    serves.then(|| Mirror { uri: uri.to_string(), signed_by: signed.map(str::to_string) })
}

/// A deb822 stanza (sources.list(5)); a key that is written into it is left to apt.
fn parse_stanza(stanza: &str, codename: &str) -> Option<Mirror> {
    let field = |name: &str| {
        let mut lines = stanza.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let has = |name, word| field(name).is_some_and(|value| value.split_whitespace().any(|it| it == word));
    if field("Enabled") == Some("no") || !has("Types", "deb") || !has("Suites", codename) {
        return None;
    }
    let uri = field("URIs")?.split_whitespace().next()?.to_string();
    let signed_by = field("Signed-By").filter(|path| path.starts_with('/')).map(str::to_string);
    has("Components", "main").then_some(Mirror { uri, signed_by })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_one_line_entry_gives_its_address_and_keyring() {
        let text = "# deb http://old/debian bookworm main\n\
                    deb http://security.example/debian-security bookworm-security main\n\
                    deb [arch=amd64 signed-by=/keys/a.gpg] http://mirror.example/debian bookworm contrib main\n";
        let mirror = parse(Path::new("sources.list"), text, "bookworm").unwrap();
        assert_eq!(mirror.source("sid"), "deb [signed-by=/keys/a.gpg] http://mirror.example/debian sid main");
    }

    #[test]
    fn a_deb822_entry_of_the_release_wins_over_disabled_and_foreign_ones() {
        let text = "Types: deb\nEnabled: no\nURIs: http://off.example\nSuites: bookworm\nComponents: main\n\n\
                    Types: deb\nURIs: http://other.example\nSuites: nodistro\nComponents: main\n\n\
                    Types: deb deb-src\n# note\nURIs: http://mirror.example/debian\n\
                    Suites: bookworm bookworm-updates\nComponents: main\n";
        let mirror = parse(Path::new("debian.sources"), text, "bookworm").unwrap();
        assert_eq!(mirror, Mirror { uri: "http://mirror.example/debian".into(), signed_by: None });
    }

    #[test]
    fn no_entry_of_the_release_is_no_mirror() {
        assert_eq!(
            parse(Path::new("x.list"), "deb http://mirror.example/debian trixie main", "bookworm"),
            None
        );
    }
}
