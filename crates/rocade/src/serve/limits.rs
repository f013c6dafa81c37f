//! What clients may take of this host, all together and each.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rocade_core::pair::Role;
use rocade_core::pair::perf::{Amount, Options, message};
use rocade_verbs::perftest::memory_bytes;

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
    /// Whether a client gets what it asks for, with the larger of both ends' pages; the words are for it.
    pub(super) fn accept(&self, options: &Options, pages: message::Memory) -> Result<Reservation, String> {
        if let Amount::Seconds(seconds) = options.amount {
            let asked = u64::from(seconds) * options.sizes.each().len() as u64;
            let most = self.time.as_secs();
            if asked > most {
                return Err(format!("a test of {asked} s was asked for, and a client has {most} s here"));
            }
        }
        self.memory.reserve(memory_bytes(Role::Server, options, pages))
    }
}

/// Memory that tests may take, bytes; clones share it.
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

    const PAGES: message::Memory = message::Memory { page_bytes: 4096, line_bytes: 64 };

    fn accept(limits: &Limits, options: &Options) -> Result<Reservation, String> {
        limits.accept(options, PAGES)
    }

    #[test]
    fn memory_is_given_back_when_a_client_ends() {
        let limits = limits(66 << 20);
        let large = options(|o| o.sizes = Sizes::One(16 << 20));
        let one = accept(&limits, &large).unwrap();
        let two = accept(&limits, &large).unwrap();
        let medium = options(|o| o.sizes = Sizes::One(1 << 20));
        assert_eq!(
            accept(&limits, &large).unwrap_err(),
            "33 MiB of memory were asked for, and 1 MiB are left here"
        );
        assert!(accept(&limits, &medium).is_err());
        drop(one);
        assert!(accept(&limits, &medium).is_ok() && accept(&limits, &large).is_ok());
        drop(two);
        assert!(accept(&limits, &options(|o| (o.sizes, o.qps) = (Sizes::One(1 << 30), 16384))).is_err());
    }

    /// Whatever it is that a client makes large.
    #[test]
    fn what_a_client_asks_for_counts_with_its_pages_its_queues_and_the_times_that_are_kept() {
        let of = |name: &str, change: fn(&mut Options)| {
            let mut options = Options::stock(Test::ALL.into_iter().find(|test| test.name() == name).unwrap());
            options.sizes = Sizes::One(1);
            change(&mut options);
            options
        };
        let asked = |options: &Options, pages| match limits(1 << 20).accept(options, pages) {
            Ok(_) => 0,
            Err(said) => said.split(' ').next().unwrap().parse::<u64>().unwrap(),
        };
        let many = of("write-bw", |o| o.qps = 16384);
        let large = message::Memory::LARGEST;
        assert!(asked(&many, large) >= 32 << 10, "{} MiB", asked(&many, large));
        assert!(asked(&many, PAGES) < 2 << 10, "{} MiB", asked(&many, PAGES));
        let deep = of("send-bw", |o| (o.qps, o.tx_depth, o.rx_depth) = (16384, 15_000, 15_000));
        assert!(asked(&deep, PAGES) > 50 << 10, "{} MiB", asked(&deep, PAGES));
        let sampled = of("send-lat", |o| o.amount = Amount::Iterations(10_000_000));
        assert!(asked(&sampled, PAGES) > 110, "{} MiB", asked(&sampled, PAGES));
        let kept = of("write-bw", |o| {
            (o.qps, o.bidirectional, o.amount) = (1000, true, Amount::Iterations(20_000));
        });
        assert!(asked(&kept, PAGES) > 600, "{} MiB", asked(&kept, PAGES));
        assert_eq!(asked(&of("send-lat", |_| ()), PAGES), 0);
    }

    #[test]
    fn a_test_longer_than_a_client_may_take_is_refused_in_words() {
        let timed = |seconds, sizes| options(|o| (o.amount, o.sizes) = (Amount::Seconds(seconds), sizes));
        assert!(accept(&limits(1 << 30), &timed(60, Sizes::One(64))).is_ok());
        for long in [timed(61, Sizes::One(64)), timed(31, Sizes::List(vec![64, 128]))] {
            let said = accept(&limits(1 << 30), &long).unwrap_err();
            assert!(said.ends_with("s was asked for, and a client has 60 s here"), "{said}");
        }
    }
}
