//! One client, in the thread that its verbs objects stay on: the test that it wants, and a line of what came of it.

use std::cell::RefCell;

use rocade_core::diagnose::End;
use rocade_core::pair::Role;
use rocade_core::pair::perf::message::Unit;
use rocade_core::pair::perf::{Operation, Test};
use rocade_verbs::pingpong::{Pingpong, Setup};
use rocade_verbs::{Library, VerbsError};
use serde_json::json;

use super::Service;
use super::reception::Client;
use crate::cli::Output;
use crate::evidence::{Known, Watch};
use crate::outcome::print;
use crate::perf::session::{Session, choose, connection_of};
use crate::perf::table::render_line;
use crate::source::Source;

/// What ibv_rc_pingpong does without options: nothing of it is exchanged.
const PINGPONG_BYTES: u32 = 4096;
const PINGPONG_ITERATIONS: u32 = 1000;
const PINGPONG_RECEIVES: u32 = 500;

/// Serves a client to its end, and tells what came of it.
pub(super) fn serve(service: &Service, client: &Client<Test>) -> anyhow::Result<()> {
    let from = client.from.ip();
    let test = if client.pingpong { "pingpong" } else { client.port.name() };
    let mut known = Known { host: Source { from: None }.read()?, ..Known::default() };
    let ended = if client.pingpong {
        serve_pingpong(service, client, &mut known)
    } else {
        serve_perftest(service, client, &mut known)
    };
    let Err(error) = ended.and_then(|line| print(&format!("{line}\n"))) else { return Ok(()) };
    if client.is_broken_off() {
        return Ok(());
    }
    known.conclude(test, error.context(format!("client {from}"))).map(drop)
}

fn serve_perftest(service: &Service, client: &Client<Test>, known: &mut Known) -> anyhow::Result<String> {
    let options = service.stock.options(client.port)?;
    let reserved = RefCell::new(None);
    let accept =
        |asked: &_, pages| service.limits.accept(asked, pages).map(|part| drop(reserved.replace(Some(part))));
    let library = Library::load()?;
    let (role, place, unit) = (Role::Server, &service.place, Unit::Mebibytes);
    let session = Session { library: &library, role, options: &options, place, unit, accept: &accept };
    let result = session.run(&client.stream, known, &mut |_| ())?.result;
    Ok(match service.output {
        Output::Json => serde_json::to_string(&result)?,
        Output::Table => format!("{} {}", client.from.ip(), render_line(&result)),
    })
}

fn serve_pingpong(service: &Service, client: &Client<Test>, known: &mut Known) -> anyhow::Result<String> {
    let connection = connection_of(&client.stream)?;
    let choice = choose(&known.host, &service.place, Some(connection))?;
    known.connection = Some(connection);
    known.operation = Some(Operation::Send);
    known.watch = Watch::over(&choice);
    known.local = End { message_bytes: Some(PINGPONG_BYTES.into()), ..End::over(&known.host, &choice) };
    known.choice = Some(choice.clone());
    let setup = Setup {
        hca: choice.hca,
        port: choice.port,
        gid_index: choice.gid.map(|gid| gid.index),
        role: Role::Server,
        message_bytes: PINGPONG_BYTES,
        mtu: None,
        rx_depth: PINGPONG_RECEIVES,
        iterations: PINGPONG_ITERATIONS,
        service_level: 0,
        events: false,
        check_data: false,
        timeout: service.place.timeout(),
    };
    let reserved = service.limits.memory.reserve(setup.memory_bytes());
    let _reserved = reserved.map_err(|reason| VerbsError::Declined { reason })?;
    let mut pingpong = Pingpong::prepare(&Library::load()?, setup)?;
    known.local.endpoint = Some(*pingpong.local());
    known.local.mtu_bytes = Some(pingpong.mtu_bytes());
    let connected = pingpong.connect(&client.stream);
    known.remote.endpoint = pingpong.remote().copied();
    connected?;
    let seconds = pingpong.run()?.elapsed.as_secs_f64();
    let (peer, usec_per_iteration) = (client.from.ip(), seconds * 1e6 / f64::from(PINGPONG_ITERATIONS));
    Ok(match service.output {
        Output::Json => {
            json!({"test": "pingpong", "peer": peer, "usec_per_iteration": usec_per_iteration}).to_string()
        }
        Output::Table => {
            format!("{peer} pingpong over {}: {usec_per_iteration:.2} us a round trip", known_port(known))
        }
    })
}

fn known_port(known: &Known) -> String {
    known.choice.as_ref().map(|choice| format!("{}/{}", choice.hca, choice.port)).unwrap_or_default()
}
