//! That the program's pages go from memory. Alone in its process: what other tests use comes back at once.

use std::fs;

use rocade_host::let_go_of_program;

#[test]
fn less_of_the_program_is_in_memory_and_it_goes_on() {
    let before = file_kib().expect("a line in /proc");
    let_go_of_program();
    let after = file_kib().expect("a line in /proc");
    assert!(after < before, "{after} KiB of files are mapped, and {before} KiB were");
}

/// What is in memory of files (proc_pid_status(5)).
fn file_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("RssFile:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}
