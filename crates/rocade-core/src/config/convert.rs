//! A config.json as a `kind: AgentConfig` that plans the same, and what of it cannot be carried over.

use super::value::{self, Id};
use super::wrong::{Wrong, quoted};
use super::{Config, Dialect, Resource, Selectors, Sharing, Slots};
use crate::finding::{Finding, Severity};
use crate::host::LinkLayer;

/// The same configuration in the other dialect. Entries by which no HCA can ever be found, and blank ones, are left out, and
/// a resource whose list holds no others too; a finding says each.
pub fn to_agent_config(config: &Config) -> (Config, Vec<Finding>) {
    let mut left = Vec::new();
    let resources = config.resources.iter().filter_map(|resource| carry(resource, &mut left)).collect();
    let say = |seen: &str, wanted: &str, cure: &str| {
        let wrong = Wrong::new("RDC717", seen, wanted).with_cure(cure);
        wrong.finding(Severity::Note, "all resources".into())
    };
    left.push(say(
        "device nodes are granted `rw`, not `rwm`",
        "no other difference",
        "no program of RDMA makes nodes",
    ));
    let bridges = "HCAs that manage an NVSwitch are left out";
    left.push(say(bridges, "hcas or pciAddresses that name them", "name those that Pods need"));
    let umad = "an HCA is left out where a umad node of its ports is missing";
    left.push(say(
        umad,
        "all nodes that charDevices asks for",
        "leave umad out of charDevices: programs do without",
    ));
    (Config { dialect: Dialect::AgentConfig, resources, ..config.clone() }, left)
}

fn carry(resource: &Resource, left: &mut Vec<Finding>) -> Option<Resource> {
    let mut say = |path: &str, wrong: Wrong| {
        left.push(
            wrong.finding(Severity::Warning, format!("{} {path}", resource.name).trim_end().to_owned()),
        );
    };
    if resource.sharing == Sharing::Tokens(Slots::Fixed(0)) {
        say(
            "",
            Wrong::new("RDC717", "0 slots, which no Pod can get", "1 or more").with_cure("it is left out"),
        );
        return None;
    }
    let selectors = carry_selectors(&resource.selectors, &mut say);
    if selectors.is_none() {
        let wrong = Wrong::new("RDC717", "a list of which no entry can be carried over", "one that can");
        say("", wrong.with_cure("the resource is left out"));
    }
    Some(Resource { selectors: selectors?, ..resource.clone() })
}

/// None where a list is left without entries.
fn carry_selectors(s: &Selectors, say: &mut impl FnMut(&str, Wrong)) -> Option<Selectors> {
    let vendors = keep("vendors", &s.vendors, |id| value::check_id(Id::Vendor, id, Dialect::ConfigJson), say);
    let device_ids =
        keep("deviceIDs", &s.device_ids, |id| value::check_id(Id::Device, id, Dialect::ConfigJson), say);
    let drivers = keep("drivers", &s.drivers, value::check_driver, say);
    let if_names = keep("ifNames", &s.if_names, |name| value::check_netdev(name, Dialect::ConfigJson), say);
    let link_types = keep("linkTypes", &s.link_types, value::check_link_type, say);
    let mut carried = Selectors {
        vendors: vendors?,
        device_ids: device_ids?,
        drivers: drivers?,
        if_names: if_names?,
        ..s.clone()
    };
    carry_link_types(&link_types?, &mut carried, say);
    Some(carried)
}

/// A link type is an interface's, a link layer a port's. An Ethernet port whose interface was moved into a Pod has the
/// one and not the other.
fn carry_link_types(link_types: &[String], carried: &mut Selectors, say: &mut impl FnMut(&str, Wrong)) {
    let has = |link_type: &str| link_types.iter().any(|it| it == link_type);
    let layers = [("ether", LinkLayer::Ethernet), ("infiniband", LinkLayer::InfiniBand)];
    carried.link_layers = layers.into_iter().filter(|(word, _)| has(word)).map(|(_, layer)| layer).collect();
    carried.link_types.clear();
    match (has("ether"), has("infiniband"), carried.if_names.is_empty()) {
        (true, false, true) => carried.if_names = vec!["*".to_owned()],
        (true, true, true) => {
            let wrong = Wrong::new("RDC717", "ether beside infiniband", "one of them in a resource");
            let cure =
                "linkLayers also means Ethernet ports whose interface is in a Pod, which linkTypes does not";
            say("selectors.linkTypes", wrong.with_cure(cure));
        }
        _ => {}
    }
}

/// The entries that can mean an HCA; None where there were entries and none can.
fn keep(
    key: &str,
    list: &[String],
    check: impl Fn(&str) -> Option<Wrong>,
    say: &mut impl FnMut(&str, Wrong),
) -> Option<Vec<String>> {
    let mut kept = Vec::new();
    for entry in list {
        match check(entry) {
            None => kept.push(entry.clone()),
            Some(wrong) => {
                let cure = format!("{}; it is left out", wrong.cure);
                let asks_for_none = entry.is_empty() && matches!(key, "ifNames" | "linkTypes");
                let seen = match asks_for_none {
                    true => "a blank entry, which means HCAs without an interface".to_owned(),
                    false => format!("{} finds no HCA", quoted(entry)),
                };
                say(&format!("selectors.{key}"), Wrong { code: "RDC717", seen, cure, ..wrong });
            }
        }
    }
    (!kept.is_empty() || list.is_empty()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{parse_config, parse_config_json, render_agent_config};

    /// What is left out, without what always holds.
    fn converted(entries: &str) -> (Config, Vec<String>) {
        let text = format!("{{\"configList\": [{entries}]}}");
        let config = parse_config_json("config.json", &text, false).unwrap().0;
        let (config, left) = to_agent_config(&config);
        (config, left.iter().filter(|f| f.severity > Severity::Note).map(ToString::to_string).collect())
    }

    fn with(selectors: &str) -> (Config, Vec<String>) {
        converted(&format!(r#"{{"resourceName": "a", "rdmaHcaMax": 9, "selectors": {{{selectors}}}}}"#))
    }

    #[test]
    fn what_is_converted_is_read_back_as_it_is() {
        let (config, left) = converted(
            r#"{"resourceName": "a", "resourcePrefix": "x.org", "rdmaHcaMax": 63, "devices": ["ens1", "bond0"]},
            {"resourceName": "b", "rdmaHcaMax": 1000, "selectors": {"vendors": ["15B3"], "deviceIDs": ["0x1021"],
            "drivers": ["mlx5_core"], "linkTypes": ["infiniband"]}}"#,
        );
        assert_eq!(left, [""; 0]);
        let text = render_agent_config(&config, Vec::new());
        let (file, findings) =
            parse_config("agent.yaml", &text, true).unwrap_or_else(|f| panic!("{text}: {f:?}"));
        assert_eq!(findings, []);
        assert_eq!(file.for_node(None, &BTreeMap::new()), config, "{text}");
        assert_eq!(config.resources[1].selectors.link_layers, [LinkLayer::InfiniBand]);
    }

    #[test]
    fn an_entry_that_finds_nothing_is_left_out_and_said() {
        let (config, left) = with(r#""ifNames": ["ens1", "ens*", ""], "drivers": ["mlx5_core", "mlx5_ib"]"#);
        let selectors = &config.resources[0].selectors;
        assert_eq!(
            (&selectors.if_names[..], &selectors.drivers[..]),
            (&["ens1".to_owned()][..], &["mlx5_core".to_owned()][..])
        );
        assert_eq!(left.len(), 3);
        assert!(
            left[0].starts_with("warning[RDC717]: rdma/a selectors.drivers: `mlx5_ib` finds no HCA"),
            "{left:?}"
        );
    }

    #[test]
    fn a_resource_that_can_have_no_hca_or_no_slot_is_left_out_and_said() {
        for selectors in
            [r#""linkTypes": ["ethernet"]"#, r#""ifNames": ["ens*"]"#, r#""deviceIDs": ["aa:00.2"]"#]
        {
            let (config, left) = with(selectors);
            assert_eq!(config.resources, []);
            assert!(left.last().is_some_and(|said| said.contains("the resource is left out")), "{left:?}");
        }
        let (config, left) = converted(r#"{"resourceName": "a", "devices": ["e"]}"#);
        assert_eq!(config.resources, []);
        assert!(left[0].contains("0 slots"), "{left:?}");
    }

    #[test]
    fn an_ethernet_link_type_asks_for_an_interface_too() {
        let (config, left) = with(r#""linkTypes": ["ether"]"#);
        assert_eq!(left, [""; 0]);
        assert_eq!(config.resources[0].selectors.if_names, ["*"]);
        let (config, left) = with(r#""linkTypes": ["ether", "infiniband"]"#);
        assert_eq!(config.resources[0].selectors.if_names, [""; 0]);
        assert!(left[0].contains("ether beside infiniband"), "{left:?}");
    }
}
