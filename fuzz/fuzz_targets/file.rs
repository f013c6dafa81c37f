//! See `rocade_fuzz::file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocade_fuzz::file(data));
