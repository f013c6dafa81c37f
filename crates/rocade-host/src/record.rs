//! What a recording takes of a host: everything that `read_host` reads, and what stands around it cheaply. Reads
//! through `Root` alone, so a recording can be recorded again; decides nothing about what it means.

use std::ffi::OsStr;
use std::path::Path;

use crate::archive::{Archive, Dump, Node};
use crate::root::{Refusal, Root, Stat};

/// Classes whose members are taken whole.
const CLASSES: &[&str] =
    &["/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad", "/sys/class/net"];
/// Directories that say nothing about RDMA but are large or always moving.
const NOT_TAKEN: &[&str] = &["power", "statistics", "queues"];
/// Attributes of a device that are safe and cheap to read: others map memory, reset or remove it.
const DEVICE_FILES: &[&str] = &[
    "class",
    "config",
    "current_link_speed",
    "current_link_width",
    "device",
    "local_cpulist",
    "max_link_speed",
    "max_link_width",
    "numa_node",
    "revision",
    "sriov_numvfs",
    "sriov_totalvfs",
    "subsystem_device",
    "subsystem_vendor",
    "uevent",
    "vendor",
    "vpd",
];
/// Single files.
const FILES: &[&str] = &[
    "/proc/version",
    "/proc/cmdline",
    "/proc/self/limits",
    "/proc/net/route",
    "/proc/net/if_inet6",
    "/proc/net/vlan/config",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/vm/zone_reclaim_mode",
];
/// Whole directories.
const TREES: &[&str] = &["/proc/net/bonding", "/sys/kernel/config/rdma_cm", "/dev/infiniband"];
/// Modules whose parameters are taken.
const MODULES: &[&str] = &["ib_core", "mlx4_core", "mlx5_core", "rdma_rxe", "nvidia"];
/// Directories below that are as deep as a recording follows, links not counted.
const MAX_DEPTH: usize = 12;

/// Records a host.
pub fn record(root: &Root) -> Archive {
    let mut recorder = Recorder { root, archive: Archive::default() };
    for class in CLASSES {
        recorder.take_members(class, &|recorder, member| recorder.take_tree(member, MAX_DEPTH));
    }
    recorder.take_link("/sys/class/misc/rdma_cm");
    recorder.take_members("/sys/bus/pci/devices", &Recorder::take_device);
    recorder.take_modules();
    for file in FILES {
        recorder.take(Path::new(file), 0);
    }
    for tree in TREES {
        recorder.take(Path::new(tree), MAX_DEPTH);
    }
    recorder.take_netlink();
    recorder.archive
}

struct Recorder<'a> {
    root: &'a Root,
    archive: Archive,
}

impl Recorder<'_> {
    /// A directory of links, the devices that they lead to, and the devices above those.
    fn take_members(&mut self, class: &str, take: &dyn Fn(&mut Self, &Path)) {
        self.take(Path::new(class), 1);
        for name in self.root.list(class).unwrap_or_default() {
            if let Ok(member) = self.root.realpath(Path::new(class).join(name)) {
                self.take_member(&member, take);
            }
        }
    }

    fn take_link(&mut self, link: &str) {
        self.take(Path::new(link), 0);
        if let Ok(member) = self.root.realpath(link) {
            self.take_member(&member, &|recorder, member| recorder.take_tree(member, MAX_DEPTH));
        }
    }

    fn take_member(&mut self, member: &Path, take: &dyn Fn(&mut Self, &Path)) {
        if !member.starts_with("/sys/devices") || self.root.list(member).is_err() {
            return;
        }
        for above in member.ancestors().skip(1).take_while(|above| *above != Path::new("/sys/devices")) {
            self.take_device(above);
        }
        take(self, member);
    }

    /// A device's own attributes; what lies below it stays skipped until it is taken itself.
    fn take_device(&mut self, device: &Path) {
        if !self.archive.is_listed(device) {
            let is_taken = |name: &OsStr| DEVICE_FILES.iter().any(|file| name == *file);
            self.take_entries(device, 0, &is_taken);
        }
    }

    fn take_tree(&mut self, dir: &Path, depth: usize) {
        let is_taken = |name: &OsStr| !NOT_TAKEN.iter().any(|file| name == *file);
        self.take_entries(dir, depth, &is_taken);
    }

    fn take_modules(&mut self) {
        let modules = Path::new("/sys/module");
        self.take(modules, 1);
        for name in self.root.list(modules).unwrap_or_default() {
            let module = modules.join(&name);
            self.take_entries(&module, 0, &|file| file == "version");
            if MODULES.iter().any(|module| name == *module) {
                self.take(&module.join("parameters"), 1);
            }
        }
    }

    /// Links are taken whatever their name: they cost nothing and tell how things hang together.
    fn take_entries(&mut self, dir: &Path, depth: usize, is_taken: &dyn Fn(&OsStr) -> bool) {
        let Ok(names) = self.root.list(dir) else {
            self.take(dir, 0);
            return;
        };
        self.archive.put_dir(dir, true);
        for name in names {
            let path = dir.join(&name);
            if is_taken(&name) || self.root.link(&path).is_ok() {
                self.take(&path, depth);
            } else {
                self.archive.put(&path, Node::Skipped);
            }
        }
    }

    /// One thing as it is; a directory with what is in it, down to `depth` directories below.
    fn take(&mut self, path: &Path, depth: usize) {
        let node = match (self.root.link(path), self.root.stat(path)) {
            (Ok(target), _) => Node::Link(target),
            (_, Ok(Stat::Dir)) => return self.take_dir(path, depth),
            (_, Ok(Stat::Char { major, minor, mode })) => Node::Char { major, minor, mode },
            _ => match self.root.read(path) {
                Ok(content) => Node::File(content),
                Err(Refusal::Errno(errno)) => Node::Fail(errno),
                Err(Refusal::NeverTried | Refusal::Garbled) => Node::Skipped,
            },
        };
        self.archive.put(path, node);
    }

    fn take_dir(&mut self, path: &Path, depth: usize) {
        match (depth, self.root.list(path)) {
            (_, Err(Refusal::Errno(errno))) => drop(self.archive.put(path, Node::Fail(errno))),
            (_, Err(_)) => drop(self.archive.put(path, Node::Skipped)),
            (0, Ok(_)) => drop(self.archive.put(path, Node::Skipped)),
            (depth, Ok(_)) => self.take_tree(path, depth - 1),
        }
    }

    fn take_netlink(&mut self) {
        let netlink = &mut self.archive.netlink;
        netlink.rdma_system = Dump::from(self.root.rdma_system());
        netlink.rdma_devices = Dump::from(self.root.rdma_devices());
        netlink.rdma_ports = Dump::from(self.root.rdma_ports());
        netlink.links = Dump::from(self.root.links());
        netlink.addresses = Dump::from(self.root.addresses());
    }
}
