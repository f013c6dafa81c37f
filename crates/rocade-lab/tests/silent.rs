//! The product on this machine with a file that never answers: a FUSE file system whose server says nothing. Needs root
//! and /dev/fuse, and fails where either is missing.

use std::process::Command;
use std::time::{Duration, Instant};

use rocade_lab::product;
use rocade_lab::steps::Steps;

/// In a mount namespace of its own, which takes the mount with it. Descriptor 5 is the server's end, never read from.
const SCRIPT: &str = "exec 5<>/dev/fuse && \
    mount -i -t fuse none /proc/version -o fd=5,rootmode=100444,user_id=0,group_id=0 && exec \"$0\" inventory -o json";

#[test]
fn a_file_that_never_answers_is_named_and_the_rest_is_read_and_the_process_ends() {
    let rocade = product::build(Steps::new()).expect("rocade is built");
    let start = Instant::now();
    let output =
        Command::new("unshare").args(["-m", "bash", "-c", SCRIPT]).arg(&rocade).output().expect("unshare");
    assert!(start.elapsed() < Duration::from_secs(120));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("/proc/version does not answer"), "{said}");
    let host: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&host["kernel"], host["unknown"]["kernel"].as_str()),
        (&serde_json::Value::Null, Some("ETIMEDOUT"))
    );
    assert!(host["netdevs"].as_array().is_some_and(|netdevs| !netdevs.is_empty()));
}
