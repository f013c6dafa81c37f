//! Memory that an HCA may read and write.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use crate::bindings::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_RELAXED_ORDERING, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
    ibv_mr, ibv_sge,
};
use crate::error::VerbsError;
use crate::pages::{Mapping, Pages};
use crate::pd::ProtectionDomain;

/// What may be done to a region besides local reading and writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// RDMA WRITE by the other end.
    pub remote_write: bool,
    /// RDMA READ by the other end.
    pub remote_read: bool,
    /// PCIe may order the HCA's writes freely; ignored by a provider that cannot. Memory that is polled for its last
    /// byte must not have it.
    pub relaxed_ordering: bool,
}

impl Access {
    /// The part that a QP must allow as well (`qp_access_flags`).
    pub(crate) fn remote_flags(self) -> u32 {
        let write = if self.remote_write { IBV_ACCESS_REMOTE_WRITE } else { 0 };
        let read = if self.remote_read { IBV_ACCESS_REMOTE_READ } else { 0 };
        write | read
    }
}

/// A registered buffer, zero at first. The HCA may change it at any time, so its bytes are only ever copied in and
/// out, never borrowed; a copy made while a work request is under way may be half old and half new.
pub struct MemoryRegion {
    raw: NonNull<ibv_mr>,
    /// None once it could not be deregistered: then the HCA may write to it, and it is never freed.
    mapping: Option<Mapping>,
    pd: Rc<ProtectionDomain>,
}

impl MemoryRegion {
    /// Allocates and registers `bytes` (not 0) for local reading and writing by the HCA. ENOMEM: the limit of locked
    /// memory (RLIMIT_MEMLOCK) is too small.
    pub fn new(pd: &Rc<ProtectionDomain>, bytes: usize) -> Result<MemoryRegion, VerbsError> {
        Self::with(pd, bytes, Access::default(), Pages::Usual)
    }

    /// The same, for the other end too, and of the pages asked for. Its address is a multiple of the page.
    pub fn with(
        pd: &Rc<ProtectionDomain>,
        bytes: usize,
        access: Access,
        pages: Pages,
    ) -> Result<MemoryRegion, VerbsError> {
        let mapping = Mapping::new(bytes, pages)?;
        let raw = register(pd, &mapping, access);
        let failed = || VerbsError::Memory {
            hca: pd.device.name().to_string(),
            bytes: bytes as u64,
            source: io::Error::last_os_error(),
        };
        let raw = raw.ok_or_else(failed)?;
        Ok(MemoryRegion { raw, mapping: Some(mapping), pd: pd.clone() })
    }

    /// Its first byte, as the other end names it.
    pub fn address(&self) -> u64 {
        self.start() as u64
    }

    /// What the other end names it by.
    pub fn rkey(&self) -> u32 {
        // SAFETY: the region is registered as long as it exists.
        unsafe { self.raw.as_ref() }.rkey
    }

    /// Copies `bytes` to offset `at`.
    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<(), VerbsError> {
        let to = self.within(at..at.saturating_add(bytes.len()))?;
        // SAFETY: the range lies in the buffer; no reference to it exists, so only the HCA can race with the copy.
        unsafe { bytes.as_ptr().copy_to(to, bytes.len()) };
        Ok(())
    }

    /// Copies from offset `at` into `bytes`.
    pub fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), VerbsError> {
        let from = self.within(at..at.saturating_add(bytes.len()))?;
        // SAFETY: as in `write`.
        unsafe { bytes.as_mut_ptr().copy_from(from, bytes.len()) };
        Ok(())
    }

    /// Sets all bytes of the range.
    pub fn fill(&self, range: Range<usize>, byte: u8) -> Result<(), VerbsError> {
        let length = range.len();
        let to = self.within(range)?;
        // SAFETY: as in `write`.
        unsafe { to.write_bytes(byte, length) };
        Ok(())
    }

    /// The byte at an offset, to be looked at again and again.
    pub fn byte(self: &Rc<Self>, at: usize) -> Result<Byte, VerbsError> {
        let place = self.within(at..at.saturating_add(1))?;
        Ok(Byte { place, region: self.clone() })
    }

    /// A gather or scatter entry for the range.
    pub(crate) fn entry(&self, range: Range<usize>) -> Result<ibv_sge, VerbsError> {
        let length = u32::try_from(range.len()).unwrap_or(u32::MAX);
        let addr = self.within(range)? as u64;
        // SAFETY: the region is registered as long as it exists.
        let lkey = unsafe { self.raw.as_ref() }.lkey;
        Ok(ibv_sge { addr, length, lkey })
    }

    fn within(&self, range: Range<usize>) -> Result<*mut u8, VerbsError> {
        let length = self.mapping.as_ref().map_or(0, Mapping::bytes);
        if range.start > range.end || range.end > length {
            return Err(VerbsError::Range { start: range.start, end: range.end, length });
        }
        // SAFETY: the offset is at most the size of the mapping.
        Ok(unsafe { self.start().add(range.start) })
    }

    fn start(&self) -> *mut u8 {
        self.mapping.as_ref().map_or(ptr::null_mut(), Mapping::start)
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: registered in `with` and not deregistered since.
        let result = unsafe { self.pd.device.library.verbs.ibv_dereg_mr(self.raw.as_ptr()) };
        // While it is registered the HCA may write to it: memory that could not be deregistered is never freed.
        if result != 0 {
            std::mem::forget(self.mapping.take());
        }
    }
}

/// One byte of a region, which the HCA may change at any time; it keeps the region.
pub struct Byte {
    place: *mut u8,
    #[expect(dead_code, reason = "keeps the memory that `place` points into")]
    region: Rc<MemoryRegion>,
}

impl Byte {
    /// What it is now.
    pub fn load(&self) -> u8 {
        // SAFETY: inside of the region, which lives; volatile, as the HCA writes it behind the compiler's back.
        unsafe { self.place.read_volatile() }
    }

    /// Makes it `byte`.
    pub fn store(&self, byte: u8) {
        // SAFETY: as in `load`.
        unsafe { self.place.write_volatile(byte) };
    }
}

/// None: the call failed, and errno says why.
fn register(pd: &ProtectionDomain, mapping: &Mapping, access: Access) -> Option<NonNull<ibv_mr>> {
    let library = &pd.device.library;
    let flags = IBV_ACCESS_LOCAL_WRITE | access.remote_flags();
    let (start, bytes) = (mapping.start(), mapping.bytes());
    // Flags that a provider may ignore need the newer function; without it they are left out, as by the header's inline.
    let newer = library.optional.reg_mr_iova2.filter(|_| access.relaxed_ordering);
    let address = start as u64;
    let raw = match newer {
        // SAFETY: the mapping has this size, and is freed only once it is not registered.
        Some(register) => unsafe {
            register(pd.raw.as_ptr(), start.cast(), bytes, address, flags | IBV_ACCESS_RELAXED_ORDERING)
        },
        // SAFETY: likewise.
        None => unsafe { library.verbs.ibv_reg_mr(pd.raw.as_ptr(), start.cast(), bytes, flags as i32) },
    };
    NonNull::new(raw)
}
