//! One client, in the thread that its verbs objects stay on: the test that it wants, and a line of what came of it.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::Context;
use rocade_core::gid::Connection;
use rocade_core::pair::Role;
use rocade_core::pair::perf::Test;
use rocade_core::pair::perf::message::Unit;
use rocade_verbs::Library;
use rocade_verbs::pingpong::{Pingpong, Setup};

use super::Service;
use super::reception::Client;
use crate::cli::Output;
use crate::outcome::print;
use crate::perf::session::{Failed, Session, choose};
use crate::perf::table::render_line;
use crate::perf::{advise, failure};
use crate::source::Source;

/// What ibv_rc_pingpong does without options: nothing of it is exchanged.
const PINGPONG_BYTES: u32 = 4096;
const PINGPONG_ITERATIONS: u32 = 1000;
const PINGPONG_RECEIVES: u32 = 500;

/// Serves a client to its end.
pub(super) fn serve(service: &Service, client: &Client<Test>) -> anyhow::Result<()> {
    if client.pingpong { serve_pingpong(service, client) } else { serve_perftest(service, client) }
}

fn serve_perftest(service: &Service, client: &Client<Test>) -> anyhow::Result<()> {
    let options = service.stock.options(client.port)?;
    // A stock client's; one of rocade's own says what it needs.
    let reserved = RefCell::new(Some(
        service.limits.memory.reserve(options.buffer_bytes()).map_err(anyhow::Error::msg)?,
    ));
    let accept = |asked: &_| {
        reserved.take();
        service.limits.accept(asked).map(|part| drop(reserved.replace(Some(part))))
    };
    let host = Source { from: None }.read()?;
    let library = Library::load().map_err(advise)?;
    let session = Session {
        library: &library,
        host: &host,
        role: Role::Server,
        options: &options,
        place: &service.place,
        unit: Unit::Mebibytes,
        accept: &accept,
    };
    let ended = session.run(&client.stream, &mut |_| ()).map_err(|failed| match failed {
        Failed::Other(error) => error,
        Failed::Test(error, diagnosis) => failure(options.test.name(), error, &diagnosis),
    })?;
    match service.output {
        Output::Json => print(&format!("{}\n", serde_json::to_string(&ended.result)?)),
        Output::Table => print(&format!("{} {}\n", client.from.ip(), render_line(&ended.result))),
    }
}

fn serve_pingpong(service: &Service, client: &Client<Test>) -> anyhow::Result<()> {
    let host = Source { from: None }.read()?;
    let (local, peer) = (client.stream.local_addr(), client.stream.peer_addr());
    let addresses = || Ok::<_, std::io::Error>(Connection { local: local?.ip(), peer: peer?.ip() });
    let connection = addresses().context("read the connection's addresses")?;
    let choice = choose(&host, &service.place, Some(connection))?;
    let library = Library::load().map_err(advise)?;
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
        timeout: Duration::from_secs(service.place.timeout),
    };
    let mut pingpong = Pingpong::prepare(&library, setup).map_err(advise)?;
    pingpong.connect(&client.stream).map_err(advise)?;
    let seconds = pingpong.run().map_err(advise)?.elapsed.as_secs_f64();
    let each = seconds * 1e6 / f64::from(PINGPONG_ITERATIONS);
    let from = client.from.ip();
    match service.output {
        Output::Json => print(&format!(
            "{}\n",
            serde_json::json!({"test": "pingpong", "peer": from, "usec_per_iteration": each})
        )),
        Output::Table => {
            print(&format!("{from} pingpong: {PINGPONG_ITERATIONS} round trips of {each:.2} us\n"))
        }
    }
}
