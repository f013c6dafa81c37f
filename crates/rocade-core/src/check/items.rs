//! What an RDMA host's readiness hangs on, item by item: where it is read, and which rules judge it, or why it cannot be
//! read. The second half of docs/checks.md.

/// One thing to look at.
#[derive(Debug)]
pub struct Item {
    /// What it is.
    pub name: &'static str,
    /// Where it is read.
    pub read_from: &'static str,
    /// Codes of the rules that judge it.
    pub codes: &'static [&'static str],
    /// What cannot be read of it, and why; empty where all can.
    pub unread: &'static str,
}

/// All of them.
pub const ITEMS: &[Item] = &[
    Item {
        name: "port state",
        read_from: "ports/P/state and phys_state",
        codes: &["RDC201", "RDC202", "RDC203", "RDC208", "RDC215", "RDC250", "RDC262"],
        unread: "",
    },
    Item {
        name: "rate",
        read_from: "ports/P/rate, speed and lanes of it",
        codes: &["RDC206", "RDC222", "RDC251"],
        unread: "The rate that a card was bought for is not told by the kernel: a policy says it (RDC251).",
    },
    Item {
        name: "MTU",
        read_from: "net/I/mtu; the path MTU of RoCE derived as the kernel derives it",
        codes: &["RDC220", "RDC223", "RDC252"],
        unread: "The other end's and the switches' MTU cannot be read from a host; `rocade pingpong` finds them.",
    },
    Item {
        name: "PFC",
        read_from: "DCB netlink (RTM_GETDCB); pauses and discards of each priority as the driver counts them (`ethtool -S`)",
        codes: &["RDC310", "RDC316", "RDC350", "RDC513", "RDC514"],
        unread: "The switch's half cannot be read from a host. How long pauses lasted is told by mlx4, mlx5 and bnxt alone.",
    },
    Item {
        name: "trust mode",
        read_from: "net/I/qos/trust, else the application table of DCB netlink",
        codes: &["RDC312", "RDC352"],
        unread: "",
    },
    Item {
        name: "DSCP to priority, buffers, rate limit",
        read_from: "net/I/qos/dscp2prio, prio2buffer, buffer_size, else the application table of DCB netlink",
        codes: &["RDC310", "RDC352"],
        unread: "Buffers and rate limits are read where the vendor's driver package shows them, and not judged: what is right \
                 depends on cable length and switch.",
    },
    Item {
        name: "ECN (DCQCN)",
        read_from: "net/I/ecn/roce_np and roce_rp of the vendor's driver package",
        codes: &["RDC311", "RDC315", "RDC351", "RDC506"],
        unread: "The kernel's own drivers show it in debugfs (mlx5/ADDRESS/cc_params) only, which is for root and no stable \
                 interface: unknown there.",
    },
    Item {
        name: "default type of service and mode of rdma_cm",
        read_from: "configfs rdma_cm/D/ports/P/default_roce_mode and default_roce_tos; infiniband/D/tc/P/traffic_class",
        codes: &["RDC313", "RDC314"],
        unread: "Where nobody made the configfs directory the kernel's default holds and cannot be read without making it.",
    },
    Item {
        name: "PCIe link",
        read_from: "current_link_speed and _width, max_link_speed and _width of the function and of the bridge above it",
        codes: &["RDC401", "RDC516", "RDC517"],
        unread: "A VF's link is its PF's; kernels before 4.13 do not tell it outside config space.",
    },
    Item {
        name: "MaxReadReq",
        read_from: "config space, PCIe capability",
        codes: &["RDC402", "RDC450"],
        unread: "Config space beyond 64 bytes is for root: not judged otherwise.",
    },
    Item {
        name: "MaxPayload",
        read_from: "config space, PCIe capability, of the function and the bridges above it",
        codes: &["RDC403"],
        unread: "Config space beyond 64 bytes is for root: not judged otherwise.",
    },
    Item {
        name: "relaxed ordering",
        read_from: "config space, PCIe capability",
        codes: &["RDC404"],
        unread: "Whether a program asks for it for its memory is the program's matter.",
    },
    Item {
        name: "ACS",
        read_from: "config space, ACS capability of the bridges above GPUs and HCAs",
        codes: &["RDC405"],
        unread: "Config space beyond 64 bytes is for root: not judged otherwise. In a virtual machine it must stay on and is \
                 not judged.",
    },
    Item { name: "IOMMU", read_from: "/sys/kernel/iommu_groups/N/type", codes: &["RDC406"], unread: "" },
    Item {
        name: "NUMA",
        read_from: "numa_node and the PCIe root of HCAs and GPUs",
        codes: &["RDC407", "RDC408"],
        unread: "Where a test process runs is the test's matter.",
    },
    Item {
        name: "governor",
        read_from: "cpufreq/policyN/scaling_governor, kernel.numa_balancing, vm.zone_reclaim_mode",
        codes: &["RDC107", "RDC108"],
        unread: "/dev/cpu_dma_latency tells who holds it to nobody.",
    },
    Item {
        name: "memlock",
        read_from: "/proc/self/limits; by `rocade verify` also CAP_IPC_LOCK, the user, and memory that it registers",
        codes: &["RDC106", "RDC612"],
        unread: "It is the limit of the process that looks; containers inherit that of their runtime's unit.",
    },
    Item {
        name: "GPUDirect",
        read_from: "modules nvidia_peermem and nvidia, /proc/driver/nvidia/version, the kernel's release",
        codes: &["RDC120", "RDC405", "RDC406"],
        unread: "A log line of nvidia-peermem (`invalid context`) is in the kernel log, which is not read. Only a transfer \
                 proves the path.",
    },
    Item {
        name: "ARP and reverse path on hosts with several rails",
        read_from: "net.ipv4.conf.I.arp_ignore, arp_announce, rp_filter; routing rules",
        codes: &["RDC320", "RDC321", "RDC306"],
        unread: "",
    },
    Item {
        name: "neighbour table",
        read_from: "net.ipv4.neigh.default.gc_thresh1 to 3",
        codes: &["RDC151"],
        unread: "What is enough depends on the size of the cluster: a policy says it. Not told inside a Pod.",
    },
    Item {
        name: "adaptive routing",
        read_from: "counter roce_adp_retrans",
        codes: &["RDC504"],
        unread: "Whether it is on lies in firmware and switches: no file of the kernel tells it.",
    },
    Item {
        name: "firmware and driver",
        read_from: "fw_ver, board_id, module versions",
        codes: &["RDC112", "RDC221", "RDC253", "RDC154", "RDC160", "RDC263"],
        unread: "Other hosts of the fleet are compared by a policy or a baseline.",
    },
    Item {
        name: "counters",
        read_from: "ports/P/counters and hw_counters, D/hw_counters; the drivers' own statistics of the interfaces of rails \
                    (`ethtool -S`)",
        codes: &[
            "RDC501", "RDC502", "RDC503", "RDC504", "RDC505", "RDC506", "RDC507", "RDC508", "RDC509",
            "RDC510", "RDC511", "RDC512", "RDC513", "RDC514", "RDC515", "RDC516", "RDC517", "RDC518",
            "RDC519",
        ],
        unread: "Every driver names its statistics as it likes: those of mlx5, mlx4, bnxt, ice, i40e, qede, cxgb4, hns3, ionic \
                 and mana are judged as far as their meaning is known; pause storms and PCIe stalls are counted by mlx5 alone.",
    },
    Item {
        name: "kernel log",
        read_from: "nowhere",
        codes: &[],
        unread: "It holds lines of everything else on the host and is for root: slot power, module temperature and failed \
                 ACCESS_REG commands are told there alone. Look for them with `dmesg`.",
    },
];
