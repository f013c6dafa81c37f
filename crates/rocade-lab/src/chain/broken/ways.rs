//! What is between two ends, or decides the way: MTUs, routers, ARP, rails, GIDs of unlike kinds, packets that get lost.

use super::case::{At, Case, Change, Teller};

/// Exchange over the management network, so that what is broken on a rail is RDMA's alone.
pub(super) const WAYS: &[Case] = &[
    Case {
        what: "the way drops packets of the path MTU",
        changes: &[NARROW],
        server: "rocade pingpong -d rxe1 -m 4096 -s 4096 -n 20 --timeout 7",
        client: "rocade pingpong -d rxe1 -m 4096 -s 4096 -n 20 --timeout 5 10.7.0.1",
        teller: Teller::Client,
        wanted: &[
            "drops packets as large as a path MTU of 4096 bytes makes them (4140 bytes), and carries small ones",
            "-m 2048",
        ],
        code: 1,
    },
    Case {
        what: "the same way with a path MTU that fits",
        changes: &[NARROW],
        server: "rocade pingpong -d rxe1 -m 1024 -s 4096 -n 20 --timeout 15",
        client: "rocade pingpong -d rxe1 -m 1024 -s 4096 -n 20 --timeout 15 10.7.0.1",
        teller: Teller::Client,
        wanted: &[],
        code: 0,
    },
    Case {
        what: "one end's netdev is narrower: both settle on its MTU",
        changes: &[Change {
            at: At::Server,
            make: "ip link set eth1 mtu 1500",
            undo: "ip link set eth1 mtu 4200",
        }],
        server: "rocade write-bw -d rxe1 --timeout 15",
        client: "rocade write-bw -d rxe1 -s 4096 -n 50 --timeout 15 10.7.0.1",
        teller: Teller::Client,
        wanted: &[],
        code: 0,
    },
    // The kernel takes a route's hop limit, and not the 1 that the stock tool asks for.
    Case {
        what: "a router, and a stock end",
        changes: ROUTED,
        server: "i=$(cd /sys/class/infiniband/rxe2/ports/1/gids && grep -slx 0000:0000:0000:0000:0000:ffff:0a08:1401 * \
                 | sort -n | head -1); ibv_rc_pingpong -d rxe2 -g $i -n 20",
        client: "rocade pingpong -d rxe1 -n 20 --timeout 20 10.7.0.1",
        teller: Teller::Client,
        wanted: &[],
        code: 0,
    },
    Case {
        what: "a router that one end's packets do not live to pass",
        changes: &[
            ROUTED[0],
            Change {
                make: "ip addr del 10.8.10.1/24 dev eth1 && \
                       ip route add 10.8.10.0/24 via 10.8.20.254 dev eth2 hoplimit 1",
                ..ROUTED[1]
            },
            ROUTED[2],
        ],
        server: "rocade pingpong -d rxe2 -n 20 --timeout 7",
        client: "rocade pingpong -d rxe1 -n 20 --timeout 5 10.7.0.1",
        teller: Teller::Client,
        wanted: &[
            "no packet came back from 10.8.20.1",
            "10.8.20.1 is in another subnet, so a router must carry it",
        ],
        code: 1,
    },
    Case {
        what: "two rails in one subnet, whose wrong one answered ARP",
        changes: &[
            Change {
                at: At::Client,
                make: "ip addr add 10.8.10.12/24 dev eth2; for i in all eth1 eth2; do \
                       echo 0 > /proc/sys/net/ipv4/conf/$i/arp_ignore; done",
                undo: "ip addr del 10.8.10.12/24 dev eth2; for i in eth1 eth2; do \
                       echo 3 > /proc/sys/net/ipv4/conf/$i/arp_ignore; done",
            },
            Change {
                at: At::Server,
                make: "ip neigh replace 10.8.10.2 lladdr 52:54:00:07:02:02 nud permanent dev eth1",
                undo: "ip neigh del 10.8.10.2 dev eth1",
            },
        ],
        server: "rocade pingpong -d rxe1 --timeout 7",
        client: "rocade pingpong -d rxe1 --timeout 5 10.7.0.1",
        teller: Teller::Client,
        wanted: &["eth1 and eth2 are in one subnet with arp_ignore 0", "arp_ignore=1"],
        code: 1,
    },
    Case {
        what: "nobody on the rail answers for the other end's address",
        changes: &[
            Change { at: At::Server, make: "ip link set eth1 arp off", undo: "ip link set eth1 arp on" },
            Change { at: At::Client, make: "ip neigh flush dev eth1", undo: "true" },
        ],
        server: "rocade pingpong -d rxe1 --timeout 20",
        client: "rocade pingpong -d rxe1 --timeout 20 10.7.0.1",
        teller: Teller::Client,
        wanted: &["nobody on eth1 answers for 10.8.10.1, the other end's GID"],
        code: 1,
    },
    Case {
        what: "the wrong rail",
        changes: &[],
        server: "rocade pingpong -d rxe2 --timeout 20",
        client: "rocade pingpong -d rxe1 --timeout 20 10.7.0.1",
        teller: Teller::Server,
        wanted: &[
            "10.8.10.2, the other end's GID, is on another rail: in the subnet of eth1, and not in that of eth2",
            "-d rxe1",
        ],
        code: 1,
    },
    Case {
        what: "the same rails with a server that is free to choose",
        changes: &[],
        server: "rocade write-bw -n 50 --timeout 20",
        client: "rocade write-bw -d rxe2 -n 50 --timeout 20 10.7.0.1",
        teller: Teller::Server,
        wanted: &["10.8.20.1 on eth2 is in the subnet of the other end, 10.8.20.2"],
        code: 0,
    },
    Case {
        what: "GIDs of unlike families",
        changes: &[Change {
            at: At::Client,
            make: "ip addr add fd01::2/64 dev eth1 nodad",
            undo: "ip addr del fd01::2/64 dev eth1",
        }],
        server: "rocade pingpong -d rxe1 --timeout 20",
        client: "i=$(cd /sys/class/infiniband/rxe1/ports/1/gids && grep -slx fd01:0000:0000:0000:0000:0000:0000:0002 * \
                 | sort -n | head -1); ibv_rc_pingpong -d rxe1 -g $i 10.8.10.1",
        teller: Teller::Server,
        wanted: &["one GID is IPv4, the other IPv6 (10.8.10.1 here, fd01::2 there)"],
        code: 1,
    },
    Case {
        what: "a GID of another namespace, which the HCA lists as well",
        changes: &[Change {
            at: At::Client,
            make: "ip netns add away && ip link add away1 link eth1 type macvlan mode bridge && \
                   ip link set away1 netns away && ip -n away addr add 10.8.10.77/24 dev away1 && \
                   ip -n away link set away1 up && sleep 1",
            undo: "ip netns del away",
        }],
        server: "rocade pingpong -d rxe1 --timeout 7",
        client: "i=$(cd /sys/class/infiniband/rxe1/ports/1/gids && grep -slx 0000:0000:0000:0000:0000:ffff:0a08:0a4d * \
                 | sort -n | head -1); rocade pingpong -d rxe1 -x $i --timeout 5 10.8.10.1",
        teller: Teller::Client,
        wanted: &[
            "(10.8.10.77) is foreign: no address of this network namespace",
            "(10.8.10.77) is of no address of this network namespace",
            "leave -x out",
        ],
        code: 1,
    },
];

/// The bridge drops what does not fit the port that it leaves by.
const NARROW: Change =
    Change { at: At::Lab, make: "ip link set n1e1 mtu 1500", undo: "ip link set n1e1 mtu 4200" };

/// The lab stands between the rails: the server is on the second one alone, the client on the first.
const ROUTED: &[Change] = &[
    Change {
        at: At::Lab,
        make: "ip addr add 10.8.10.254/24 dev rail1; ip addr add 10.8.20.254/24 dev rail2",
        undo: "ip addr del 10.8.10.254/24 dev rail1; ip addr del 10.8.20.254/24 dev rail2",
    },
    Change {
        at: At::Server,
        make: "ip addr del 10.8.10.1/24 dev eth1 && ip route add 10.8.10.0/24 via 10.8.20.254 dev eth2",
        undo: "ip route del 10.8.10.0/24 via 10.8.20.254; ip addr add 10.8.10.1/24 dev eth1",
    },
    Change {
        at: At::Client,
        make: "ip addr del 10.8.20.2/24 dev eth2 && ip route add 10.8.20.0/24 via 10.8.10.254 dev eth1",
        undo: "ip route del 10.8.20.0/24 via 10.8.10.254; ip addr add 10.8.20.2/24 dev eth2",
    },
];
