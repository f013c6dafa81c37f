//! Address handles: a way to another port, resolved by the kernel without a QP.

use std::ptr::NonNull;
use std::rc::Rc;

use rocade_core::pair::Endpoint;

use crate::bindings::ibv_ah;
use crate::error::{VerbsError, null};
use crate::pd::ProtectionDomain;
use crate::qp::{Path, address};

/// A resolved way.
pub struct AddressHandle {
    raw: NonNull<ibv_ah>,
    pd: Rc<ProtectionDomain>,
}

impl AddressHandle {
    /// Resolves the way to the other end: on RoCE its GID to a neighbour's MAC address.
    ///
    /// # Errors
    /// ibv_create_ah: no route or no neighbour (EHOSTUNREACH, ENETUNREACH, ETIMEDOUT), or no such GID of ours (EINVAL).
    pub fn new(
        pd: &Rc<ProtectionDomain>,
        path: &Path,
        remote: &Endpoint,
    ) -> Result<AddressHandle, VerbsError> {
        let mut attributes = address(path, remote)?;
        // SAFETY: the PD lives as long as the handle that holds it; the attributes outlive the call.
        let raw = unsafe { pd.device.library.verbs.ibv_create_ah(pd.raw.as_ptr(), &mut attributes) };
        let operand = || format!("{} to {remote}", pd.device.port_name(path.port));
        let raw = NonNull::new(raw).ok_or_else(|| null("ibv_create_ah", operand()))?;
        Ok(AddressHandle { raw, pd: pd.clone() })
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: made in `new` and not destroyed since; no QP uses it.
        unsafe { self.pd.device.library.verbs.ibv_destroy_ah(self.raw.as_ptr()) };
    }
}
