//! Reading a host of which something never answers: a FIFO that nobody writes into hangs whoever opens it.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rocade_core::Host;
use rocade_host::{Archive, Patience, Root, read_host, read_patiently};

#[path = "../benches/reading/lay_out.rs"]
mod lay_out;

const PATIENCE: Patience = Patience { each: Duration::from_millis(300), whole: Duration::from_secs(60) };

fn tree() -> (tempfile::TempDir, Root) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/seed-4hca-bond.host");
    let dir = tempfile::tempdir().unwrap();
    lay_out::lay_out(&Archive::parse(&fs::read(fixture).unwrap()).unwrap(), dir.path()).unwrap();
    let root = Root::live(dir.path()).unwrap();
    (dir, root)
}

/// Puts a FIFO where the file of an HCA was; gives its path on the host.
fn hang(dir: &Path, root: &Root, hca: &str, file: &str) -> PathBuf {
    let path = root.realpath(format!("/sys/class/infiniband/{hca}")).unwrap().join(file);
    let real = dir.join(path.strip_prefix("/").unwrap());
    fs::remove_file(&real).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &real, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
    path
}

#[test]
fn a_file_that_never_answers_is_named_and_all_else_is_read() {
    let (dir, root) = tree();
    let mut wanted: Host = read_host(&root);
    let hung = hang(dir.path(), &root, "mlx5_3", "ports/1/rate");
    let (host, silent) = read_patiently(&root, PATIENCE, read_host);
    assert_eq!(silent, [hung]);
    let hca = wanted.hcas.iter_mut().find(|hca| hca.name.as_str() == "mlx5_3").unwrap();
    assert_eq!(hca.ports[0].rate_gbps, Some(400.0));
    let port = &host.hca("mlx5_3").unwrap().ports[0];
    assert_eq!((port.rate_gbps, port.unknown["rate_gbps"].as_str()), (None, "ETIMEDOUT"));
    hca.ports[0] = port.clone();
    assert_eq!(host, wanted);
}

#[test]
fn several_that_hang_are_gone_around_one_by_one() {
    let (dir, root) = tree();
    let mut hung = vec![
        hang(dir.path(), &root, "mlx5_0", "fw_ver"),
        hang(dir.path(), &root, "mlx5_4", "ports/1/gids/3"),
        hang(dir.path(), &root, "mlx5_4", "ports/1/state"),
    ];
    let (host, silent) = read_patiently(&root, PATIENCE, read_host);
    hung.sort();
    assert_eq!(silent, hung);
    assert_eq!(host.hca("mlx5_0").unwrap().unknown["fw_version"], "ETIMEDOUT");
    let port = &host.hca("mlx5_4").unwrap().ports[0];
    assert_eq!((port.unknown["state"].as_str(), port.unknown["gids"].as_str()), ("ETIMEDOUT", "ETIMEDOUT"));
    assert!(port.rate_gbps.is_some() && port.gids.len() == 3);
}

#[test]
fn when_the_whole_takes_too_long_a_name_that_hung_is_asked_nowhere() {
    let (dir, root) = tree();
    for hca in ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_bond_0"] {
        hang(dir.path(), &root, hca, "ports/1/phys_state");
    }
    let patience = Patience { each: Duration::from_millis(200), whole: Duration::from_millis(150) };
    let start = Instant::now();
    let (host, silent) = read_patiently(&root, patience, read_host);
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(silent, [Path::new("phys_state")]);
    for hca in &host.hcas {
        assert_eq!(hca.ports[0].unknown["phys_state"], "ETIMEDOUT");
        assert_eq!(hca.ports[0].state.as_deref(), Some("ACTIVE"));
    }
    assert_eq!(host.hcas.len(), 4);
}
