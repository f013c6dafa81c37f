//! Has each port that can be used write to itself, and counts what the port counted. What that shows is core's matter.

use std::rc::Rc;
use std::time::Duration;

use rocade_core::check::{Broke, Looped, Within};
use rocade_core::gid::{Choice, Wish, choose_gid};
use rocade_core::pod::{Held, Opens, held};
use rocade_core::{Host, LinkLayer, Usable};
use rocade_verbs::looped::{Over, write_looped};
use rocade_verbs::{Library, VerbsError};

use super::chain;
use crate::evidence::Watch;

/// For each message; an HCA without an answer gives up after about two seconds by itself.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Writes down what came of it.
pub(super) fn on_each(host: &Host, within: &mut Within) {
    let opens = |held: &Held<'_>| held.granted != Some(false) && held.opens == Opens::Yes;
    let own = held(host, &within.tried).into_iter().filter(opens);
    let ports = own.flat_map(|held| held.hca.ports.iter().map(move |port| (held.hca, port)));
    let usable = ports.filter(|(_, port)| port.usable != Usable::No);
    // Where nothing can be chosen core says why.
    let choices = usable.filter_map(|(hca, port)| {
        let wish = Wish { hca: Some(&hca.name), port: Some(port.port), ..Wish::default() };
        Some((choose_gid(host, &wish).ok()?, port.link_layer == LinkLayer::InfiniBand))
    });
    let mut library = None;
    let looped = choices.map(|(choice, on_infiniband)| {
        let library = library.get_or_insert_with(Library::load);
        let library = library.as_ref().map_err(broke);
        let watch = Watch::over(&choice);
        let ended = library.and_then(|library| write(library, &choice).map_err(|error| broke(&error)));
        let pkey = watch.as_ref().filter(|_| on_infiniband).and_then(|watch| watch.pkey(0).0);
        let counted = watch.map(|watch| watch.counted()).unwrap_or_default();
        Looped { choice, pkey, counted, ended }
    });
    within.looped = Some(looped.collect());
}

fn write(library: &Rc<Library>, choice: &Choice) -> Result<u64, VerbsError> {
    let gid_index = choice.gid.as_ref().map(|gid| gid.index);
    let over = Over { hca: choice.hca.clone(), port: choice.port, gid_index, timeout: TIMEOUT };
    write_looped(library, &over)
}

fn broke(error: &VerbsError) -> Broke {
    Broke { why: chain(error), failure: error.failure() }
}
