//! See `rocade_fuzz::archive`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocade_fuzz::archive(data));
