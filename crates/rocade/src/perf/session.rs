//! One end of a bandwidth or latency test, from a connected stream to its result: the greeting, the choice of HCA and
//! GID, the run, and what both ends and the port's counters tell of it. Prints nothing: who starts it shows what it sees.

use std::net::TcpStream;
use std::rc::Rc;

use anyhow::Context;
use rocade_core::diagnose::{Counted, Diagnosis, End, Evidence, diagnose};
use rocade_core::gid::{Choice, Connection, Loopback, Wish, choose_gid, loopback};
use rocade_core::host::Counter;
use rocade_core::pair::perf::message::{Key, Memory, Unit};
use rocade_core::pair::perf::{EndFacts, Operation, Options, PerfResult, SizeResult, Sizes};
use rocade_core::pair::{Endpoint, Role};
use rocade_core::{Gid, GidIndex, Host, LinkLayer};
use rocade_verbs::perftest::conversation::{Conversation, Greeting, Own, Peer, greet};
use rocade_verbs::perftest::{Perftest, Progress, Setup};
use rocade_verbs::placement::Placement;
use rocade_verbs::{Library, VerbsError};
use rustix::param::page_size;

use super::options::Where;
use crate::outcome::Advice;
use crate::source::Source;

/// What an end has besides its connection.
pub(crate) struct Session<'a> {
    pub(crate) library: &'a Rc<Library>,
    /// As it was read before the test.
    pub(crate) host: &'a Host,
    pub(crate) role: Role,
    /// What it is to do; a server does what a client of rocade asks.
    pub(crate) options: &'a Options,
    pub(crate) place: &'a Where,
    /// Of the figures that a stock tool is told.
    pub(crate) unit: Unit,
    /// Whether a server takes what a client of rocade asks, or why not.
    pub(crate) accept: &'a dyn Fn(&Options) -> Result<(), String>,
}

/// What is seen on the way.
pub(crate) enum Seen<'a> {
    /// What the test runs over.
    Chosen(&'a Choice),
    /// Both ends' QPs are connected.
    Connected(&'a Connected<'a>),
    /// A run is under way.
    Progress(&'a Progress),
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

/// A result, and what its verdict needs besides.
pub(crate) struct Ended {
    pub(crate) result: PerfResult,
    /// Rate of the slower of both ports as far as they are known, 10⁹ bit/s.
    pub(crate) port_gbps: Option<f64>,
}

/// Why there is no result.
pub(crate) enum Failed {
    /// The test was tried.
    Test(VerbsError, Box<Diagnosis>),
    /// It could not be made.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Failed {
        Failed::Other(error)
    }
}

impl Session<'_> {
    /// Runs the test to its end.
    pub(crate) fn run(&self, stream: &TcpStream, seen: &mut dyn FnMut(Seen<'_>)) -> Result<Ended, Failed> {
        let connection = connection_of(stream)?;
        let mut known = Known { connection: Some(connection), ..Known::default() };
        let greeting = self.greet(stream).map_err(|error| self.failed(error, &known))?;
        self.refuse_unshared(&greeting)?;
        let choice = self.choose(Some(connection))?;
        seen(Seen::Chosen(&choice));
        known.choice = Some(choice.clone());
        known.operation = Some(greeting.options.test.operation);
        let cpus = self.cpus(&choice)?;
        let result = self.test(stream, &greeting, (&choice, cpus), &mut known, seen);
        let results = result.map_err(|error| self.failed(error, &known))?;
        Ok(self.ended(greeting, choice, known, results))
    }

    /// HCA, port and GID; without a connection the likely ones.
    pub(crate) fn choose(&self, connection: Option<Connection>) -> anyhow::Result<Choice> {
        choose(self.host, self.place, connection)
    }

    fn greet(&self, stream: &TcpStream) -> Result<Greeting, VerbsError> {
        let own = Own { version: env!("CARGO_PKG_VERSION"), options: self.options, memory: memory_of_host() };
        greet(stream, self.role, &own, self.place.timeout(), self.accept)
    }

    /// What a stock tool cannot be told.
    fn refuse_unshared(&self, greeting: &Greeting) -> anyhow::Result<()> {
        let Peer::Stock { version } = &greeting.peer else { return Ok(()) };
        let options = &greeting.options;
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

    /// The CPUs that were asked for; else, where they are known and may be used, those near the HCA.
    fn cpus(&self, choice: &Choice) -> anyhow::Result<Option<Vec<usize>>> {
        let root = Source { from: None }.open()?;
        let usable = |cpus: Vec<u32>| {
            let cpus: Vec<usize> = cpus.into_iter().map(|cpu| cpu as usize).collect();
            Placement::pin(&cpus).map(|_| cpus)
        };
        let asked = match (&self.place.cpus, self.place.numa) {
            (Some(list), _) => rocade_host::parse_cpus(list),
            (None, Some(node)) => rocade_host::read_node_cpus(&root, node).ok(),
            (None, None) => {
                let near = rocade_host::read_near_cpus(&root, &choice.hca).ok();
                return Ok(near.and_then(|near| usable(near).ok()));
            }
        };
        let hint =
            "see `lscpu`, and which of them this container may use (Cpus_allowed_list in /proc/self/status)";
        let advice = || Advice::new("cannot run on the CPUs asked for", hint);
        let cpus = asked.filter(|cpus| !cpus.is_empty()).with_context(advice)?;
        Ok(Some(usable(cpus).with_context(advice)?))
    }

    fn test(
        &self,
        stream: &TcpStream,
        greeting: &Greeting,
        (choice, cpus): (&Choice, Option<Vec<usize>>),
        known: &mut Known,
        seen: &mut dyn FnMut(Seen<'_>),
    ) -> Result<Vec<SizeResult>, VerbsError> {
        let setup = Setup {
            hca: choice.hca.clone(),
            port: choice.port,
            gid_index: choice.gid.as_ref().map(|gid| gid.index),
            role: self.role,
            options: greeting.options.clone(),
            memory: greeting.memory,
            timeout: self.place.timeout(),
            hugepages: self.place.hugepages,
            cpus,
        };
        let mut conversation =
            Conversation::new(stream, self.role, greeting, self.unit, self.place.timeout());
        let mut perftest = Perftest::prepare(self.library, setup)?;
        known.local = perftest.local().first().copied();
        known.facts = conversation.exchange_facts(&EndFacts::over(self.host, choice, None))?;
        let connected = perftest.connect(&mut conversation);
        known.remote = perftest.remote().first().copied();
        known.mtu_bytes = Some(perftest.mtu_bytes());
        connected?;
        seen(Seen::Connected(&Connected {
            options: &greeting.options,
            choice,
            local: perftest.local(),
            remote: perftest.remote(),
            link_layer: link_layer(self.host, choice),
            mtu_bytes: perftest.mtu_bytes(),
            inline_bytes: perftest.inline_bytes(),
            outstanding_reads: perftest.outstanding_reads(),
        }));
        perftest.run(conversation, &mut |progress| seen(Seen::Progress(&progress)))
    }

    fn ended(&self, greeting: Greeting, choice: Choice, known: Known, results: Vec<SizeResult>) -> Ended {
        let counters = self.counted(&choice).all_grown();
        let remote = known.remote.map(endpoint);
        let loopback = remote.and_then(|remote| loopback(self.host, &choice, &remote, known.connection));
        let own_rate = EndFacts::over(self.host, &choice, None).rate_gbps;
        let their_rate = known.facts.as_ref().and_then(|facts| facts.rate_gbps);
        let result = PerfResult {
            role: self.role,
            peer: greeting.peer.name(),
            options: greeting.options,
            choice,
            remote: known.facts,
            remote_gid: known.remote.and_then(|key| key.gid),
            path_mtu_bytes: known.mtu_bytes.unwrap_or_default(),
            loopback: loopback.map(|loopback: Loopback| loopback.to_string()),
            results,
            counters,
            verdict: None,
        };
        Ended { result, port_gbps: own_rate.into_iter().chain(their_rate).reduce(f64::min) }
    }

    /// What the port counted since the host was read; nothing where it cannot be read again.
    fn counted(&self, choice: &Choice) -> Counted {
        let counters = |host: &Host| -> Vec<Counter> {
            let port = host.hca(choice.hca.as_str()).and_then(|hca| hca.port(choice.port));
            port.map(|port| port.counters.clone()).unwrap_or_default()
        };
        let after = Source { from: None }.read().map(|host| counters(&host)).unwrap_or_default();
        Counted::between(&counters(self.host), &after)
    }

    fn failed(&self, error: VerbsError, known: &Known) -> Failed {
        let Some(failure) = error.failure() else { return Failed::Other(error.into()) };
        let bytes = Some(u64::from(self.options.sizes.largest()));
        let local = known.choice.as_ref().map(|choice| End::over(self.host, choice)).unwrap_or_default();
        let remote = known.facts.as_ref().map(End::from).unwrap_or_default();
        let evidence = Evidence {
            choice: known.choice.as_ref(),
            connection: known.connection,
            operation: known.operation,
            local: End {
                endpoint: known.local.map(endpoint),
                mtu_bytes: known.mtu_bytes,
                message_bytes: bytes,
                ..local
            },
            remote: End { endpoint: known.remote.map(endpoint), ..remote },
            counted: known.choice.as_ref().map(|choice| self.counted(choice)).unwrap_or_default(),
            memlock: self.host.memlock,
            ..Evidence::of(failure, self.host)
        };
        let diagnosis = Box::new(diagnose(&evidence));
        Failed::Test(error, diagnosis)
    }
}

/// What was learned on the way, for the result and the diagnosis.
#[derive(Default)]
struct Known {
    connection: Option<Connection>,
    choice: Option<Choice>,
    operation: Option<Operation>,
    facts: Option<EndFacts>,
    local: Option<Key>,
    remote: Option<Key>,
    mtu_bytes: Option<u32>,
}

/// What a test runs over, by the options and, once there is one, the connection.
pub(crate) fn choose(host: &Host, place: &Where, connection: Option<Connection>) -> anyhow::Result<Choice> {
    let wish = Wish {
        hca: place.hca.as_ref(),
        port: place.hca_port,
        gid_index: place.gid_index.map(GidIndex),
        connection,
    };
    choose_gid(host, &wish).context(Advice::new("nothing to test over", "see `rocade inventory`"))
}

fn connection_of(stream: &TcpStream) -> anyhow::Result<Connection> {
    let (local, peer) = (stream.local_addr(), stream.peer_addr());
    let read = || Ok::<_, std::io::Error>(Connection { local: local?.ip(), peer: peer?.ip() });
    read().context("read the connection's addresses")
}

/// Where it cannot be read, as of nearly every host.
fn memory_of_host() -> Memory {
    let line = Source { from: None }.open().ok().and_then(|root| rocade_host::read_cache_line(&root).ok());
    Memory { page_bytes: page_size() as u32, line_bytes: line.unwrap_or(64) }
}

fn endpoint(key: Key) -> Endpoint {
    Endpoint { lid: key.lid, qpn: key.qpn, psn: key.psn, gid: key.gid.unwrap_or(Gid([0; 16])) }
}

fn link_layer(host: &Host, choice: &Choice) -> LinkLayer {
    let port = host.hca(choice.hca.as_str()).and_then(|hca| hca.port(choice.port));
    port.map_or(LinkLayer::Unknown, |port| port.link_layer.clone())
}
