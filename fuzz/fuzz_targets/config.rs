//! See `rocade_fuzz::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocade_fuzz::config(data));
