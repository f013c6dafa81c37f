//! Registers memory on each HCA that opens here, and asks its ports for their path MTU. All of it is given back at once.

use std::rc::Rc;

use rocade_core::Host;
use rocade_core::check::{Refused, Registered, Within};
use rocade_core::pod::{Held, Opens, held};
use rocade_verbs::device::Device;
use rocade_verbs::mr::MemoryRegion;
use rocade_verbs::pd::ProtectionDomain;
use rocade_verbs::{Library, VerbsError};

use super::chain;

/// Writes down what came of it.
pub(super) fn on_each(host: &Host, bytes: u32, within: &mut Within) {
    let opens = |held: &Held<'_>| held.granted != Some(false) && held.opens == Opens::Yes;
    let own: Vec<_> = held(host, &within.tried).into_iter().filter(opens).collect();
    if own.is_empty() {
        return;
    }
    let library = Library::load();
    for Held { hca, .. } in own {
        let done = library.as_ref().map_err(refusal).and_then(|library| {
            let device = Device::open(library, &hca.name).map_err(|error| refusal(&error))?;
            for port in &hca.ports {
                let mtu = device.port(port.port).ok().and_then(|facts| facts.active_mtu);
                within.path_mtus.extend(mtu.map(|mtu| (hca.name.clone(), port.port, mtu.bytes())));
            }
            register(&device, bytes).map_err(|error| refusal(&error))
        });
        let (hca, bytes) = (hca.name.clone(), u64::from(bytes));
        within.registered.push(Registered { hca, bytes, refused: done.err() });
    }
}

fn register(device: &Rc<Device>, bytes: u32) -> Result<(), VerbsError> {
    let pd = ProtectionDomain::new(device)?;
    MemoryRegion::new(&pd, bytes as usize).map(drop)
}

fn refusal(error: &VerbsError) -> Refused {
    let mut source = std::error::Error::source(error);
    let mut out_of_memory = false;
    while let Some(cause) = source {
        let errno = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        out_of_memory |= errno == Some(rustix::io::Errno::NOMEM.raw_os_error());
        source = cause.source();
    }
    Refused { why: chain(error), out_of_memory }
}
