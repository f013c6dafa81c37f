//! What clients may take of this host, all together and each.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rocade_core::pair::perf::{Amount, Options};

/// Limits of a service.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// Clients that are served at once.
    pub(super) clients: usize,
    /// Connections of which too little is known yet.
    pub(super) guests: usize,
    /// So long a connection may take to show what it is, and then wait for a place.
    pub(super) patience: Duration,
    /// Longest time of a client.
    pub(super) time: Duration,
    /// Memory of all clients.
    pub(super) memory: Memory,
}

impl Limits {
    /// Whether a client of rocade gets what it asks for; the words are for it.
    pub(super) fn accept(&self, options: &Options) -> Result<Reservation, String> {
        if let Amount::Seconds(seconds) = options.amount {
            let asked = u64::from(seconds) * options.sizes.each().len() as u64;
            let most = self.time.as_secs();
            if asked > most {
                return Err(format!("a test of {asked} s was asked for, and a client has {most} s here"));
            }
        }
        self.memory.reserve(options.buffer_bytes())
    }
}

/// Memory that may be registered, bytes; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    most: u64,
    taken: Arc<Mutex<u64>>,
}

impl Memory {
    pub(super) fn of(most: u64) -> Memory {
        Memory { most, taken: Arc::default() }
    }

    /// Takes a part of it until that is dropped.
    pub(super) fn reserve(&self, bytes: u64) -> Result<Reservation, String> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.most.saturating_sub(*taken);
        if bytes > left {
            let mib = |bytes: u64| bytes.div_ceil(1 << 20);
            return Err(format!(
                "{} MiB of memory were asked for, and {} MiB are left here",
                mib(bytes),
                left >> 20
            ));
        }
        *taken += bytes;
        Ok(Reservation { of: self.clone(), bytes })
    }
}

/// A part of the memory.
#[derive(Debug)]
pub(super) struct Reservation {
    of: Memory,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *self.of.taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use rocade_core::pair::perf::{Sizes, Test};

    use super::*;

    fn limits(memory: u64) -> Limits {
        let (patience, time) = (Duration::from_secs(5), Duration::from_secs(60));
        Limits { clients: 2, guests: 4, patience, time, memory: Memory::of(memory) }
    }

    fn options(change: impl FnOnce(&mut Options)) -> Options {
        let mut options = Options::stock(Test::ALL[0]);
        change(&mut options);
        options
    }

    #[test]
    fn memory_is_given_back_when_a_client_ends() {
        let limits = limits(64 << 20);
        let large = options(|o| o.sizes = Sizes::One(16 << 20));
        let one = limits.accept(&large).unwrap();
        let two = limits.accept(&large).unwrap();
        let small = options(|_| ());
        assert_eq!(
            limits.accept(&large).unwrap_err(),
            "32 MiB of memory were asked for, and 0 MiB are left here"
        );
        assert!(limits.accept(&small).is_err());
        drop(one);
        assert!(limits.accept(&small).is_ok() && limits.accept(&large).is_ok());
        drop(two);
        assert!(limits.accept(&options(|o| (o.sizes, o.qps) = (Sizes::One(1 << 30), 16384))).is_err());
    }

    #[test]
    fn a_test_longer_than_a_client_may_take_is_refused_in_words() {
        let timed = |seconds, sizes| options(|o| (o.amount, o.sizes) = (Amount::Seconds(seconds), sizes));
        assert!(limits(1 << 30).accept(&timed(60, Sizes::One(64))).is_ok());
        for long in [timed(61, Sizes::One(64)), timed(31, Sizes::List(vec![64, 128]))] {
            let said = limits(1 << 30).accept(&long).unwrap_err();
            assert!(said.ends_with("s was asked for, and a client has 60 s here"), "{said}");
        }
    }
}
