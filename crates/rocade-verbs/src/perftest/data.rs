//! What checked messages carry: other bytes for each seed, sender, QP and message, so that one which is lost, doubled,
//! out of place or half there is found.

use rocade_core::pair::Role;

use crate::data::{compare, fill, mix};
use crate::error::VerbsError;
use crate::mr::MemoryRegion;

/// Bytes that are made, copied and compared at once.
const PIECE: usize = 4096;

/// The messages of one QP of one end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    base: u64,
}

impl Pattern {
    /// Of the end that fills them, and its QP.
    pub(super) fn new(seed: u64, filler: Role, qp: usize) -> Pattern {
        let end = u64::from(filler == Role::Server);
        Pattern { base: mix(seed ^ mix((end << 32) + qp as u64)) }
    }

    /// Writes a message, counted from 0, to its place.
    pub(super) fn fill(
        &self,
        region: &MemoryRegion,
        at: usize,
        message: u64,
        bytes: usize,
    ) -> Result<(), VerbsError> {
        let mut piece = [0; PIECE];
        for start in (0..bytes).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min(bytes - start)];
            self.write(message, start, piece);
            region.write(at + start, piece)?;
        }
        Ok(())
    }

    /// Compares what is at a place with a message.
    ///
    /// # Errors
    /// The first byte that differs.
    pub(super) fn compare(
        &self,
        region: &MemoryRegion,
        at: usize,
        message: u64,
        bytes: usize,
    ) -> Result<(), VerbsError> {
        let (mut seen, mut wanted) = ([0; PIECE], [0; PIECE]);
        for start in (0..bytes).step_by(PIECE) {
            let length = PIECE.min(bytes - start);
            let (seen, wanted) = (&mut seen[..length], &mut wanted[..length]);
            region.read(at + start, seen)?;
            self.write(message, start, wanted);
            compare(message, start, seen, wanted)?;
        }
        Ok(())
    }

    /// `start` is a multiple of 8.
    fn write(&self, message: u64, start: usize, piece: &mut [u8]) {
        let first = mix(self.base ^ mix(message)).wrapping_add(start as u64 / 8);
        fill(first, piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(pattern: Pattern, message: u64, bytes: usize) -> Vec<u8> {
        let mut whole = vec![0; bytes];
        for (n, piece) in whole.chunks_mut(PIECE).enumerate() {
            pattern.write(message, n * PIECE, piece);
        }
        whole
    }

    #[test]
    fn each_seed_end_qp_and_message_has_bytes_of_its_own() {
        let first = message(Pattern::new(1, Role::Client, 0), 0, 64);
        let others = [
            message(Pattern::new(2, Role::Client, 0), 0, 64),
            message(Pattern::new(1, Role::Server, 0), 0, 64),
            message(Pattern::new(1, Role::Client, 1), 0, 64),
            message(Pattern::new(1, Role::Client, 0), 1, 64),
        ];
        for (n, other) in others.iter().enumerate() {
            let alike = first.iter().zip(other).filter(|(one, other)| one == other).count();
            assert!(alike < 8, "{n}: {alike} of 64 bytes alike");
        }
    }

    #[test]
    fn no_piece_of_a_message_is_another_piece_of_it() {
        let whole = message(Pattern::new(1, Role::Client, 0), 7, 4 * PIECE + 3);
        let words: std::collections::BTreeSet<&[u8]> = whole.chunks_exact(8).collect();
        assert_eq!(words.len(), whole.len() / 8);
    }

    #[test]
    fn the_first_wrong_byte_is_named() {
        let wanted = message(Pattern::new(1, Role::Client, 0), 4, 100);
        let mut seen = wanted.clone();
        (seen[63], seen[80]) = (!wanted[63], !wanted[80]);
        let error = compare(4, 4096, &seen, &wanted).unwrap_err();
        assert!(
            matches!(error, VerbsError::Data { message: 5, at: 4159, seen, wanted } if seen == !wanted),
            "{error}"
        );
    }
}
