//! What the fuzz targets run. The targets in fuzz_targets only call these, and so does a test of rocade-host over the
//! corpus: `cargo test` needs no fuzzer.

mod targets;

pub use targets::*;
