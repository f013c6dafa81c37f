//! What one end lacks before anything of RDMA goes: rights to the device, a way for TCP, a port that is up; and two ends
//! that were started unlike.

use super::case::{At, Case, Change, Teller};

pub(super) const ENDS: &[Case] = &[
    Case {
        what: "a device node that this user may not open",
        changes: &[Change {
            at: At::Client,
            make: "chmod 0600 /dev/infiniband/uverbs0",
            undo: "chmod 0666 /dev/infiniband/uverbs0",
        }],
        server: "rocade write-bw -d rxe1 --timeout 20",
        client: "setpriv --reuid 65534 --clear-groups rocade write-bw -d rxe1 --timeout 20 10.8.10.1",
        teller: Teller::Client,
        wanted: &["this user may not open /dev/infiniband/uverbs0"],
        code: 2,
    },
    Case {
        what: "the same with another HCA that may be opened, and none asked for",
        changes: &[Change {
            at: At::Client,
            make: "chmod 0600 /dev/infiniband/uverbs0",
            undo: "chmod 0666 /dev/infiniband/uverbs0",
        }],
        server: "rocade write-bw -d rxe2 -n 50 --timeout 20",
        client: "setpriv --reuid 65534 --clear-groups rocade write-bw -n 50 --timeout 20 10.7.0.1",
        teller: Teller::Client,
        wanted: &["warning: rxe1 came first, and its device node does not open here (EACCES)"],
        code: 0,
    },
    Case {
        what: "a TCP port that is dropped",
        changes: &[Change {
            at: At::Server,
            make: "iptables -A INPUT -p tcp --dport 18600 -j DROP",
            undo: "iptables -D INPUT -p tcp --dport 18600 -j DROP",
        }],
        server: "timeout 6 rocade write-bw",
        client: "rocade write-bw -p 18600 --timeout 3 10.8.10.1",
        teller: Teller::Client,
        wanted: &["10.8.10.1 did not answer on TCP port 18600"],
        code: 2,
    },
    Case {
        what: "a rail that is down",
        changes: &[Change { at: At::Client, make: "ip link set eth2 down", undo: "ip link set eth2 up" }],
        server: "timeout 6 rocade write-bw",
        client: "rocade write-bw -d rxe2 --timeout 20 10.7.0.1",
        teller: Teller::Client,
        wanted: &["port DOWN"],
        code: 2,
    },
    Case {
        what: "unlike directions",
        changes: &[],
        server: "ib_write_bw -F -d rxe1 -x 1 -n 100 -b",
        client: "rocade write-bw -d rxe1 -n 100 --timeout 20 10.8.10.1",
        teller: Teller::Client,
        wanted: &["the ends differ in their direction (-b)"],
        code: 2,
    },
    Case {
        what: "messages larger than the other end's receives",
        changes: &[],
        server: "ibv_rc_pingpong -d rxe1 -g 1 -s 64",
        client: "rocade pingpong -d rxe1 -s 4096 --timeout 20 10.8.10.1",
        teller: Teller::Client,
        wanted: &["the other end refuses messages of 4096 bytes", "give both ends the same -s"],
        code: 1,
    },
    Case {
        what: "a client of the other protocol",
        changes: &[],
        server: "rocade write-bw -d rxe1 --timeout 20",
        client: "ibv_rc_pingpong -d rxe1 -g 1 10.8.10.1",
        teller: Teller::Server,
        wanted: &["the other end speaks ibv_rc_pingpong's protocol"],
        code: 2,
    },
];
