//! A live host made of files, whose driver comes and goes: one InfiniBand HCA in sysfs and its char device. The device
//! is the one that anybody may make, number 0:0, as overlayfs does for files that are gone (mknod(2)).

use std::fs;
use std::path::{Path, PathBuf};

use rocade_host::Root;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

/// The host; its files are the caller's.
pub(crate) struct MadeHost(PathBuf);

impl MadeHost {
    /// Without an HCA, and without the directories that come with its driver.
    pub(crate) fn new(dir: PathBuf) -> MadeHost {
        fs::create_dir_all(dir.join("sys/class")).unwrap();
        fs::create_dir_all(dir.join("dev")).unwrap();
        MadeHost(dir)
    }

    pub(crate) fn root(&self) -> Root {
        Root::live(&self.0).unwrap()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// Loads the driver: mlx5_0, whose verbs device has this number in its name.
    pub(crate) fn load(&self, uverbs: u32) {
        let verbs = format!("sys/class/infiniband_verbs/uverbs{uverbs}");
        self.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
        self.write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
        self.write(&format!("{verbs}/ibdev"), "mlx5_0\n");
        self.write(&format!("{verbs}/dev"), "0:0\n");
        // The node last: it is what the agent is told of.
        fs::create_dir_all(self.path("dev/infiniband")).unwrap();
        let node = self.path(&format!("dev/infiniband/uverbs{uverbs}"));
        mknodat(CWD, &node, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, makedev(0, 0)).unwrap();
    }

    /// Unloads it: with the last node /dev/infiniband itself goes.
    pub(crate) fn unload(&self) {
        for path in ["sys/class/infiniband", "sys/class/infiniband_verbs", "dev/infiniband"] {
            fs::remove_dir_all(self.path(path)).unwrap();
        }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }
}
