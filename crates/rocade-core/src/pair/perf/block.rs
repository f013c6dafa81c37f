//! What two ends of rocade tell each other beyond the stock exchange: blocks of a kind, a length and JSON. A field that
//! the reader does not know is left alone; one that it misses is as without that option.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::{Key, Memory};
use super::{EndFacts, Options, SizeResult, Test};
use crate::names::Gid;

/// Largest payload, bytes.
pub const LARGEST: usize = 64 << 10;
/// Length of what goes ahead of a payload.
pub const HEADER_BYTES: usize = 8;
const MAGIC: &[u8; 3] = b"rcd";

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`Hello`].
    Hello = 1,
    /// [`Mtu`].
    Mtu = 2,
    /// [`EndFacts`].
    Facts = 3,
    /// [`Keys`].
    Keys = 4,
    /// [`Barrier`].
    Barrier = 5,
    /// [`Results`].
    Results = 6,
    /// [`Failed`], due at any time.
    Failed = 7,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::Hello, Kind::Mtu, Kind::Facts, Kind::Keys, Kind::Barrier, Kind::Results, Kind::Failed];

    /// What the other end tells with it.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Hello => "the other end's options",
            Kind::Mtu => "the other end's MTU",
            Kind::Facts => "the other end's facts",
            Kind::Keys => "the other end's keys",
            Kind::Barrier => "word that the other end has come so far",
            Kind::Results => "the other end's results",
            Kind::Failed => "the other end's reason to give up",
        }
    }
}

/// Content of a block.
pub trait Content: Serialize + DeserializeOwned {
    /// The kind of its block.
    const KIND: Kind;
}

/// The first block of each end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of rocade.
    pub version: String,
    /// The sender's.
    pub memory: Memory,
    /// A client's: the GID that it means to use, for the server to choose one of its subnet and family. None where its LID
    /// is enough, or nothing is chosen yet.
    #[serde(default)]
    pub gid: Option<Gid>,
    /// A client's: what it asks for. A server's: what it takes that to be.
    #[serde(deserialize_with = "read_options")]
    pub options: Options,
}

/// Path MTU that an end can, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mtu(pub u32);

/// Keys, [`KEYS_EACH`] at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys(pub Vec<Key>);

/// Keys in one block.
pub const KEYS_EACH: usize = 256;

/// Its sender has come so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Barrier {
    /// There is more to come of what both repeat.
    pub go_on: bool,
}

/// What its sender found of one size; None of an end that measured nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results(pub Option<SizeResult>);

/// Its sender gives up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Why.
    pub reason: String,
    /// Whether the test was under way, and RDMA itself failed in it; None if the sender does not take what was asked for.
    pub of_rdma: Option<bool>,
}

impl Content for Hello {
    const KIND: Kind = Kind::Hello;
}

impl Content for Mtu {
    const KIND: Kind = Kind::Mtu;
}

impl Content for EndFacts {
    const KIND: Kind = Kind::Facts;
}

impl Content for Keys {
    const KIND: Kind = Kind::Keys;
}

impl Content for Barrier {
    const KIND: Kind = Kind::Barrier;
}

impl Content for Results {
    const KIND: Kind = Kind::Results;
}

impl Content for Failed {
    const KIND: Kind = Kind::Failed;
}

/// Why bytes are not the block that was to come.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// No header, or of a kind that is not known.
    #[error("`{seen}` does not begin a block")]
    Header {
        /// The bytes, the unprintable ones escaped.
        seen: String,
    },
    /// More than any block holds.
    #[error("a block of {bytes} bytes, {LARGEST} at most")]
    Large {
        /// Length that its header says.
        bytes: u64,
    },
    /// A block of another kind than the one that is due.
    #[error("{} came", .kind.words())]
    Other {
        /// Its kind.
        kind: Kind,
    },
    /// The payload is not of its kind.
    #[error("{reason}")]
    Payload {
        /// What is wrong with it.
        reason: String,
    },
}

/// The bytes of a block.
pub fn write<T: Content>(content: &T) -> Result<Vec<u8>, BlockError> {
    let payload = serde_json::to_vec(content).map_err(payload_error)?;
    if payload.len() > LARGEST {
        return Err(BlockError::Large { bytes: payload.len() as u64 });
    }
    let mut block = MAGIC.to_vec();
    block.push(T::KIND as u8);
    block.extend((payload.len() as u32).to_be_bytes());
    block.extend(payload);
    Ok(block)
}

/// Kind and length of the payload that follows.
pub fn parse_header(header: &[u8; HEADER_BYTES]) -> Result<(Kind, usize), BlockError> {
    let [magic @ .., kind, a, b, c, d] = header;
    let kind = Kind::ALL.into_iter().find(|known| *known as u8 == *kind && magic == MAGIC);
    let Some(kind) = kind else {
        return Err(BlockError::Header { seen: header.escape_ascii().to_string() });
    };
    let bytes = u32::from_be_bytes([*a, *b, *c, *d]);
    match usize::try_from(bytes) {
        Ok(length) if length <= LARGEST => Ok((kind, length)),
        _ => Err(BlockError::Large { bytes: u64::from(bytes) }),
    }
}

/// The content of a payload.
pub fn parse_payload<T: Content>(payload: &[u8]) -> Result<T, BlockError> {
    serde_json::from_slice(payload).map_err(payload_error)
}

fn payload_error(error: serde_json::Error) -> BlockError {
    BlockError::Payload { reason: error.to_string() }
}

/// Over the stock defaults of its test, so that an older sender may lack fields.
fn read_options<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Options, D::Error> {
    use serde::de::Error;
    let Value::Object(told) = Value::deserialize(deserializer)? else {
        return Err(D::Error::custom("options are not an object"));
    };
    let test = told.get("test").cloned().unwrap_or_default();
    let test: Test = serde_json::from_value(test).map_err(D::Error::custom)?;
    let Ok(Value::Object(mut all)) = serde_json::to_value(Options::stock(test)) else {
        return Err(D::Error::custom("options are not an object"));
    };
    all.extend(told);
    serde_json::from_value(Value::Object(all)).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pair::perf::Sizes;

    fn hello(options: Options) -> Hello {
        let memory = Memory { page_bytes: 4096, line_bytes: 64 };
        Hello { version: "0.1.0".to_owned(), memory, gid: None, options }
    }

    /// The content of a whole block.
    fn read<T: Content>(block: &[u8]) -> Result<T, BlockError> {
        let (header, payload) = block.split_first_chunk().unwrap();
        assert_eq!(parse_header(header), Ok((T::KIND, payload.len())));
        parse_payload(payload)
    }

    #[test]
    fn every_tests_options_come_back() {
        for test in Test::ALL {
            let sizes = Sizes::List(vec![2, 64, 1 << 20]);
            let rate_limit_gbps = Some(12.3);
            let sent =
                hello(Options { sizes, rate_limit_gbps, data_seed: Some(u64::MAX), ..Options::stock(test) });
            assert_eq!(read::<Hello>(&write(&sent).unwrap()), Ok(sent));
        }
    }

    /// A newer or older rocade at the other end.
    #[test]
    fn unknown_fields_are_left_alone_and_missing_ones_are_as_without_the_option() {
        let payload = br#"{"version": "9.9", "news": 1, "memory": {"page_bytes": 4096, "line_bytes": 64, "new": 2},
            "options": {"test": {"operation": "write", "measure": "bandwidth"}, "qps": 8, "new": {"a": []}}}"#;
        let options = parse_payload::<Hello>(payload).unwrap().options;
        let stock = Options::stock(options.test);
        assert_eq!(options, Options { qps: 8, ..stock });
    }

    #[test]
    fn options_of_an_unknown_kind_are_refused_by_name() {
        let payload = br#"{"version": "9.9", "memory": {"page_bytes": 4096, "line_bytes": 64},
            "options": {"test": {"operation": "write", "measure": "bandwidth"}, "sizes": {"random": 3}}}"#;
        let error = parse_payload::<Hello>(payload).unwrap_err().to_string();
        assert!(error.contains("random"), "{error}");
    }

    #[test]
    fn facts_and_keys_come_back() {
        let payload = br#"{"host": "node1", "hca": "mlx5_0", "port": 1}"#;
        let mut facts: EndFacts = parse_payload(payload).unwrap();
        let gid = Some(crate::names::Gid([7; 16]));
        facts.gid = gid;
        facts.rate_gbps = Some(100.0);
        assert_eq!(read::<EndFacts>(&write(&facts).unwrap()), Ok(facts));
        let key = Key { lid: 1, out_reads: 2, qpn: 3, psn: 4, rkey: 5, vaddr: u64::MAX, gid, srqn: 6 };
        let keys = Keys(vec![key; KEYS_EACH]);
        assert_eq!(read::<Keys>(&write(&keys).unwrap()), Ok(keys));
    }

    #[test]
    fn more_than_a_block_holds_is_neither_written_nor_read() {
        let large = Failed { reason: "x".repeat(LARGEST), of_rdma: None };
        assert!(matches!(write(&large), Err(BlockError::Large { bytes }) if bytes > LARGEST as u64));
        assert_eq!(
            parse_header(b"rcd\x07\xff\xff\xff\xff"),
            Err(BlockError::Large { bytes: u64::from(u32::MAX) })
        );
    }

    #[test]
    fn what_does_not_begin_a_block_is_shown() {
        for header in [b"HTTP/1.1", b"rcd\x00\0\0\0\0", b"rcd\x08\0\0\0\0"] {
            let seen = header.escape_ascii().to_string();
            assert_eq!(parse_header(header), Err(BlockError::Header { seen }));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(header: [u8; 8], payload: Vec<u8>) {
            let _ = parse_header(&header);
            let _ = (parse_payload::<Hello>(&payload).is_ok(), parse_payload::<Results>(&payload).is_ok());
        }

        /// Both ends print the same figures.
        #[test]
        fn a_result_comes_back_to_the_last_bit(figures: [f64; 3], messages: u64) {
            prop_assume!(figures.iter().all(|figure| figure.is_finite()));
            let [seconds, average_gbps, messages_per_second] = figures;
            let bandwidth = crate::pair::perf::Bandwidth {
                average_gbps,
                peak_gbps: Some(average_gbps),
                messages_per_second,
                intervals: None,
            };
            let found = SizeResult { message_bytes: 64, messages, seconds, bandwidth: Some(bandwidth), latency: None };
            let sent = Results(Some(found));
            prop_assert_eq!(read::<Results>(&write(&sent).unwrap()), Ok(sent));
        }
    }
}
