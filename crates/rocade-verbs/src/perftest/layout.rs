//! Where in the buffer the messages lie: an area a QP in the half that is sent from, or read into, and one in the half
//! that the other end reaches. A stock tool's end keeps to the first `max(size, page)` bytes of an area, in steps of a
//! cache line's multiple where two messages and more fit into a page, and so do we.

use std::ops::Range;

use rocade_core::pair::perf::message::Memory;
use rocade_core::pair::perf::{Measure, Operation, Options};

/// Where messages lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    qps: usize,
    page: usize,
    line: usize,
    /// Distance of two QPs' areas.
    area: usize,
    /// Largest message.
    largest: usize,
    /// Receives that a QP keeps posted.
    receives: usize,
    /// Messages of a QP that lie side by side, for each to be compared.
    apart: Option<usize>,
}

/// A QP's messages that are compared share so much of each half, unless one alone is larger.
const COMPARED: usize = 16 << 20;

impl Layout {
    pub(super) fn new(options: &Options, memory: Memory) -> Layout {
        let (page, line) = (memory.page_bytes as usize, memory.line_bytes as usize);
        let largest = options.sizes.largest() as usize;
        let (sends, receives) = (options.tx_depth as usize, options.rx_depth as usize);
        let is_send = options.test.operation == Operation::Send;
        let is_latency = options.test.measure == Measure::Latency;
        let step = largest.next_multiple_of(line);
        let wanted = if is_send { sends.max(receives) } else { sends };
        let fitting = (COMPARED / options.qps as usize / step).max(1);
        let apart = options.data_seed.map(|_| if is_latency { 1 } else { wanted.min(fitting) });
        let area = largest.max(page).max(apart.unwrap_or(1) * step).next_multiple_of(page.max(line));
        let receives = match (is_send, apart) {
            (false, _) => 1,
            (true, Some(apart)) if !is_latency => receives.min(apart),
            (true, _) => receives,
        };
        Layout { qps: options.qps as usize, page, line, area, largest, receives, apart }
    }

    /// All of it.
    pub(super) fn bytes(&self) -> usize {
        2 * self.qps * self.area
    }

    /// Receives that each QP keeps posted.
    pub(super) fn receives(&self) -> u32 {
        self.receives as u32
    }

    /// Messages that lie side by side; 1 where none is compared.
    pub(super) fn apart(&self) -> usize {
        self.apart.unwrap_or(1)
    }

    /// Where a QP sends from, or reads into.
    pub(super) fn own_area(&self, qp: usize) -> usize {
        qp * self.area
    }

    /// Where the other end's QP writes to or reads from, and receives go.
    pub(super) fn remote_area(&self, qp: usize) -> usize {
        (self.qps + qp) * self.area
    }

    /// From the start of an area, where the messages of a size go in turn.
    pub(super) fn offsets(&self, bytes: u32) -> Vec<usize> {
        let step = (bytes as usize).next_multiple_of(self.line);
        let count = match self.apart {
            Some(apart) => apart,
            None if bytes as usize <= self.page / 2 => (self.page / step).max(1),
            None => 1,
        };
        (0..count).map(|at| at * step).collect()
    }

    /// Where a QP's receives go in turn, each with room for the largest message.
    pub(super) fn receive_slots(&self, qp: usize) -> Vec<Range<usize>> {
        let offsets = self.offsets(self.largest as u32);
        let start = self.remote_area(qp);
        let slot = |at: usize| start + offsets[at % offsets.len()];
        (0..self.receives).map(|at| slot(at)..slot(at) + self.largest).collect()
    }
}

#[cfg(test)]
mod tests {
    use rocade_core::pair::perf::{Sizes, Test};

    use super::*;

    const MEMORY: Memory = Memory { page_bytes: 4096, line_bytes: 64 };

    fn layout(name: &str, change: impl FnOnce(&mut Options)) -> Layout {
        let test = Test::ALL.into_iter().find(|test| test.name() == name).unwrap();
        let mut options = Options::stock(test);
        change(&mut options);
        Layout::new(&options, MEMORY)
    }

    #[test]
    fn messages_stay_within_what_a_stock_end_has_and_step_as_its_own_do() {
        for (bytes, count, last) in
            [(1, 64, 63 * 64), (64, 64, 63 * 64), (100, 32, 31 * 128), (2048, 2, 2048)]
        {
            let offsets = layout("write-bw", |o| o.sizes = Sizes::One(bytes)).offsets(bytes);
            assert_eq!((offsets.len(), *offsets.last().unwrap()), (count, last), "{bytes}");
        }
        for bytes in [2049, 4096, 65536] {
            assert_eq!(layout("write-bw", |o| o.sizes = Sizes::One(bytes)).offsets(bytes), [0], "{bytes}");
        }
    }

    #[test]
    fn a_server_of_all_sizes_has_room_for_the_largest_of_each_qp() {
        let layout = layout("write-bw", |o| (o.sizes, o.qps) = (Sizes::All, 3));
        assert_eq!(layout.bytes(), 6 * (8 << 20));
        assert_eq!(layout.remote_area(2) - layout.remote_area(1), 8 << 20);
        assert!(layout.remote_area(0) >= layout.own_area(2) + (8 << 20));
    }

    #[test]
    fn messages_that_are_compared_do_not_overlap() {
        for (name, bytes) in [("write-bw", 64), ("read-bw", 65536), ("send-bw", 5000), ("send-lat", 2)] {
            let layout = layout(name, |o| {
                (o.sizes, o.qps, o.data_seed) =
                    (Sizes::One(bytes), if name == "send-lat" { 1 } else { 2 }, Some(1))
            });
            let offsets = layout.offsets(bytes);
            assert!(offsets.windows(2).all(|two| two[1] - two[0] >= bytes as usize), "{name}");
            assert!(offsets.last().unwrap() + bytes as usize <= layout.remote_area(0) / layout.qps, "{name}");
            if name == "send-bw" {
                let slots = layout.receive_slots(1);
                assert!(slots.windows(2).all(|two| two[0].end <= two[1].start));
                assert!(slots.last().unwrap().end <= layout.bytes());
            }
        }
    }
}
