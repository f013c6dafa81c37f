//! See `rocade_fuzz::lint`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocade_fuzz::lint(data));
