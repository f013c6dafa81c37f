//! This host's page and cache line, of which perftest tells the other end (get_cache_line_size in its
//! src/perftest_resources.c).

use rocade_core::pair::perf::message::Memory;

/// What the kernel tells of them; the usual sizes where it does not.
pub fn read_memory() -> Memory {
    Memory {
        page_bytes: read_size(libc::_SC_PAGESIZE, 4096),
        line_bytes: read_size(libc::_SC_LEVEL1_DCACHE_LINESIZE, 64),
    }
}

fn read_size(name: libc::c_int, usual: u32) -> u32 {
    // SAFETY: sysconf takes any number, and touches no memory of ours.
    let size = unsafe { libc::sysconf(name) };
    u32::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(usual)
}
