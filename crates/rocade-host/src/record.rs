//! What a recording takes of a host: everything that `read_host` reads, and what stands around it cheaply. Reads
//! through `Root` alone, so a recording can be recorded again; decides nothing about what it means.

use std::ffi::OsStr;
use std::path::Path;

use crate::archive::{Archive, Dump, Node};
use crate::pci::DEVICES;
use crate::root::{Refusal, Root, Stat};
use crate::statistics;
use crate::surroundings::{self, boot, is_accelerator, pod, providers, settings, storage};

/// Classes whose members are taken whole.
const RDMA_CLASSES: &[&str] =
    &["/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad"];
/// Directories that say nothing about RDMA but are large or always moving.
const NOT_TAKEN: &[&str] = &["power", "statistics", "queues"];
/// Attributes of a device that are safe and cheap to read: others map memory, reset or remove it.
const DEVICE_FILES: &[&str] = &[
    "class",
    "current_link_speed",
    "current_link_width",
    "device",
    "local_cpulist",
    "max_link_speed",
    "max_link_width",
    "numa_node",
    "revision",
    "sfnum",
    "sriov_numvfs",
    "sriov_totalvfs",
    "subsystem_device",
    "subsystem_vendor",
    "uevent",
    "vendor",
];
/// Attributes that cost more, of HCAs, accelerators and what is above them.
const SLOW_FILES: &[&str] = &["config", "vpd"];
/// Single files.
const FILES: &[&str] = &[
    "/proc/version",
    "/proc/cmdline",
    "/proc/driver/nvidia/version",
    "/proc/modules",
    "/proc/self/limits",
    "/proc/net/route",
    "/proc/net/if_inet6",
    "/proc/net/vlan/config",
    "/sys/class/dmi/id/product_name",
    "/sys/class/dmi/id/sys_vendor",
    boot::HOSTNAME,
    pod::ANNOTATIONS,
];
/// The part of a file that is kept.
type Keep = fn(&[u8]) -> Vec<u8>;

/// Files of which only what is read is kept: the rest may be secret.
const FILTERED: &[(&str, Keep)] = &[
    (pod::ENVIRONMENT, pod::keep_variables),
    (storage::MOUNTS, storage::keep_remote_mounts),
    (surroundings::KUBELET, surroundings::keep_server),
];
/// Whole directories.
const TREES: &[&str] = &[
    "/proc/net/bonding",
    "/sys/kernel/config/rdma_cm",
    "/sys/kernel/mm/memory_peers",
    "/dev/infiniband",
    providers::CONFIGURATION,
];
/// Directories of directories, and the files that are taken of each of these.
const TABLES: &[(&str, &[&str])] = &[
    ("/proc/sys/net/ipv4/conf", settings::INTERFACE_SETTINGS),
    ("/sys/devices/system/cpu/cpufreq", &["scaling_governor"]),
    ("/sys/kernel/iommu_groups", &["type"]),
    ("/sys/module", &["taint", "version"]),
];
/// Modules whose parameters are taken.
const MODULES: &[&str] = &["ib_core", "mlx4_core", "mlx5_core", "rdma_rxe", "nvidia"];
/// Directories below that are as deep as a recording follows, links not counted.
const MAX_DEPTH: usize = 12;

/// Records a host.
pub fn record(root: &Root) -> Archive {
    let mut recorder = Recorder { root, archive: Archive::default() };
    for class in RDMA_CLASSES {
        recorder.take_members(class, true, &|recorder, member| recorder.take_tree(member, MAX_DEPTH));
    }
    recorder.take_link("/sys/class/misc/rdma_cm");
    recorder.take_accelerators();
    recorder.take_members("/sys/class/net", false, &|recorder, member| recorder.take_tree(member, MAX_DEPTH));
    recorder.take_members(storage::NVME, false, &|recorder, member| {
        recorder.take_entries(member, 0, &|name| storage::NVME_FILES.iter().any(|file| name == *file));
    });
    recorder.take_members(DEVICES, false, &|recorder, member| recorder.take_device(member, false));
    recorder.take_tables();
    recorder.take_parameters();
    for file in FILES {
        recorder.take(Path::new(file), 0);
    }
    for setting in settings::SETTINGS {
        recorder.take(&Path::new("/proc/sys").join(setting), 0);
    }
    for (file, keep) in FILTERED {
        recorder.take_filtered(Path::new(file), *keep);
    }
    recorder.take_options();
    for tree in TREES {
        recorder.take(Path::new(tree), MAX_DEPTH);
    }
    recorder.take_answers();
    recorder.archive
}

struct Recorder<'a> {
    root: &'a Root,
    archive: Archive,
}

impl Recorder<'_> {
    /// A directory of links, the devices that they lead to, and the devices above those.
    fn take_members(&mut self, class: &str, slow: bool, take: &dyn Fn(&mut Self, &Path)) {
        self.take(Path::new(class), 1);
        for name in self.root.list(class).unwrap_or_default() {
            if let Ok(member) = self.root.realpath(Path::new(class).join(name)) {
                self.take_member(&member, slow, take);
            }
        }
    }

    fn take_link(&mut self, link: &str) {
        self.take(Path::new(link), 0);
        if let Ok(member) = self.root.realpath(link) {
            self.take_member(&member, false, &|recorder, member| recorder.take_tree(member, MAX_DEPTH));
        }
    }

    fn take_accelerators(&mut self) {
        for name in self.root.list(DEVICES).unwrap_or_default() {
            let member = self.root.realpath(Path::new(DEVICES).join(&name));
            if let (true, Ok(member)) = (is_accelerator(self.root, &name), member) {
                self.take_member(&member, true, &|recorder, member| recorder.take_device(member, true));
            }
        }
    }

    fn take_member(&mut self, member: &Path, slow: bool, take: &dyn Fn(&mut Self, &Path)) {
        if !member.starts_with("/sys/devices") || self.root.list(member).is_err() {
            return;
        }
        for above in member.ancestors().skip(1).take_while(|above| *above != Path::new("/sys/devices")) {
            self.take_device(above, slow);
        }
        take(self, member);
    }

    /// A device's own attributes; what lies below it stays skipped until it is taken itself.
    fn take_device(&mut self, device: &Path, slow: bool) {
        if !self.archive.is_listed(device) {
            let is_taken = |name: &OsStr| {
                DEVICE_FILES.iter().chain(SLOW_FILES.iter().filter(|_| slow)).any(|file| name == *file)
            };
            self.take_entries(device, 0, &is_taken);
        }
    }

    fn take_tree(&mut self, dir: &Path, depth: usize) {
        let is_taken = |name: &OsStr| !NOT_TAKEN.iter().any(|file| name == *file);
        self.take_entries(dir, depth, &is_taken);
    }

    fn take_tables(&mut self) {
        for (table, files) in TABLES {
            let table = Path::new(table);
            self.take(table, 1);
            for name in self.root.list(table).unwrap_or_default() {
                self.take_entries(&table.join(&name), 0, &|name| files.iter().any(|file| name == *file));
            }
        }
    }

    fn take_parameters(&mut self) {
        for module in MODULES.iter().map(|module| Path::new("/sys/module").join(module)) {
            if self.root.list(&module).is_ok() {
                self.take(&module.join("parameters"), 1);
            }
        }
    }

    fn take_options(&mut self) {
        let dir = Path::new(boot::MODPROBE);
        self.take_entries(dir, 0, &|_| false);
        for name in self.root.list(dir).unwrap_or_default() {
            self.take_filtered(&dir.join(name), boot::keep_ib_core);
        }
    }

    fn take_filtered(&mut self, file: &Path, keep: Keep) {
        match self.root.read(file) {
            Ok(content) => drop(self.archive.put(file, Node::File(keep(&content)))),
            Err(_) => self.take(file, 0),
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

    /// What is no file.
    fn take_answers(&mut self) {
        let netlink = &mut self.archive.netlink;
        netlink.rdma_system = Dump::from(self.root.rdma_system());
        netlink.rdma_devices = Dump::from(self.root.rdma_devices());
        netlink.rdma_ports = Dump::from(self.root.rdma_ports());
        netlink.links = Dump::from(self.root.links());
        netlink.addresses = Dump::from(self.root.addresses());
        netlink.routes = Dump::from(self.root.routes());
        netlink.rules = Dump::from(self.root.rules());
        netlink.dcb = Dump::from(self.root.dcb());
        netlink.pauses = Dump::from(self.root.pauses());
        netlink.health = Dump::from(self.root.health());
        self.archive.statistics = statistics::record(self.root);
        self.archive.pod = self.root.pod().ok();
    }
}
