//! What ends a test that ran already: an end that is killed, that stops taking receives, packets that get lost. Each
//! happens once packets have come, however slow the nodes are.

use super::case::{At, Case, Change, Teller};

/// Counts packets from now on.
macro_rules! counting {
    () => {
        "c=/sys/class/infiniband/rxe1/ports/1/hw_counters/rcvd_pkts; n=$(cat $c); "
    };
}
/// Until some have come.
macro_rules! came {
    () => {
        "while [ $(($(cat $c) - n)) -lt 100 ]; do sleep 0.1; done; "
    };
}
/// Stops it, and ends it once its client has gone: port 18515, no more in state ESTABLISHED (01).
macro_rules! stopped {
    () => {
        "kill -STOP $p; while grep -qE ':4853 [0-9A-F]+:[0-9A-F]+ 01 ' /proc/net/tcp; do sleep 0.2; done; \
         kill -9 $p; wait"
    };
}

/// What ends a test first: the HCA's retries, or the look at the connection.
const GONE: &str = "the other end fell silent after |the other end ended while this end's test ran";

pub(super) const MIDWAY: &[Case] = &[
    Case {
        what: "a stock server is killed midway",
        changes: &[],
        server: concat!(
            counting!(),
            "ib_write_bw -F -d rxe1 -x 1 -s 4096 -n 1000000 & p=$!; ",
            came!(),
            "kill -9 $p; wait"
        ),
        client: "rocade write-bw -d rxe1 -s 4096 -n 1000000 --timeout 10 10.8.10.1",
        teller: Teller::Client,
        wanted: &[GONE],
        code: 1,
    },
    Case {
        what: "a stock client is killed midway",
        changes: &[],
        server: "rocade write-bw -d rxe1 -s 4096 -n 1000000 --timeout 10",
        client: concat!(
            counting!(),
            "ib_write_bw -F -d rxe1 -x 1 -s 4096 -n 1000000 10.8.10.1 & p=$!; ",
            came!(),
            "kill -9 $p; wait"
        ),
        teller: Teller::Server,
        wanted: &["the other end ended while this end's test ran"],
        code: 1,
    },
    Case {
        what: "a client of rocade is killed midway",
        changes: &[],
        server: "rocade send-lat -d rxe1 --timeout 10",
        client: concat!(
            counting!(),
            "rocade send-lat -d rxe1 -n 1000000 10.8.10.1 & p=$!; ",
            came!(),
            "kill -9 $p; wait"
        ),
        teller: Teller::Server,
        wanted: &[GONE],
        code: 1,
    },
    // Its kernel goes on to take what is written.
    Case {
        what: "a stock server that is stopped midway and does not hear of the end",
        changes: &[],
        server: concat!(
            counting!(),
            "ib_write_bw -F -d rxe1 -x 1 -s 4096 -n 50000 & p=$!; ",
            came!(),
            stopped!()
        ),
        client: "rocade write-bw -d rxe1 -s 4096 -n 50000 --timeout 5 10.8.10.1",
        teller: Teller::Client,
        wanted: &["the other end sent nothing for 5 s where the other end's key was to come"],
        code: 1,
    },
    Case {
        what: "a server that posts no more receives (RNR)",
        changes: &[],
        server: concat!(
            counting!(),
            "ib_send_bw -F -d rxe1 -x 1 -s 1024 -n 1000000 & p=$!; ",
            came!(),
            stopped!()
        ),
        client: "rocade send-bw -d rxe1 -s 1024 -n 1000000 --timeout 5 10.8.10.1",
        teller: Teller::Client,
        wanted: &["the other end seems to have no receive posted (RNR): this port counted "],
        code: 1,
    },
    // 100 messages a second, so that the sender, which may have 128 packets unanswered, goes on while some are dropped. It
    // counts a gap only where packets before it were not answered yet, so that the counter need not tell of it.
    Case {
        what: "packets that get lost midway",
        changes: &[Change { at: At::Server, make: "true", undo: "iptables -t raw -F PREROUTING" }],
        server: concat!(
            "drop='PREROUTING -p udp --dport 4791 -j DROP'; ",
            counting!(),
            "(",
            came!(),
            "iptables -t raw -A $drop; iptables -t raw -D $drop; sleep 1; iptables -t raw -A $drop) & w=$!; \
             rocade write-bw -d rxe1 --timeout 20; kill $w"
        ),
        client: "rocade write-bw -d rxe1 -s 64 -n 1000000 --rate-limit-gbps 0.00005 --timeout 5 10.7.0.1",
        teller: Teller::Client,
        wanted: &["the other end fell silent after "],
        code: 1,
    },
];
