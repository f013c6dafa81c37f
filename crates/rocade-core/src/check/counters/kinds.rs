//! Which counters say the same: the names that InfiniBand, the drivers and their interfaces give them.

/// Counters that say the same.
pub(super) struct Kind {
    pub(super) names: &'static [&'static str],
    /// Totals below this say nothing by themselves; u64::MAX where only growth says anything.
    pub(super) total: u64,
}

pub(super) const FLAPS: Kind = Kind { names: &["link_downed", "link_error_recovery"], total: 2 };
pub(super) const DAMAGE: Kind = Kind {
    names: &[
        "symbol_error",
        "port_rcv_errors",
        "local_link_integrity_errors",
        "excessive_buffer_overrun_errors",
        "port_rcv_remote_physical_errors",
        "rx_icrc_encapsulated",
        "rx_roce_errors",
        "ip4InTruncatedPkts",
    ],
    total: 100,
};
pub(super) const DROPS: Kind = Kind {
    names: &[
        "port_xmit_discards",
        "rx_roce_discards",
        "tx_roce_discards",
        "rx_drops",
        "ip4InDiscards",
        "ip6InDiscards",
        "oos_drop_count",
        "res_oob_drop_count",
    ],
    total: 100,
};
pub(super) const LOSS: Kind = Kind {
    names: &[
        "out_of_sequence",
        "packet_seq_err",
        "local_ack_timeout_err",
        "implied_nak_seq_err",
        "roce_adp_retrans",
        "roce_adp_retrans_to",
        "seq_err_naks_rcvd",
        "to_retransmits",
        "tcpRetransSegs",
        "retrans_bytes",
        "retrans_timeout_events",
        "rq_num_oos",
        "sq_num_oos",
        "sq_num_to",
        "completer_retry_err",
        "rcvd_seq_err",
    ],
    total: 100,
};
pub(super) const BROKEN: Kind = Kind {
    names: &[
        "req_transport_retries_exceeded",
        "req_rnr_retries_exceeded",
        "req_remote_access_errors",
        "resp_remote_access_errors",
        "max_retry_exceeded",
        "retry_exceeded_err",
        "retry_rnr_exceeded_err",
        "unresponsive_remote_events",
        "sq_num_tree",
        "sq_num_rree",
    ],
    total: 1,
};
pub(super) const SLOW_RECEIVER: Kind =
    Kind { names: &["rnr_nak_retry_err", "out_of_buffer", "rnr_naks_rcvd", "rcvd_rnr_err"], total: 10_000 };
pub(super) const WAITED: Kind = Kind { names: &["port_xmit_wait"], total: u64::MAX };

// What drivers count of their interfaces (`ethtool -S`), in the words of mlx5 (drivers/net/ethernet/mellanox/mlx5/core/
// en_stats.c; Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst says what they mean), mlx4,
// bnxt, ice, i40e, qede, cxgb4, hns3, ionic and mana. `#` stands for the number of a priority, class or buffer.

pub(super) const LINK_LOSSES: Kind = Kind { names: &["link_down_events_phy", "link_down_events"], total: 10 };
pub(super) const DAMAGED_FRAMES: Kind = Kind {
    names: &[
        "rx_crc_errors_phy",
        "rx_symbol_err_phy",
        "rx_crc_errors",
        "rx_crc_errors.nic",
        "port.rx_crc_errors",
        "rx_fcs_err_frames",
        "RxFCSErrors",
        "mac_rx_fcs_err_pkt_num",
        "frames_rx_bad_fcs",
    ],
    total: 100,
};
pub(super) const DISCARDS: Kind = Kind {
    names: &[
        "rx_discards_phy",
        "tx_discards_phy",
        "rx_prio#_discards",
        "rx_prio#_buf_discard",
        "rx_prio#_cong_discard",
        "rx_stat_discard",
        "tx_stat_discard",
        "rx_discard_packets_cos#",
        "rx_dropped.nic",
        "port.rx_dropped",
        "brb_discards",
        "RxBG#FramesDropped",
        "frames_rx_dropped",
        "hc_rx_pkt_drop_phy",
        "hc_tx_pkt_drop_phy",
    ],
    total: 100,
};
pub(super) const PRIORITY_PAUSES: Kind = Kind {
    names: &[
        "rx_prio#_pause",
        "rx_prio#_pause_duration",
        "tx_prio#_pause",
        "tx_prio#_pause_duration",
        "rx_pause_prio_#",
        "rx_pause_duration_prio_#",
        "tx_pause_prio_#",
        "tx_pause_duration_prio_#",
        "rx_pfc_ena_frames_pri#",
        "tx_pfc_ena_frames_pri#",
        "pfc_pri#_rx_duration_us",
        "pfc_pri#_tx_duration_us",
        "rx_priority_#_xoff.nic",
        "tx_priority_#_xoff.nic",
        "port.rx_priority_#_xoff",
        "port.tx_priority_#_xoff",
        "port.rx_priority_#_xoff_rx",
        "port.tx_priority_#_xoff_tx",
        "mac_rx_pfc_pri#_pkt_num",
        "mac_tx_pfc_pri#_pkt_num",
        "RxPPP#Frames",
        "TxPPP#Frames",
        "rx_pfc_frames",
        "tx_pfc_frames",
        "frames_rx_pripause",
        "frames_tx_pripause",
    ],
    total: u64::MAX,
};
pub(super) const PAUSE_STORMS: Kind =
    Kind { names: &["tx_pause_storm_warning_events", "tx_pause_storm_error_events"], total: 1 };
/// Seconds in which requests to PCIe waited for more than 30 % of the time, and packets lost for that.
pub(super) const PCIE_STALLS: Kind = Kind {
    names: &[
        "outbound_pci_stalled_rd_events",
        "outbound_pci_stalled_wr_events",
        "outbound_pci_buffer_overflow",
    ],
    total: 100,
};
/// Percent of the last second, no counts: they go up and down.
pub(super) const PCIE_STALLED: &[&str] = &["outbound_pci_stalled_rd", "outbound_pci_stalled_wr"];
pub(super) const PCIE_ERRORS: Kind =
    Kind { names: &["rx_pci_signal_integrity", "tx_pci_signal_integrity"], total: u64::MAX };
pub(super) const OVERSIZED: Kind = Kind { names: &["rx_oversize_pkts_phy"], total: 100 };
pub(super) const EMPTY_QUEUES: Kind = Kind {
    names: &[
        "rx_out_of_buffer",
        "rx_total_discard_pkts",
        "rx_total_ring_discards",
        "no_buff_discards",
        "hc_rx_discards_no_wqe",
    ],
    total: 10_000,
};

const OF_INTERFACES: &[&Kind] = &[
    &LINK_LOSSES,
    &DAMAGED_FRAMES,
    &DISCARDS,
    &PRIORITY_PAUSES,
    &PAUSE_STORMS,
    &PCIE_STALLS,
    &PCIE_ERRORS,
    &OVERSIZED,
    &EMPTY_QUEUES,
];

impl Kind {
    /// Whether a counter is of this kind.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(&name) || self.names.contains(&without_number(name).as_str())
    }
}

/// Whether an interface's statistic is one that a rule judges. Others may be no counters.
pub(super) fn is_judged(name: &str) -> bool {
    OF_INTERFACES.iter().any(|kind| kind.has(name))
}

/// With `#` for the first number: `rx_prio3_pause` → `rx_prio#_pause`.
fn without_number(name: &str) -> String {
    let Some((before, rest)) = name.find(|c: char| c.is_ascii_digit()).map(|at| name.split_at(at)) else {
        return name.to_owned();
    };
    format!("{before}#{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
}
