//! Options of perftest 6.06 that rocade does not have: each would change what is tested, or what is printed, and so is
//! refused with its reason instead of passed over.

use clap::{Arg, ArgAction, ArgMatches};

/// An option, and why it is refused.
pub(super) struct Refused {
    letter: Option<char>,
    long: &'static str,
    takes_value: bool,
    pub(super) why: &'static str,
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

/// All of them.
pub(super) const REFUSED: &[Refused] = &[
    flag('R', "rdma_cm", CM),
    flag('z', "com_rdma_cm", CM),
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
];

/// The option for the parser, which hides it from the help.
pub(super) fn argument(option: &Refused) -> Arg {
    let argument = Arg::new(option.long).long(option.long).hide(true);
    let argument = match option.letter {
        Some(letter) => argument.short(letter),
        None => argument,
    };
    argument.action(if option.takes_value { ArgAction::Append } else { ArgAction::Count })
}

/// Whether it is on the command line.
pub(super) fn is_given(matches: &ArgMatches, option: &Refused) -> bool {
    matches.value_source(option.long) == Some(clap::parser::ValueSource::CommandLine)
}

/// As `-R (--rdma_cm)`.
pub(super) fn name(option: &Refused) -> String {
    match option.letter {
        Some(letter) => format!("-{letter} (--{})", option.long),
        None => format!("--{}", option.long),
    }
}
