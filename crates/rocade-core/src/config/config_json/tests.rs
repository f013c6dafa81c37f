//! What the reader of config.json takes, refuses and warns of: a row each.

use proptest::prelude::*;

use super::*;
use crate::config::{Sharing, Slots};

fn resource(name: &str) -> String {
    format!(r#"{{"resourceName": "{name}", "rdmaHcaMax": 100, "selectors": {{"ifNames": ["eth1"]}}}}"#)
}

fn file_of(entries: &[&str]) -> String {
    format!("{{\"configList\": [\n{}\n]}}", entries.join(",\n"))
}

fn tokens(n: u32) -> Sharing {
    Sharing::Tokens(Slots::Fixed(n))
}

fn accepted(text: &str) -> (Config, Vec<Finding>) {
    parse_config_json("config.json", text, false).unwrap_or_else(|f| panic!("{text}: {f:?}"))
}

fn refusals(text: &str, strict: bool) -> Vec<String> {
    match parse_config_json("config.json", text, strict) {
        Ok((config, _)) => panic!("{text} was accepted: {config:?}"),
        Err(findings) => findings.iter().map(|f| format!("{} {}: {}", f.code, f.subject, f.seen)).collect(),
    }
}

#[test]
fn all_keys_of_the_plugin_are_read() {
    let text = r#"{
      "periodicUpdateInterval": 300,
      "configList": [
        {"resourceName": "hca_a", "resourcePrefix": "rdma.example.org", "rdmaHcaMax": 7,
         "selectors": {"vendors": ["15b3"], "deviceIDs": ["1021"], "drivers": ["mlx5_core"],
                       "ifNames": ["ens1", "ens2"], "linkTypes": ["ether"]}},
        {"resourceName": "hca_b", "rdmaHcaMax": 1000, "devices": ["ib0"]}
      ]
    }"#;
    let (config, findings) = accepted(text);
    assert_eq!(findings, []);
    assert_eq!(config.update_interval_s, Some(300));
    let [a, b] = &config.resources[..] else { panic!() };
    assert_eq!((a.name.to_string().as_str(), a.sharing), ("rdma.example.org/hca_a", tokens(7)));
    assert_eq!(a.selectors.if_names, ["ens1", "ens2"]);
    assert_eq!((&a.selectors.vendors, &a.selectors.device_ids), (&vec!["15b3".into()], &vec!["1021".into()]));
    assert_eq!(
        (&a.selectors.drivers, &a.selectors.link_types),
        (&vec!["mlx5_core".into()], &vec!["ether".into()])
    );
    assert_eq!((b.name.to_string().as_str(), b.sharing), ("rdma/hca_b", tokens(1000)));
    assert_eq!(b.selectors, Selectors { if_names: vec!["ib0".into()], ..Selectors::default() });
}

#[test]
fn without_an_interval_and_with_0_the_host_is_looked_at_as_events_tell() {
    let with =
        |head: &str| accepted(&format!("{{{head}\"configList\": [{}]}}", resource("a"))).0.update_interval_s;
    assert_eq!(with(""), None);
    assert_eq!(with("\"periodicUpdateInterval\": null, "), None);
    assert_eq!(with("\"periodicUpdateInterval\": 0, "), None);
    assert_eq!(with("\"periodicUpdateInterval\": 60, "), Some(60));
}

#[test]
fn keys_are_matched_as_go_does() {
    let text = r#"{"CONFIGLIST": [{"resourcename": "x", "ResourceName": "a", "RDMAHCAMAX": 5,
        "ſelectors": {"IFNAMES": ["eth0"], "ifnames": ["eth1"]}}]}"#;
    let (config, findings) = accepted(text);
    assert_eq!(config.resources[0].name.to_string(), "rdma/a");
    assert_eq!(config.resources[0].selectors.if_names, ["eth1"]);
    let codes: Vec<_> = findings.iter().map(|f| (f.code, f.severity)).collect();
    assert_eq!(codes, [("RDC709", Severity::Warning), ("RDC709", Severity::Warning)]);
}

#[test]
fn an_unknown_key_is_warned_of_with_its_line_and_the_nearest_key() {
    let text = "{\"configList\": [\n{\"resourceName\": \"a\",\n\"rdmaHcaMx\": 3, \"rdmaHcaMax\": 4,\n\"selectors\": {\"ifName\": [], \"ifNames\": [\"eth1\"]}}]}";
    let (config, findings) = accepted(text);
    assert_eq!(config.resources[0].sharing, tokens(4));
    let seen: Vec<_> = findings.iter().map(|f| (f.code, f.subject.as_str(), f.cure.as_str())).collect();
    assert_eq!(
        seen,
        [
            (
                "RDC702",
                "config.json:3 configList[0].rdmaHcaMx",
                "it is ignored; the nearest key is rdmaHcaMax"
            ),
            (
                "RDC702",
                "config.json:4 configList[0].selectors.ifName",
                "it is ignored; the nearest key is ifNames"
            ),
        ]
    );
    assert_eq!(refusals(text, true).len(), 2);
}

#[test]
fn what_cannot_be_served_is_refused_with_its_line_and_key() {
    let with = |field: &str| format!(r#"{{"resourceName": "a", "rdmaHcaMax": 1, {field}}}"#);
    let ifs = r#""selectors": {"ifNames": ["e"]}"#;
    let max = |n: &str| format!(r#"{{"resourceName": "a", "rdmaHcaMax": {n}, {ifs}}}"#);
    let prefixed = |p: &str| with(&format!(r#""resourcePrefix": "{p}", {ifs}"#));
    let cases: &[(&str, String)] = &[
        ("RDC705 config.json:3 configList[1].resourceName", file_of(&[&resource("a"), &resource("a")])),
        ("RDC705 config.json:3 configList[1].resourceName", file_of(&[&resource("a"), &prefixed("x")])),
        ("RDC712 config.json:3 configList[1].resourceName", file_of(&[&resource("a_b"), &resource("A_b")])),
        ("RDC704 config.json:2 configList[0].resourceName", file_of(&[&resource("_a")])),
        ("RDC704 config.json:2 configList[0].resourceName", file_of(&[&resource("a b")])),
        ("RDC704 config.json:2 configList[0].resourceName", file_of(&[&resource("")])),
        ("RDC704 config.json:2 configList[0]:", file_of(&[&format!(r#"{{"rdmaHcaMax": 1, {ifs}}}"#)])),
        ("RDC704 config.json:2 configList[0].resourcePrefix", file_of(&[&prefixed("a/b")])),
        ("RDC704 config.json:2 configList[0].resourcePrefix", file_of(&[&prefixed("kubernetes.io")])),
        ("RDC706 config.json:2 configList[0]", file_of(&[r#"{"resourceName": "a", "rdmaHcaMax": 1}"#])),
        ("RDC706 config.json:2 configList[0]", file_of(&[&with(r#""selectors": {"ifNames": []}"#)])),
        ("RDC706 config.json:2 configList[0]", file_of(&[&with(&format!(r#""devices": ["e"], {ifs}"#))])),
        ("RDC707 config.json:2 configList[0].rdmaHcaMax", file_of(&[&max("-1")])),
        ("RDC707 config.json:2 configList[0].rdmaHcaMax", file_of(&[&max("5000000")])),
        ("RDC703 config.json:2 configList[0].rdmaHcaMax", file_of(&[&max("1.0")])),
        ("RDC703 config.json:2 configList[0].rdmaHcaMax", file_of(&[&max("1e2")])),
        ("RDC703 config.json:2 configList[0].rdmaHcaMax", file_of(&[&max("\"100\"")])),
        ("RDC703 config.json:2 configList[0].rdmaHcaMax", file_of(&[&max("99999999999999999999")])),
        (
            "RDC703 config.json:2 configList[0].selectors.ifNames",
            file_of(&[&with(r#""selectors": {"ifNames": "e"}"#)]),
        ),
        (
            "RDC703 config.json:2 configList[0].selectors.ifNames[1]",
            file_of(&[&with(r#""selectors": {"ifNames": ["a", 1]}"#)]),
        ),
        ("RDC703 config.json:2 configList[0]:", file_of(&["7"])),
        ("RDC703 config.json:1: a list", "[]".into()),
        (
            "RDC707 config.json:1 periodicUpdateInterval",
            format!(r#"{{"periodicUpdateInterval": -1, "configList": [{}]}}"#, resource("a")),
        ),
        ("RDC710 config.json:1 configList", r#"{"configList": []}"#.into()),
        ("RDC710 config.json:1: no resource", "{}".into()),
        ("RDC701 config.json:2:1", "{\"configList\": [\n".into()),
    ];
    for (wanted, text) in cases {
        let refusals = refusals(text, false);
        assert!(refusals.iter().any(|r| r.starts_with(wanted)), "{text}: {refusals:?}, wanted {wanted}");
    }
}

/// What is said of one resource with these keys: code, subject behind its path, seen, wanted, cure.
fn said(keys: &str) -> Vec<String> {
    let text = file_of(&[&format!(r#"{{"resourceName": "a", "rdmaHcaMax": 1, {keys}}}"#)]);
    let (_, findings) = accepted(&text);
    let is_strict = |f: &&Finding| f.severity != Severity::Note;
    let strict = parse_config_json("config.json", &text, true);
    assert_eq!(strict.is_err(), findings.iter().filter(is_strict).count() > 0, "{findings:?}");
    findings.iter().map(|f| format!("{} {f}", f.severity)).collect()
}

#[test]
fn an_entry_by_which_no_hca_can_be_found_is_warned_of_with_the_right_form() {
    for (keys, key, words) in [
        // F03: bus numbers, the driver of the RDMA device, another word for ether.
        (
            r#""deviceIDs": ["159b", "b500"]"#,
            "deviceIDs[1]",
            "note `b500` looks like the bus number … as 1021 … lspci -nn",
        ),
        (
            r#""drivers": ["irdma"]"#,
            "drivers[0]",
            "warning `irdma`, wanted the driver of the PCI function … ice, or i40e on X722",
        ),
        (
            r#""linkTypes": ["ethernet"]"#,
            "linkTypes[0]",
            "warning `ethernet`, wanted a link type: ether or infiniband … did you mean `ether`?",
        ),
        // F04: PCI addresses, the driver of the RDMA device.
        (
            r#""deviceIDs": ["1021", "0000:aa:00.2"]"#,
            "deviceIDs[1]",
            "warning `0000:aa:00.2`, wanted a PCI device id … a PCI address … ifNames",
        ),
        (r#""drivers": ["mlx5_ib"]"#, "drivers[0]", "warning `mlx5_ib` … write mlx5_core"),
        (r#""deviceIDs": ["b5:00"]"#, "deviceIDs[0]", "warning `b5:00` … a PCI address"),
        (
            r#""deviceIDs": ["b5"]"#,
            "deviceIDs[0]",
            "warning `b5`, wanted a PCI device id of four hexadecimal digits",
        ),
        (r#""deviceIDs": ["15b3:1021"]"#, "deviceIDs[0]", "warning … the vendor is 15b3 and the device 1021"),
        // F10: hexadecimal in another case and with 0x is read as it is meant.
        (r#""deviceIDs": ["101B"]"#, "deviceIDs[0]", "warning[RDC715] `101B`, wanted `101b`; it is read so"),
        (r#""vendors": ["0x15b3"]"#, "vendors[0]", "warning[RDC715] `0x15b3`, wanted `15b3`"),
        (r#""vendors": ["15B3"]"#, "vendors[0]", "warning[RDC715] `15B3`, wanted `15b3`"),
        (r#""linkTypes": ["Ether"]"#, "linkTypes[0]", "warning[RDC715] `Ether`, wanted `ether`"),
        (r#""vendors": ["Mellanox Technologies"]"#, "vendors[0]", "warning … that is 15b3"),
        (r#""vendors": ["0x115b3"]"#, "vendors[0]", "warning `0x115b3`, wanted a PCI vendor id"),
        (r#""linkTypes": ["InfiniBnd"]"#, "linkTypes[0]", "warning `InfiniBnd`, wanted a link type"),
        (r#""drivers": ["mlx5-core"]"#, "drivers[0]", "warning … the nearest driver is mlx5_core"),
        (r#""drivers": ["rdma_rxe"]"#, "drivers[0]", "warning … it has no PCI function"),
        (r#""ifNames": ["ens*"]"#, "ifNames[0]", "warning `ens*` … config.json knows no patterns"),
        (r#""ifNames": ["0000:aa:00.2"]"#, "ifNames[0]", "warning … it is a PCI address"),
        (r#""ifNames": ["mlx5_0:1"]"#, "ifNames[0]", "warning … no interface can have such a name"),
        (r#""ifNames": ["enp5s0f1np1subinterface"]"#, "ifNames[0]", "warning … at most 15 characters"),
        (r#""ifNames": [""]"#, "ifNames[0]", "warning a blank entry … leave it out"),
        (r#""vendors": [" "]"#, "vendors[0]", "warning a blank entry"),
        (r#""deviceIDs": [""]"#, "deviceIDs[0]", "warning a blank entry"),
        (r#""drivers": [""]"#, "drivers[0]", "warning a blank entry"),
        (r#""linkTypes": [""]"#, "linkTypes[0]", "warning a blank entry"),
    ] {
        let said = said(&format!("\"selectors\": {{{keys}}}"));
        assert_eq!(said.len(), 1, "{keys}: {said:?}");
        assert!(
            said[0].contains(&format!("config.json:2 configList[0].selectors.{key}: ")),
            "{keys}: {said:?}"
        );
        let (severity, rest) = words.split_once(' ').unwrap();
        assert!(said[0].contains(severity), "{keys}: {said:?}, wanted {severity}");
        assert!(rest.split('…').all(|part| said[0].contains(part.trim())), "{keys}: {said:?}, wanted {rest}");
    }
    let device_id_among_interfaces = said(r#""devices": ["101d"]"#);
    assert!(device_id_among_interfaces[0].contains("devices[0]: `101d`, wanted the name of an interface"));
    let right = r#""selectors": {"vendors": ["15b3", "8086"], "deviceIDs": ["1021"], "drivers": ["mlx5_core", "ice", "ionic",
        "some_new_driver"], "ifNames": ["ens18np0", "bond0.40", "eth0"], "linkTypes": ["ether", "infiniband"]}"#;
    assert_eq!(said(right), [""; 0]);
}

#[test]
fn what_is_mended_is_compared_as_it_was_meant() {
    let entry = r#"{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"vendors": ["0X15B3", "Mellanox"],
        "deviceIDs": ["101B"], "linkTypes": ["Infiniband", "ethernet"]}}"#;
    let selectors = accepted(&file_of(&[entry])).0.resources.remove(0).selectors;
    assert_eq!(selectors.vendors, ["15b3", "Mellanox"]);
    assert_eq!(
        (&selectors.device_ids[..], &selectors.link_types[..]),
        (&["101b".to_owned()][..], &["infiniband".to_owned(), "ethernet".to_owned()][..])
    );
}

#[test]
fn keys_of_the_sr_iov_plugin_are_told_what_stands_for_them_here() {
    // F10.
    let refusals = |text: &str| match parse_config_json("config.json", text, false) {
        Ok(_) => panic!("{text} was accepted"),
        Err(findings) => findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    };
    let said = refusals(r#"{"resourceList": [{"resourceName": "a"}]}"#);
    assert!(
        said[0].contains("config.json:1 resourceList: an unknown key") && said[0].contains("configList"),
        "{said:?}"
    );
    assert!(said[1].contains("no resource, wanted at least one"), "{said:?}");
    let said =
        refusals(&file_of(&[r#"{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"pfNames": ["e"]}}"#]));
    assert!(said[0].contains("selectors.pfNames: an unknown key") && said[0].contains("ifNames"), "{said:?}");
    assert!(said[1].contains("configList[0]: no selectors"), "{said:?}");
}

#[test]
fn a_resource_without_slots_is_warned_of_and_refused_when_strict() {
    // F08.
    for max in ["", "\"rdmaHcaMax\": 0,", "\"rdmaHcaMax\": null,"] {
        let text =
            file_of(&[&format!(r#"{{"resourceName": "a", {max} "selectors": {{"ifNames": ["e"]}}}}"#)]);
        let (config, findings) = accepted(&text);
        assert_eq!(config.resources[0].sharing, tokens(0));
        assert_eq!((findings[0].code, findings[0].severity), ("RDC708", Severity::Warning));
        assert!(refusals(&text, true)[0].starts_with("RDC708 config.json:2 configList[0].rdmaHcaMax"));
    }
}

#[test]
fn a_name_that_only_the_plugin_refuses_is_noted_and_taken_even_when_strict() {
    let (config, findings) = parse_config_json("config.json", &file_of(&[&resource("hca-a")]), true).unwrap();
    assert_eq!(config.resources[0].name.to_string(), "rdma/hca-a");
    assert_eq!((findings[0].code, findings[0].severity), ("RDC711", Severity::Note));
}

#[test]
fn every_error_of_a_file_is_said_at_once() {
    let text = file_of(&[&resource("-"), r#"{"resourceName": "b", "rdmaHcaMax": -1}"#]);
    assert_eq!(refusals(&text, false).len(), 3);
}

#[test]
fn a_prefix_is_refused_under_its_own_key_whatever_the_name_is() {
    let entry = r#"{"resourceName": "-a", "resourcePrefix": "B", "rdmaHcaMax": 1, "devices": ["e"]}"#;
    assert_eq!(
        refusals(&file_of(&[entry]), false),
        [
            "RDC704 config.json:2 configList[0].resourcePrefix: Kubernetes refuses `B`",
            "RDC704 config.json:2 configList[0].resourceName: Kubernetes refuses `-a`",
        ]
    );
}

#[test]
fn a_second_resource_of_a_name_is_found_beside_other_faults() {
    let faulty = r#"{"resourceName": "a", "rdmaHcaMax": -1, "devices": ["e"]}"#;
    let refusals = refusals(&file_of(&[faulty, &resource("a")]), false);
    assert!(refusals[1].starts_with("RDC705 config.json:3 configList[1].resourceName"), "{refusals:?}");
}

#[test]
fn what_could_not_be_read_is_not_called_missing() {
    for text in [
        "[]".to_owned(),
        r#"{"configList": {}}"#.into(),
        file_of(&["7"]),
        file_of(&[r#"{"resourceName": 1, "rdmaHcaMax": 1, "devices": ["e"]}"#]),
        file_of(&[r#"{"resourceName": "a", "rdmaHcaMax": "1", "devices": ["e"]}"#]),
        file_of(&[r#"{"resourceName": "a", "rdmaHcaMax": 1, "devices": "e"}"#]),
        file_of(&[r#"{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"ifNames": "e"}}"#]),
    ] {
        let refusals = refusals(&text, false);
        assert!(refusals.len() == 1 && refusals[0].starts_with("RDC703"), "{text}: {refusals:?}");
    }
}

#[test]
fn a_syntax_error_has_its_line_and_column_and_the_key_that_it_is_at() {
    let text = "{\"configList\": [{\"resourceName\": \"a\",\n\"rdmaHcaMax\": 0100}]}";
    assert_eq!(refusals(text, false), ["RDC701 config.json:2:16 configList[0].rdmaHcaMax: `1`"]);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_config_json("f", &String::from_utf8_lossy(&bytes), false);
    }

    #[test]
    fn no_json_in_the_place_of_a_value_makes_it_panic(value in "(null|true|-?[0-9]{1,22}|\"[a-z]{0,70}\"|\\[\\]|\\{\\}|\\[\"x\"\\])", key in 0..12_usize) {
        let keys = [&TOP_KEYS[..], &RESOURCE_KEYS, &SELECTOR_KEYS].concat();
        let text = match key {
            0..2 => format!("{{\"{}\": {value}}}", keys[key]),
            2..7 => file_of(&[&format!("{{\"{}\": {value}}}", keys[key])]),
            _ => file_of(&[&format!("{{\"selectors\": {{\"{}\": {value}}}}}", keys[key])]),
        };
        if let Err(findings) = parse_config_json("f", &text, false) {
            prop_assert!(findings.iter().any(|f| f.severity == Severity::Error));
        }
    }
}
