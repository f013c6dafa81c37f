//! What can go wrong with verbs, and which of it is a failure of RDMA itself.

use std::io;
use std::time::Duration;

use rocade_core::diagnose::{Exchange, Failure, State, Unlike};
use rocade_core::pair::ParseMessageError;
use rocade_core::pair::perf::block::BlockError;
use rocade_core::pair::perf::{Amount, Options};

/// An operation that failed, on what; the cause is the source.
#[derive(Debug, thiserror::Error)]
pub enum VerbsError {
    /// The library, or a function of it, is not there.
    #[error("cannot load {library}")]
    Load {
        /// File name as given to dlopen.
        library: &'static str,
        /// The dynamic linker's reason; it names the file or the symbol.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kernel may list the HCA, libibverbs does not offer it.
    #[error("libibverbs offers no HCA {wanted}; it offers {}", if .offered.is_empty() { "none".into() } else { .offered.join(", ") })]
    NotOffered {
        /// The HCA asked for.
        wanted: String,
        /// Names and node GUIDs of those that it offers.
        offered: Vec<String>,
    },
    /// A verb failed.
    #[error("{verb} on {operand}")]
    Call {
        /// Name of the function.
        verb: &'static str,
        /// The object it was for.
        operand: String,
        /// Its errno.
        source: io::Error,
    },
    /// Memory could not be registered.
    #[error("ibv_reg_mr of {bytes} bytes for {hca}")]
    Memory {
        /// HCA that was to reach it.
        hca: String,
        /// How much of it.
        bytes: u64,
        /// Its errno.
        source: io::Error,
    },
    /// The QP did not reach a state.
    #[error("cannot move the QP on {hca} to {to}")]
    Transition {
        /// HCA of the QP.
        hca: String,
        /// The state.
        to: &'static str,
        /// Errno of ibv_modify_qp.
        source: io::Error,
    },
    /// Bytes outside a memory region.
    #[error("bytes {start}..{end} are outside a memory region of {length} bytes")]
    Range {
        /// First byte.
        start: usize,
        /// Byte after the last.
        end: usize,
        /// Size of the region.
        length: usize,
    },
    /// There are too few huge pages.
    #[error("cannot have {wanted} huge pages of 2 MiB")]
    HugePages {
        /// How many were asked for.
        wanted: usize,
        /// Errno of mmap.
        source: io::Error,
    },
    /// The MTU asked for is more than the port has now.
    #[error("an MTU of {wanted} bytes was asked for, the port {port} has {active}")]
    MtuTooLarge {
        /// HCA/port.
        port: String,
        /// Asked for, bytes.
        wanted: u32,
        /// The port's active MTU, bytes.
        active: u32,
    },
    /// The GID table holds nothing at the index.
    #[error("GID index {index} of {port} is not set")]
    UnsetGid {
        /// HCA/port.
        port: String,
        /// The index.
        index: u32,
    },
    /// The GID's index does not fit into `ibv_global_route.sgid_index`, which is a byte.
    #[error("GID index {index} cannot be used by verbs, which carry it in a byte (0 to 255)")]
    GidBeyondByte {
        /// The index.
        index: u32,
    },
    /// A message of the TCP exchange did not come, or go, as it was to.
    #[error("wanted {wanted}; {}", .end.words(.seen))]
    Exchange {
        /// What was to come or go.
        wanted: String,
        /// The bytes that came; the first of them, if they are many.
        seen: Vec<u8>,
        /// What happened then.
        end: Ended,
        /// Errno of a connection that broke.
        source: Option<io::Error>,
    },
    /// The other end closed the connection, broke it or fell silent on it once both were connected.
    #[error("the test broke off{}", after_messages(*.done))]
    Midway {
        /// The message that was due.
        source: Box<VerbsError>,
        /// Messages before it; 0 also of an end that counts none.
        done: u64,
    },
    /// The other end sent something else than its address.
    #[error("wanted the other end's address")]
    Garbage {
        /// What came.
        #[from]
        source: ParseMessageError,
    },
    /// The other end, which is rocade too, sent something else than what was due.
    #[error("wanted {wanted}")]
    Block {
        /// What was due.
        wanted: &'static str,
        /// What came.
        source: BlockError,
    },
    /// The other end's version of the protocol cannot be spoken with.
    #[error("the other end is perftest {theirs}, whose exchange is another one")]
    Version {
        /// As it announces it.
        theirs: String,
    },
    /// Both ends were started with options that do not fit each other.
    #[error("the ends differ in {}: {here} here, {} there", in_words(*.what), .there.as_deref().unwrap_or("another"))]
    Unlike {
        /// What differs.
        what: Unlike,
        /// At this end.
        here: String,
        /// At the other end; None where only that they differ is known.
        there: Option<String>,
    },
    /// The other end, which is rocade too, does not take what was asked for.
    #[error("the other end refuses: {reason}")]
    Refused {
        /// Its words.
        reason: String,
    },
    /// The other end, which is rocade too, gave up a test that was under way.
    #[error("the other end gave up: {reason}")]
    GaveUp {
        /// Its words.
        reason: String,
        /// Whether RDMA itself failed there.
        of_rdma: bool,
    },
    /// The client asks for what this end will not do.
    #[error("a client asked for what is refused here: {reason}")]
    Declined {
        /// Why it is refused.
        reason: String,
    },
    /// A work request completed with an error.
    #[error(
        "a {request} failed after {done} that were good: {text} (status {status}, vendor's code {vendor_err})"
    )]
    Completion {
        /// `send`, `receive` or `message`.
        request: &'static str,
        /// `enum ibv_wc_status`.
        status: u32,
        /// The vendor's own code.
        vendor_err: u32,
        /// libibverbs' word for the status.
        text: String,
        /// Messages, or round trips, before it.
        done: u64,
    },
    /// An event says that the test cannot go on.
    #[error("{event} on {on} after {done} messages")]
    Event {
        /// libibverbs' words for it.
        event: String,
        /// HCA, or HCA/port.
        on: String,
        /// Messages before it.
        done: u64,
    },
    /// No work request completed in time.
    #[error("nothing happened for {seconds} s after {done}{} messages", .of.map(|of| format!(" of {of}")).unwrap_or_default())]
    Silence {
        /// The timeout.
        seconds: u64,
        /// Messages, or round trips, done.
        done: u64,
        /// As many were wanted; None where that is not known.
        of: Option<u64>,
    },
    /// Nothing to measure completed within what is counted of a test by time.
    #[error(
        "of the {seconds} s of the test {counted_seconds} s are counted, and too few messages were done in them"
    )]
    Uncounted {
        /// Of the test.
        seconds: u32,
        /// Without the margins at its ends.
        counted_seconds: f64,
    },
    /// A message of another size arrived.
    #[error("a message of {seen} bytes arrived, {wanted} were expected")]
    Size {
        /// Bytes that arrived.
        seen: u32,
        /// Bytes of our own messages.
        wanted: u32,
    },
    /// A message with a wrong byte arrived.
    #[error("byte {at} of message {message} is 0x{seen:02x}, expected 0x{wanted:02x}")]
    Data {
        /// Number of the message, from 1.
        message: u64,
        /// Offset of the first wrong byte.
        at: usize,
        /// The byte that arrived.
        seen: u8,
        /// The byte that was to arrive.
        wanted: u8,
    },
}

/// How a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It came whole, and is something else.
    Whole,
    /// The other end closed the connection.
    Closed,
    /// The time was up.
    TimeUp {
        /// The time.
        after: Duration,
    },
    /// The connection broke.
    Broke,
}

/// So many bytes of a wrong answer are shown.
const SHOWN: usize = 32;

impl Ended {
    fn words(self, seen: &[u8]) -> String {
        let bytes = match seen {
            [] => "0 bytes".to_owned(),
            _ => format!("{} bytes: `{}`", seen.len(), seen[..seen.len().min(SHOWN)].escape_ascii()),
        };
        match self {
            Ended::Whole => format!("{bytes} came"),
            Ended::Closed => format!("the other end closed the connection after {bytes}"),
            Ended::TimeUp { after } => {
                let seconds = (after.as_secs_f32() * 10.0).round() / 10.0;
                format!("the time of {seconds} s was up after {bytes}")
            }
            Ended::Broke => format!("the connection broke after {bytes}"),
        }
    }
}

fn after_messages(done: u64) -> String {
    if done == 0 { String::new() } else { format!(" after {done} messages") }
}

/// As the option is named.
fn in_words(what: Unlike) -> &'static str {
    match what {
        Unlike::Test => "their test",
        Unlike::Size => "the size of a message",
        Unlike::QueuePairs => "the number of QPs",
        Unlike::Direction => "the directions",
        Unlike::Iterations => "the number of messages",
        Unlike::Duration => "a test's end, by number or by time",
        Unlike::Addressing => "addressing",
    }
}

impl VerbsError {
    /// The failure that this is, for a diagnosis; None where the error says all there is to say.
    pub fn failure(&self) -> Option<Failure> {
        let errno = |source: &io::Error| source.raw_os_error().unwrap_or_default();
        Some(match self {
            VerbsError::Load { source, .. } => {
                // The reason itself is the last of the chain.
                let mut reason: &dyn std::error::Error = source.as_ref();
                while let Some(deeper) = reason.source() {
                    reason = deeper;
                }
                Failure::Library { reason: reason.to_string() }
            }
            VerbsError::NotOffered { wanted, offered } => {
                Failure::NotOffered { hca: wanted.clone(), offered: offered.clone() }
            }
            VerbsError::Call { verb, source, .. } => {
                Failure::Verb { verb: (*verb).to_owned(), errno: errno(source), bytes: None }
            }
            VerbsError::Memory { bytes, source, .. } => {
                let verb = "ibv_reg_mr".to_owned();
                Failure::Verb { verb, errno: errno(source), bytes: Some(*bytes) }
            }
            VerbsError::Transition { to, source, .. } => {
                let to = match *to {
                    "INIT" => State::Init,
                    "RTR" => State::Rtr,
                    _ => State::Rts,
                };
                Failure::Transition { to, errno: errno(source) }
            }
            VerbsError::Completion { status, done, .. } => {
                Failure::Completion { status: *status, done: *done }
            }
            VerbsError::Silence { done, .. } => Failure::Silence { done: *done },
            VerbsError::Size { seen, .. } => Failure::Size { seen: *seen },
            VerbsError::Data { .. } => Failure::Data,
            VerbsError::Event { event, on, done } => {
                Failure::Event { event: event.clone(), on: on.clone(), done: *done }
            }
            VerbsError::Midway { source, done } => {
                Failure::Midway { exchange: source.exchange()?, done: *done }
            }
            _ => return self.exchange().map(Failure::Exchange),
        })
    }

    /// The same error of a test that ran already.
    pub(crate) fn midway(self) -> VerbsError {
        match self {
            VerbsError::Exchange { end: Ended::Closed | Ended::Broke | Ended::TimeUp { .. }, .. } => {
                VerbsError::Midway { source: Box::new(self), done: 0 }
            }
            other => other,
        }
    }

    /// The same error after so many more messages that were good.
    pub(crate) fn after(mut self, more: u64) -> VerbsError {
        match &mut self {
            VerbsError::Completion { done, .. }
            | VerbsError::Event { done, .. }
            | VerbsError::Silence { done, .. }
            | VerbsError::Midway { done, .. } => *done += more,
            _ => {}
        }
        self
    }

    /// Of a test by time that has nothing to show.
    pub(crate) fn uncounted(options: &Options) -> VerbsError {
        let seconds = match options.amount {
            Amount::Seconds(seconds) => seconds,
            Amount::Iterations(_) => 0,
        };
        let margins = 2.0 * options.margin_nanoseconds() as f64 / 1e9;
        VerbsError::Uncounted { seconds, counted_seconds: f64::from(seconds) - margins }
    }

    /// What went wrong in the exchange over TCP, if anything did.
    fn exchange(&self) -> Option<Exchange> {
        Some(match self {
            VerbsError::Exchange { wanted, seen, end, source } => {
                let (wanted, seen) = (wanted.clone(), seen.clone());
                match end {
                    Ended::Closed => Exchange::Closed { wanted, seen },
                    Ended::TimeUp { after } => Exchange::Timeout { wanted, seen, seconds: after.as_secs() },
                    Ended::Broke => {
                        let errno = source.as_ref().and_then(io::Error::raw_os_error);
                        Exchange::Broken { wanted, seen, errno: errno.unwrap_or_default() }
                    }
                    Ended::Whole => Exchange::Garbage { wanted, seen },
                }
            }
            VerbsError::Garbage { source } => Exchange::Garbage {
                wanted: "the other end's address".to_owned(),
                seen: source.seen.clone().into_bytes(),
            },
            VerbsError::Block { wanted, .. } => {
                Exchange::Garbage { wanted: (*wanted).to_owned(), seen: vec![] }
            }
            VerbsError::Version { theirs } => Exchange::Version { theirs: theirs.clone() },
            VerbsError::Unlike { what, here, there } => {
                Exchange::Unlike { what: *what, here: here.clone(), there: there.clone() }
            }
            VerbsError::Refused { reason } => Exchange::Refused { reason: reason.clone() },
            VerbsError::GaveUp { reason, of_rdma } => {
                Exchange::GaveUp { reason: reason.clone(), of_rdma: *of_rdma }
            }
            _ => return None,
        })
    }

    /// What to do about one that is no [`VerbsError::failure`], where that is not plain.
    pub fn cure(&self) -> Option<&'static str> {
        Some(match self {
            VerbsError::HugePages { .. } => {
                "reserve more on the host (vm.nr_hugepages; in a Pod the resource hugepages-2Mi as well), or test without"
            }
            VerbsError::Uncounted { .. } => {
                "give a longer -D or a shorter margin, fewer messages under way (-t, -Q), or smaller ones (-s)"
            }
            VerbsError::UnsetGid { .. } => {
                "leave -x out, or choose an index that `rocade inventory -o gids` shows; an address that was taken from the \
                 netdev has none any more"
            }
            VerbsError::MtuTooLarge { .. } => "give a smaller -m, or raise the netdev's MTU",
            VerbsError::GidBeyondByte { .. } => {
                "choose a lower index with -x; addresses that went and came again may have one"
            }
            _ => return None,
        })
    }
}

/// The result of a verb that returns 0, or an errno, or -1 and sets errno.
pub(crate) fn check(
    verb: &'static str,
    operand: impl FnOnce() -> String,
    result: i32,
) -> Result<(), VerbsError> {
    match errno_of(result) {
        None => Ok(()),
        Some(source) => Err(VerbsError::Call { verb, operand: operand(), source }),
    }
}

/// The error in such a result; None if it is 0.
pub(crate) fn errno_of(result: i32) -> Option<io::Error> {
    match result {
        0 => None,
        ..0 => Some(io::Error::last_os_error()),
        errno => Some(io::Error::from_raw_os_error(errno)),
    }
}

/// The error of a verb that returned NULL and set errno.
pub(crate) fn null(verb: &'static str, operand: String) -> VerbsError {
    VerbsError::Call { verb, operand, source: io::Error::last_os_error() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_well_before_is_added_to_every_error_that_tells_of_messages() {
        let closed = VerbsError::Exchange {
            wanted: "the other end to run".to_owned(),
            seen: vec![],
            end: Ended::Closed,
            source: None,
        };
        let errors = [
            (VerbsError::Silence { seconds: 10, done: 3, of: None }, Failure::Silence { done: 8 }),
            (
                VerbsError::Event { event: "port error".into(), on: "rxe0/1".into(), done: 3 },
                Failure::Event { event: "port error".into(), on: "rxe0/1".into(), done: 8 },
            ),
            (
                VerbsError::Completion {
                    request: "message",
                    status: 12,
                    vendor_err: 0,
                    text: "transport retry counter exceeded".into(),
                    done: 3,
                },
                Failure::Completion { status: 12, done: 8 },
            ),
            (
                closed.midway().after(3),
                Failure::Midway {
                    exchange: Exchange::Closed { wanted: "the other end to run".into(), seen: vec![] },
                    done: 8,
                },
            ),
        ];
        for (error, failure) in errors {
            assert_eq!(error.after(5).failure(), Some(failure));
        }
        let size = VerbsError::Size { seen: 4, wanted: 8 };
        assert_eq!(size.after(5).failure(), Some(Failure::Size { seen: 4 }));
    }

    #[test]
    fn an_index_without_a_gid_is_told_with_what_to_do() {
        let error = VerbsError::UnsetGid { port: "rxe0/1".into(), index: 7 };
        assert_eq!(error.to_string(), "GID index 7 of rxe0/1 is not set");
        assert!(error.cure().is_some_and(|cure| cure.contains("rocade inventory -o gids")));
    }

    #[test]
    fn a_test_by_time_in_which_nothing_was_done_says_so_and_what_to_do() {
        let amount = Amount::Seconds(5);
        let options = Options { amount, ..Options::stock(rocade_core::pair::perf::Test::ALL[0]) };
        let error = VerbsError::uncounted(&options);
        let said = "of the 5 s of the test 2.5 s are counted, and too few messages were done in them";
        assert_eq!(error.to_string(), said);
        assert!(error.failure().is_none() && error.cure().is_some_and(|cure| cure.contains("longer -D")));
    }
}
