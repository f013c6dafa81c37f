//! What the messages carry, and whether it arrived. The server sends back what it received, so the client's fill is
//! what travels both ways, with a stock tool at either end too.

use crate::data::{compare, fill};
use crate::error::VerbsError;

/// The stock tool's fill; its `-c` puts a 0 at the start of each page.
const STOCK: u8 = 0x7b;
const PAGE: usize = 4096;

/// What a client fills its messages with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// Always the same, as a stock client.
    Constant,
    /// Pseudo-random, other for each message; 0 at the start of each page, for a stock server with `-c`.
    Pattern,
}

/// The bytes that are to arrive.
pub(super) struct Check {
    fill: Option<Fill>,
    wanted: Vec<u8>,
    seen: Vec<u8>,
}

/// What a client sends that does not check.
pub(super) fn constant_message(bytes: usize) -> Vec<u8> {
    vec![STOCK; bytes]
}

impl Check {
    /// For messages of that many bytes.
    pub(super) fn new(bytes: usize) -> Check {
        Check { fill: None, wanted: vec![0; bytes], seen: vec![0; bytes] }
    }

    /// The client's next message (counted from 0), which is to come back.
    pub(super) fn next_message(&mut self, message: u32) -> &[u8] {
        self.fill = Some(Fill::Pattern);
        fill_pattern(message, &mut self.wanted);
        &self.wanted
    }

    /// Compares what arrived as that message; `copy` fetches it. A server takes the fill from the first message.
    pub(super) fn arrived(
        &mut self,
        message: u32,
        is_server: bool,
        copy: impl FnOnce(&mut [u8]) -> Result<(), VerbsError>,
    ) -> Result<(), VerbsError> {
        copy(&mut self.seen)?;
        if is_server {
            let fill = *self.fill.get_or_insert_with(|| recognise(&self.seen));
            match fill {
                Fill::Pattern => fill_pattern(message, &mut self.wanted),
                Fill::Constant if message == 0 => self.wanted.copy_from_slice(&self.seen),
                Fill::Constant => {}
            }
        }
        compare(u64::from(message), 0, &self.seen, &self.wanted)
    }
}

fn recognise(first: &[u8]) -> Fill {
    let stock = |(at, byte): (usize, &u8)| *byte == STOCK || (*byte == 0 && at % PAGE == 0);
    if first.iter().enumerate().all(stock) { Fill::Constant } else { Fill::Pattern }
}

fn fill_pattern(message: u32, bytes: &mut [u8]) {
    fill(u64::from(message) << 32, bytes);
    bytes.iter_mut().step_by(PAGE).for_each(|first| *first = 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(check: &mut Check, message: u32, is_server: bool, bytes: &[u8]) -> Result<(), VerbsError> {
        check.arrived(message, is_server, |into| {
            into.copy_from_slice(bytes);
            Ok(())
        })
    }

    #[test]
    fn an_echo_is_good_and_any_flipped_byte_of_it_is_found() {
        for bytes in [1, 7, 8, 4096, 4097, 9000] {
            for message in [0, 1, 999] {
                let mut check = Check::new(bytes);
                let mut sent = check.next_message(message).to_vec();
                arrive(&mut check, message, false, &sent).unwrap();
                for at in [0, bytes / 2, bytes - 1] {
                    sent[at] ^= 0x10;
                    let error = arrive(&mut check, message, false, &sent).unwrap_err();
                    assert!(matches!(error, VerbsError::Data { at: found, .. } if found == at), "{error}");
                    sent[at] ^= 0x10;
                }
            }
        }
    }

    #[test]
    fn the_message_before_is_not_taken_for_this_one() {
        let mut client = Check::new(64);
        let old = client.next_message(0).to_vec();
        client.next_message(1);
        assert!(arrive(&mut client, 1, false, &old).is_err());
    }

    #[test]
    fn a_server_checks_a_checking_client_and_a_stock_client() {
        let (mut server, mut client) = (Check::new(5000), Check::new(5000));
        for message in 0..3 {
            let sent = client.next_message(message).to_vec();
            arrive(&mut server, message, true, &sent).unwrap();
        }
        assert!(arrive(&mut server, 3, true, &constant_message(5000)).is_err());
        let mut stock = constant_message(5000);
        for page_starts in [STOCK, 0] {
            stock.iter_mut().step_by(PAGE).for_each(|byte| *byte = page_starts);
            let mut server = Check::new(5000);
            arrive(&mut server, 0, true, &stock).unwrap();
            arrive(&mut server, 1, true, &stock).unwrap();
            stock[1] = 0;
            assert!(arrive(&mut server, 2, true, &stock).is_err());
            stock[1] = STOCK;
        }
    }

    #[test]
    fn a_stock_server_that_checks_finds_its_zeros() {
        let mut check = Check::new(3 * PAGE);
        let message = check.next_message(5);
        assert!(message.iter().step_by(PAGE).all(|byte| *byte == 0));
        assert!(message.iter().filter(|byte| **byte != 0).count() > 2 * PAGE);
    }
}
