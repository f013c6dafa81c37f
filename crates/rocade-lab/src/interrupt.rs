//! SIGINT and SIGTERM: what this process started is taken down before it ends.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::holder;
use crate::native::cgroups;
use crate::steps::tell;

/// From now on either signal ends all labs that this process started and did not detach, then the process with
/// 128 and the signal's number.
///
/// # Errors
/// The handlers cannot be set.
pub fn install() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("set signal handlers")?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            tell("rocade-lab: interrupted, taking the lab down");
            holder::end_ours();
            // A native node's groups outlive its processes.
            if let Err(error) = cgroups::remove(&cgroups::name()) {
                tell(&format!("rocade-lab: {error:#}"));
            }
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}
