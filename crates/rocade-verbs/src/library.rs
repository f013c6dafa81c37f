//! libibverbs.so.1 itself, and the devices that it offers.

use std::ffi::{CStr, c_uint, c_void};
use std::ptr;
use std::rc::Rc;

use rocade_core::{Guid, HcaName};

use crate::bindings::{Verbs, ibv_device, ibv_mr, ibv_pd};
use crate::error::{VerbsError, null};

const FILE: &str = "libibverbs.so.1";

/// The loaded library.
pub struct Library {
    pub(crate) verbs: Verbs,
    pub(crate) optional: Optional,
}

/// Functions that a libibverbs in use somewhere lacks; None where this one does.
pub(crate) struct Optional {
    /// Since rdma-core 28: registers memory with flags that a provider may ignore.
    pub(crate) reg_mr_iova2: Option<RegisterWithFlags>,
}

pub(crate) type RegisterWithFlags =
    unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;

const REGISTER_WITH_FLAGS: &str = "ibv_reg_mr_iova2";

/// One device that libibverbs has a provider for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// The kernel's name.
    pub name: HcaName,
    /// Node GUID.
    pub node_guid: Guid,
}

impl Library {
    /// Loads it by the dynamic linker's search path. A missing file or function is an error that names it; functions
    /// that older ones lack are asked for with [`Library::missing`].
    pub fn load() -> Result<Rc<Library>, VerbsError> {
        let failed = |source: libloading::Error| VerbsError::Load { library: FILE, source: source.into() };
        // SAFETY: running the library's constructors is what any program linked with it does at start.
        let file = unsafe { libloading::Library::new(FILE) }.map_err(failed)?;
        // SAFETY: the functions have the declared types, as the soname stands for the ABI that the header describes.
        // Pointers to them are kept beside the library that they point into, which nothing unloads before them.
        let (optional, verbs) = unsafe {
            let reg_mr_iova2 = file.get::<RegisterWithFlags>(REGISTER_WITH_FLAGS).ok().map(|symbol| *symbol);
            (Optional { reg_mr_iova2 }, Verbs::from_library(file).map_err(failed)?)
        };
        Ok(Rc::new(Library { verbs, optional }))
    }

    /// Functions that it is too old for; what needs them does without.
    pub fn missing(&self) -> Vec<&'static str> {
        self.optional.reg_mr_iova2.map_or_else(|| vec![REGISTER_WITH_FLAGS], |_| Vec::new())
    }

    /// The devices that it offers now.
    pub fn devices(&self) -> Result<Vec<Offered>, VerbsError> {
        let list = DeviceList::read(self)?;
        Ok(list.devices().filter_map(|device| self.describe(device)).collect())
    }

    /// An error that names the wanted HCA if the library offers none at all, for want of a provider.
    pub fn require_any(&self, wanted: &HcaName) -> Result<(), VerbsError> {
        match self.devices()?.as_slice() {
            [] => Err(VerbsError::NotOffered { wanted: wanted.to_string(), offered: Vec::new() }),
            _ => Ok(()),
        }
    }

    pub(crate) fn describe(&self, device: *mut ibv_device) -> Option<Offered> {
        // SAFETY: `device` comes from a list that has not been freed; its name is a string inside of it.
        let (name, guid) = unsafe {
            let name = self.verbs.ibv_get_device_name(device);
            (CStr::from_ptr(name), self.verbs.ibv_get_device_guid(device))
        };
        // The GUID is in network byte order.
        Some(Offered { name: name.to_str().ok()?.parse().ok()?, node_guid: Guid(u64::from_be(guid)) })
    }
}

/// A list of ibv_get_device_list, freed at its end.
pub(crate) struct DeviceList<'a> {
    library: &'a Library,
    first: *mut *mut ibv_device,
    length: usize,
}

impl<'a> DeviceList<'a> {
    pub(crate) fn read(library: &'a Library) -> Result<Self, VerbsError> {
        let mut length = 0;
        // SAFETY: `length` outlives the call.
        let first = unsafe { library.verbs.ibv_get_device_list(&mut length) };
        if ptr::eq(first, ptr::null()) {
            return Err(null("ibv_get_device_list", "this host".to_owned()));
        }
        Ok(DeviceList { library, first, length: usize::try_from(length).unwrap_or(0) })
    }

    pub(crate) fn devices(&self) -> impl Iterator<Item = *mut ibv_device> {
        // SAFETY: the list has `length` entries before its NULL, and is freed only by drop.
        (0..self.length).map(|n| unsafe { *self.first.add(n) })
    }
}

impl Drop for DeviceList<'_> {
    fn drop(&mut self) {
        // SAFETY: the list was not freed before; devices opened from it stay valid.
        unsafe { self.library.verbs.ibv_free_device_list(self.first) }
    }
}
