//! Options of perftest that rocade does not have: each would change what is tested, or what is printed, and so is
//! refused with its reason instead of passed over, under the stock names and under rocade's own.

use anyhow::bail;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use rocade_core::pair::perf::Test;

use crate::outcome::Advice;

/// An option, and why it is refused.
#[derive(Debug)]
pub(crate) struct Refused {
    letter: Option<char>,
    long: &'static str,
    takes_value: bool,
    why: &'static str,
}

const fn flag(letter: char, long: &'static str, why: &'static str) -> Refused {
    Refused { letter: Some(letter), long, takes_value: false, why }
}

const fn value(letter: char, long: &'static str, why: &'static str) -> Refused {
    Refused { letter: Some(letter), long, takes_value: true, why }
}

const fn long(long: &'static str, takes_value: bool, why: &'static str) -> Refused {
    Refused { letter: None, long, takes_value, why }
}

const CM: &str = "connections are made over TCP, so that rdma_cm, which has requirements of its own, is not tested with \
                  the rest";
const MULTICAST: &str = "it tests RC, which knows no multicast";
const DC: &str = "it tests RC, and no connections of one vendor";
const BATCH: &str = "each send and receive is posted by itself";
const TWO_PORTS: &str = "a test runs over one port; run one on each at the same time";
const MEMORY: &str = "buffers are registered memory of this process";
const SECRET: &str = "nothing is encrypted";
const ACCELERATOR: &str = "buffers are memory of the host, and of no GPU or other accelerator";
const ORDER: &str = "packets are placed as the HCA does it by default";

/// Options of perftest 6.06, and of later versions as far as they are known.
pub(crate) const REFUSED: &[Refused] = &[
    flag('R', "rdma_cm", CM),
    flag('z', "comm_rdma_cm", CM),
    long("com_rdma_cm", false, CM),
    value('T', "tos", "it is an option of rdma_cm; --tclass sets the traffic class of RoCE"),
    flag('g', "mcg", MULTICAST),
    value('M', "MGID", MULTICAST),
    value('l', "post_list", BATCH),
    long("recv_post_list", true, BATCH),
    flag('O', "dualport", TWO_PORTS),
    long("report-per-port", false, TWO_PORTS),
    value('X', "vector", "the first completion vector is used"),
    flag('C', "report-cycles", "times are in us"),
    value('W', "report-counters", "`rocade` under its own name tells which counters grew"),
    long("log_dci_streams", true, DC),
    long("log_active_dci_streams", true, DC),
    long("aes_xts", false, SECRET),
    long("encrypt_on_tx", false, SECRET),
    long("sig_before", false, SECRET),
    long("aes_block_size", true, SECRET),
    long("data_enc_keys_number", true, SECRET),
    long("kek_path", true, SECRET),
    long("credentials_path", true, SECRET),
    long("data_enc_key_app_path", true, SECRET),
    long("cpu_util", false, "the share of the CPU is not told"),
    long("dlid", true, "the LID is the one that the other end tells"),
    long(
        "dont_xchg_versions",
        false,
        "no version of perftest works so either: it takes the other end's version for 0",
    ),
    long("force-link", true, "the link layer is the port's own"),
    long("inline_recv", true, "receives are not inline"),
    long("use-srq", false, "each QP has its own receives"),
    long("latency_gap", true, "a message follows the last one at once"),
    long("mmap", true, MEMORY),
    long("mmap-offset", true, MEMORY),
    long("odp", false, MEMORY),
    long("mr_per_qp", false, "all QPs share one memory region"),
    long(
        "disable_pcie_relaxed",
        false,
        "writes may overtake each other on PCIe in bandwidth tests, and never elsewhere",
    ),
    long("report-both", false, "both directions are told as their sum"),
    long("reversed", false, "the client sends; start the ends the other way round"),
    long("run_infinitely", false, "a test has an end; start it again and again"),
    long("wait_destroy", true, "what a test made is given back at its end"),
    long("burst_size", true, "a rate limit is kept from message to message"),
    long("typical_pkt_size", true, "a rate limit is kept from message to message"),
    long("use_cuda", true, ACCELERATOR),
    long("use_cuda_bus_id", true, ACCELERATOR),
    long("use_cuda_dmabuf", false, ACCELERATOR),
    long("use_rocm", true, ACCELERATOR),
    long("use_neuron", true, ACCELERATOR),
    long("use_neuron_dmabuf", false, ACCELERATOR),
    long("use_hl", true, ACCELERATOR),
    long("use_mlu", true, ACCELERATOR),
    long("use-null-mr", false, MEMORY),
    long(
        "payload_file_path",
        true,
        "what messages carry is a pattern of its own, which `rocade` compares with --check",
    ),
    long("data_validation", false, "`rocade` at both ends compares every byte with --check"),
    long(
        "flow_label",
        true,
        "the flow label is 0, and RoCE v2's UDP source port what the driver makes of it",
    ),
    long("write_with_imm", false, "it tests writes and sends, and no writes with immediate data"),
    long("unsolicited_write", false, "it tests writes and sends, and no writes with immediate data"),
    long("use_ooo", false, ORDER),
    long("no_ddp", false, ORDER),
    long("no_lock", false, "a test has one thread, and its queues the locks of the provider"),
    long("congest_type", true, "congestion control is as the HCA is set up"),
    long("connectionless", false, MULTICAST),
];

/// What the stock tools' tables have, and the six commands have in another way.
const TABLES: &[Refused] = &[
    value('w', "limit_bw", "--expect-gbps fails below a bandwidth"),
    value('y', "limit_msgrate", "--expect-gbps fails below a bandwidth; a message rate is not judged"),
    flag('H', "report-histogram", "every result has percentiles"),
    flag('U', "report-unsorted", "every result has percentiles"),
    flag('N', "noPeak", "the peak has a column of its own"),
];

/// The first of them on the command line, as arguments that the help does not show. `NATIVE`: under rocade's own names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusal<const NATIVE: bool>(Option<&'static Refused>);

impl<const NATIVE: bool> Refusal<NATIVE> {
    fn options() -> impl Iterator<Item = &'static Refused> {
        let tables: &'static [Refused] = if NATIVE { TABLES } else { &[] };
        REFUSED.iter().chain(tables)
    }

    /// Says why, if there is one.
    pub(crate) fn check(&self, test: Test) -> anyhow::Result<()> {
        let Some(option) = self.0 else { return Ok(()) };
        bail!(Advice::new(
            format!("rocade has no {}: {}", name(option), option.why),
            format!(
                "leave the option out, or take {} of perftest; either can be the other end",
                test.stock_name()
            )
        ));
    }
}

impl<const NATIVE: bool> clap::Args for Refusal<NATIVE> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::options().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const NATIVE: bool> FromArgMatches for Refusal<NATIVE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given =
            |option: &&Refused| matches.value_source(option.long) == Some(ValueSource::CommandLine);
        Ok(Refusal(Self::options().find(is_given)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The option for the parser, which hides it from the help.
fn argument(option: &Refused) -> Arg {
    let argument = Arg::new(option.long).long(option.long).hide(true);
    let argument = match option.letter {
        Some(letter) => argument.short(letter),
        None => argument,
    };
    argument.action(if option.takes_value { ArgAction::Append } else { ArgAction::Count })
}

/// As `-R (--rdma_cm)`.
fn name(option: &Refused) -> String {
    match option.letter {
        Some(letter) => format!("-{letter} (--{})", option.long),
        None => format!("--{}", option.long),
    }
}
