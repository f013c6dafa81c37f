//! See `rocade_fuzz::policy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocade_fuzz::policy(data));
