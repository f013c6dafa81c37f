//! See `rocade_fuzz::perftest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocade_fuzz::perftest(data));
