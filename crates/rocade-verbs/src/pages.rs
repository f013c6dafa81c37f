//! Memory straight from the kernel, of usual or of huge pages. Registering it is not this module's.

use std::io;
use std::ptr::{self, NonNull};

use crate::error::VerbsError;

/// The pages that memory is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// As the kernel gives them.
    Usual,
    /// 2 MiB, of the host's reserve (vm.nr_hugepages).
    Huge,
}

const HUGE_PAGE: usize = 2 << 20;

/// Zeroed memory of its own; untouched, so that its pages come from the node of the CPU that touches it first.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    mapped: usize,
}

impl Mapping {
    /// Maps at least `bytes`, not 0.
    pub(crate) fn new(bytes: usize, pages: Pages) -> Result<Mapping, VerbsError> {
        let (mapped, flags) = match pages {
            Pages::Usual => (bytes, 0),
            Pages::Huge => (bytes.next_multiple_of(HUGE_PAGE), libc::MAP_HUGETLB | libc::MAP_HUGE_2MB),
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping touches no memory that anyone has.
        let start = unsafe { libc::mmap(ptr::null_mut(), mapped, protection, flags, -1, 0) };
        match NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(Mapping { start, bytes, mapped }),
            None => Err(failed(mapped, pages)),
        }
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and nothing points into it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

fn failed(bytes: usize, pages: Pages) -> VerbsError {
    let source = io::Error::last_os_error();
    match pages {
        Pages::Usual => VerbsError::Call { verb: "mmap", operand: format!("{bytes} bytes"), source },
        Pages::Huge => VerbsError::HugePages { wanted: bytes / HUGE_PAGE, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_page_aligned_and_all_of_it_can_be_written() {
        let mapping = Mapping::new(5000, Pages::Usual).unwrap();
        assert_eq!((mapping.start() as usize % 4096, mapping.bytes()), (0, 5000));
        for at in 0..5000 {
            // SAFETY: inside of the mapping, which nobody else knows.
            unsafe {
                assert_eq!(mapping.start().add(at).read(), 0);
                mapping.start().add(at).write(1);
            }
        }
    }

    #[test]
    fn more_huge_pages_than_a_host_has_are_an_error_that_counts_them() {
        let Err(error) = Mapping::new(1 << 46, Pages::Huge) else { panic!("64 TiB of huge pages") };
        assert!(matches!(error, VerbsError::HugePages { wanted: 0x200_0000, .. }), "{error}");
    }
}
