//! Memory that an HCA may read and write.

use std::alloc::{self, Layout};
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

use crate::bindings::{IBV_ACCESS_LOCAL_WRITE, ibv_mr, ibv_sge};
use crate::error::{VerbsError, null};
use crate::pd::ProtectionDomain;

const PAGE: usize = 4096;

/// A registered buffer, zero at first. The HCA may change it at any time, so its bytes are only ever copied in and
/// out, never borrowed; a copy made while a work request is under way may be half old and half new.
pub struct MemoryRegion {
    raw: NonNull<ibv_mr>,
    start: NonNull<u8>,
    layout: Layout,
    pd: Rc<ProtectionDomain>,
}

impl MemoryRegion {
    /// Allocates and registers `bytes` (not 0) for local reading and writing by the HCA. ENOMEM: the limit of locked
    /// memory (RLIMIT_MEMLOCK) is too small.
    pub fn new(pd: &Rc<ProtectionDomain>, bytes: usize) -> Result<MemoryRegion, VerbsError> {
        let operand = || format!("{bytes} bytes for {}", pd.device.name());
        let Ok(layout) = Layout::from_size_align(bytes, PAGE) else {
            return Err(VerbsError::Range { start: 0, end: bytes, length: isize::MAX as usize });
        };
        assert!(bytes > 0, "an empty memory region");
        // SAFETY: the size is not 0.
        let Some(start) = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }) else {
            alloc::handle_alloc_error(layout)
        };
        let verbs = &pd.device.library.verbs;
        // SAFETY: the buffer was just allocated with this size, and is freed only once it is not registered.
        let raw = unsafe {
            verbs.ibv_reg_mr(pd.raw.as_ptr(), start.as_ptr().cast(), bytes, IBV_ACCESS_LOCAL_WRITE as i32)
        };
        let Some(raw) = NonNull::new(raw) else {
            let error = null("ibv_reg_mr", operand());
            // SAFETY: allocated above with this layout; nobody else knows of it.
            unsafe { alloc::dealloc(start.as_ptr(), layout) };
            return Err(error);
        };
        Ok(MemoryRegion { raw, start, layout, pd: pd.clone() })
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

    /// A gather or scatter entry for the range.
    pub(crate) fn entry(&self, range: Range<usize>) -> Result<ibv_sge, VerbsError> {
        let length = u32::try_from(range.len()).unwrap_or(u32::MAX);
        let addr = self.within(range)? as u64;
        // SAFETY: the region is registered as long as it exists.
        let lkey = unsafe { self.raw.as_ref() }.lkey;
        Ok(ibv_sge { addr, length, lkey })
    }

    fn within(&self, range: Range<usize>) -> Result<*mut u8, VerbsError> {
        if range.start > range.end || range.end > self.layout.size() {
            let length = self.layout.size();
            return Err(VerbsError::Range { start: range.start, end: range.end, length });
        }
        // SAFETY: the offset is at most the size of the allocation.
        Ok(unsafe { self.start.as_ptr().add(range.start) })
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: registered in `new` and not deregistered since.
        let result = unsafe { self.pd.device.library.verbs.ibv_dereg_mr(self.raw.as_ptr()) };
        // While it is registered the HCA may write to it: memory that could not be deregistered is never freed.
        if result == 0 {
            // SAFETY: allocated in `new` with this layout, and no longer known to the HCA.
            unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}
