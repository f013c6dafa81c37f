//! `--out_json`: the report as perftest 24.01 and later write it, which is JSON (6.06 left out quotes). Units are not in
//! the file; they are those of the table. The file is as of the last size.

use std::fmt::{Display, Write};

use rocade_core::pair::perf::{Measure, Operation};

use super::banner::Settings;
use super::rows::Row;

/// The file's text.
pub(super) fn render(settings: &Settings<'_>, row: &Row) -> String {
    format!(
        "{{\n\"test_info\": {{\n{}\n}},\n\"results\": {{\n{}\n}}\n}}\n",
        render_info(settings),
        render_row(row)
    )
}

fn render_info(settings: &Settings<'_>) -> String {
    let options = settings.options;
    let bandwidth = options.test.measure == Measure::Bandwidth;
    let mut fields = Fields::default();
    let directions = if options.bidirectional { "Bidirectional_" } else { "" };
    let measure = if bandwidth { "BW" } else { "Latency" };
    fields.text("test", format!("{}_{directions}{measure}_Test", settings.operation()));
    fields.text("Dual_port", "OFF");
    fields.text("Device", &settings.choice.hca);
    fields.number("Number_of_qps", options.qps);
    fields.text("Transport_type", "IB");
    fields.text("Connection_type", "RC");
    fields.text("Using_SRQ", "OFF");
    fields.text("PCIe_relax_order", settings.relaxed_ordering());
    fields.text("ibv_wr_API", "OFF");
    if settings.sends() {
        fields.number("TX_depth", options.tx_depth);
    }
    if settings.receives() {
        fields.number("RX_depth", options.rx_depth);
    }
    if bandwidth {
        fields.number("CQ_Moderation", options.cq_moderation);
    }
    fields.number("Mtu", settings.mtu_bytes);
    fields.text("Link_type", settings.link_type);
    if let Some(gid) = &settings.choice.gid {
        fields.number("GID_index", gid.index);
    }
    match options.test.operation {
        Operation::Read => fields.number("Outstand_reads", settings.outstanding_reads),
        _ => fields.number("Max_inline_data", settings.inline_bytes),
    }
    fields.text("rdma_cm_QPs", "OFF");
    fields.text("Data_ex_method", "Ethernet");
    fields.0
}

fn render_row(row: &Row) -> String {
    let mut fields = Fields::default();
    let slow = if row.is_slow() { 6 } else { 2 };
    match row {
        Row::Bandwidth { bytes, iterations, peak, average, rate_mpps, .. } => {
            fields.number("MsgSize", bytes);
            fields.number("n_iterations", iterations);
            fields.number("BW_peak", format_args!("{peak:.slow$}"));
            fields.number("BW_average", format_args!("{average:.slow$}"));
            fields.number("MsgRate", format_args!("{rate_mpps:.6}"));
        }
        Row::Latency { bytes, iterations, us } => {
            fields.number("MsgSize", bytes);
            fields.number("n_iterations", iterations);
            let figures = [
                ("t_min", us.min_us),
                ("t_max", us.max_us),
                ("t_typical", us.typical_us),
                ("t_avg", us.average_us),
                ("t_stdev", us.stdev_us),
                ("percentile_99", us.p99_us),
                ("percentile_99.9", us.p99_9_us),
            ];
            for (name, figure) in figures {
                fields.number(name, format_args!("{figure:.2}"));
            }
        }
        Row::Duration { bytes, iterations, average_us, per_second } => {
            fields.number("MsgSize", bytes);
            fields.number("n_iterations", iterations);
            fields.number("t_avg", format_args!("{average_us:.2}"));
            fields.number("tps_average", format_args!("{per_second:.2}"));
        }
    }
    fields.0
}

/// Lines of an object, with commas between them.
#[derive(Default)]
struct Fields(String);

impl Fields {
    fn number(&mut self, name: &str, value: impl Display) {
        let comma = if self.0.is_empty() { "" } else { ",\n" };
        let _ = write!(self.0, "{comma}\"{name}\": {value}");
    }

    /// Names of HCAs and words of this program: nothing in them that JSON would escape.
    fn text(&mut self, name: &str, value: impl Display) {
        self.number(name, format_args!("\"{value}\""));
    }
}
