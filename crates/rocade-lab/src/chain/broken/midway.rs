//! What ends a test that ran already: an end that is killed, that stops taking receives, packets that get lost.

use super::case::{At, Case, Change, Teller};

pub(super) const MIDWAY: &[Case] = &[
    Case {
        what: "a stock server is killed midway",
        changes: &[],
        server: "ib_write_bw -F -d rxe1 -x 1 -s 4096 -n 1000000 & p=$!; sleep 5; kill -9 $p; wait",
        client: "rocade write-bw -d rxe1 -s 4096 -n 1000000 --timeout 10 10.8.10.1",
        teller: Teller::Client,
        wanted: &["the other end "],
        code: 1,
    },
    Case {
        what: "a stock client is killed midway",
        changes: &[],
        server: "rocade write-bw -d rxe1 -s 4096 -n 1000000 --timeout 10",
        client: "ib_write_bw -F -d rxe1 -x 1 -s 4096 -n 1000000 10.8.10.1 & p=$!; sleep 5; kill -9 $p; wait",
        teller: Teller::Server,
        wanted: &["the other end ended while this end's test ran"],
        code: 1,
    },
    Case {
        what: "a client of rocade is killed midway",
        changes: &[],
        server: "rocade send-lat -d rxe1 --timeout 10",
        client: "rocade send-lat -d rxe1 -n 1000000 10.8.10.1 & p=$!; sleep 5; kill -9 $p; wait",
        teller: Teller::Server,
        wanted: &["the other end "],
        code: 1,
    },
    Case {
        what: "a server that posts no more receives (RNR)",
        changes: &[],
        server: "ib_send_bw -F -d rxe1 -x 1 -s 1024 -n 1000000 & p=$!; sleep 5; kill -STOP $p; sleep 9; \
                 kill -9 $p; wait",
        client: "rocade send-bw -d rxe1 -s 1024 -n 1000000 --timeout 5 10.8.10.1",
        teller: Teller::Client,
        wanted: &["the other end had no receive posted for too long (RNR); this port counted "],
        code: 1,
    },
    // So few messages a second that the sender, which may have 128 packets unanswered, goes on while some are dropped.
    Case {
        what: "packets that get lost midway",
        changes: &[Change { at: At::Server, make: "true", undo: "iptables -t raw -F PREROUTING" }],
        server: "drop='PREROUTING -p udp --dport 4791 -j DROP'; (sleep 7; iptables -t raw -A $drop; sleep 0.1; \
                 iptables -t raw -D $drop; sleep 1; iptables -t raw -A $drop) & rocade write-bw -d rxe1 --timeout 20",
        client: "rocade write-bw -d rxe1 -s 64 -n 1000000 --rate-limit-gbps 0.00015 --timeout 5 10.7.0.1",
        teller: Teller::Client,
        wanted: &["packets were lost or reordered: this port counted "],
        code: 1,
    },
];
