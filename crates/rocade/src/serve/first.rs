//! What the first bytes of a connection show its sender to be. They are looked at, not taken, so that a client costs
//! nothing before it is known for one.

use rocade_core::pair::perf::message::{Announcement, VERSION_BYTES};
use rocade_core::pair::{Endpoint, MESSAGE_BYTES};

/// So many first bytes decide.
pub(super) const LOOKED_AT: usize = MESSAGE_BYTES;
/// A version is shorter than this, and no LID has a dot.
const LID_DIGITS: usize = 4;

/// The sender of first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// Too few so far to tell.
    More,
    /// perftest, with its version.
    Perftest,
    /// Rocade, which understands words.
    Rocade,
    /// ibv_rc_pingpong, or rocade's, with its address.
    Pingpong,
    /// No client.
    Unknown,
}

/// Judges what has come so far.
pub(super) fn judge(bytes: &[u8]) -> First {
    let (start, rest) = bytes.split_at(bytes.len().min(LID_DIGITS));
    let is_lid = start.iter().all(u8::is_ascii_hexdigit);
    match rest.first() {
        Some(b':') if is_lid => judge_pingpong(bytes),
        None if is_lid => First::More,
        _ => judge_perftest(bytes),
    }
}

fn judge_pingpong(bytes: &[u8]) -> First {
    match bytes.first_chunk::<MESSAGE_BYTES>() {
        Some(message) if Endpoint::from_message(message).is_ok() => First::Pingpong,
        Some(_) => First::Unknown,
        None => First::More,
    }
}

fn judge_perftest(bytes: &[u8]) -> First {
    match bytes.first_chunk::<VERSION_BYTES>() {
        Some(message) => match Announcement::parse(message) {
            Some(Announcement { dialect: Some(_), .. }) => First::Rocade,
            Some(_) => First::Perftest,
            None => First::Unknown,
        },
        // A number and the NUL after it come first, whatever follows.
        None if bytes
            .iter()
            .take_while(|byte| **byte != 0)
            .all(|byte| matches!(byte, b'0'..=b'9' | b'.')) =>
        {
            First::More
        }
        None => First::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERFTEST: &[u8] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
    const PINGPONG: &[u8] = b"0000:000012:29a650:00000000000000000000ffff0a090001\0";

    #[test]
    fn each_client_is_known_by_its_first_message_and_not_before() {
        let ours = Announcement::own();
        for (whole, wanted) in
            [(PERFTEST, First::Perftest), (PINGPONG, First::Pingpong), (&ours[..], First::Rocade)]
        {
            for length in 0..whole.len() {
                assert_eq!(judge(&whole[..length]), First::More, "{length} of {wanted:?}");
            }
            assert_eq!(judge(whole), wanted);
        }
    }

    #[test]
    fn anything_else_is_no_client_as_soon_as_that_is_plain() {
        for bytes in [
            &b"GET / HTTP/1.1\r\nHost: a\r\n"[..],
            b"SSH-2.0-OpenSSH_9.2",
            b"\x16\x03\x01\x02\x00",
            b"\xff",
            b"6.06x",
            b"0000:zzzz12:29a650:00000000000000000000ffff0a090001\0",
            b"0123456789012345",
            b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ] {
            assert_eq!(judge(bytes), First::Unknown, "{}", bytes.escape_ascii());
        }
    }
}
