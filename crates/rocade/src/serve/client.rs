//! One client, in the thread that its verbs objects stay on: the test that it wants, and a line of what came of it.

use std::cell::RefCell;
use std::net::IpAddr;

use rocade_core::diagnose::End;
use rocade_core::gid::{Choice, loopback};
use rocade_core::pair::Role;
use rocade_core::pair::perf::message::Unit;
use rocade_core::pair::perf::{Operation, Test};
use rocade_verbs::pingpong::{HOP_LIMIT, Pingpong, Setup};
use rocade_verbs::{Library, VerbsError};

use super::Service;
use super::reception::Client;
use crate::cli::Output;
use crate::evidence::{Form, Known, Watch};
use crate::outcome::print;
use crate::perf::cpus::usable_cpus;
use crate::perf::session::{Seen, Session, choose, connection_of};
use crate::perf::table::render_line;
use crate::pingpong::report::tell_choice_of;
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
    let form = match service.output {
        Output::Table => Form::Words,
        Output::Json => Form::Line(from),
    };
    known.conclude_as(form, test, error.context(format!("client {from}"))).map(drop)
}

/// Ahead of what is told of it.
fn name(client: &Client<Test>) -> String {
    format!("client {}: ", client.from.ip())
}

fn serve_perftest(service: &Service, client: &Client<Test>, known: &mut Known) -> anyhow::Result<String> {
    let options = service.stock.options(client.port)?;
    let reserved = RefCell::new(None);
    let accept =
        |asked: &_, pages| service.limits.accept(asked, pages).map(|part| drop(reserved.replace(Some(part))));
    let library = Library::load()?;
    let (role, place, unit) = (Role::Server, &service.place, Unit::Mebibytes);
    let session = Session { library: &library, role, options: &options, place, unit, accept: &accept };
    let seen = &mut |seen: Seen<'_>| {
        if let Seen::Chosen(choice) = seen {
            tell_choice_of(&name(client), choice);
        }
    };
    let result = session.run(&client.stream, known, seen)?.result;
    Ok(match service.output {
        Output::Json => serde_json::to_string(&result)?,
        Output::Table => format!("{} {}", client.from.ip(), render_line(&result)),
    })
}

fn serve_pingpong(service: &Service, client: &Client<Test>, known: &mut Known) -> anyhow::Result<String> {
    let connection = connection_of(&client.stream)?;
    let choice = choose(&known.host, &service.place, Some(connection))?;
    tell_choice_of(&name(client), &choice);
    known.connection = Some(connection);
    (known.operation, known.sends) = (Some(Operation::Send), Some(true));
    known.watch = Watch::over(&choice);
    known.local = End { message_bytes: Some(PINGPONG_BYTES.into()), ..End::over(&known.host, &choice) };
    // Neither end says whether it is ibv_rc_pingpong, which asks for this.
    known.remote.hop_limit = Some(1);
    known.choice = Some(choice.clone());
    let cpus = usable_cpus(&service.place, &choice.hca)?;
    let setup = Setup {
        hca: choice.hca.clone(),
        port: choice.port,
        gid_index: choice.gid.as_ref().map(|gid| gid.index),
        role: Role::Server,
        message_bytes: PINGPONG_BYTES,
        mtu: None,
        rx_depth: PINGPONG_RECEIVES,
        iterations: PINGPONG_ITERATIONS,
        service_level: 0,
        traffic_class: 0,
        pkey_index: 0,
        hop_limit: HOP_LIMIT,
        events: false,
        check_data: false,
        timeout: service.place.timeout(),
        hugepages: service.place.hugepages,
        cpus,
    };
    let reserved = service.limits.memory.reserve(setup.memory_bytes());
    let _reserved = reserved.map_err(|reason| VerbsError::Declined { reason })?;
    let mut pingpong = Pingpong::prepare(&Library::load()?, setup)?;
    known.local.endpoint = Some(*pingpong.local());
    known.local.mtu_bytes = Some(pingpong.mtu_bytes());
    let connected = pingpong.connect(&client.stream);
    known.remote.endpoint = pingpong.remote().copied();
    connected?;
    let seconds = pingpong.run(&mut |_| ())?.elapsed.as_secs_f64();
    let remote = pingpong.remote();
    let loopback = remote.and_then(|remote| loopback(&known.host, &choice, remote, known.connection));
    Ok(PingpongLine {
        peer: client.from.ip(),
        choice,
        loopback: loopback.map(|loopback| loopback.to_string()),
        usec_per_iteration: seconds * 1e6 / f64::from(PINGPONG_ITERATIONS),
    }
    .render(service.output)?)
}

/// What came of a pingpong.
struct PingpongLine {
    peer: IpAddr,
    choice: Choice,
    loopback: Option<String>,
    usec_per_iteration: f64,
}

impl PingpongLine {
    fn render(&self, output: Output) -> serde_json::Result<String> {
        let PingpongLine { peer, choice, loopback, usec_per_iteration } = self;
        if output == Output::Json {
            let mut line = serde_json::to_value(choice)?;
            line["test"] = "pingpong".into();
            line["peer"] = peer.to_string().into();
            line["loopback"] = loopback.clone().into();
            line["usec_per_iteration"] = (*usec_per_iteration).into();
            return Ok(line.to_string());
        }
        let loopback = loopback.as_ref().map_or_else(String::new, |loopback| format!(" ({loopback})"));
        let over = format!("{}/{}", choice.hca, choice.port);
        Ok(format!("{peer} pingpong over {over}: {usec_per_iteration:.2} us a round trip{loopback}"))
    }
}

#[cfg(test)]
mod tests {
    use rocade_core::PortNum;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_pingpongs_line_says_what_it_ran_over_and_whether_no_fabric_was_in_between() {
        let choice = Choice {
            hca: "rxe1".parse().unwrap(),
            port: PortNum(1),
            gid: None,
            reason: "asked for".into(),
            warnings: vec!["odd".into()],
        };
        let loopback = Some("loopback, not fabric: both ends are on rxe1".to_owned());
        let peer = "10.8.10.2".parse().unwrap();
        let line = PingpongLine { peer, choice, loopback, usec_per_iteration: 12.5 };
        assert_eq!(
            line.render(Output::Table).unwrap(),
            "10.8.10.2 pingpong over rxe1/1: 12.50 us a round trip (loopback, not fabric: both ends are on rxe1)"
        );
        let whole: Value = serde_json::from_str(&line.render(Output::Json).unwrap()).unwrap();
        assert_eq!(
            [&whole["test"], &whole["hca"], &whole["reason"], &whole["warnings"][0], &whole["loopback"]],
            ["pingpong", "rxe1", "asked for", "odd", "loopback, not fabric: both ends are on rxe1"]
        );
        assert_eq!(whole["usec_per_iteration"], 12.5);
        let apart = PingpongLine { loopback: None, ..line };
        assert!(apart.render(Output::Table).unwrap().ends_with("12.50 us a round trip"));
    }
}
