//! One end of a bandwidth or latency test, from a connected stream to its result: the greeting, the choice of HCA and
//! GID, the run, and what both ends and the port's counters tell of it. Prints nothing: who starts it shows what it sees.

use std::net::{IpAddr, TcpStream};
use std::rc::Rc;

use anyhow::Context;
use rocade_core::diagnose::End;
use rocade_core::gid::{
    Choice, Connection, Loopback, NoChoice, Wish, choose_gid, choose_other, loopback, loopback_of_boot,
};
use rocade_core::names::Pkey;
use rocade_core::pair::perf::message::{Key, Memory, Unit};
use rocade_core::pair::perf::statistics::Samples;
use rocade_core::pair::perf::{EndFacts, Options, PerfResult, SizeResult, Sizes};
use rocade_core::pair::{Endpoint, Role};
use rocade_core::{Gid, GidIndex, Host, LinkLayer};
use rocade_verbs::perftest::conversation::{Conversation, Greeting, Own, Peer, greet};
use rocade_verbs::perftest::{Event, Perftest, Progress, Setup};
use rocade_verbs::{Library, VerbsError};
use rustix::param::page_size;

use super::cpus::{cpus_in_words, usable_cpus};
use super::options::Where;
use crate::evidence::{Known, Watch, tried};
use crate::outcome::Advice;
use crate::source::Source;

/// What an end has besides its connection.
pub(crate) struct Session<'a> {
    pub(crate) library: &'a Rc<Library>,
    pub(crate) role: Role,
    /// What it is to do; a server does what a client of rocade asks.
    pub(crate) options: &'a Options,
    pub(crate) place: &'a Where,
    /// Of the figures that a stock tool is told.
    pub(crate) unit: Unit,
    /// Whether a server takes what a client of rocade asks, or its own options with a stock one, with the larger of both
    /// ends' pages; or why not.
    pub(crate) accept: &'a dyn Fn(&Options, Memory) -> Result<(), String>,
}

/// What is seen on the way.
pub(crate) enum Seen<'a> {
    /// What the test runs over.
    Chosen(&'a Choice),
    /// Both ends' QPs are connected.
    Connected(&'a Connected<'a>),
    /// A run is under way.
    Progress(&'a Progress),
    /// The times of a size's messages in a latency test.
    Samples(&'a Samples),
    /// A size has run.
    Found(&'a SizeResult),
}

/// Both ends, connected.
pub(crate) struct Connected<'a> {
    pub(crate) options: &'a Options,
    pub(crate) choice: &'a Choice,
    pub(crate) local: &'a [Key],
    pub(crate) remote: &'a [Key],
    pub(crate) link_layer: LinkLayer,
    pub(crate) mtu_bytes: u32,
    pub(crate) inline_bytes: u32,
    pub(crate) outstanding_reads: u8,
}

impl Connected<'_> {
    /// What there is less of than was asked for, a sentence each.
    pub(crate) fn lowered(&self) -> Vec<String> {
        let Connected { mtu_bytes, inline_bytes, outstanding_reads, .. } = *self;
        self.options.lowered(mtu_bytes, inline_bytes, outstanding_reads)
    }
}

/// A result, and what its verdict needs besides.
pub(crate) struct Ended {
    pub(crate) result: PerfResult,
    /// Rate of the slower of both ports as far as they are known, 10⁹ bit/s.
    pub(crate) port_gbps: Option<f64>,
}

impl Session<'_> {
    /// Runs the test to its end. `known` holds the host; what is learned on the way is put into it, for the diagnosis of
    /// an error.
    pub(crate) fn run(
        &self,
        stream: &TcpStream,
        known: &mut Known,
        seen: &mut dyn FnMut(Seen<'_>),
    ) -> anyhow::Result<Ended> {
        let connection = connection_of(stream)?;
        known.connection = Some(connection);
        let own = Own {
            version: env!("CARGO_PKG_VERSION"),
            options: self.options,
            memory: memory_of_host(),
            gid: self.meant(known),
        };
        let greeting = greet(stream, self.role, &own, self.place.timeout(), self.accept)?;
        let timeout = self.place.timeout();
        let mut conversation = Conversation::new(stream, self.role, &greeting, self.unit, timeout);
        let routable = greeting.gid.filter(|gid| !gid.is_link_local());
        let near = routable.filter(|_| self.role == Role::Server).and_then(|gid| gid.address());
        let (mut perftest, choice, facts) = match self.connect(near, &mut conversation, known, seen) {
            Ok(connected) => connected,
            Err(error) => {
                let failure = error.downcast_ref().and_then(VerbsError::failure);
                conversation.fail(&format!("{error:#}"), failure.is_some_and(|failure| failure.is_of_rdma()));
                return Err(error);
            }
        };
        seen(Seen::Connected(&connected(&perftest, &greeting.options, &choice, &known.host)));
        let results = perftest.run(conversation, &mut |event| match event {
            Event::Progress(progress) => seen(Seen::Progress(&progress)),
            Event::Samples(samples) => seen(Seen::Samples(samples)),
            Event::Found(size) => seen(Seen::Found(size)),
        })?;
        Ok(self.ended(&perftest, &greeting, known, choice, facts, results))
    }

    /// What a client means to use, as far as that needs no other end; None of an HCA that it will have to pass over.
    fn meant(&self, known: &Known) -> Option<Gid> {
        let choice = || choose(&known.host, self.place, known.connection).ok();
        let choice = (self.role == Role::Client).then(choice)??;
        let entry = choice.gid?;
        tried(&known.host).get(&choice.hca)?.is_none().then_some(entry.gid)
    }

    /// What a stock tool cannot be told.
    fn refuse_unshared(&self, conversation: &Conversation<'_>) -> anyhow::Result<()> {
        let Peer::Stock { version } = conversation.peer() else { return Ok(()) };
        let options = conversation.options();
        let asked = match (&options.sizes, options.data_seed) {
            (Sizes::List(_), _) => "a list of sizes (--sizes)",
            (_, Some(_)) => "comparing every byte (--check)",
            _ => return Ok(()),
        };
        let hint = format!("start `rocade {}` there too, or leave that out", options.test);
        Err(anyhow::anyhow!(Advice::new(
            format!("perftest {version} at the other end knows no {asked}"),
            hint
        )))
    }

    /// Chooses HCA and GID, makes this end's verbs objects and connects them with the other end's.
    fn connect(
        &self,
        near: Option<IpAddr>,
        conversation: &mut Conversation<'_>,
        known: &mut Known,
        seen: &mut dyn FnMut(Seen<'_>),
    ) -> anyhow::Result<(Perftest, Choice, Option<EndFacts>)> {
        self.refuse_unshared(conversation)?;
        // A server chooses as if the connection came from what the client means to use: its rail, and its family.
        let connection = known.connection.map(|own| Connection { peer: near.unwrap_or(own.peer), ..own });
        let (mut perftest, choice) = self.open(connection, conversation, known, seen)?;
        known.local.endpoint = perftest.local().first().map(endpoint);
        let pkey_index = conversation.options().pkey_index.into();
        let pkey = known.watch.as_ref().and_then(|watch| watch.pkey(pkey_index).0);
        let facts = conversation.exchange_facts(&own_facts(&known.host, &choice, pkey))?;
        if let Some(facts) = &facts {
            // Both ends of rocade do the same.
            let shared = End { message_bytes: known.local.message_bytes, ..End::from(facts) };
            known.remote = End { receive_depth: known.local.receive_depth, ..shared };
        }
        let connected = perftest.connect(conversation);
        known.remote.endpoint = perftest.remote().first().map(endpoint);
        known.local.mtu_bytes = Some(perftest.mtu_bytes());
        connected?;
        Ok((perftest, choice, facts))
    }

    /// Chooses, and makes this end's verbs objects; once more without an HCA whose node does not open, as one that a
    /// container has by its path alone.
    fn open(
        &self,
        connection: Option<Connection>,
        conversation: &Conversation<'_>,
        known: &mut Known,
        seen: &mut dyn FnMut(Seen<'_>),
    ) -> anyhow::Result<(Perftest, Choice)> {
        let first = choose(&known.host, self.place, connection)?;
        let error = match self.open_over(&first, conversation, known, seen) {
            Ok(perftest) => return Ok((perftest, first)),
            Err(error) => error,
        };
        let Some(second) = choose_again(&known.host, self.place, connection, &first, &error) else {
            return Err(error);
        };
        Ok((self.open_over(&second, conversation, known, seen)?, second))
    }

    fn open_over(
        &self,
        choice: &Choice,
        conversation: &Conversation<'_>,
        known: &mut Known,
        seen: &mut dyn FnMut(Seen<'_>),
    ) -> anyhow::Result<Perftest> {
        seen(Seen::Chosen(choice));
        let options = conversation.options().clone();
        learn(known, self.role, &options, choice);
        let setup = Setup {
            hca: choice.hca.clone(),
            port: choice.port,
            gid_index: choice.gid.as_ref().map(|gid| gid.index),
            role: self.role,
            options,
            memory: conversation.memory(),
            timeout: self.place.timeout(),
            hugepages: self.place.hugepages,
            cpus: usable_cpus(self.place, &choice.hca)?,
        };
        Ok(Perftest::prepare(self.library, setup)?)
    }

    fn ended(
        &self,
        perftest: &Perftest,
        greeting: &Greeting,
        known: &Known,
        choice: Choice,
        facts: Option<EndFacts>,
        results: Vec<SizeResult>,
    ) -> Ended {
        let own = own_facts(&known.host, &choice, None);
        let their_rate = facts.as_ref().and_then(|facts| facts.rate_gbps);
        let remote = known.remote.endpoint;
        let loopback = remote.and_then(|remote| loopback(&known.host, &choice, &remote, known.connection));
        let loopback = loopback.or_else(|| loopback_of_boot(&own, facts.as_ref()?));
        let result = PerfResult {
            role: self.role,
            peer: greeting.peer.name(),
            options: greeting.options.clone(),
            remote: facts,
            remote_gid: perftest.remote().first().and_then(|key| key.gid),
            path_mtu_bytes: perftest.mtu_bytes(),
            loopback: loopback.map(|loopback: Loopback| loopback.to_string()),
            cpus: cpus_in_words(),
            results,
            counters: known.watch.as_ref().map(|watch| watch.counted().all_grown()).unwrap_or_default(),
            verdict: None,
            choice,
        };
        Ended { result, port_gbps: own.rate_gbps.into_iter().chain(their_rate).reduce(f64::min) }
    }
}

fn own_facts(host: &Host, choice: &Choice, pkey: Option<Pkey>) -> EndFacts {
    let boot_id = Source { from: None }.open().ok().and_then(|root| rocade_host::read_boot_id(&root));
    EndFacts { boot_id, ..EndFacts::over(host, choice, pkey) }
}

/// What this end has over a choice, and the port watched from now on.
fn learn(known: &mut Known, role: Role, options: &Options, choice: &Choice) {
    known.choice = Some(choice.clone());
    known.operation = Some(options.test.operation);
    known.sends = Some(options.both_post() || role == Role::Client);
    known.watch = Watch::over(choice);
    known.local = End {
        // Of several sizes it is not known here which one fails.
        message_bytes: match &options.sizes {
            Sizes::One(bytes) => Some(u64::from(*bytes)),
            Sizes::All | Sizes::List(_) => None,
        },
        pkey_index: Some(options.pkey_index.into()),
        service_level: Some(options.service_level),
        traffic_class: Some(options.traffic_class),
        receive_depth: Some(options.rx_depth),
        ..End::over(&known.host, choice)
    };
}

fn connected<'a>(
    perftest: &'a Perftest,
    options: &'a Options,
    choice: &'a Choice,
    host: &Host,
) -> Connected<'a> {
    let port = host.hca(choice.hca.as_str()).and_then(|hca| hca.port(choice.port));
    Connected {
        options,
        choice,
        local: perftest.local(),
        remote: perftest.remote(),
        link_layer: port.map_or(LinkLayer::Unknown, |port| port.link_layer.clone()),
        mtu_bytes: perftest.mtu_bytes(),
        inline_bytes: perftest.inline_bytes(),
        outstanding_reads: perftest.outstanding_reads(),
    }
}

/// What a test runs over, by the options and, once there is one, the connection.
pub(crate) fn choose(host: &Host, place: &Where, connection: Option<Connection>) -> Result<Choice, NoChoice> {
    choose_gid(host, &wish(place, connection))
}

/// Another choice, where the first failed as its HCA's node does not open.
pub(crate) fn choose_again(
    host: &Host,
    place: &Where,
    connection: Option<Connection>,
    first: &Choice,
    error: &anyhow::Error,
) -> Option<Choice> {
    let is_unopened = matches!(error.downcast_ref(), Some(VerbsError::Call { verb: "ibv_open_device", .. }));
    let tried = is_unopened.then(|| tried(host))?;
    choose_other(host, &wish(place, connection), &first.hca, &tried)
}

fn wish(place: &Where, connection: Option<Connection>) -> Wish<'_> {
    Wish {
        hca: place.hca.as_ref(),
        port: place.hca_port,
        gid_index: place.gid_index.map(GidIndex),
        connection,
        ipv6: place.ipv6,
    }
}

/// Both addresses of a test's connection.
pub(crate) fn connection_of(stream: &TcpStream) -> anyhow::Result<Connection> {
    let (local, peer) = (stream.local_addr(), stream.peer_addr());
    let read = || Ok::<_, std::io::Error>(Connection { local: local?.ip(), peer: peer?.ip() });
    read().context("read the connection's addresses")
}

/// Where it cannot be read, as of nearly every host.
fn memory_of_host() -> Memory {
    let line = Source { from: None }.open().ok().and_then(|root| rocade_host::read_cache_line(&root).ok());
    Memory { page_bytes: page_size() as u32, line_bytes: line.unwrap_or(64) }
}

fn endpoint(key: &Key) -> Endpoint {
    Endpoint { lid: key.lid, qpn: key.qpn, psn: key.psn, gid: key.gid.unwrap_or(Gid([0; 16])) }
}
