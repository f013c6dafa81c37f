//! Providers that libibverbs would load on this file system: in a container those of its image.

use std::path::Path;

use rocade_core::Host;

use crate::root::Root;

/// One file a provider, which names it: `driver mlx5` (rdma-core libibverbs/init.c).
pub(crate) const CONFIGURATION: &str = "/etc/libibverbs.d";

pub(super) fn read(root: &Root, host: &mut Host) {
    let Ok(names) = root.list(CONFIGURATION) else { return };
    let mut providers: Vec<String> = Vec::new();
    for name in names.iter().filter(|name| name.to_string_lossy().ends_with(".driver")) {
        let Ok(content) = root.read(Path::new(CONFIGURATION).join(name)) else { continue };
        let text = String::from_utf8_lossy(&content);
        providers.extend(
            text.lines().filter_map(|line| Some(line.trim().strip_prefix("driver ")?.trim().to_owned())),
        );
    }
    providers.sort();
    providers.dedup();
    host.verbs_providers = Some(providers);
}
