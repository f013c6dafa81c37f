//! The seam between rocade and a host: a few verbs, answered by a live system or by a recorded one. What is
//! above it cannot tell which. It judges nothing and writes nothing.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::archive::Archive;
use crate::errno::Errno;
use crate::error::Error;
use crate::ethtool;
use crate::events::{EventSocket, Source};
use crate::netlink::socket;
use crate::netlink::{
    Address, DcbRecord, HealthRecord, Link, PauseRecord, PodRecord, RdmaDevice, RdmaPort, RdmaSystem,
    RouteRecord, RuleRecord,
};

mod live;
mod near;
mod patience;

pub use patience::{Patience, read_patiently};

/// How many links one path may lead through (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The kernel's answer.
    Errno(Errno),
    /// The recording does not hold it; whether it was there is not known.
    NeverTried,
    /// A netlink reply that could not be decoded.
    Garbled,
}

impl Refusal {
    /// Known not to exist, as against unreadable or unknown.
    pub fn is_absent(self) -> bool {
        self == Refusal::Errno(Errno::NOENT)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Errno(errno) => fmt::Display::fmt(errno, f),
            Refusal::NeverTried => f.pad("not recorded"),
            Refusal::Garbled => f.pad("undecodable reply"),
        }
    }
}

/// A value, or why there is none.
pub type Answer<T> = Result<T, Refusal>;

/// What kind of file lies at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stat {
    /// A directory.
    Dir,
    /// A character device.
    Char {
        /// Number of the device.
        major: u32,
        /// Number of the device.
        minor: u32,
        /// Permission bits.
        mode: u16,
    },
    /// A regular file, or anything else.
    Other,
}

/// A host to read. Paths are absolute (`/sys/class/infiniband`) and lead through links that never leave the root.
#[derive(Debug)]
pub struct Root(Filling);

#[derive(Debug)]
enum Filling {
    Live(live::Live),
    Recorded(Box<Archive>),
}

impl Root {
    /// This system, with `prefix` before each path: `/`, or where a container mounts the host's file systems.
    /// Netlink is that of the calling process's network namespace.
    pub fn live(prefix: impl Into<PathBuf>) -> Result<Root, Error> {
        let prefix = prefix.into();
        match live::Live::open(&prefix) {
            Ok(live) => Ok(Root(Filling::Live(live))),
            Err(source) => Err(Error::OpenRoot { path: prefix, source: source.into() }),
        }
    }

    /// A recorded host, from the text of its archive; `name` is what errors call it.
    pub fn recorded(name: impl Into<PathBuf>, text: &[u8]) -> Result<Root, Error> {
        Archive::parse(text).map(Root::from).map_err(|wrong| Error::Snapshot {
            path: name.into(),
            line: wrong.line,
            source: wrong,
        })
    }

    /// A recorded host, from the file of its archive.
    pub fn open(path: impl AsRef<Path>) -> Result<Root, Error> {
        let path = path.as_ref();
        let text = fs::read(path).map_err(|source| Error::Read { path: path.into(), source })?;
        Root::recorded(path, &text)
    }

    /// The same host for one reading in this thread, with the directories that it is at kept open; nobody waits for it.
    /// None where nothing is to be kept.
    pub fn at_once(&self) -> Option<Root> {
        match &self.0 {
            Filling::Live(live) => Some(Root(Filling::Live(live.for_one_reading(None)))),
            Filling::Recorded(_) => None,
        }
    }

    /// Content of a file.
    pub fn read(&self, path: impl AsRef<Path>) -> Answer<Vec<u8>> {
        match &self.0 {
            Filling::Live(live) => live.read(path.as_ref()),
            Filling::Recorded(archive) => archive.read(&self.realpath(path)?),
        }
    }

    /// Names in a directory, sorted.
    pub fn list(&self, path: impl AsRef<Path>) -> Answer<Vec<OsString>> {
        match &self.0 {
            Filling::Live(live) => live.list(path.as_ref()),
            Filling::Recorded(archive) => archive.list(&self.realpath(path)?),
        }
    }

    /// Target of a symbolic link as it is written; EINVAL where the path is none.
    pub fn link(&self, path: impl AsRef<Path>) -> Answer<PathBuf> {
        let path = path.as_ref();
        match (&self.0, path.parent(), path.file_name()) {
            (Filling::Live(live), ..) => live.link(path),
            (Filling::Recorded(archive), Some(dir), Some(name)) => {
                archive.link(&self.realpath(dir)?.join(name))
            }
            _ => Err(Refusal::Errno(Errno::INVAL)),
        }
    }

    /// What the path leads to, through links.
    pub fn stat(&self, path: impl AsRef<Path>) -> Answer<Stat> {
        match &self.0 {
            Filling::Live(live) => live.stat(path.as_ref()),
            Filling::Recorded(archive) => archive.stat(&self.realpath(path)?),
        }
    }

    /// The path without links and dots. Only links are looked up: that the end exists is not said.
    pub fn realpath(&self, path: impl AsRef<Path>) -> Answer<PathBuf> {
        let one = |path: &Path| match &self.0 {
            Filling::Live(live) => live.link(path),
            Filling::Recorded(archive) => archive.link(path),
        };
        resolve(path.as_ref(), one)
    }

    /// Where the link of that name in a class directory leads: `realpath` for the price of one look, since the kernel's
    /// links lead straight to a device's directory.
    pub fn member(&self, class: impl AsRef<Path>, name: impl AsRef<Path>) -> Answer<PathBuf> {
        let class = class.as_ref();
        match self.link(class.join(&name)) {
            Ok(target) => resolve(&class.join(target), |_| Err(Refusal::Errno(Errno::INVAL))),
            Err(Refusal::Errno(Errno::INVAL)) => Ok(class.join(name)),
            Err(refusal) => Err(refusal),
        }
    }

    /// What the host tells unasked; a recorded one tells nothing.
    pub fn events(&self, source: Source) -> Answer<EventSocket> {
        match &self.0 {
            Filling::Live(_) => EventSocket::open(source).map_err(socket::refused),
            Filling::Recorded(_) => Err(Refusal::NeverTried),
        }
    }

    /// Where this process finds a path of the host, to watch it; None where there is nothing that could change.
    pub fn local(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        match &self.0 {
            Filling::Live(live) => Some(live.local(path.as_ref())),
            Filling::Recorded(_) => None,
        }
    }

    /// Settings of the RDMA subsystem; EPROTONOSUPPORT where the kernel has none.
    pub fn rdma_system(&self) -> Answer<RdmaSystem> {
        match &self.0 {
            Filling::Live(live) => live.watched("/netlink/rdma-system", live::rdma_system),
            Filling::Recorded(archive) => archive.netlink.rdma_system.answer(),
        }
    }

    /// The RDMA devices of this network namespace.
    pub fn rdma_devices(&self) -> Answer<Vec<RdmaDevice>> {
        match &self.0 {
            Filling::Live(live) => live.watched("/netlink/rdma-devices", live::rdma_devices),
            Filling::Recorded(archive) => archive.netlink.rdma_devices.answer(),
        }
    }

    /// Their ports.
    pub fn rdma_ports(&self) -> Answer<Vec<RdmaPort>> {
        match &self.0 {
            Filling::Live(live) => live.watched("/netlink/rdma-ports", live::rdma_ports),
            Filling::Recorded(archive) => archive.netlink.rdma_ports.answer(),
        }
    }

    /// The network interfaces of this network namespace.
    pub fn links(&self) -> Answer<Vec<Link>> {
        match &self.0 {
            Filling::Live(live) => live.watched("/netlink/links", live::links),
            Filling::Recorded(archive) => archive.netlink.links.answer(),
        }
    }

    /// Their addresses.
    pub fn addresses(&self) -> Answer<Vec<Address>> {
        match &self.0 {
            Filling::Live(live) => live.watched("/netlink/addresses", live::addresses),
            Filling::Recorded(archive) => archive.netlink.addresses.answer(),
        }
    }

    /// The routes of all tables.
    pub fn routes(&self) -> Answer<Vec<RouteRecord>> {
        match &self.0 {
            Filling::Live(live) => live.watched("/netlink/routes", live::routes),
            Filling::Recorded(archive) => archive.netlink.routes.answer(),
        }
    }

    /// The rules that choose among them.
    pub fn rules(&self) -> Answer<Vec<RuleRecord>> {
        match &self.0 {
            Filling::Live(live) => live.watched("/netlink/rules", live::rules),
            Filling::Recorded(archive) => archive.netlink.rules.answer(),
        }
    }

    /// Data centre bridging of the interfaces that have it; refused outside the first network namespace.
    pub fn dcb(&self) -> Answer<Vec<DcbRecord>> {
        match &self.0 {
            Filling::Live(live) => live.watched("/netlink/dcb", live::dcb),
            Filling::Recorded(archive) => archive.netlink.dcb.answer(),
        }
    }

    /// Pause frames of the interfaces that count them.
    pub fn pauses(&self) -> Answer<Vec<PauseRecord>> {
        match &self.0 {
            Filling::Live(live) => live.watched("/netlink/pauses", live::pauses),
            Filling::Recorded(archive) => archive.netlink.pauses.answer(),
        }
    }

    /// Health reporters of the devices that have them; ENOENT where the kernel has no devlink.
    pub fn health(&self) -> Answer<Vec<HealthRecord>> {
        match &self.0 {
            Filling::Live(live) => live.watched("/netlink/health", live::health),
            Filling::Recorded(archive) => archive.netlink.health.answer(),
        }
    }

    /// What the driver of an interface of this network namespace counts of trouble (`ethtool -S`), name → value: see
    /// `decode_statistics`. EOPNOTSUPP where it has no statistics.
    pub fn statistics(&self, netdev: &str) -> Answer<BTreeMap<String, u64>> {
        match &self.0 {
            // The last part is what is given up everywhere once the patience is over.
            Filling::Live(live) => {
                live.watched(&format!("/ethtool/{netdev}/statistics"), || ethtool::read_statistics(netdev))
            }
            Filling::Recorded(archive) => {
                let record = archive.statistics.iter().find(|record| record.netdev == netdev);
                record.map_or(Err(Refusal::NeverTried), |record| record.answer())
            }
        }
    }

    /// What the cluster knows of the Pod that this is the inside of: only a recording can hold it.
    pub fn pod(&self) -> Answer<PodRecord> {
        match &self.0 {
            Filling::Live(_) => Err(Refusal::NeverTried),
            Filling::Recorded(archive) => archive.pod.clone().ok_or(Refusal::NeverTried),
        }
    }
}

impl From<Archive> for Root {
    fn from(archive: Archive) -> Self {
        Root(Filling::Recorded(Box::new(archive)))
    }
}

/// Walks a path component by component. A component that is known not to be a link, or about which nothing is
/// known, stands for itself: the verb that uses the path then says what is wrong with it.
fn resolve(path: &Path, link: impl Fn(&Path) -> Answer<PathBuf>) -> Answer<PathBuf> {
    let mut real = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = parts(path);
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            real.pop();
            continue;
        }
        real.push(&part);
        let Ok(target) = link(&real) else { continue };
        links += 1;
        if links > MAX_LINKS {
            return Err(Refusal::Errno(Errno::LOOP));
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        } else {
            real.pop();
        }
        for part in parts(&target).into_iter().rev() {
            rest.push_front(part);
        }
    }
    Ok(real)
}

/// The names of a path and its `..`; roots and single dots say nothing here.
fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |c| match c {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links<'a>(table: &'a [(&'a str, &'a str)]) -> impl Fn(&Path) -> Answer<PathBuf> + 'a {
        |path| match table.iter().find(|(from, _)| Path::new(from) == path) {
            Some((_, to)) => Ok(PathBuf::from(to)),
            None => Err(Refusal::Errno(Errno::INVAL)),
        }
    }

    #[test]
    fn a_link_that_climbs_above_its_target_stays_inside_the_root() {
        let table = [
            ("/sys/class/c/a", "../../devices/pci/a"),
            ("/sys/devices/pci/a/device", "../../pci"),
            ("/x", "../../../y"),
        ];
        let real = |path| resolve(Path::new(path), links(&table)).unwrap();
        assert_eq!(real("/sys/class/c/a/ports"), Path::new("/sys/devices/pci/a/ports"));
        assert_eq!(real("/sys/class/c/a/device"), Path::new("/sys/devices/pci"));
        assert_eq!(real("/x"), Path::new("/y"));
    }

    #[test]
    fn a_loop_of_links_ends_with_eloop() {
        let table = [("/a", "b"), ("/b", "/a")];
        let answer = resolve(Path::new("/a/c"), links(&table));
        assert_eq!(answer, Err(Refusal::Errno(Errno::LOOP)));
    }
}
