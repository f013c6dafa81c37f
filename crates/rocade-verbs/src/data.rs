//! Bytes of checked messages: a generator of those to come, and the comparison with those that came. What a message is
//! filled from is its test's matter.

use crate::error::VerbsError;

/// Fills a piece with the words of the numbers `first`, `first + 1`, …, eight bytes each.
pub(crate) fn fill(first: u64, piece: &mut [u8]) {
    for (n, chunk) in piece.chunks_mut(8).enumerate() {
        let word = mix(first.wrapping_add(n as u64)).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// SplitMix64's output function (Steele, Lea, Flood 2014).
pub(crate) fn mix(counter: u64) -> u64 {
    let z = counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Compares a piece, which begins at `start`, of a message counted from 0; both are of one length.
///
/// # Errors
/// The first byte that differs.
pub(crate) fn compare(message: u64, start: usize, seen: &[u8], wanted: &[u8]) -> Result<(), VerbsError> {
    if seen == wanted { Ok(()) } else { Err(differs(message, start, seen, wanted)) }
}

#[cold]
fn differs(message: u64, start: usize, seen: &[u8], wanted: &[u8]) -> VerbsError {
    let at = seen.iter().zip(wanted).position(|(seen, wanted)| seen != wanted).unwrap_or(0);
    VerbsError::Data { message: message + 1, at: start + at, seen: seen[at], wanted: wanted[at] }
}
