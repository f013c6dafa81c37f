//! The block of options that perftest 26.01.5 (6.28) sends to everyone once the MTU is told, a C structure of which the
//! first 80 bytes are numbers in network order (its src/perftest_negotiation.c). Later releases send it to one another
//! alone, earlier ones have none.

use super::message::Unit;
use super::{Amount, Measure, Operation, Options, Sizes};
use crate::diagnose::Unlike;

/// The version whose tools send it.
pub const VERSION: &str = "6.28";
/// Its length from a build without mlx5's direct verbs.
pub const SHORT: usize = 312;
/// Its length from a build with them, as distributions have.
pub const LONG: usize = 320;

/// `ibv_device_attr.max_qp_rd_atom`, in the sender's order of bytes: the reader's own outstanding reads are lowered to it.
const READS_AT: usize = 224;
const MOST_READS: u32 = 128;
/// End of the numbers.
const NUMBERS: usize = 80;
/// What -D is where it is not given.
const SECONDS: u32 = 5;

/// Where a number is, and how many bytes it has.
const METHOD: (usize, usize) = (0, 4);
const VERB: (usize, usize) = (8, 4);
const MEASURE: (usize, usize) = (12, 4);
const BY_TIME: (usize, usize) = (20, 4);
const MEBIBYTES: (usize, usize) = (24, 4);
const SIZE: (usize, usize) = (32, 8);
const ITERATIONS: (usize, usize) = (40, 8);
const QPS: (usize, usize) = (52, 4);
const DURATION: (usize, usize) = (56, 4);

/// The block of an end that does as the options say, in its long form.
pub fn block(options: &Options, unit: Unit) -> Vec<u8> {
    let mut block = vec![0; LONG];
    let mut put = |(at, bytes): (usize, usize), value: u64| {
        block[at..at + bytes].copy_from_slice(&value.to_be_bytes()[8 - bytes..]);
    };
    let (iterations, seconds, by_time) = match options.amount {
        Amount::Iterations(count) => (count, SECONDS, 0),
        Amount::Seconds(seconds) => (0, seconds, 1),
    };
    put(METHOD, u64::from(options.sizes == Sizes::All));
    put(VERB, verb(options.test.operation));
    put(MEASURE, u64::from(options.test.measure == Measure::Bandwidth));
    put(BY_TIME, by_time);
    put(MEBIBYTES, u64::from(unit == Unit::Mebibytes));
    put(SIZE, u64::from(options.sizes.largest()));
    put(ITERATIONS, iterations);
    put(QPS, u64::from(options.qps));
    put(DURATION, u64::from(seconds));
    block[READS_AT..READS_AT + 4].copy_from_slice(&MOST_READS.to_ne_bytes());
    block
}

/// What a client's block is answered with: the same, as it wants all numbers to be equal.
pub fn answer(theirs: &[u8]) -> Vec<u8> {
    let mut block = vec![0; theirs.len()];
    let numbers = NUMBERS.min(theirs.len());
    block[..numbers].copy_from_slice(&theirs[..numbers]);
    if let Some(reads) = block.get_mut(READS_AT..READS_AT + 4) {
        reads.copy_from_slice(&MOST_READS.to_ne_bytes());
    }
    block
}

/// The first that differs of what both ends must do alike: what, here and there.
pub fn difference(own: &[u8], theirs: &[u8]) -> Option<(Unlike, u64, u64)> {
    let fields = [
        (VERB, Unlike::Test),
        (MEASURE, Unlike::Test),
        (METHOD, Unlike::Size),
        (SIZE, Unlike::Size),
        (QPS, Unlike::QueuePairs),
        (BY_TIME, Unlike::Duration),
        (ITERATIONS, Unlike::Iterations),
    ];
    let get = |block: &[u8], (at, bytes): (usize, usize)| {
        let field = block.get(at..at + bytes)?;
        Some(field.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    fields.into_iter().find_map(|(field, what)| {
        let (here, there) = (get(own, field)?, get(theirs, field)?);
        (here != there).then_some((what, here, there))
    })
}

fn verb(operation: Operation) -> u64 {
    match operation {
        Operation::Send => 0,
        Operation::Write => 2,
        Operation::Read => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::perf::Test;

    fn write_bw() -> Options {
        let test = Test { operation: Operation::Write, measure: Measure::Bandwidth };
        Options { amount: Amount::Iterations(50), ..Options::stock(test) }
    }

    /// The first 80 bytes that perftest 6.29 sent with -n 50.
    fn captured() -> Vec<u8> {
        let numbers = [0, 0, 2, 1, 0, 0, 1, 0, 0, 0x10000, 0, 50, 0, 1, 5, 0, 0, 0, 0, 0_u32];
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    #[test]
    fn our_numbers_are_those_of_the_tool() {
        let block = block(&write_bw(), Unit::Mebibytes);
        assert_eq!(block.len(), LONG);
        assert_eq!(block[..NUMBERS], captured());
        assert_eq!(difference(&block, &captured()), None);
    }

    #[test]
    fn an_answer_has_the_length_and_the_numbers_of_the_question() {
        for bytes in [SHORT, LONG] {
            let mut question = captured();
            question.resize(bytes, 0xff);
            let answer = answer(&question);
            assert_eq!((answer.len(), &answer[..NUMBERS]), (bytes, &captured()[..]));
            assert_eq!(answer[READS_AT..READS_AT + 4], MOST_READS.to_ne_bytes());
        }
    }

    #[test]
    fn what_differs_is_named_with_both_values() {
        let own = block(&write_bw(), Unit::Mebibytes);
        let theirs = |change: fn(&mut Options)| {
            let mut options = write_bw();
            change(&mut options);
            difference(&own, &block(&options, Unit::Mebibytes))
        };
        assert_eq!(theirs(|options| options.qps = 4), Some((Unlike::QueuePairs, 1, 4)));
        assert_eq!(theirs(|options| options.sizes = Sizes::One(64)), Some((Unlike::Size, 65536, 64)));
        assert_eq!(
            theirs(|options| options.amount = Amount::Iterations(9)),
            Some((Unlike::Iterations, 50, 9))
        );
        assert_eq!(theirs(|options| options.amount = Amount::Seconds(9)), Some((Unlike::Duration, 0, 1)));
        assert_eq!(theirs(|options| options.test.operation = Operation::Read), Some((Unlike::Test, 2, 4)));
    }

    #[test]
    fn no_length_makes_it_panic() {
        for bytes in 0..LONG + 8 {
            let theirs = vec![0xa5; bytes];
            assert_eq!(answer(&theirs).len(), bytes);
            let _ = difference(&block(&write_bw(), Unit::Gigabits), &theirs);
        }
    }
}
