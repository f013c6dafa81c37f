//! An archive from its text. Any input ends in an archive or in one line's error; nothing is skipped silently.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::token::{parse_bytes, parse_name, parse_run};
use super::{Archive, Dump, Node, VERSION};
use crate::errno::Errno;

/// Bytes that one file may have, and entries that all runs together may stand for.
const MAX_BYTES: usize = 16 << 20;
const MAX_RUN_ENTRIES: u32 = 1 << 22;

/// A line that does not fit the text form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seen `{seen}`, wanted {wanted}")]
pub struct WrongLine {
    /// Number of the line, from 1.
    pub(crate) line: usize,
    seen: String,
    wanted: &'static str,
}

pub(super) fn parse(text: &[u8]) -> Result<Archive, WrongLine> {
    let lines: Vec<&[u8]> = text.split(|b| *b == b'\n').collect();
    Parser { lines, at: 0, archive: Archive::default(), run_entries: 0 }.parse()
}

struct Parser<'a> {
    lines: Vec<&'a [u8]>,
    at: usize,
    archive: Archive,
    run_entries: u32,
}

type Parsed<T> = Result<T, WrongLine>;

impl<'a> Parser<'a> {
    fn parse(mut self) -> Parsed<Archive> {
        self.parse_header()?;
        loop {
            let line = self.next("a section, or `end` and the count of lines: the file is cut")?;
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            match kind {
                "dir" | "part" => self.parse_dir(kind == "dir", rest)?,
                "netlink" => self.parse_netlink(rest)?,
                "ethtool" if rest == "statistics" => self.archive.statistics = self.parse_rows()?,
                "pod" if rest.is_empty() => self.parse_pod()?,
                "#" => {}
                "end" => break self.check_end(rest)?,
                _ => {
                    return self.wrong(
                        "dir, part, netlink, ethtool statistics, pod, # or end, and what it is about",
                    );
                }
            }
        }
        Ok(self.archive)
    }

    fn parse_header(&mut self) -> Parsed<()> {
        let wanted = "`rocade-host 2`: a recorded host starts with it";
        let version = self.next(wanted)?.strip_prefix("rocade-host ").and_then(|v| v.parse::<u32>().ok());
        match version {
            Some(1..=VERSION) => Ok(()),
            Some(newer) if newer > VERSION => {
                self.wrong("format 2 or older: this recording needs a newer rocade")
            }
            _ => self.wrong(wanted),
        }
    }

    fn check_end(&mut self, count: &str) -> Parsed<()> {
        if count.parse() != Ok(self.at - 1) {
            return self.wrong("`end` with the count of lines before it: lines are missing or added");
        }
        match self.lines.get(self.at..) {
            Some([b""]) => Ok(()),
            _ => {
                self.at += 1;
                self.wrong("nothing after the end line but its line break")
            }
        }
    }

    fn parse_dir(&mut self, complete: bool, path: &str) -> Parsed<()> {
        let path = match parse_name(path).map(PathBuf::from) {
            Some(path) if is_plain(&path) => path,
            _ => return self.wrong("an absolute path without dots"),
        };
        if !self.archive.put_dir(&path, complete) {
            return self.wrong("a directory that nothing else stands for, at most 64 deep");
        }
        while let Some(entry) = self.next_inner() {
            self.parse_entry(&path, entry?)?;
        }
        Ok(())
    }

    fn parse_entry(&mut self, dir: &Path, line: &'a str) -> Parsed<()> {
        let mut words = line.splitn(3, ' ');
        let (kind, name, rest) = (words.next(), words.next().unwrap_or_default(), words.next());
        let node = match (kind, rest) {
            (Some("text"), Some(text)) => Some(Node::File(format!("{text}\n").into_bytes())),
            (Some("lines"), Some(count)) => Some(Node::File(self.parse_lines(count)?)),
            (Some("bytes"), Some(hex)) => parse_bytes(hex, MAX_BYTES).map(Node::File),
            (Some("link"), Some("%")) => Some(Node::Link(PathBuf::new())),
            (Some("link"), Some(target)) => parse_name(target).map(|target| Node::Link(target.into())),
            (Some("fail"), Some(errno)) => Errno::from_name(errno).map(Node::Fail),
            (Some("char"), Some(device)) => parse_char(device),
            (Some("skip"), None) => Some(Node::Skipped),
            _ => None,
        };
        match node {
            Some(node) => self.put_entry(dir, name, node),
            None => self.wrong("text, lines, bytes, link, fail, char or skip, a name, and its value"),
        }
    }

    fn put_entry(&mut self, dir: &Path, name: &str, node: Node) -> Parsed<()> {
        let taken = "a name that this directory does not have yet";
        if let Some((first, last)) = parse_run(name) {
            self.run_entries = self.run_entries.saturating_add(last - first);
            if self.run_entries > MAX_RUN_ENTRIES {
                return self.wrong("fewer entries in runs");
            }
            let free = (first..=last).all(|n| self.archive.put(&dir.join(n.to_string()), node.clone()));
            return if free { Ok(()) } else { self.wrong(taken) };
        }
        match parse_name(name) {
            Some(name) if is_plain(&Path::new("/").join(&name)) && !name.is_empty() && !has_slash(&name) => {
                if self.archive.put(&dir.join(name), node) {
                    Ok(())
                } else {
                    self.wrong(taken)
                }
            }
            _ => self.wrong("a file name"),
        }
    }

    fn parse_lines(&mut self, count: &str) -> Parsed<Vec<u8>> {
        let Ok(count) = count.parse::<usize>() else { return self.wrong("a count of lines") };
        let mut content = Vec::new();
        for _ in 0..count {
            let wanted = "another line of the file, after two blanks and a bar";
            let Some(line) = self.next(wanted)?.strip_prefix("  |") else { return self.wrong(wanted) };
            content.extend(line.bytes());
            content.push(b'\n');
        }
        Ok(content)
    }

    fn parse_netlink(&mut self, heading: &str) -> Parsed<()> {
        let (name, errno) = match heading.split_once(" fail ") {
            Some((name, errno)) => match Errno::from_name(errno) {
                Some(errno) => (name, Some(errno)),
                None => return self.wrong("the name of an error number"),
            },
            None => (heading, None),
        };
        match name {
            "rdma-system" => {
                let Dump(answer) = self.parse_dump(errno)?;
                let first = answer.map(|rows: Result<Vec<_>, _>| rows.map(|mut rows| rows.pop()));
                self.archive.netlink.rdma_system = match first {
                    Some(Ok(None)) => return self.wrong("one record of the RDMA subsystem"),
                    Some(Ok(Some(system))) => Dump(Some(Ok(system))),
                    Some(Err(errno)) => Dump(Some(Err(errno))),
                    None => Dump(None),
                };
            }
            "rdma-devices" => self.archive.netlink.rdma_devices = self.parse_dump(errno)?,
            "rdma-ports" => self.archive.netlink.rdma_ports = self.parse_dump(errno)?,
            "links" => self.archive.netlink.links = self.parse_dump(errno)?,
            "addresses" => self.archive.netlink.addresses = self.parse_dump(errno)?,
            "routes" => self.archive.netlink.routes = self.parse_dump(errno)?,
            "rules" => self.archive.netlink.rules = self.parse_dump(errno)?,
            "dcb" => self.archive.netlink.dcb = self.parse_dump(errno)?,
            "pauses" => self.archive.netlink.pauses = self.parse_dump(errno)?,
            "health" => self.archive.netlink.health = self.parse_dump(errno)?,
            _ => {
                return self.wrong(
                    "rdma-system, rdma-devices, rdma-ports, links, addresses, routes, rules, dcb, pauses or health",
                );
            }
        }
        Ok(())
    }

    fn parse_pod(&mut self) -> Parsed<()> {
        let Dump(answer) = self.parse_dump(None)?;
        match answer.and_then(|rows: Result<Vec<_>, _>| rows.ok()?.pop()) {
            Some(pod) => self.archive.pod = Some(pod),
            None => return self.wrong("one record of the Pod"),
        }
        Ok(())
    }

    fn parse_dump<T: DeserializeOwned>(&mut self, errno: Option<Errno>) -> Parsed<Dump<Vec<T>>> {
        match errno {
            Some(errno) => Ok(Dump(Some(Err(errno)))),
            None => self.parse_rows().map(|rows| Dump(Some(Ok(rows)))),
        }
    }

    fn parse_rows<T: DeserializeOwned>(&mut self) -> Parsed<Vec<T>> {
        let mut rows = Vec::new();
        while let Some(row) = self.next_inner() {
            match serde_json::from_str(row?) {
                Ok(row) => rows.push(row),
                Err(_) => return self.wrong("a record of this kind as JSON"),
            }
        }
        Ok(rows)
    }

    /// The next line if it is indented, without its blank.
    fn next_inner(&mut self) -> Option<Parsed<&'a str>> {
        let line = self.lines.get(self.at)?.strip_prefix(b" ")?;
        self.at += 1;
        Some(match str::from_utf8(line) {
            Ok(line) => Ok(line.strip_suffix('\r').unwrap_or(line)),
            Err(_) => self.wrong("text in UTF-8"),
        })
    }

    fn next(&mut self, wanted: &'static str) -> Parsed<&'a str> {
        let line = self.lines.get(self.at).copied();
        self.at += 1;
        match line.map(str::from_utf8) {
            Some(Ok(line)) => Ok(line.strip_suffix('\r').unwrap_or(line)),
            Some(Err(_)) => self.wrong("text in UTF-8"),
            None => self.wrong(wanted),
        }
    }

    /// An error about the line that was taken last.
    fn wrong<T>(&self, wanted: &'static str) -> Parsed<T> {
        let line = self.at.min(self.lines.len()).max(1);
        let seen = self.lines.get(self.at.saturating_sub(1)).copied().unwrap_or_default();
        let seen: String = String::from_utf8_lossy(seen).chars().take(60).collect();
        Err(WrongLine { line, seen: seen.escape_debug().to_string(), wanted })
    }
}

fn is_plain(path: &Path) -> bool {
    use std::path::Component::{Normal, RootDir};
    path.is_absolute() && path.components().all(|c| matches!(c, RootDir | Normal(_)))
}

fn has_slash(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().contains(&b'/')
}

fn parse_char(text: &str) -> Option<Node> {
    let (device, mode) = text.split_once(' ')?;
    let (major, minor) = device.split_once(':')?;
    let mode = u16::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777)?;
    Some(Node::Char { major: major.parse().ok()?, minor: minor.parse().ok()?, mode })
}
