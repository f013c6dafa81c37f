//! The first messages: which program and version is at the other end, what both are to do, and how their hosts' memory
//! is laid out. Needs no HCA.

use std::net::TcpStream;
use std::time::Duration;

use rocade_core::Gid;
use rocade_core::pair::Role;
use rocade_core::pair::perf::Options;
use rocade_core::pair::perf::block::{BlockError, Content, Hello};
use rocade_core::pair::perf::message::{Announcement, DIALECT, Memory, OLDEST, VERSION_BYTES};

use super::{own, stock};
use crate::error::VerbsError;

/// The other end's program.
#[derive(Debug, Clone, PartialEq)]
pub enum Peer {
    /// Rocade.
    Rocade {
        /// Its version.
        version: String,
        /// What is spoken with it.
        dialect: u8,
    },
    /// Perftest.
    Stock {
        /// Its version, as `6.06`.
        version: String,
    },
}

impl Peer {
    /// As `rocade 0.1.0` or `perftest 6.06`.
    pub fn name(&self) -> String {
        match self {
            Peer::Rocade { version, .. } => format!("rocade {version}"),
            Peer::Stock { version } => format!("perftest {version}"),
        }
    }
}

/// What both ends know after the first messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Greeting {
    /// The other end's program.
    pub peer: Peer,
    /// What both ends do: the client's options between two ends of rocade, this end's with a stock tool.
    pub options: Options,
    /// The larger of both ends' pages and lines.
    pub memory: Memory,
    /// The GID that a client of rocade means to use; None where it did not say.
    pub gid: Option<Gid>,
}

/// What this end says of itself.
#[derive(Debug, Clone)]
pub struct Own<'a> {
    /// Its version of rocade.
    pub version: &'a str,
    /// What it is to do; a server does what a client of rocade asks instead.
    pub options: &'a Options,
    /// Its host's memory.
    pub memory: Memory,
    /// The GID that it means to use, of a client.
    pub gid: Option<Gid>,
}

/// Greets the other end, each message within the timeout. `accept` says for a server whether it takes what a client of
/// rocade asks for, or its own options with a stock one, with the larger of both ends' pages and lines, or why not, which
/// a client of rocade is told.
pub fn greet(
    stream: &TcpStream,
    role: Role,
    own: &Own<'_>,
    timeout: Duration,
    accept: &dyn Fn(&Options, Memory) -> Result<(), String>,
) -> Result<Greeting, VerbsError> {
    let what = "the other end's version";
    let theirs: [u8; VERSION_BYTES] = stock::swap(stream, role, &Announcement::own(), what, timeout)?;
    let Some(theirs) = Announcement::parse(&theirs) else {
        return Err(stock::garbage(what, &theirs));
    };
    if let Some(dialect) = theirs.dialect {
        let dialect = dialect.min(DIALECT);
        let theirs = match role {
            Role::Client => ask(stream, own, timeout)?,
            Role::Server => answer(stream, own, timeout, accept)?,
        };
        let peer = Peer::Rocade { version: theirs.version, dialect };
        let (memory, gid) = (theirs.memory.max(own.memory), theirs.gid);
        return Ok(Greeting { peer, options: theirs.options, memory, gid });
    }
    if theirs.number() < OLDEST {
        return Err(VerbsError::Version { theirs: theirs.version });
    }
    let memory = stock::swap_memory(stream, role, own.memory, timeout)?.max(own.memory);
    if role == Role::Server {
        accept(own.options, memory).map_err(|reason| VerbsError::Declined { reason })?;
    }
    let peer = Peer::Stock { version: theirs.version };
    Ok(Greeting { peer, options: own.options.clone(), memory, gid: None })
}

fn hello(own: &Own<'_>, options: &Options) -> Hello {
    Hello { version: own.version.to_owned(), memory: own.memory, gid: own.gid, options: options.clone() }
}

fn ask(stream: &TcpStream, own: &Own<'_>, timeout: Duration) -> Result<Hello, VerbsError> {
    own::send_block(stream, &hello(own, own.options), timeout)?;
    let theirs = own::receive_block::<Hello>(stream, Some(timeout))?;
    check_memory(&theirs)?;
    if theirs.options == *own.options {
        return Ok(theirs);
    }
    let reason =
        format!("the server, rocade {}, understands other options than were asked for", theirs.version);
    own::send_failed(stream, &reason, None);
    Err(odd(reason))
}

fn answer(
    stream: &TcpStream,
    own: &Own<'_>,
    timeout: Duration,
    accept: &dyn Fn(&Options, Memory) -> Result<(), String>,
) -> Result<Hello, VerbsError> {
    let theirs = own::receive_block::<Hello>(stream, Some(timeout))?;
    check_memory(&theirs)?;
    let checked = theirs.options.check().map_err(|contradiction| contradiction.to_string());
    let memory = theirs.memory.max(own.memory);
    if let Err(reason) = checked.and_then(|()| accept(&theirs.options, memory)) {
        own::send_failed(stream, &reason, None);
        return Err(VerbsError::Declined { reason });
    }
    own::send_block(stream, &hello(own, &theirs.options), timeout)?;
    Ok(theirs)
}

fn check_memory(theirs: &Hello) -> Result<(), VerbsError> {
    let Memory { page_bytes, line_bytes } = theirs.memory;
    let error = || odd(format!("pages of {page_bytes} and lines of {line_bytes} bytes"));
    theirs.memory.is_likely().then_some(()).ok_or_else(error)
}

fn odd(reason: String) -> VerbsError {
    VerbsError::Block { wanted: Hello::KIND.words(), source: BlockError::Payload { reason } }
}
