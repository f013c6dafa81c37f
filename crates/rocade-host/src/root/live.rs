//! The live filling: system calls below a directory, and netlink sockets. Holds no state of the host.

use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netlink_sys::protocols::{NETLINK_RDMA, NETLINK_ROUTE};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, SeekFrom};
use rustix::io::Errno as Raw;

use super::near::{Near, split};
use super::patience::{Asking, Watch};
use super::{Answer, Refusal, Stat};
use crate::errno::Errno;
use crate::netlink::{
    Address, DcbRecord, HealthRecord, Link, PauseRecord, RdmaDevice, RdmaPort, RdmaSystem, RouteRecord,
    RuleRecord, dcb, generic, rdma, route, route_table, socket,
};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

#[derive(Debug)]
pub(super) struct Live {
    prefix: PathBuf,
    /// With a prefix: the kernel must be told that links end at it and not at `/`.
    confined: Option<Arc<OwnedFd>>,
    /// Who waits for this reading, if anyone does.
    watch: Option<Arc<Watch>>,
    near: Option<Near>,
}

impl Live {
    pub(super) fn open(prefix: &Path) -> Result<Live, Raw> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let confined = match prefix == Path::new("/") {
            true => None,
            false => Some(Arc::new(rustix::fs::open(prefix, flags, Mode::empty())?)),
        };
        Ok(Live { prefix: prefix.to_owned(), confined, watch: None, near: None })
    }

    /// The path with the prefix.
    pub(super) fn local(&self, path: &Path) -> PathBuf {
        self.prefix.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The same host for one reading, which somebody may wait for.
    pub(super) fn for_one_reading(&self, watch: Option<&Arc<Watch>>) -> Live {
        Live {
            prefix: self.prefix.clone(),
            confined: self.confined.clone(),
            watch: watch.cloned(),
            near: Some(Near::default()),
        }
    }

    /// Before the kernel is asked for a path.
    fn ask(&self, path: &Path) -> Answer<Option<Asking<'_>>> {
        self.watch.as_ref().map(|watch| watch.ask(path)).transpose()
    }

    pub(super) fn read(&self, path: &Path) -> Answer<Vec<u8>> {
        let _asking = self.ask(path)?;
        let fd = self.open_at(path, OFlags::RDONLY | OFlags::NOCTTY)?;
        let mut content = Vec::new();
        // A page holds any sysfs attribute. It is not cleared first: that would take longer than the reading.
        let mut page = [MaybeUninit::uninit(); 4096];
        let ends_short = comes_whole(path.as_os_str().as_bytes());
        loop {
            match rustix::io::read(&fd, &mut page) {
                Ok(([], _)) => return Ok(content),
                Ok((part, rest)) => {
                    content.extend_from_slice(part);
                    if ends_short && !rest.is_empty() {
                        return Ok(content);
                    }
                }
                Err(Raw::INTR) => {}
                Err(errno) => return Err(refused(errno)),
            }
        }
    }

    pub(super) fn list(&self, path: &Path) -> Answer<Vec<OsString>> {
        let _asking = self.ask(path)?;
        let mut is_new = self.near.is_none();
        let dir = match &self.near {
            Some(near) => near.get(path, |dir| {
                is_new = true;
                self.open_whole(dir, DIRECTORY)
            }),
            None => self.open_whole(path, DIRECTORY).map(Arc::new),
        }
        .map_err(refused)?;
        if !is_new {
            // It may have been listed before.
            rustix::fs::seek(&dir, SeekFrom::Start(0)).map_err(refused)?;
        }
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut entries = RawDir::new(&dir, &mut buffer);
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let name = entry.map_err(refused)?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    pub(super) fn link(&self, path: &Path) -> Answer<PathBuf> {
        let _asking = self.ask(path)?;
        let target = match (self.at_hand(path).map_err(refused)?, &self.confined) {
            (Some((dir, name)), _) => rustix::fs::readlinkat(&dir, name, Vec::new()),
            // An empty path reads the link that the descriptor itself stands for (readlinkat(2)).
            (None, Some(_)) => {
                let fd = self.open_whole(path, OFlags::PATH | OFlags::NOFOLLOW).map_err(refused)?;
                // What the descriptor of something else than a link answers is ENOENT.
                rustix::fs::readlinkat(&fd, "", Vec::new()).map_err(|errno| match errno {
                    Raw::NOENT => Raw::INVAL,
                    other => other,
                })
            }
            (None, None) => rustix::fs::readlink(path, Vec::new()),
        };
        target.map(|target| PathBuf::from(OsString::from_vec(target.into_bytes()))).map_err(refused)
    }

    pub(super) fn stat(&self, path: &Path) -> Answer<Stat> {
        let _asking = self.ask(path)?;
        let near = match self.at_hand(path).map_err(refused)? {
            Some((dir, name)) => {
                Some(rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(refused)?)
            }
            None => None,
        };
        let is_link = |mode| FileType::from_raw_mode(mode) == FileType::Symlink;
        let stat = match near.filter(|stat| !is_link(stat.st_mode)) {
            Some(stat) => stat,
            None => {
                let fd = self.open_whole(path, OFlags::PATH).map_err(refused)?;
                rustix::fs::statat(&fd, "", AtFlags::EMPTY_PATH).map_err(refused)?
            }
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Stat::Dir,
            FileType::CharacterDevice => Stat::Char {
                major: rustix::fs::major(stat.st_rdev),
                minor: rustix::fs::minor(stat.st_rdev),
                mode: (stat.st_mode & 0o7777) as u16,
            },
            _ => Stat::Other,
        })
    }

    /// A question of a socket; the path is what it is called where it does not answer.
    pub(super) fn watched<T>(&self, path: &str, question: impl FnOnce() -> Answer<T>) -> Answer<T> {
        let _asking = self.ask(Path::new(path))?;
        question()
    }

    /// The directory that a path lies in and its name there, in a reading that keeps directories.
    fn at_hand<'a>(&self, path: &'a Path) -> Result<Option<(Arc<OwnedFd>, &'a Path)>, Raw> {
        let (Some(near), Some((dir, name))) = (&self.near, split(path)) else { return Ok(None) };
        match near.get(dir, |dir| self.open_whole(dir, DIRECTORY)) {
            Ok(dir) => Ok(Some((dir, name))),
            // A directory that may be gone through, but not listed.
            Err(Raw::ACCESS) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Opens a file; one that is a link is looked up from the top, where links are kept inside.
    fn open_at(&self, path: &Path, flags: OFlags) -> Answer<OwnedFd> {
        if let Some((dir, name)) = self.at_hand(path).map_err(refused)? {
            let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(&dir, name, flags, Mode::empty()) {
                Err(Raw::LOOP) => {}
                opened => return opened.map_err(refused),
            }
        }
        self.open_whole(path, flags).map_err(refused)
    }

    fn open_whole(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Raw> {
        let flags = flags | OFlags::CLOEXEC;
        let Some(top) = &self.confined else {
            return rustix::fs::open(path, flags, Mode::empty());
        };
        let inside = below(path);
        match rustix::fs::openat2(top, inside, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            // Before Linux 5.6, and under seccomp profiles that do not know the call.
            Err(Raw::NOSYS | Raw::PERM) => rustix::fs::openat(top, inside, flags, Mode::empty()),
            opened => opened,
        }
    }
}

/// Whether the kernel gives all of a file with one read that is short of a page: sysfs and sysctl make an attribute at
/// once, and so do these files of a process. Other files of procfs may be read short in their midst.
fn comes_whole(path: &[u8]) -> bool {
    let of_process = |file: &[u8]| file == b"environ" || file == b"limits" || file == b"status";
    path.starts_with(b"/sys/")
        || path.starts_with(b"/proc/sys/")
        || path.strip_prefix(b"/proc/self/").is_some_and(of_process)
}

/// The path as seen from the root directory's descriptor.
fn below(path: &Path) -> &Path {
    match path.strip_prefix("/").unwrap_or(path) {
        inside if inside.as_os_str().as_bytes().is_empty() => Path::new("."),
        inside => inside,
    }
}

fn refused(errno: Raw) -> Refusal {
    Refusal::Errno(errno.into())
}

pub(super) fn rdma_system() -> Answer<RdmaSystem> {
    let mut replies = socket::ask(NETLINK_RDMA, rdma::system_request(), rdma::parse_system)?;
    replies.pop().ok_or(Refusal::Garbled)
}

pub(super) fn rdma_devices() -> Answer<Vec<RdmaDevice>> {
    socket::ask(NETLINK_RDMA, rdma::devices_request(), rdma::parse_device)
}

/// One dump a device: the kernel has none over all. A device that goes in between has no ports.
pub(super) fn rdma_ports() -> Answer<Vec<RdmaPort>> {
    let ports = rdma_devices()?
        .into_iter()
        .map(|device| socket::ask(NETLINK_RDMA, rdma::ports_request(device.index), rdma::parse_port));
    let mut all = Vec::new();
    for ports in ports {
        match ports {
            Ok(ports) => all.extend(ports),
            Err(Refusal::Errno(_)) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(all)
}

pub(super) fn links() -> Answer<Vec<Link>> {
    let mut links = socket::ask(NETLINK_ROUTE, route::links_request(), route::parse_link)?;
    links.sort_by_key(|link| link.index);
    Ok(links)
}

pub(super) fn addresses() -> Answer<Vec<Address>> {
    socket::ask(NETLINK_ROUTE, route::addresses_request(), route::parse_address)
}

pub(super) fn routes() -> Answer<Vec<RouteRecord>> {
    let routes = socket::ask(NETLINK_ROUTE, route_table::routes_request(), route_table::parse_route)?;
    Ok(routes.concat())
}

pub(super) fn rules() -> Answer<Vec<RuleRecord>> {
    Ok(socket::ask(NETLINK_ROUTE, route_table::rules_request(), route_table::parse_rule)?.concat())
}

/// One question an interface: the kernel has no dump. Most interfaces know nothing of it.
pub(super) fn dcb() -> Answer<Vec<DcbRecord>> {
    let mut all = Vec::new();
    for link in links()?.into_iter().filter(|link| link.kind.is_none() && link.link_type == route::ETHERNET) {
        match socket::ask(NETLINK_ROUTE, dcb::dcb_request(&link.name), dcb::parse_dcb) {
            Ok(records) => all.extend(records),
            Err(Refusal::Errno(Errno::OPNOTSUPP | Errno::NODEV)) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(all)
}

/// Generic netlink (include/uapi/linux/netlink.h).
const NETLINK_GENERIC: isize = 16;

pub(super) fn pauses() -> Answer<Vec<PauseRecord>> {
    socket::ask(NETLINK_GENERIC, generic::pauses_request(family("ethtool")?), generic::parse_pause)
}

pub(super) fn health() -> Answer<Vec<HealthRecord>> {
    socket::ask(NETLINK_GENERIC, generic::health_request(family("devlink")?), generic::parse_health)
}

/// Number of a generic netlink family; ENOENT where the kernel has not got it.
fn family(name: &str) -> Answer<u16> {
    let families = socket::ask(NETLINK_GENERIC, generic::family_request(name), generic::parse_family)?;
    families.first().copied().ok_or(Refusal::Garbled)
}
