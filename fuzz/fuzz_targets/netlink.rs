//! See `rocade_fuzz::netlink`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocade_fuzz::netlink(data));
