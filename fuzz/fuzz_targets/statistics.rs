//! See `rocade_fuzz::statistics`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocade_fuzz::statistics(data));
