//! What happens to data when a stream of the process cannot be written.

#![allow(clippy::unwrap_used, reason = "what is not as it must be ends the test")]

use std::fs::{self, File};
use std::process::Command;

#[test]
fn a_stderr_that_cannot_be_written_keeps_no_data_from_stdout() {
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/no-rdma.host");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
    let output =
        command.args(["snapshot", "--no-scrub", "--out", "-", "--from", host]).stderr(full).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, fs::read(host).unwrap());
}
