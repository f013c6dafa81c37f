//! Looks at the host in threads of their own: a sick device can keep a reader waiting for long, and the kubelet is
//! answered meanwhile.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Instant, SystemTime};

use rocade_core::config::Config;
use rocade_core::plan::needs;
use rocade_core::{HcaName, Host};
use rocade_host::{Patience, Root, Scope, let_go_of_program, read_parts, read_patiently, read_port_states};

use crate::state::Look;

/// Starts a look at the whole host, as much of it as the configuration needs; `done` is called in its thread.
///
/// # Errors
/// The machine has no thread to give.
pub(crate) fn start_whole(
    root: &Arc<Root>,
    config: &Config,
    done: impl FnOnce(Host, Look) + Send + 'static,
) -> io::Result<()> {
    let (root, needs) = (Arc::clone(root), needs(config));
    let scope = Scope { gids: needs.gids, roles: needs.roles, ..Scope::GRANTS };
    let read = move |root: &Root| {
        let mut host = read_parts(root, scope);
        if needs.roles {
            rocade_core::judge(&mut host);
        }
        host
    };
    let body = move || {
        let start = Instant::now();
        let (host, silent) = read_patiently(&root, Patience::default(), read);
        // Minutes go by before so much of the program is needed again.
        let_go_of_program();
        done(host, Look { at: SystemTime::now(), took: start.elapsed(), silent });
    };
    thread::Builder::new().name("look".into()).spawn(body).map(drop)
}

/// Starts a look at the port states of some HCAs alone; `done` gets the host with them, and what did not answer.
///
/// # Errors
/// The machine has no thread to give.
pub(crate) fn start_states(
    root: &Arc<Root>,
    host: &Arc<Host>,
    hcas: BTreeSet<HcaName>,
    done: impl FnOnce(Host, Vec<PathBuf>) + Send + 'static,
) -> io::Result<()> {
    let (root, host) = (Arc::clone(root), Arc::clone(host));
    let read = move |root: &Root| {
        let mut host = (*host).clone();
        read_port_states(root, &mut host, &hcas);
        host
    };
    let body = move || {
        let (host, silent) = read_patiently(&root, Patience::default(), read);
        done(host, silent);
    };
    thread::Builder::new().name("look".into()).spawn(body).map(drop)
}
