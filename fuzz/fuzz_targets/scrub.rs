//! See `rocade_fuzz::scrub`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocade_fuzz::scrub(data));
