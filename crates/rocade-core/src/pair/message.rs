//! The exchange of ibv_rc_pingpong (libibverbs/examples/rc_pingpong.c, pp_client_exch_dest): 52 bytes each way, then
//! [`DONE`] from the client.

use super::Endpoint;
use crate::names::Gid;

/// Length of an endpoint's message: `LLLL:QQQQQQ:PPPPPP:`, 32 hexadecimal digits of the GID, NUL.
pub const MESSAGE_BYTES: usize = 52;

/// The client's last word.
pub const DONE: &[u8; 5] = b"done\0";

/// Bytes that are not an endpoint's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{seen}` is not LID:QPN:PSN:GID in hexadecimal, as ibv_rc_pingpong sends it")]
pub struct ParseMessageError {
    /// The bytes, the unprintable ones escaped.
    pub seen: String,
}

impl Endpoint {
    /// The message that tells the other end of this one.
    pub fn to_message(&self) -> [u8; MESSAGE_BYTES] {
        let gid = u128::from_be_bytes(self.gid.0);
        let text =
            format!("{:04x}:{:06x}:{:06x}:{gid:032x}\0", self.lid, self.qpn & MAX_24, self.psn & MAX_24);
        let mut message = [0; MESSAGE_BYTES];
        message.copy_from_slice(text.as_bytes());
        message
    }

    /// What the other end told.
    pub fn from_message(message: &[u8; MESSAGE_BYTES]) -> Result<Endpoint, ParseMessageError> {
        parse(message).ok_or_else(|| ParseMessageError { seen: message.escape_ascii().to_string() })
    }
}

const MAX_24: u32 = 0xff_ffff;

fn parse(message: &[u8; MESSAGE_BYTES]) -> Option<Endpoint> {
    let text = std::str::from_utf8(message.strip_suffix(b"\0")?).ok()?;
    let mut fields = text.split(':');
    let mut hex = |digits: usize| {
        let field =
            fields.next().filter(|f| f.len() == digits && f.bytes().all(|b| b.is_ascii_hexdigit()))?;
        u128::from_str_radix(field, 16).ok()
    };
    let (lid, qpn, psn, gid) = (hex(4)?, hex(6)?, hex(6)?, hex(32)?);
    Some(Endpoint { lid: lid as u16, qpn: qpn as u32, psn: psn as u32, gid: Gid(gid.to_be_bytes()) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sent by Debian 12's ibv_rc_pingpong.
    const CAPTURED: &[u8; MESSAGE_BYTES] = b"0000:000012:29a650:00000000000000000000ffff0a090001\0";

    #[test]
    fn a_captured_message_is_read_and_written_back() {
        let endpoint = Endpoint::from_message(CAPTURED).unwrap();
        assert_eq!((endpoint.lid, endpoint.qpn, endpoint.psn), (0, 0x12, 0x29a650));
        assert_eq!(endpoint.gid, Gid::from_address("10.9.0.1".parse().unwrap()));
        assert_eq!(&endpoint.to_message(), CAPTURED);
        assert_eq!(endpoint.to_string(), "LID 0x0000, QPN 0x000012, PSN 0x29a650, GID ::ffff:10.9.0.1");
    }

    #[test]
    fn garbage_is_quoted_with_its_unprintable_bytes_escaped() {
        let mut message = [b'x'; MESSAGE_BYTES];
        message[1] = 0xff;
        let error = Endpoint::from_message(&message).unwrap_err();
        assert!(error.to_string().starts_with("`x\\xffxx"), "{error}");
    }

    proptest! {
        #[test]
        fn every_endpoint_comes_back(lid: u16, qpn in 0..=MAX_24, psn in 0..=MAX_24, gid: [u8; 16]) {
            let endpoint = Endpoint { lid, qpn, psn, gid: Gid(gid) };
            prop_assert_eq!(Endpoint::from_message(&endpoint.to_message()), Ok(endpoint));
        }

        #[test]
        fn a_message_with_one_byte_changed_is_refused_or_means_something_else(at in 0..MESSAGE_BYTES, byte: u8) {
            let mut message = *CAPTURED;
            message[at] = byte;
            let same = message.eq_ignore_ascii_case(CAPTURED);
            let read = Endpoint::from_message(&message);
            prop_assert_eq!(read == Endpoint::from_message(CAPTURED), same);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), MESSAGE_BYTES)) {
            let message: [u8; MESSAGE_BYTES] = bytes.try_into().unwrap();
            let _ = Endpoint::from_message(&message);
        }
    }
}
