//! The metrics, each with how it is read: docs/metrics.md is this table. Counters of ports are read from the host when
//! they are asked for and never in between; all else is the node's state.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabel, EncodeMetric, LabelSetEncoder};
use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use rocade_core::host::Counter;
use rocade_core::{Hca, Host, Port};
use rocade_host::{Patience, Root, Scope, read_parts, read_patiently};

use super::VERSION;
use super::report::unix_s;
use crate::state::{Condition, NodeState, Phase, ResourceState};

pub(super) use prometheus_text::CONTENT_TYPE;

/// What of a host is read for a scrape.
const SCOPE: Scope = Scope { counters: true, ..Scope::GRANTS };

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name as it is scraped.
    pub name: &'static str,
    /// Whether it only grows.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts, in a sentence without its full stop.
    pub help: &'static str,
    read: fn(&Scrape) -> Vec<Sample>,
}

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only grows until the agent or the host starts again.
    Counter,
}

/// What a scrape is made of.
#[derive(Debug)]
struct Scrape {
    state: Arc<NodeState>,
    /// As it is now, with counters.
    host: Host,
    started: SystemTime,
}

/// One line: values of the labels in the metric's order, and the value.
#[derive(Debug, PartialEq)]
struct Sample(Vec<String>, f64);

/// All metrics, in the order of the page.
pub const METRICS: &[Metric] = &[
    gauge("rocade_build_info", &["version"], "1, with the version of the agent", |_| {
        vec![sample([VERSION], 1)]
    }),
    gauge("rocade_start_time_seconds", &[], "When the agent started, since 1970 (UTC)", |s| {
        vec![none(unix_s(s.started) as f64)]
    }),
    gauge(
        "rocade_config_refused",
        &[],
        "1 while the configuration that is there now is refused, and an older one in force",
        |s| vec![none(f64::from(u8::from(s.state.config_error.is_some())))],
    ),
    counter(
        "rocade_config_failures_total",
        &[],
        "Configurations that were refused since the agent started",
        |s| vec![none(s.state.config_failures as f64)],
    ),
    gauge("rocade_look_duration_seconds", &[], "What the last look at the whole host took", |s| {
        s.state.look.iter().map(|look| none(look.took.as_secs_f64())).collect()
    }),
    gauge(
        "rocade_look_timestamp_seconds",
        &[],
        "When the last look at the whole host ended, since 1970 (UTC)",
        |s| s.state.look.iter().map(|look| none(unix_s(look.at) as f64)).collect(),
    ),
    gauge("rocade_look_silent_paths", &[], "Files of the host that did not answer at the last look", |s| {
        s.state.look.iter().map(|look| none(look.silent.len() as f64)).collect()
    }),
    gauge("rocade_resources", &[], "Resources that are configured", |s| {
        vec![none(s.state.config.resources.len() as f64)]
    }),
    gauge("rocade_resource_slots", &["resource"], "Device IDs that are offered", |s| {
        by_resource(s, |r| Some(r.listing.devices.into()))
    }),
    gauge("rocade_resource_healthy_slots", &["resource"], "Device IDs that are offered as Healthy", |s| {
        by_resource(s, |r| Some(r.listing.healthy.into()))
    }),
    gauge(
        "rocade_resource_allocatable_slots",
        &["resource"],
        "Devices that the kubelet counts for Pods; absent while it does not tell",
        |s| by_resource(s, |r| r.allocatable.map(f64::from)),
    ),
    gauge(
        "rocade_resource_granted_slots",
        &["resource"],
        "Device IDs that Pods hold, by the kubelet's word; absent while it does not tell",
        |s| by_resource(s, |r| r.holders.as_ref().map(|holders| holders.len() as f64)),
    ),
    gauge(
        "rocade_resource_faulty_grants",
        &["resource"],
        "Grants whose device nodes are another HCA's now, or no one's",
        |s| {
            by_resource(s, |r| {
                let faulty =
                    s.state.grants.iter().filter(|g| g.resource == r.pool.resource && !g.faults.is_empty());
                Some(faulty.count() as f64)
            })
        },
    ),
    gauge("rocade_resource_watched", &["resource"], "1 while the kubelet has the device list open", |s| {
        by_resource(s, |r| Some(f64::from(u8::from(r.registration.phase == Phase::Watched))))
    }),
    counter(
        "rocade_resource_registrations_total",
        &["resource"],
        "Registrations that the kubelet took since the agent started",
        |s| by_resource(s, |r| Some(r.registration.count as f64)),
    ),
    counter(
        "rocade_resource_repairs_total",
        &["resource"],
        "Registrations that mended what the kubelet counted wrong",
        |s| by_resource(s, |r| Some(r.repairs as f64)),
    ),
    gauge("rocade_resource_hca", &["resource", "hca"], "1 for each HCA that stands behind a resource", |s| {
        let members = |r: &ResourceState| {
            let name = r.pool.resource.to_string();
            r.pool.members.iter().map(|m| sample([name.as_str(), m.hca.as_str()], 1)).collect::<Vec<_>>()
        };
        s.state.resources.iter().flat_map(members).collect()
    }),
    gauge(
        "rocade_hca_info",
        &["hca", "pci_address", "driver", "firmware", "board"],
        "1, with what the HCA is",
        |s| s.host.hcas.iter().map(hca_info).collect(),
    ),
    gauge(
        "rocade_hca_up",
        &["hca"],
        "1 while Pods can use the HCA: a port is ACTIVE and its char device there, or a Pod has it",
        |s| {
            let up = |c: Condition| matches!(c, Condition::Up | Condition::InUse);
            s.state.hcas.iter().map(|(name, h)| sample([name.as_str()], up(h.condition).into())).collect()
        },
    ),
    gauge(
        "rocade_hca_in_use",
        &["hca"],
        "1 while a Pod has the HCA or its interface in a network namespace of its own",
        |s| {
            s.state
                .hcas
                .iter()
                .map(|(name, h)| sample([name.as_str()], (h.condition == Condition::InUse).into()))
                .collect()
        },
    ),
    counter("rocade_hca_flaps_total", &["hca"], "How often the HCA went down since the agent started", |s| {
        s.state.hcas.iter().map(|(name, h)| sample([name.as_str()], h.flaps)).collect()
    }),
    counter(
        "rocade_hca_counter_total",
        &["hca", "counter"],
        "Counters that the driver keeps for the whole HCA, by the kernel's name",
        |s| {
            let all = |hca: &Hca| {
                counted(&hca.counters, |name, value| Sample(vec![hca.name.to_string(), name.into()], value))
            };
            s.host.hcas.iter().flat_map(all).collect()
        },
    ),
    gauge(
        "rocade_port_info",
        &["hca", "port", "link_layer", "netdev", "state", "physical_state"],
        "1, with what the port is, and its states in the kernel's words",
        |s| by_port(s, |hca, port| Some(port_info(hca, port))),
    ),
    gauge("rocade_port_active", &["hca", "port"], "1 while the port is ACTIVE", |s| {
        by_port(s, |hca, port| {
            Some(of_port(hca, port, f64::from(u8::from(port.state.as_deref() == Some("ACTIVE")))))
        })
    }),
    gauge("rocade_port_rate_bytes_per_second", &["hca", "port"], "Signalling rate of the port", |s| {
        by_port(s, |hca, port| Some(of_port(hca, port, port.rate_gbps? * 1e9 / 8.0)))
    }),
    gauge(
        "rocade_port_gid_table_entries",
        &["hca", "port"],
        "Length of the port's GID table, set entries or not",
        |s| by_port(s, |hca, port| Some(of_port(hca, port, port.gid_table_len?.into()))),
    ),
    counter(
        "rocade_port_transmitted_bytes_total",
        &["hca", "port"],
        "Bytes sent (port_xmit_data, which counts in fours)",
        |s| by_port(s, |hca, port| Some(of_port(hca, port, 4.0 * value(port, "port_xmit_data")?))),
    ),
    counter(
        "rocade_port_received_bytes_total",
        &["hca", "port"],
        "Bytes received (port_rcv_data, which counts in fours)",
        |s| by_port(s, |hca, port| Some(of_port(hca, port, 4.0 * value(port, "port_rcv_data")?))),
    ),
    counter(
        "rocade_port_counter_total",
        &["hca", "port", "counter"],
        "Each counter of the port, by the kernel's name",
        |s| {
            let all = |hca: &Hca, port: &Port| {
                counted(&port.counters, |name, value| {
                    Sample(vec![hca.name.to_string(), port.port.to_string(), name.into()], value)
                })
            };
            s.host
                .hcas
                .iter()
                .flat_map(|hca| hca.ports.iter().flat_map(|port| all(hca, port)).collect::<Vec<_>>())
                .collect()
        },
    ),
];

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Scrape) -> Vec<Sample>,
) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help, read }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Scrape) -> Vec<Sample>,
) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help, read }
}

fn sample<const N: usize>(labels: [&str; N], value: u32) -> Sample {
    Sample(labels.map(str::to_owned).into(), value.into())
}

fn none(value: f64) -> Sample {
    Sample(Vec::new(), value)
}

fn by_resource(scrape: &Scrape, value: impl Fn(&ResourceState) -> Option<f64>) -> Vec<Sample> {
    let one = |r: &ResourceState| Some(Sample(vec![r.pool.resource.to_string()], value(r)?));
    scrape.state.resources.iter().filter_map(one).collect()
}

fn by_port(scrape: &Scrape, read: impl Fn(&Hca, &Port) -> Option<Sample>) -> Vec<Sample> {
    let ports = scrape.host.hcas.iter().flat_map(|hca| hca.ports.iter().map(move |port| (hca, port)));
    ports.filter_map(|(hca, port)| read(hca, port)).collect()
}

fn of_port(hca: &Hca, port: &Port, value: f64) -> Sample {
    Sample(vec![hca.name.to_string(), port.port.to_string()], value)
}

fn hca_info(hca: &Hca) -> Sample {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let address = hca.pci_address.map_or_else(String::new, |address| address.to_string());
    Sample(
        vec![hca.name.to_string(), address, text(&hca.driver), text(&hca.fw_version), text(&hca.board_id)],
        1.0,
    )
}

fn port_info(hca: &Hca, port: &Port) -> Sample {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let layer = format!("{:?}", port.link_layer);
    let labels = [
        hca.name.to_string(),
        port.port.to_string(),
        layer,
        text(&port.netdev),
        text(&port.state),
        text(&port.phys_state),
    ];
    Sample(labels.into(), 1.0)
}

fn value(port: &Port, name: &str) -> Option<f64> {
    Some(port.counter(name)?.value? as f64)
}

/// All counters that have a value; `lifespan` is a setting among them (Documentation/ABI/stable/sysfs-class-infiniband).
fn counted(counters: &[Counter], sample: impl Fn(&str, f64) -> Sample) -> Vec<Sample> {
    let name = |counter: &Counter| counter.file.rsplit('/').next().unwrap_or_default().to_owned();
    let counted = counters.iter().filter(|counter| name(counter) != "lifespan");
    counted.filter_map(|counter| Some(sample(&name(counter), counter.value? as f64))).collect()
}

/// Reads the host's counters and tells all metrics.
pub(super) fn read_metrics(root: &Root, state: Arc<NodeState>, started: SystemTime) -> String {
    let (host, silent) = read_patiently(root, Patience::default(), |root| read_parts(root, SCOPE));
    for path in silent {
        tracing::warn!(path = %path.display(), "does not answer; metrics are told without it");
    }
    render(Scrape { state, host, started })
}

fn render(scrape: Scrape) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    // Writing into a String does not fail, and no value fails to be written.
    let _ = prometheus_text::encode(&mut text, &registry);
    text
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for metric in METRICS {
            let samples = (metric.read)(self);
            if samples.is_empty() {
                continue;
            }
            // The library puts `_total` behind a counter's name itself.
            let (name, kind) = match metric.kind {
                Kind::Gauge => (metric.name, MetricType::Gauge),
                Kind::Counter => (metric.name.trim_end_matches("_total"), MetricType::Counter),
            };
            let mut lines = encoder.encode_descriptor(name, metric.help, None, kind)?;
            for Sample(values, value) in samples {
                let labels = Labels { names: metric.labels, values: &values };
                let line = lines.encode_family(&labels)?;
                match metric.kind {
                    Kind::Gauge => ConstGauge::new(value).encode(line)?,
                    Kind::Counter => ConstCounter::new(value as u64).encode(line)?,
                }
            }
        }
        Ok(())
    }
}

struct Labels<'a> {
    names: &'static [&'static str],
    values: &'a [String],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> Result<(), fmt::Error> {
        for (name, value) in self.names.iter().zip(self.values) {
            (*name, value.as_str()).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
