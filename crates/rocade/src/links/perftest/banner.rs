//! What a stock tool prints ahead of its figures (perftest 6.06, ctx_print_test_info and ctx_print_pingpong_data): the
//! settings in use and both ends' keys.

use std::fmt::Write;

use rocade_core::Gid;
use rocade_core::gid::Choice;
use rocade_core::pair::Role;
use rocade_core::pair::perf::message::Key;
use rocade_core::pair::perf::{Measure, Operation, Options};

/// Above and below each part.
pub(super) const RULER: &str =
    "---------------------------------------------------------------------------------------\n";
/// What a server prints first.
pub(super) const WAITING: &str = "\n************************************\n\
                                  * Waiting for client to connect... *\n\
                                  ************************************\n";

/// What is in use at this end.
#[derive(Debug)]
pub(super) struct Settings<'a> {
    pub(super) role: Role,
    pub(super) options: &'a Options,
    pub(super) choice: &'a Choice,
    /// `Ethernet` or `IB`.
    pub(super) link_type: &'static str,
    pub(super) mtu_bytes: u32,
    pub(super) inline_bytes: u32,
    pub(super) outstanding_reads: u8,
}

impl Settings<'_> {
    /// Whether this end sends more than it is asked for.
    pub(super) fn sends(&self) -> bool {
        self.role == Role::Client || self.options.bidirectional
    }

    /// Whether it posts receives for the other end's messages.
    pub(super) fn receives(&self) -> bool {
        self.options.test.operation == Operation::Send
            && (self.role == Role::Server || self.options.bidirectional)
    }

    /// As `RDMA_Write`.
    pub(super) fn operation(&self) -> &'static str {
        match self.options.test.operation {
            Operation::Write => "RDMA_Write",
            Operation::Read => "RDMA_Read",
            Operation::Send => "Send",
        }
    }

    /// The part ahead of the keys.
    pub(super) fn render(&self) -> String {
        let options = self.options;
        let bandwidth = options.test.measure == Measure::Bandwidth;
        let directions = if options.bidirectional { "Bidirectional " } else { "" };
        let measure = if bandwidth { "BW" } else { "Latency" };
        let mut text =
            format!("{RULER}                    {} {directions}{measure} Test\n", self.operation());
        let mut line = |words: String| text.push_str(&format!(" {words}\n"));
        if options.events {
            line(format!("Test with events. Using {}_comp0", self.choice.hca));
        }
        line(format!("Dual-port       : OFF\t\tDevice         : {}", self.choice.hca));
        line(format!("Number of qps   : {}\t\tTransport type : IB", options.qps));
        line("Connection type : RC\t\tUsing SRQ      : OFF".to_owned());
        line(format!("PCIe relax order: {}", self.relaxed_ordering()));
        line("ibv_wr* API     : OFF".to_owned());
        if self.sends() {
            line(format!("TX depth        : {}", options.tx_depth));
        }
        if self.receives() {
            line(format!("RX depth        : {}", options.rx_depth));
        }
        if bandwidth {
            line(format!("CQ Moderation   : {}", options.cq_moderation));
        }
        line(format!("Mtu             : {}[B]", self.mtu_bytes));
        line(format!("Link type       : {}", self.link_type));
        if let Some(gid) = &self.choice.gid {
            line(format!("GID index       : {}", gid.index));
        }
        match options.test.operation {
            Operation::Read => line(format!("Outstand reads  : {}", self.outstanding_reads)),
            _ => line(format!("Max inline data : {}[B]", self.inline_bytes)),
        }
        line("rdma_cm QPs\t : OFF".to_owned());
        line("Data ex. method : Ethernet".to_owned());
        text + RULER
    }

    /// Memory that is polled for its last byte must not have it, as write-lat's.
    pub(super) fn relaxed_ordering(&self) -> &'static str {
        let test = self.options.test;
        let polled = (test.operation, test.measure) == (Operation::Write, Measure::Latency);
        if polled { "OFF" } else { "ON" }
    }

    /// Both ends' keys, one a QP.
    pub(super) fn render_keys(&self, local: &[Key], remote: &[Key]) -> String {
        let mut text = String::new();
        let ends = [("local", local), ("remote", remote)];
        for (end, key) in ends.iter().flat_map(|(end, keys)| keys.iter().map(move |key| (end, key))) {
            text.push_str(&self.render_key(end, key));
        }
        text
    }

    fn render_key(&self, end: &str, key: &Key) -> String {
        let (lid, qpn, psn) =
            (alternate(key.lid.into(), 4), alternate(key.qpn.into(), 6), alternate(key.psn.into(), 6));
        let mut text = format!(" {end} address: LID {lid} QPN {qpn} PSN {psn}");
        let operation = self.options.test.operation;
        if operation == Operation::Read {
            let _ = write!(text, " OUT {}", alternate(key.out_reads.into(), 4));
        }
        if operation != Operation::Send {
            let _ =
                write!(text, " RKey {} VAddr {}", alternate(key.rkey.into(), 8), alternate(key.vaddr, 16));
        }
        text.push('\n');
        if let Some(gid) = key.gid {
            let _ = writeln!(text, " GID: {}", decimal(gid));
        }
        text
    }
}

/// C's `%#0Nx`: no prefix before a zero.
fn alternate(number: u64, width: usize) -> String {
    if number == 0 { "0".repeat(width) } else { format!("{number:#0width$x}") }
}

/// Its bytes in decimal of two digits or more.
fn decimal(gid: Gid) -> String {
    gid.0.map(|byte| format!("{byte:02}")).join(":")
}
