//! Messages of perftest's exchange as bytes (perftest src/perftest_communication.c, 4.5 to 26.04), and the mark by which
//! two ends of rocade know each other. When each of them is due is [`super::order`]'s matter.

use serde::{Deserialize, Serialize};

use super::{Bandwidth, SizeResult};
use crate::names::Gid;

/// Version that an end announces. With one from 5.70 up to 6.27 every perftest from 4.4 on speaks the same protocol,
/// but for 26.01.5 (6.28), which sends a block of options to everyone.
pub const ANNOUNCED: &str = "6.06";

/// Length of the first message.
pub const VERSION_BYTES: usize = 16;

/// Oldest version that stock tools speak with.
pub const OLDEST: f64 = 5.70;

/// What two ends of rocade speak between themselves; the lower number of both is spoken.
pub const DIALECT: u8 = 1;

/// After the text and its NUL: stock tools read no further.
const MARK: &[u8; 7] = b"rocade\0";
const MARK_AT: usize = ANNOUNCED.len() + 1;
const DIALECT_AT: usize = MARK_AT + MARK.len();

/// The first message of an end, and the whole of it for a stock tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// As `6.06`.
    pub version: String,
    /// The highest dialect of an end that is rocade.
    pub dialect: Option<u8>,
}

impl Announcement {
    /// This end's.
    pub fn own() -> [u8; VERSION_BYTES] {
        let mut message = [0; VERSION_BYTES];
        message[..ANNOUNCED.len()].copy_from_slice(ANNOUNCED.as_bytes());
        message[MARK_AT..DIALECT_AT].copy_from_slice(MARK);
        message[DIALECT_AT] = DIALECT;
        message
    }

    /// The other end's; None where it does not begin with a number and a NUL after it.
    pub fn parse(message: &[u8; VERSION_BYTES]) -> Option<Announcement> {
        let end = message.iter().position(|byte| *byte == 0)?;
        let version = std::str::from_utf8(&message[..end]).ok()?.to_owned();
        version.parse::<f64>().ok().filter(|number| number.is_finite())?;
        let is_marked = &message[MARK_AT..DIALECT_AT] == MARK && message[DIALECT_AT] > 0;
        Some(Announcement { version, dialect: is_marked.then_some(message[DIALECT_AT]) })
    }

    /// The version as stock tools compare it.
    pub fn number(&self) -> f64 {
        self.version.parse().unwrap_or(0.0)
    }
}

/// What of a host's memory both ends must know: buffers are laid out, and addresses stepped through, by the larger of
/// both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Size of a page, bytes.
    pub page_bytes: u32,
    /// Size of a line of the first data cache, bytes.
    pub line_bytes: u32,
}

impl Memory {
    /// No host has larger pages or lines; what an end sends is not believed beyond it.
    pub const LARGEST: Memory = Memory { page_bytes: 1 << 20, line_bytes: 4096 };

    /// The larger of each.
    pub fn max(self, other: Memory) -> Memory {
        Memory {
            page_bytes: self.page_bytes.max(other.page_bytes),
            line_bytes: self.line_bytes.max(other.line_bytes),
        }
    }

    /// Whether both are powers of two that a host may have.
    pub fn is_likely(self) -> bool {
        let likely = |bytes: u32, largest: u32| bytes.is_power_of_two() && bytes <= largest;
        likely(self.page_bytes, Memory::LARGEST.page_bytes)
            && likely(self.line_bytes, Memory::LARGEST.line_bytes)
    }
}

/// The message of a path MTU (enum ibv_mtu as a digit); None if it is not one of 256 to 4096 bytes.
pub fn mtu_message(bytes: u32) -> Option<[u8; 2]> {
    let code = (1..=5).find(|code| 128 << code == bytes)?;
    Some([b'0' + code, 0])
}

/// Bytes of the MTU in such a message.
pub fn parse_mtu(message: [u8; 2]) -> Option<u32> {
    match message {
        [digit @ b'1'..=b'5', 0] => Some(128 << (digit - b'0')),
        _ => None,
    }
}

/// Where one QP and its memory are to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Local identifier on InfiniBand; 0 on RoCE.
    pub lid: u16,
    /// Reads that may be under way towards this end; 1 in tests of writes and sends.
    pub out_reads: u16,
    /// Number of the QP, 24 bits.
    pub qpn: u32,
    /// First packet sequence number, 24 bits.
    pub psn: u32,
    /// Key to the memory.
    pub rkey: u32,
    /// Its address.
    pub vaddr: u64,
    /// GID of the port; None where the LID is enough.
    pub gid: Option<Gid>,
    /// Number of a shared receive queue; 0 without one.
    pub srqn: u32,
}

/// Length of a key's message without a GID.
pub const KEY_BYTES: usize = 59;
/// Length of a key's message with a GID.
pub const KEY_BYTES_WITH_GID: usize = 108;

impl Key {
    /// Length of the message, by whether the ends use GIDs.
    pub fn message_bytes(with_gid: bool) -> usize {
        if with_gid { KEY_BYTES_WITH_GID } else { KEY_BYTES }
    }

    /// The message that tells the other end of it.
    pub fn to_message(&self) -> Vec<u8> {
        let Key { lid, out_reads, qpn, psn, rkey, vaddr, gid, srqn } = self;
        let (qpn, psn) = (qpn & MAX_24, psn & MAX_24);
        let mut text = format!("{lid:04x}:{out_reads:04x}:{qpn:06x}:{psn:06x}:{rkey:08x}:{vaddr:016x}:");
        for byte in gid.iter().flat_map(|gid| gid.0) {
            text += &format!("{byte:02x}:");
        }
        text += &format!("{srqn:08x}");
        if gid.is_some() {
            text.push(':');
        }
        text.push('\0');
        text.into_bytes()
    }

    /// What the other end told; None if it is not the message of a key, or one of the other length.
    pub fn parse(message: &[u8]) -> Option<Key> {
        let text = std::str::from_utf8(message.strip_suffix(b"\0")?).ok()?;
        let (text, has_gid) = match message.len() {
            KEY_BYTES => (text, false),
            KEY_BYTES_WITH_GID => (text.strip_suffix(':')?, true),
            _ => return None,
        };
        let mut fields = text.split(':');
        let mut hex = |digits: usize| {
            let field = fields.next().filter(|field| field.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
            (field.len() == digits).then(|| u64::from_str_radix(field, 16).ok()).flatten()
        };
        let (lid, out_reads, qpn, psn) = (hex(4)?, hex(4)?, hex(6)?, hex(6)?);
        let (rkey, vaddr) = (hex(8)?, hex(16)?);
        let mut gid = [0; 16];
        for byte in gid.iter_mut().filter(|_| has_gid) {
            *byte = hex(2)? as u8;
        }
        let srqn = hex(8)?;
        Some(Key {
            lid: lid as u16,
            out_reads: out_reads as u16,
            qpn: qpn as u32,
            psn: psn as u32,
            rkey: rkey as u32,
            vaddr,
            gid: has_gid.then_some(Gid(gid)),
            srqn: srqn as u32,
        })
    }
}

const MAX_24: u32 = 0xff_ffff;

/// Unit of a stock tool's bandwidth, which travels in the sender's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// 2²⁰ bytes a second, which stock tools print as MB or MiB.
    Mebibytes,
    /// 10⁹ bits a second: with `--report_gbits`.
    Gigabits,
}

impl Unit {
    /// 10⁹ bit/s that one of it is.
    pub fn gbps(self) -> f64 {
        match self {
            Unit::Mebibytes => f64::from(8 << 20) / 1e9,
            Unit::Gigabits => 1.0,
        }
    }
}

/// The figures of a bandwidth test as stock tools exchange them: five messages of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Size of a message, bytes.
    pub size: u64,
    /// Messages of all QPs.
    pub iterations: u64,
    /// In the sender's unit; 0 where it was not kept.
    pub peak: f64,
    /// In the sender's unit.
    pub average: f64,
    /// 10⁶ messages a second.
    pub rate: f64,
}

/// Messages that a report is made of.
pub const REPORT_FIELDS: usize = 5;

impl Report {
    /// What an end sends that has measured nothing.
    pub const NOTHING: Report = Report { size: 0, iterations: 0, peak: 0.0, average: 0.0, rate: 0.0 };

    /// A result in the words of stock tools.
    pub fn of(result: &SizeResult, unit: Unit) -> Report {
        let bandwidth = result.bandwidth.as_ref();
        let in_unit = |gbps: f64| gbps / unit.gbps();
        Report {
            size: u64::from(result.message_bytes),
            iterations: result.messages,
            peak: bandwidth.and_then(|found| found.peak_gbps).map_or(0.0, in_unit),
            average: bandwidth.map_or(0.0, |found| in_unit(found.average_gbps)),
            rate: bandwidth.map_or(0.0, |found| found.messages_per_second / 1e6),
        }
    }

    /// The unit in which it is, as far as it has come, beside what another end found of the same traffic. The units are a
    /// factor of 119 apart: another one than was `expected` is only taken where the figures would differ by more than 40
    /// in the expected one, so that one way may be that much slower than the other, as where packets are lost.
    pub fn unit_beside(&self, found: &SizeResult, expected: Unit) -> Unit {
        const UNLIKE: f64 = 40.0;
        let Some(bandwidth) = &found.bandwidth else { return expected };
        let of_peak = (self.peak, bandwidth.peak_gbps.unwrap_or(bandwidth.average_gbps));
        let known = [(self.average, bandwidth.average_gbps), of_peak];
        let Some((own, other)) = known.into_iter().find(|(own, _)| own.is_normal() && *own > 0.0) else {
            return expected;
        };
        let ratio = own * expected.gbps() / other;
        match expected {
            Unit::Mebibytes if ratio < UNLIKE.recip() => Unit::Gigabits,
            Unit::Gigabits if ratio > UNLIKE => Unit::Mebibytes,
            _ => expected,
        }
    }

    /// The messages.
    pub fn to_messages(&self) -> [[u8; 8]; REPORT_FIELDS] {
        let float = |value: f64| value.to_bits().to_be_bytes();
        [
            self.size.to_be_bytes(),
            self.iterations.to_be_bytes(),
            float(self.peak),
            float(self.average),
            float(self.rate),
        ]
    }

    /// Any five messages make one: see [`Report::result`].
    pub fn from_messages(messages: &[[u8; 8]; REPORT_FIELDS]) -> Report {
        let [size, iterations, peak, average, rate] = messages.map(u64::from_be_bytes);
        let [peak, average, rate] = [peak, average, rate].map(f64::from_bits);
        Report { size, iterations, peak, average, rate }
    }

    /// The result that it tells of; None if its figures do not agree with each other in either unit, as those of an end
    /// that measured nothing, which sends what happens to be in its memory.
    pub fn result(&self) -> Option<SizeResult> {
        let message_bytes = u32::try_from(self.size).ok().filter(|bytes| *bytes > 0)?;
        let messages_per_second = self.rate * 1e6;
        let average_gbps = messages_per_second * f64::from(message_bytes) * 8.0 / 1e9;
        let agrees = |unit: &Unit| (self.average * unit.gbps() / average_gbps - 1.0).abs() < 0.001;
        let unit = [Unit::Mebibytes, Unit::Gigabits].into_iter().find(agrees)?;
        let is_sane =
            average_gbps.is_finite() && average_gbps > 0.0 && self.peak >= 0.0 && self.peak.is_finite();
        let peak_gbps = (self.peak > 0.0).then(|| self.peak * unit.gbps());
        (is_sane && self.iterations > 0).then(|| SizeResult {
            message_bytes,
            messages: self.iterations,
            seconds: self.iterations as f64 / messages_per_second,
            bandwidth: Some(Bandwidth { average_gbps, peak_gbps, messages_per_second, intervals: None }),
            latency: None,
        })
    }
}

#[cfg(test)]
mod tests;
