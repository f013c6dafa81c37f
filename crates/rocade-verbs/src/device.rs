//! An opened HCA, and what it says of its ports.

use std::ptr::NonNull;
use std::rc::Rc;

use rocade_core::{Gid, GidIndex, HcaName, PortNum};

use crate::bindings::{
    IBV_MTU_256, IBV_MTU_1024, IBV_MTU_4096, ibv_context, ibv_device_attr, ibv_gid, ibv_mtu, ibv_port_attr,
};
use crate::error::{VerbsError, check, null};
use crate::library::{DeviceList, Library};

/// An opened HCA.
pub struct Device {
    pub(crate) raw: NonNull<ibv_context>,
    pub(crate) library: Rc<Library>,
    name: HcaName,
}

/// Facts of a port that a QP needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortFacts {
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// The MTU in use; None when the driver says one that the specification does not know.
    pub active_mtu: Option<Mtu>,
}

/// What objects of a device may be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Entries of a CQ.
    pub cq_entries: u32,
    /// Outstanding work requests of a queue of a QP.
    pub work_requests: u32,
    /// Reads that a QP answers at once.
    pub reads_as_responder: u8,
    /// Reads that a QP may have under way.
    pub reads_as_initiator: u8,
}

/// An MTU of the InfiniBand specification: 256, 512, 1024, 2048 or 4096 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mtu(ibv_mtu);

impl Mtu {
    /// 1024 bytes: what fits into an Ethernet frame of the usual size.
    pub const BYTES_1024: Mtu = Mtu(IBV_MTU_1024);

    /// The MTU of that many bytes.
    pub fn from_bytes(bytes: u32) -> Option<Mtu> {
        (IBV_MTU_256..=IBV_MTU_4096).map(Mtu).find(|mtu| mtu.bytes() == bytes)
    }

    /// Its size in bytes.
    pub fn bytes(self) -> u32 {
        128 << self.0
    }

    pub(crate) fn from_raw(raw: ibv_mtu) -> Option<Mtu> {
        (IBV_MTU_256..=IBV_MTU_4096).contains(&raw).then_some(Mtu(raw))
    }

    pub(crate) fn raw(self) -> ibv_mtu {
        self.0
    }
}

/// `vendor_id` of soft-RoCE: RXE_VENDOR_ID (drivers/infiniband/sw/rxe/rxe_param.h), which kernels before 5.7 left at 0.
const SOFT_ROCE: [u32; 2] = [0xff_ffff, 0];

impl Device {
    /// Opens the HCA of that name.
    pub fn open(library: &Rc<Library>, name: &HcaName) -> Result<Rc<Device>, VerbsError> {
        let list = DeviceList::read(library)?;
        let named = |device: &_| library.describe(*device).is_some_and(|offered| offered.name == *name);
        let Some(device) = list.devices().find(named) else {
            let offered = list.devices().filter_map(|device| library.describe(device));
            let offered = offered.map(|o| format!("{} ({})", o.name, o.node_guid)).collect();
            return Err(VerbsError::NotOffered { wanted: name.to_string(), offered });
        };
        // SAFETY: `device` is of a list that is freed only after the call.
        let raw = unsafe { library.verbs.ibv_open_device(device) };
        let raw = NonNull::new(raw).ok_or_else(|| null("ibv_open_device", name.to_string()))?;
        Ok(Rc::new(Device { raw, library: library.clone(), name: name.clone() }))
    }

    /// Its name.
    pub fn name(&self) -> &HcaName {
        &self.name
    }

    /// Whether it is soft-RoCE, whose work the host's CPUs do.
    pub fn is_software(&self) -> bool {
        self.attributes().is_ok_and(|attributes| SOFT_ROCE.contains(&attributes.vendor_id))
    }

    /// What the port says of itself.
    pub fn port(&self, port: PortNum) -> Result<PortFacts, VerbsError> {
        let mut attributes = ibv_port_attr::default();
        // SAFETY: the exported function fills a prefix of ibv_port_attr, which is how the header's own inline calls it
        // for a provider without the newer operation; the rest stays zero.
        let result = unsafe {
            let number = port_number(port);
            self.library.verbs.ibv_query_port(self.raw.as_ptr(), number, (&raw mut attributes).cast())
        };
        check("ibv_query_port", || self.port_name(port), result)?;
        Ok(PortFacts { lid: attributes.lid, active_mtu: Mtu::from_raw(attributes.active_mtu) })
    }

    /// What its objects may be made of.
    pub fn limits(&self) -> Result<Limits, VerbsError> {
        let attributes = self.attributes()?;
        let count = |limit: i32| u32::try_from(limit).unwrap_or(0);
        let reads = |limit: i32| u8::try_from(limit.max(0)).unwrap_or(u8::MAX);
        Ok(Limits {
            cq_entries: count(attributes.max_cqe),
            work_requests: count(attributes.max_qp_wr),
            reads_as_responder: reads(attributes.max_qp_rd_atom),
            reads_as_initiator: reads(attributes.max_qp_init_rd_atom),
        })
    }

    fn attributes(&self) -> Result<ibv_device_attr, VerbsError> {
        let mut attributes = ibv_device_attr::default();
        // SAFETY: the device is open, and the attributes outlive the call.
        let result = unsafe { self.library.verbs.ibv_query_device(self.raw.as_ptr(), &mut attributes) };
        check("ibv_query_device", || self.name.to_string(), result)?;
        Ok(attributes)
    }

    /// The GID at an index; None if it is unset.
    pub fn gid(&self, port: PortNum, index: GidIndex) -> Result<Option<Gid>, VerbsError> {
        let mut gid = ibv_gid::default();
        let number = i32::try_from(index.0).unwrap_or(i32::MAX);
        // SAFETY: `gid` outlives the call.
        let result = unsafe {
            self.library.verbs.ibv_query_gid(self.raw.as_ptr(), port_number(port), number, &mut gid)
        };
        check("ibv_query_gid", || format!("{} index {index}", self.port_name(port)), result)?;
        // SAFETY: both variants of the union are 16 bytes, any of which are valid.
        let gid = Gid(unsafe { gid.raw });
        Ok((!gid.is_zero()).then_some(gid))
    }

    /// `HCA/port`, as errors name it.
    pub fn port_name(&self, port: PortNum) -> String {
        format!("{}/{port}", self.name)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: all objects of the device hold an Rc of it, so none is left. A failure leaves nothing to do.
        unsafe { self.library.verbs.ibv_close_device(self.raw.as_ptr()) };
    }
}

/// Verbs count ports in a byte; 0 is no port and makes the call fail.
pub(crate) fn port_number(port: PortNum) -> u8 {
    u8::try_from(port.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_is_one_of_the_five_of_the_specification() {
        for bytes in [256, 512, 1024, 2048, 4096] {
            let mtu = Mtu::from_bytes(bytes).unwrap();
            assert_eq!((mtu.bytes(), Mtu::from_raw(mtu.raw())), (bytes, Some(mtu)));
        }
        for bytes in [0, 128, 1500, 8192] {
            assert_eq!(Mtu::from_bytes(bytes), None);
        }
        assert_eq!((Mtu::from_raw(0), Mtu::from_raw(6)), (None, None));
    }
}
