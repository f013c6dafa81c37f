//! docs/metrics.md is written from the table of metrics and compared here. `make docs` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use rocade_agent::outside::{Kind, METRICS};

const HEAD: &str = "\
# Metrics

`rocade agent --listen :9407` tells these at `/metrics`, in the text format of Prometheus (version 0.0.4). Counters of
ports and HCAs are read from the host when they are scraped. A metric without a line has nothing to tell on this host:
a counter that the driver does not have, or the kubelet's view while it does not answer.

This page is written from the code (`make docs`).

| metric | kind | labels | what it tells |
| --- | --- | --- | --- |
";

#[test]
fn the_page_of_metrics_says_what_the_code_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let mut page = HEAD.to_owned();
    for metric in METRICS {
        let kind = if metric.kind == Kind::Counter { "counter" } else { "gauge" };
        let _ =
            writeln!(page, "| `{}` | {kind} | {} | {} |", metric.name, metric.labels.join(", "), metric.help);
    }
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page, "docs/metrics.md is not what the code says: run `make docs`");
}
