use std::collections::BTreeSet;

use rocade_core::config::parse_config_json;

use super::*;
use crate::node::state_of;

fn scrape(host: &str, selectors: &str) -> Scrape {
    let path = format!("{}/../../fixtures/hosts/{host}.host", env!("CARGO_MANIFEST_DIR"));
    let root = Root::open(path).unwrap();
    let text =
        format!(r#"{{"configList": [{{"resourceName": "a", "rdmaHcaMax": 8, "selectors": {selectors}}}]}}"#);
    let config = parse_config_json("config.json", &text, true).unwrap().0;
    let host = read_parts(&root, SCOPE);
    Scrape { state: state_of(root, config), host, started: SystemTime::UNIX_EPOCH }
}

#[test]
fn each_sample_has_a_value_for_each_label_and_no_two_have_the_same() {
    let scrape = scrape("seed-4hca-bond", r#"{"vendors": ["15b3"]}"#);
    for metric in METRICS {
        let mut seen = BTreeSet::new();
        for Sample(labels, value) in (metric.read)(&scrape) {
            assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
            assert!(value.is_finite(), "{}", metric.name);
            assert!(seen.insert(labels), "{} has a line twice", metric.name);
        }
    }
}

#[test]
fn names_are_of_one_family_and_say_what_counts_up() {
    let mut seen = BTreeSet::new();
    for metric in METRICS {
        assert!(seen.insert(metric.name), "{} stands for two", metric.name);
        assert!(metric.name.starts_with("rocade_"), "{}", metric.name);
        assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{}", metric.name);
        assert!(!metric.help.is_empty() && !metric.help.ends_with('.'), "{}", metric.name);
    }
}

#[test]
fn resources_hcas_ports_and_counters_are_told() {
    let text = render(scrape("seed-4hca-bond", r#"{"ifNames": ["ens18np0"]}"#));
    for line in [
        "# TYPE rocade_resource_slots gauge",
        "rocade_resource_slots{resource=\"rdma/a\"} 8.0",
        "rocade_resource_watched{resource=\"rdma/a\"} 0.0",
        "# TYPE rocade_resource_registrations_total counter",
        "rocade_resource_registrations_total{resource=\"rdma/a\"} 0",
    ] {
        assert!(text.lines().any(|seen| seen == line), "{line}\n{text}");
    }
    assert!(text.contains("rocade_port_active{hca=\"mlx5_0\",port=\"1\"} 1.0"), "{text}");
}

#[test]
fn counters_are_read_with_the_host_and_bytes_are_bytes() {
    let scrape = scrape("ib-hdr-mixed", r#"{"vendors": ["15b3"]}"#);
    let words =
        scrape.host.hcas.iter().flat_map(|hca| &hca.ports).find_map(|port| value(port, "port_xmit_data"));
    let words = words.expect("the recording has the counter");
    let text = render(scrape);
    assert!(text.contains(&format!("}} {}\n", (4.0 * words) as u64)), "{text}");
    assert!(text.contains("rocade_port_counter_total{hca="), "{text}");
    assert!(!text.contains("counter=\"lifespan\""), "{text}");
}

#[test]
fn a_host_without_hca_tells_its_resources_all_the_same() {
    let text = render(scrape("no-rdma", r#"{"vendors": ["15b3"]}"#));
    assert!(text.contains("rocade_resource_slots{resource=\"rdma/a\"} 0.0"), "{text}");
    assert!(!text.contains("rocade_port_active"), "{text}");
}
