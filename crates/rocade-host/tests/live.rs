//! The live filling against the recorded one: the same answers to the same questions.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rocade_host::{Archive, Errno, Patience, Refusal, Root, read_patiently};

const HOST: &str = "rocade-host 1
dir /sys/class/infiniband
 link mlx5_0 ../../devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0
 link gone ../../devices/gone
dir /sys/devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0
 link device ../../../0000:00:01.0
 text fw_ver 28.39.3560
 lines uevent 2
  |NAME=mlx5_0
  |X=1
 bytes raw ff00fe
 link self self
 link out ../../../../../../../../etc/absolute
 link absolute /sys/class/infiniband
dir /sys/devices/pci0000:00/0000:00:01.0
 text vendor 0x15b3
end 16
";

/// Lays the recorded host out as files.
fn lay_out(dir: &Path) {
    let hca = dir.join("sys/devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0");
    fs::create_dir_all(&hca).unwrap();
    fs::create_dir_all(dir.join("sys/class/infiniband")).unwrap();
    symlink(
        "../../devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0",
        dir.join("sys/class/infiniband/mlx5_0"),
    )
    .unwrap();
    symlink("../../devices/gone", dir.join("sys/class/infiniband/gone")).unwrap();
    symlink("../../../0000:00:01.0", hca.join("device")).unwrap();
    symlink("self", hca.join("self")).unwrap();
    symlink("../../../../../../../../etc/absolute", hca.join("out")).unwrap();
    symlink("/sys/class/infiniband", hca.join("absolute")).unwrap();
    fs::write(hca.join("fw_ver"), "28.39.3560\n").unwrap();
    fs::write(hca.join("uevent"), "NAME=mlx5_0\nX=1\n").unwrap();
    fs::write(hca.join("raw"), b"\xff\x00\xfe").unwrap();
    fs::write(dir.join("sys/devices/pci0000:00/0000:00:01.0/vendor"), "0x15b3\n").unwrap();
}

#[test]
fn both_fillings_give_the_same_answers() {
    let dir = tempfile::tempdir().unwrap();
    lay_out(dir.path());
    let live = Root::live(dir.path()).unwrap();
    let recorded = Root::from(Archive::parse(HOST.as_bytes()).unwrap());
    let hca = "/sys/class/infiniband/mlx5_0";
    let below = [
        "",
        "/fw_ver",
        "/uevent",
        "/raw",
        "/none",
        "/fw_ver/x",
        "/device",
        "/device/vendor",
        "/self",
        "/self/x",
    ];
    let more = ["/absolute", "/absolute/mlx5_0/fw_ver", "/device/infiniband/mlx5_0/fw_ver"];
    for path in below.iter().chain(&more) {
        let path = format!("{hca}{path}");
        assert_eq!(live.read(&path), recorded.read(&path), "read {path}");
        assert_eq!(live.list(&path), recorded.list(&path), "list {path}");
        assert_eq!(live.link(&path), recorded.link(&path), "link {path}");
        assert_eq!(live.realpath(&path), recorded.realpath(&path), "realpath {path}");
    }
    let loops = Err(Refusal::Errno(Errno::from_name("ELOOP").unwrap()));
    assert_eq!(live.read(format!("{hca}/self")), loops);
    assert_eq!(live.list("/sys/class/infiniband"), recorded.list("/sys/class/infiniband"));
}

/// A reading that is waited for keeps directories at hand: its answers must be those of one that does not.
#[test]
fn a_reading_that_is_waited_for_gives_the_same_answers() {
    let dir = tempfile::tempdir().unwrap();
    lay_out(dir.path());
    let ask = |root: &Root| {
        let hca = "/sys/class/infiniband/mlx5_0";
        let below =
            ["", "/fw_ver", "/none", "/fw_ver/x", "/device", "/device/vendor", "/self", "/out", "/absolute"];
        let answers = |path: String| {
            let listed = root.list(&path).ok();
            (root.read(&path), listed, root.link(&path), root.stat(&path), root.list(&path))
        };
        below.map(|path| answers(format!("{hca}{path}")))
    };
    let live = Root::live(dir.path()).unwrap();
    assert_eq!(read_patiently(&live, Patience::default(), ask).0, ask(&live));
}

#[test]
fn a_link_does_not_lead_out_of_the_root() {
    let dir = tempfile::tempdir().unwrap();
    lay_out(dir.path());
    let live = Root::live(dir.path()).unwrap();
    let out = "/sys/class/infiniband/mlx5_0/out";
    assert_eq!(live.realpath(out).unwrap(), Path::new("/etc/absolute"));
    assert_eq!(live.read(out), Err(Refusal::Errno(Errno::from_name("ENOENT").unwrap())));
    fs::create_dir(dir.path().join("etc")).unwrap();
    fs::write(dir.path().join("etc/absolute"), "inside").unwrap();
    assert_eq!(live.read(out).unwrap(), b"inside");
}
