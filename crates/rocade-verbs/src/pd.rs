//! Protection domains.

use std::ptr::NonNull;
use std::rc::Rc;

use crate::bindings::ibv_pd;
use crate::device::Device;
use crate::error::{VerbsError, null};

/// A protection domain: QPs reach only memory regions of their own.
pub struct ProtectionDomain {
    pub(crate) raw: NonNull<ibv_pd>,
    pub(crate) device: Rc<Device>,
}

impl ProtectionDomain {
    /// Makes one on the device.
    pub fn new(device: &Rc<Device>) -> Result<Rc<ProtectionDomain>, VerbsError> {
        // SAFETY: the device is open as long as it exists.
        let raw = unsafe { device.library.verbs.ibv_alloc_pd(device.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| null("ibv_alloc_pd", device.name().to_string()))?;
        Ok(Rc::new(ProtectionDomain { raw, device: device.clone() }))
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: its QPs and memory regions hold an Rc of it, so none is left.
        unsafe { self.device.library.verbs.ibv_dealloc_pd(self.raw.as_ptr()) };
    }
}
