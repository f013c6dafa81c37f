//! `rocade config` as a user runs it; that a converted config.json offers the same of every recorded host; and that the
//! examples of docs/configuration.md are configurations.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocade_core::config::{Config, parse_config, render_agent_config, to_agent_config};
use rocade_core::host::RoleKind;
use rocade_core::plan::{Pool, PoolMember, plan};
use rocade_core::{Host, judge};
use rocade_host::{Root, read_host};
use serde_json::Value;

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn config(arguments: &[&str], name: &str, text: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(name), text).unwrap();
    let mut rocade = Command::new(env!("CARGO_BIN_EXE_rocade"));
    rocade.current_dir(dir.path()).arg("config").args(arguments).arg(name).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// F03: three silent mistakes.
const MISTAKES: &str = r#"{"configList": [{"resourceName": "a", "rdmaHcaMax": 9,
  "selectors": {"vendors": ["8086"], "deviceIDs": ["0d00", "b500"],
  "drivers": ["irdma"],
  "linkTypes": ["ethernet"]}}]}"#;

#[test]
fn mistakes_are_told_by_line_and_only_refused_when_strict() {
    let output = config(&["validate"], "config.json", MISTAKES);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for said in [
        "note[RDC714]: config.json:2 configList[0].selectors.deviceIDs[0]: `0d00` looks like the bus number",
        "warning[RDC714]: config.json:3 configList[0].selectors.drivers[0]: `irdma`, wanted the driver of the PCI",
        "warning[RDC714]: config.json:4 configList[0].selectors.linkTypes[0]: `ethernet`, wanted a link type",
        "config.json: good, 2 warnings\n",
    ] {
        assert!(text.contains(said), "{text}, wanted {said}");
    }
    let strict = config(&["validate", "--strict"], "config.json", MISTAKES);
    assert_eq!(strict.status.code(), Some(1));
    assert!(stdout(&strict).ends_with("config.json: refused, 2 errors\n"), "{}", stdout(&strict));
}

#[test]
fn the_document_has_each_finding() {
    let output = config(&["validate", "-o", "json", "--strict"], "config.json", MISTAKES);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["accepted"], &document["findings"][2]["code"]), (&false.into(), &"RDC714".into()));
    let output = config(&["validate", "-o", "yaml"], "config.json", MISTAKES);
    assert!(stdout(&output).contains("accepted: true") && stdout(&output).contains("dialect: config.json"));
}

#[test]
fn a_file_that_cannot_be_read_ends_in_2() {
    let mut rocade = Command::new(env!("CARGO_BIN_EXE_rocade"));
    let output = rocade.args(["config", "validate", "/nonexistent/agent.yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("hint: "), "{}", stderr(&output));
}

#[test]
fn a_config_json_is_converted_into_yaml_that_validates_strictly() {
    let json = fs::read_to_string(checkout().join("fixtures/configs/three-rails.json")).unwrap();
    let output = config(&["convert"], "config.json", &json);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let yaml = stdout(&output);
    let wanted = fs::read_to_string(checkout().join("fixtures/configs/three-rails.yaml")).unwrap();
    assert_eq!(yaml, wanted);
    let validated = config(&["validate", "--strict"], "agent.yaml", &yaml);
    assert_eq!(
        (validated.status.code(), stdout(&validated).as_str()),
        (Some(0), "agent.yaml: good, 0 warnings\n")
    );
}

#[test]
fn what_cannot_be_carried_over_is_said_and_what_is_refused_is_not_converted() {
    let output = config(&["convert"], "config.json", MISTAKES);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("rdma/a selectors.drivers: `irdma` finds no HCA"),
        "{}",
        stderr(&output)
    );
    assert!(output.stdout.is_empty());
    assert_eq!(config(&["convert"], "config.json", "{}").status.code(), Some(1));
    let yaml = fs::read_to_string(checkout().join("fixtures/configs/three-rails.yaml")).unwrap();
    let output = config(&["convert"], "agent.yaml", &yaml);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("AgentConfig already"), "{}", stderr(&output));
}

fn hosts() -> Vec<(String, Host)> {
    let files = fs::read_dir(checkout().join("fixtures/hosts")).unwrap().map(|entry| entry.unwrap().path());
    let recorded = files.filter(|file| file.extension().is_some_and(|it| it == "host"));
    let read = recorded.map(|file| {
        let mut host = read_host(&Root::open(&file).unwrap());
        judge(&mut host);
        (file.file_stem().unwrap().to_string_lossy().into_owned(), host)
    });
    read.collect()
}

/// Configurations that each ask for something of the host: every interface, vendor, driver and link type.
fn configurations(host: &Host) -> Vec<Config> {
    let ids = |part: fn(u16, u16) -> u16| {
        host.hcas.iter().filter_map(move |h| h.pci_id.map(|id| format!("{:04x}", part(id.vendor, id.device))))
    };
    let netdevs = host.netdevs.iter().map(|netdev| netdev.name.clone());
    let mut selectors: Vec<(&str, String)> = netdevs.map(|name| ("ifNames", name)).collect();
    selectors.extend(ids(|vendor, _| vendor).map(|id| ("vendors", id)));
    selectors.extend(ids(|_, device| device).map(|id| ("deviceIDs", id)));
    selectors.extend(host.hcas.iter().filter_map(|h| h.driver.clone()).map(|driver| ("drivers", driver)));
    selectors.extend(["ether", "infiniband"].map(|link| ("linkTypes", link.to_owned())));
    selectors.sort();
    selectors.dedup();
    let of = |(key, value): (&str, String)| {
        let text = format!(
            r#"{{"configList": [{{"resourceName": "a", "rdmaHcaMax": 100, "selectors": {{"{key}": ["{value}"]}}}}]}}"#
        );
        parse_config("config.json", &text, false).unwrap().0.for_node(None, &BTreeMap::new())
    };
    selectors.into_iter().map(of).collect()
}

/// What a Pod can tell of a pool: how many IDs there are, and HCAs with their nodes and ports. By link type an HCA's other
/// ports are meant too, and by link layer not.
fn offer(
    pool: &Pool,
    by_link_type: bool,
    compared: &dyn Fn(&str) -> bool,
) -> (u32, Vec<(String, Vec<String>)>) {
    let members: Vec<_> = pool.members.iter().filter(|m| compared(m.hca.as_str())).collect();
    let name = |m: &&PoolMember| if by_link_type { m.hca.to_string() } else { m.ports_text() };
    let slots = if members.is_empty() { 0 } else { pool.slots };
    (slots, members.iter().map(|member| (name(member), member.nodes.clone())).collect())
}

/// What `convert` says of every file: managers of an NVSwitch are out, and HCAs without a umad that is asked for.
fn is_carried(host: &Host, hca: &str) -> bool {
    let hca = host.hca(hca).unwrap();
    hca.switch_management != Some(true)
        && hca.role.kind != RoleKind::Bridge
        && hca.ports.iter().all(|port| port.umad.is_some())
}

#[test]
fn a_converted_config_json_offers_the_same_of_every_recorded_host() {
    let (mut offering, mut differ) = (0, Vec::new());
    for (name, host) in hosts() {
        for json in configurations(&host) {
            let (converted, _) = to_agent_config(&json);
            let text = render_agent_config(&converted, Vec::new());
            let (yaml, _) = parse_config("agent.yaml", &text, true).unwrap();
            let yaml = yaml.for_node(None, &BTreeMap::new());
            assert_eq!(yaml, converted, "{name}: {text}");
            let by_link_type = !json.resources[0].selectors.link_types.is_empty();
            let offers = |config: &Config| {
                let pools = plan(&host, config);
                pools
                    .iter()
                    .map(|pool| offer(pool, by_link_type, &|hca| is_carried(&host, hca)))
                    .collect::<Vec<_>>()
            };
            let (before, after) = (offers(&json), offers(&yaml));
            offering += usize::from(before[0].0 > 0);
            if before != after {
                differ.push(format!("{name}: {text}{before:?}\n{after:?}"));
            }
        }
    }
    assert!(offering > 100, "{offering}");
    assert!(differ.is_empty(), "{}", differ.join("\n\n"));
}

/// The blocks of docs/configuration.md: language, text, line.
fn examples() -> Vec<(String, String)> {
    let text = fs::read_to_string(checkout().join("docs/configuration.md")).unwrap();
    let mut blocks = text.split("\n```").skip(1);
    let mut examples = Vec::new();
    while let (Some(block), _) = (blocks.next(), blocks.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        examples.push((language.to_owned(), text.to_owned()));
    }
    examples
}

#[test]
fn the_examples_of_the_guide_are_configurations_and_their_mistakes_are_told_as_it_says() {
    let (mut good, mut refused, mut last) = (0, None, String::new());
    for (language, text) in examples() {
        match language.as_str() {
            "yaml" | "json" => {
                let name = if language == "yaml" { "agent.yaml" } else { "config.json" };
                match parse_config(name, &format!("{text}\n"), true) {
                    Ok((_, findings)) => {
                        assert_eq!(findings, [], "{text}");
                        (good, last) = (good + 1, text);
                    }
                    Err(_) => refused = Some(text),
                }
            }
            "console" if text.starts_with("$ rocade plan") => {
                let dir = tempfile::tempdir().unwrap();
                fs::write(dir.path().join("agent.yaml"), &last).unwrap();
                let line = text.lines().next().unwrap().trim_start_matches("$ rocade ");
                let line = line.replace("fixtures", checkout().join("fixtures").to_str().unwrap());
                let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
                let output = command.args(line.split(' ')).current_dir(dir.path()).output().unwrap();
                assert_eq!(stdout(&output).trim_end(), text.split_once('\n').unwrap().1);
            }
            "console" => {
                let output = config(&["validate"], "agent.yaml", &refused.take().unwrap());
                let told = format!("$ rocade config validate agent.yaml\n{}", stdout(&output));
                assert_eq!(told.trim_end(), text);
            }
            _ => {}
        }
    }
    assert_eq!((good, refused), (4, None));
}

#[test]
fn the_guide_tells_of_every_key() {
    let guide = fs::read_to_string(checkout().join("docs/configuration.md")).unwrap();
    let schema = serde_json::to_value(rocade_core::config::agent_config_schema()).unwrap();
    let (mut keys, mut rest) = (Vec::new(), vec![&schema]);
    while let Some(value) = rest.pop() {
        keys.extend(value["properties"].as_object().into_iter().flat_map(|p| p.keys().cloned()));
        rest.extend(value.as_object().into_iter().flat_map(|object| object.values()));
        rest.extend(value.as_array().into_iter().flatten());
    }
    keys.retain(|key| !["apiVersion", "kind", "sections"].contains(&key.as_str()));
    assert!(keys.len() > 40, "{keys:?}");
    let missing: Vec<_> = keys.iter().filter(|key| !guide.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
