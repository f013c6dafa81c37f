//! A recorded host: a tree of what was read with the kernel's answers, netlink's and ethtool's. The text form is parsed in
//! `parse` and written in `print`; docs/snapshot-format.md describes it. Knows paths, not what they mean.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use crate::errno::Errno;
use crate::netlink::{
    Address, DcbRecord, HealthRecord, Link, PauseRecord, PodRecord, RdmaDevice, RdmaPort, RdmaSystem,
    RouteRecord, RuleRecord,
};
use crate::root::{Answer, Refusal, Stat};
use crate::statistics::StatisticsRecord;

mod parse;
mod print;
mod token;

pub use parse::WrongLine;

/// Highest version of the text form that this version reads, and the one it writes.
const VERSION: u32 = 2;

/// Deeper paths than any that the kernel has; keeps hostile files from nesting without end.
pub(crate) const MAX_DEPTH: usize = 64;

/// One recorded host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Archive {
    top: Dir,
    /// What netlink answered.
    pub netlink: Netlink,
    /// What ethtool's ioctl answered, an interface each. Of others nothing is known.
    pub statistics: Vec<StatisticsRecord>,
    /// What the cluster knows of the Pod that this is the inside of.
    pub pod: Option<PodRecord>,
}

/// A recorded thing at a path.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// A directory.
    Dir(Dir),
    /// Was there; what it holds was not recorded.
    Skipped,
    /// A symbolic link, with its target as written.
    Link(PathBuf),
    /// A file and its content.
    File(Vec<u8>),
    /// Listed or asked for, and reading it fails so.
    Fail(Errno),
    /// A character device.
    Char {
        /// Number of the device.
        major: u32,
        /// Number of the device.
        minor: u32,
        /// Permission bits.
        mode: u16,
    },
}

/// A directory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dir {
    /// Whether it was listed: then a name that is not among the children does not exist.
    complete: bool,
    children: BTreeMap<OsString, Node>,
}

/// Netlink's answers, one field a question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Netlink {
    /// RDMA netlink SYS_GET.
    pub rdma_system: Dump<RdmaSystem>,
    /// RDMA netlink GET.
    pub rdma_devices: Dump<Vec<RdmaDevice>>,
    /// RDMA netlink PORT_GET.
    pub rdma_ports: Dump<Vec<RdmaPort>>,
    /// Route netlink GETLINK.
    pub links: Dump<Vec<Link>>,
    /// Route netlink GETADDR.
    pub addresses: Dump<Vec<Address>>,
    /// Route netlink GETROUTE.
    pub routes: Dump<Vec<RouteRecord>>,
    /// Route netlink GETRULE.
    pub rules: Dump<Vec<RuleRecord>>,
    /// Route netlink GETDCB, of each interface that has it.
    pub dcb: Dump<Vec<DcbRecord>>,
    /// Ethtool netlink PAUSE_GET with statistics.
    pub pauses: Dump<Vec<PauseRecord>>,
    /// Devlink HEALTH_REPORTER_GET.
    pub health: Dump<Vec<HealthRecord>>,
}

/// The answer to one netlink question; None where it was not asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Dump<T>(pub Option<Result<T, Errno>>);

impl<T> Default for Dump<T> {
    fn default() -> Self {
        Dump(None)
    }
}

impl<T: Clone> Dump<T> {
    pub(crate) fn answer(&self) -> Answer<T> {
        match &self.0 {
            None => Err(Refusal::NeverTried),
            Some(answer) => answer.clone().map_err(Refusal::Errno),
        }
    }
}

impl<T> From<Answer<T>> for Dump<T> {
    /// An answer that could not be decoded is as good as none.
    fn from(answer: Answer<T>) -> Self {
        match answer {
            Ok(value) => Dump(Some(Ok(value))),
            Err(Refusal::Errno(errno)) => Dump(Some(Err(errno))),
            Err(Refusal::NeverTried | Refusal::Garbled) => Dump(None),
        }
    }
}

impl Archive {
    /// Parses the text form.
    pub fn parse(text: &[u8]) -> Result<Archive, WrongLine> {
        parse::parse(text)
    }

    /// Writes the text form.
    pub fn print(&self) -> String {
        print::print(self)
    }

    /// Puts a node at a path; directories above it come to be, as not listed. False where something else than a
    /// directory is in the way, or the path holds something already that was not skipped.
    pub fn put(&mut self, path: &Path, node: Node) -> bool {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let Some(dir) = self.dir_mut(dir) else { return false };
        let free = dir.children.get(name).is_none_or(|there| *there == Node::Skipped);
        if free {
            dir.children.insert(name.to_owned(), node);
        }
        free
    }

    /// Makes a directory, and marks it as listed whole if it was. False where something else is in the way.
    pub fn put_dir(&mut self, path: &Path, complete: bool) -> bool {
        self.dir_mut(path).map(|dir| dir.complete |= complete).is_some()
    }

    /// Whether the directory at that path was listed whole.
    pub(crate) fn is_listed(&self, path: &Path) -> bool {
        self.list(path).is_ok()
    }

    /// Looks at every node with its path, a directory before what is in it.
    pub fn visit(&self, look: &mut dyn FnMut(&Path, &Node)) {
        visit(&self.top, Path::new("/"), look);
    }

    /// The same tree under other names, with other nodes in place of all but the directories. Each node is asked for
    /// with its old path. The answers of netlink and ethtool and the Pod are left out.
    pub fn rewrite(&self, name: &dyn Fn(&OsStr) -> OsString, node: &dyn Fn(&Path, &Node) -> Node) -> Archive {
        Archive { top: rewrite(&self.top, Path::new("/"), name, node), ..Archive::default() }
    }

    fn dir_mut(&mut self, path: &Path) -> Option<&mut Dir> {
        let mut dir = &mut self.top;
        for (depth, name) in names(path).enumerate() {
            let fresh = || Node::Dir(Dir::default());
            let child = dir.children.entry(name.to_owned()).or_insert_with(fresh);
            if *child == Node::Skipped {
                *child = fresh();
            }
            match child {
                Node::Dir(child) if depth < MAX_DEPTH => dir = child,
                _ => return None,
            }
        }
        Some(dir)
    }

    pub(crate) fn read(&self, path: &Path) -> Answer<Vec<u8>> {
        match self.find(path)? {
            Some(Node::File(content)) => Ok(content.clone()),
            Some(Node::Dir(_)) | None => Err(Refusal::Errno(Errno::ISDIR)),
            Some(Node::Fail(errno)) => Err(Refusal::Errno(*errno)),
            Some(Node::Skipped) => Err(Refusal::NeverTried),
            Some(Node::Char { .. }) => Err(Refusal::Errno(Errno::NXIO)),
            // Its target was resolved by the caller: only a link to itself is left.
            Some(Node::Link(_)) => Err(Refusal::Errno(Errno::LOOP)),
        }
    }

    pub(crate) fn list(&self, path: &Path) -> Answer<Vec<OsString>> {
        let dir = match self.find(path)? {
            None => &self.top,
            Some(Node::Dir(dir)) => dir,
            Some(Node::Fail(errno)) => return Err(Refusal::Errno(*errno)),
            Some(Node::Skipped) => return Err(Refusal::NeverTried),
            Some(_) => return Err(Refusal::Errno(Errno::NOTDIR)),
        };
        if dir.complete { Ok(dir.children.keys().cloned().collect()) } else { Err(Refusal::NeverTried) }
    }

    pub(crate) fn link(&self, path: &Path) -> Answer<PathBuf> {
        match self.find(path)? {
            Some(Node::Link(target)) => Ok(target.clone()),
            Some(Node::Fail(errno)) => Err(Refusal::Errno(*errno)),
            Some(Node::Skipped) => Err(Refusal::NeverTried),
            _ => Err(Refusal::Errno(Errno::INVAL)),
        }
    }

    pub(crate) fn stat(&self, path: &Path) -> Answer<Stat> {
        match self.find(path)? {
            None | Some(Node::Dir(_)) => Ok(Stat::Dir),
            Some(Node::File(_)) => Ok(Stat::Other),
            Some(Node::Char { major, minor, mode }) => {
                Ok(Stat::Char { major: *major, minor: *minor, mode: *mode })
            }
            Some(Node::Fail(errno)) => Err(Refusal::Errno(*errno)),
            Some(Node::Skipped) => Err(Refusal::NeverTried),
            Some(Node::Link(_)) => Err(Refusal::Errno(Errno::LOOP)),
        }
    }

    /// The node at a path without links; Ok(None) is the top itself.
    fn find(&self, path: &Path) -> Answer<Option<&Node>> {
        let mut dir = &self.top;
        let mut found = None;
        for name in names(path) {
            if let Some(above) = found {
                dir = below(above)?;
            }
            found = match dir.children.get(name) {
                Some(node) => Some(node),
                None if dir.complete => return Err(Refusal::Errno(Errno::NOENT)),
                None => return Err(Refusal::NeverTried),
            };
        }
        Ok(found)
    }
}

fn visit(dir: &Dir, path: &Path, look: &mut dyn FnMut(&Path, &Node)) {
    for (name, child) in &dir.children {
        let path = path.join(name);
        look(&path, child);
        if let Node::Dir(dir) = child {
            visit(dir, &path, look);
        }
    }
}

fn rewrite(
    dir: &Dir,
    path: &Path,
    name: &dyn Fn(&OsStr) -> OsString,
    node: &dyn Fn(&Path, &Node) -> Node,
) -> Dir {
    let child = |(old, child): (&OsString, &Node)| {
        let path = path.join(old);
        let child = match child {
            Node::Dir(dir) => Node::Dir(rewrite(dir, &path, name, node)),
            other => node(&path, other),
        };
        (name(old), child)
    };
    Dir { complete: dir.complete, children: dir.children.iter().map(child).collect() }
}

/// The directory that a node on the way to something deeper must be.
fn below(node: &Node) -> Answer<&Dir> {
    match node {
        Node::Dir(dir) => Ok(dir),
        Node::Skipped => Err(Refusal::NeverTried),
        Node::Fail(errno) => Err(Refusal::Errno(*errno)),
        Node::Link(_) | Node::File(_) | Node::Char { .. } => Err(Refusal::Errno(Errno::NOTDIR)),
    }
}

fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|c| match c {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
