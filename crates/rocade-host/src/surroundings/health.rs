//! What devlink's health reporters say of the HCAs' functions.

use rocade_core::Host;
use rocade_core::host::{FunctionKind, HealthReporter};

use crate::root::Root;

pub(super) fn read(root: &Root, host: &mut Host) {
    let records = match root.health() {
        Ok(records) => records,
        // No devlink in this kernel: nobody to ask.
        Err(refusal) if refusal.is_absent() => return,
        Err(refusal) => return drop(host.unknown.insert("health".into(), refusal.to_string())),
    };
    for hca in host.hcas.iter_mut().filter(|hca| hca.function != Some(FunctionKind::Sf)) {
        let Some(address) = hca.pci_address.map(|address| address.to_string()) else { continue };
        let own = records.iter().filter(|record| record.bus == "pci" && record.device == address);
        let reporter = own.map(|record| HealthReporter {
            name: record.reporter.clone(),
            healthy: record.healthy,
            errors: record.errors,
            recoveries: record.recoveries,
        });
        hca.health = reporter.collect();
    }
}
