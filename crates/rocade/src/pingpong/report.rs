//! What a test prints: on stdout ibv_rc_pingpong's lines, or JSON; on stderr the choice and its warnings.

use std::fmt::Write;

use rocade_core::gid::Choice;
use rocade_core::pair::{Endpoint, PairResult};

use crate::cli::Output;
use crate::outcome::{print, tell};

/// Which HCA, port and GID, and why.
pub(crate) fn tell_choice(choice: &Choice) {
    tell_choice_of("", choice);
}

/// The same of one of several tests, as `client 10.8.10.2: `.
pub(crate) fn tell_choice_of(test: &str, choice: &Choice) {
    let (hca, port, reason) = (&choice.hca, choice.port, &choice.reason);
    match &choice.gid {
        Some(gid) => {
            let address = gid.address.map_or_else(|| gid.gid.to_string(), |address| address.to_string());
            tell(&format!("rocade: {test}{hca}/{port}, GID index {} ({address}): {reason}", gid.index));
        }
        None => tell(&format!("rocade: {test}{hca}/{port}, by LID: {reason}")),
    }
    for warning in &choice.warnings {
        tell(&format!("warning: {test}{warning}"));
    }
}

pub(super) fn render_local(local: &Endpoint) -> String {
    format!("  local address:  {local}\n")
}

pub(super) fn render_remote(remote: &Endpoint) -> String {
    format!("  remote address: {remote}\n")
}

/// That no fabric was in the test, and the verdict: further lines of the table, but not among the stock tool's own; JSON
/// has them.
pub(super) fn tell_remarks(result: &PairResult, output: Output, as_stock: bool) -> anyhow::Result<()> {
    match (output, as_stock) {
        (Output::Json, _) => Ok(()),
        (Output::Table, false) => print(&render_remarks(result)),
        (Output::Table, true) => {
            result.loopback.iter().for_each(|loopback| tell(&format!("rocade: {loopback}")));
            Ok(())
        }
    }
}

fn render_remarks(result: &PairResult) -> String {
    let mut lines: Vec<String> = result.loopback.iter().cloned().collect();
    if let Some(verdict) = &result.verdict {
        lines.push(verdict.line());
        lines.extend(verdict.warnings.iter().map(|warning| format!("warning: {warning}")));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The two lines of figures (the addresses were printed before), or all as JSON.
pub(super) fn render_result(result: &PairResult, output: Output) -> anyhow::Result<String> {
    if output == Output::Json {
        return Ok(format!("{}\n", serde_json::to_string_pretty(result)?));
    }
    let PairResult { bytes, seconds, iterations, .. } = result;
    let mut text = String::new();
    writeln!(text, "{bytes} bytes in {seconds:.2} seconds = {:.2} Mbit/sec", result.mbit_per_second)?;
    writeln!(
        text,
        "{iterations} iters in {seconds:.2} seconds = {:.2} usec/iter",
        result.usec_per_iteration
    )?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rocade_core::pair::Role;
    use rocade_core::pair::perf::expect::Verdict;
    use rocade_core::{Gid, PortNum};

    use super::*;

    fn result() -> PairResult {
        let endpoint = |address: &str| Endpoint {
            lid: 0,
            qpn: 0x11,
            psn: 0x3b015c,
            gid: Gid::from_address(address.parse().unwrap()),
        };
        PairResult {
            test: "pingpong".into(),
            role: Role::Client,
            choice: Choice {
                hca: "rxe0".parse().unwrap(),
                port: PortNum(1),
                gid: None,
                reason: "asked for".into(),
                warnings: vec![],
            },
            local: endpoint("10.9.0.1"),
            remote: endpoint("10.9.0.2"),
            mtu_bytes: 1024,
            loopback: None,
            cpus: Some("0-3".into()),
            message_bytes: 4096,
            iterations: 1000,
            bytes: 8_192_000,
            data_checked: false,
            seconds: 0.117,
            mbit_per_second: 560.136,
            usec_per_iteration: 117.0,
            counters: BTreeMap::from([("sent_pkts".to_owned(), 2000)]),
            verdict: None,
        }
    }

    #[test]
    fn the_table_is_ibv_rc_pingpongs() {
        let result = result();
        assert_eq!(
            render_local(&result.local)
                + &render_remote(&result.remote)
                + &render_result(&result, Output::Table).unwrap(),
            "  local address:  LID 0x0000, QPN 0x000011, PSN 0x3b015c, GID ::ffff:10.9.0.1\n\
             \x20 remote address: LID 0x0000, QPN 0x000011, PSN 0x3b015c, GID ::ffff:10.9.0.2\n\
             8192000 bytes in 0.12 seconds = 560.14 Mbit/sec\n\
             1000 iters in 0.12 seconds = 117.00 usec/iter\n"
        );
    }

    #[test]
    fn the_json_reads_back_as_the_result() {
        let json = render_result(&result(), Output::Json).unwrap();
        assert_eq!(serde_json::from_str::<PairResult>(&json).unwrap(), result());
    }

    #[test]
    fn loopback_and_verdict_are_lines_of_their_own() {
        assert_eq!(render_remarks(&result()), "");
        let verdict = Verdict { pass: true, reason: "short".into(), warnings: vec!["other MTU".into()] };
        let loopback = Some("loopback, not fabric: both ends are on rxe0".to_owned());
        let told = render_remarks(&PairResult { loopback, verdict: Some(verdict), ..result() });
        assert_eq!(told, "loopback, not fabric: both ends are on rxe0\nPASS: short\nwarning: other MTU\n");
    }
}
