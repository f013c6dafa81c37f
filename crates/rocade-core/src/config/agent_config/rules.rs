//! What must hold of the values of a `kind: AgentConfig` and between them. Each rule says what it saw, what is wanted and
//! what to do in one text, which [`Wrong`] packs.

use std::collections::BTreeMap;
use std::fmt::Display;

use garde::{Error, Path, Report, Result, Validate};
use serde::Deserialize;

use super::super::value::{self, Id};
use super::super::wrong::{Wrong, quoted};
use super::super::{DEFAULT_PREFIX, Dialect, MAX_SLOTS};
use super::form::{Document, Mode, ResourceForm, SelectorsForm, SharingForm};
use super::words::{SlotsWord, Time};
use crate::names::ResourceName;

/// A document that is held to the rules between its parts as well.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Checked(Document);

impl Checked {
    pub(super) fn into_document(self) -> Document {
        self.0
    }
}

impl Validate for Checked {
    type Context = ();

    fn validate_into(&self, context: &(), parent: &mut dyn FnMut() -> Path, report: &mut Report) {
        self.0.validate_into(context, parent, report);
        check_names(&self.0, report);
        for (path, resources) in lists(&self.0) {
            resources.iter().enumerate().for_each(|(i, r)| check_resource(&path.join(i), r, report));
        }
        check_sections(&self.0, report);
    }
}

/// A key that must be there and is not.
pub(super) fn missing(key: &str) -> Wrong {
    let (code, wanted) = match key {
        "name" => ("RDC704", "a name, as `name: hca_a`"),
        "selectors" => ("RDC706", "which HCAs, as `selectors: {netdevs: [ens18np0]}`"),
        "sharing" => {
            ("RDC708", "how it is shared, as `sharing: {mode: tokens, slots: 100}` or `sharing: {mode: hca}`")
        }
        "mode" => ("RDC708", "tokens or hca"),
        _ => ("RDC703", "that key"),
    };
    Wrong::new(code, format!("no {key}"), wanted)
}

pub(super) fn name(name: &str, _: &()) -> Result {
    // Beside a good prefix, so that what is refused is its own fault.
    named(ResourceName::new(DEFAULT_PREFIX, name))
}

pub(super) fn prefix(prefix: &str, _: &()) -> Result {
    named(ResourceName::new(prefix, "a"))
}

fn named(name: std::result::Result<ResourceName, crate::names::ParseNameError>) -> Result {
    name.map(drop).map_err(|error| {
        packed(Wrong::new("RDC704", format!("Kubernetes refuses {}", quoted(&error.seen)), error.wanted))
    })
}

/// Between two whole numbers, both included.
pub(super) fn within(least: i64, most: i64) -> impl Fn(&i64, &()) -> Result {
    move |value, _| {
        let wanted = format!("a whole number from {least} to {most}");
        if (least..=most).contains(value) { Ok(()) } else { refuse("RDC707", value, wanted, "") }
    }
}

pub(super) fn rate(gbps: &f64, _: &()) -> Result {
    if *gbps > 0.0 && gbps.is_finite() {
        Ok(())
    } else {
        refuse("RDC707", gbps, "a rate in Gbit/s, as 200", "")
    }
}

pub(super) fn whole_seconds(time: &Time, _: &()) -> Result {
    let seen = format!("{} ms", time.0.as_millis());
    if time.0.subsec_millis() == 0 {
        Ok(())
    } else {
        refuse("RDC707", seen, "whole seconds, as 60s, or 0s", "")
    }
}

pub(super) fn not_blank(text: &str, _: &()) -> Result {
    if text.trim().is_empty() { refuse("RDC714", "a blank entry", "a text", "leave it out") } else { Ok(()) }
}

/// Node names are DNS subdomains (k8s.io/apimachinery pkg/util/validation IsDNS1123Subdomain).
pub(super) fn node(name: &str, _: &()) -> Result {
    not_blank(name, &())?;
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.*".contains(&b);
    let wanted = "the name of a node, as gpu-1, or gpu-* for several: small letters, digits, - and .";
    if name.bytes().all(fits) {
        Ok(())
    } else {
        refuse("RDC714", quoted(name), wanted, "no node can have such a name")
    }
}

/// Keys and values of labels (IsQualifiedName, IsValidLabelValue), as far as their characters go.
pub(super) fn node_labels(labels: &BTreeMap<String, String>, _: &()) -> Result {
    let fits =
        |text: &str, signs: &[u8]| text.bytes().all(|b| b.is_ascii_alphanumeric() || signs.contains(&b));
    let is_odd =
        |(key, value): &(&String, &String)| key.is_empty() || !fits(key, b"-._/") || !fits(value, b"-._*");
    let Some((key, value)) = labels.iter().find(is_odd) else { return Ok(()) };
    let seen = quoted(&format!("{key}: {value}"));
    refuse("RDC714", seen, "a label, as `example.org/fabric: ib-*`", "no node can have such a label")
}

pub(super) fn sharing(sharing: &SharingForm, _: &()) -> Result {
    let stray =
        |key, why| refuse("RDC716", format!("{key} {why}"), "keys of one mode", format!("remove {key}"));
    match (sharing.mode, sharing.slots) {
        (Mode::Hca, Some(_)) => return stray("slots", "beside mode hca, where the HCAs are counted"),
        (Mode::Tokens, _) if sharing.share.is_some() => return stray("share", "beside mode tokens"),
        (_, slots) if sharing.gids_per_pod.is_some() && slots != Some(SlotsWord::Auto) => {
            return stray("gidsPerPod", "without slots: auto");
        }
        (Mode::Tokens, None) => {
            let wanted = format!("slots: a whole number from 1 to {MAX_SLOTS}, or auto");
            return refuse(
                "RDC708",
                "mode tokens without slots",
                wanted,
                "say how many Pods may share the HCAs",
            );
        }
        (Mode::Tokens, Some(SlotsWord::Number(0))) => {
            let wanted = format!("a whole number from 1 to {MAX_SLOTS}, or auto");
            return refuse(
                "RDC708",
                "slots: 0, of which no Pod can get one",
                wanted,
                "remove the resource, or give slots",
            );
        }
        (Mode::Tokens, Some(SlotsWord::Number(slots))) => keyed("slots", slots, MAX_SLOTS.into())?,
        (Mode::Tokens, Some(SlotsWord::Auto)) => {
            keyed("gidsPerPod", sharing.gids_per_pod.unwrap_or(1), 4096)?
        }
        (Mode::Hca, None) => keyed("share", sharing.share.unwrap_or(1), MAX_SLOTS.into())?,
    }
    Ok(())
}

fn keyed(key: &str, value: i64, most: i64) -> Result {
    let wanted = format!("a whole number from 1 to {most}");
    if (1..=most).contains(&value) { Ok(()) } else { refuse("RDC707", format!("{key}: {value}"), wanted, "") }
}

pub(super) fn hca(name: &str, _: &()) -> Result {
    value::check_hca(name).map_or(Ok(()), refused)
}

pub(super) fn netdev(name: &str, _: &()) -> Result {
    value::check_netdev(name, Dialect::AgentConfig).map_or(Ok(()), refused)
}

pub(super) fn address(address: &str, _: &()) -> Result {
    value::check_address(address).map_or(Ok(()), refused)
}

pub(super) fn vendor(id: &str, _: &()) -> Result {
    value::check_id(Id::Vendor, id, Dialect::AgentConfig).map_or(Ok(()), refused)
}

pub(super) fn device_id(id: &str, _: &()) -> Result {
    value::check_id(Id::Device, id, Dialect::AgentConfig).map_or(Ok(()), refused)
}

pub(super) fn driver(name: &str, _: &()) -> Result {
    value::check_driver(name).map_or(Ok(()), refused)
}

/// Every list of resources with its path.
fn lists(document: &Document) -> impl Iterator<Item = (Path, &[ResourceForm])> {
    let sections =
        document.sections.iter().enumerate().map(|(i, section)| {
            (Path::new("sections").join(i).join("resources"), section.resources.as_slice())
        });
    std::iter::once((Path::new("resources"), document.resources.as_slice())).chain(sections)
}

/// Each name once in its list; and none whose grants would have another's variable, wherever that stands.
fn check_names(document: &Document, report: &mut Report) {
    let mut names: Vec<(Path, usize, ResourceName)> = Vec::new();
    for (list, (path, resources)) in lists(document).enumerate() {
        for (i, resource) in resources.iter().enumerate() {
            let Ok(name) = ResourceName::new(document.prefix_of(resource), &resource.name) else { continue };
            let path = path.join(i).join("name");
            if let Some(wrong) =
                names.iter().find_map(|(_, in_list, first)| clash(&name, list, first, *in_list))
            {
                report.append(path.clone(), packed(wrong));
            }
            names.push((path, list, name));
        }
    }
    if names.is_empty() && lists(document).all(|(_, resources)| resources.is_empty()) {
        let wrong = Wrong::new("RDC710", "no resource", "at least one");
        report.append(
            Path::new("resources"),
            packed(wrong.with_cure("list one under resources, or in a section")),
        );
    }
}

fn clash(name: &ResourceName, list: usize, first: &ResourceName, in_list: usize) -> Option<Wrong> {
    let variable = name.grant_variable();
    if name == first {
        // In another list it stands for the first one.
        let wrong = Wrong::new("RDC705", format!("a second resource `{name}`"), "each name once in a list");
        return (list == in_list).then(|| wrong.with_cure("rename one"));
    }
    (variable == first.grant_variable()).then(|| {
        let seen = format!("`{name}` and `{first}` share {variable}");
        Wrong::new("RDC712", seen, "names that differ in more than case and signs").with_cure("rename one")
    })
}

fn check_resource(path: &Path, resource: &ResourceForm, report: &mut Report) {
    let excluded = resource.exclude.iter().enumerate().map(|(i, s)| (path.join("exclude").join(i), s));
    let all = std::iter::once((path.join("selectors"), &resource.selectors)).chain(excluded);
    for (path, _) in all.filter(|(_, selectors)| **selectors == SelectorsForm::default()) {
        let cure = "select HCAs, as `netdevs: [ens18np0]`; `hcas: [\"*\"]` means all";
        report.append(path, packed(Wrong::new("RDC706", "no selector", "at least one").with_cure(cure)));
    }
    if resource.sharing.slots == Some(SlotsWord::Auto) && resource.selectors.are_infiniband() {
        let wrong = Wrong::new("RDC716", "slots: auto on InfiniBand", "a number, as `slots: 100`");
        let cure = "a Pod takes no entry of a GID table there, so that none can be worked out";
        report.append(path.join("sharing"), packed(wrong.with_cure(cure)));
    }
    if resource.dscp.is_some() && resource.traffic_class.is_some() {
        let wrong = Wrong::new("RDC716", "both dscp and trafficClass", "one of them");
        report.append(path.join("dscp"), packed(wrong.with_cure("a DSCP of 26 is the traffic class 104")));
    }
}

fn check_sections(document: &Document, report: &mut Report) {
    let sections = document.sections.iter().enumerate();
    for (i, _) in sections.filter(|(_, s)| s.nodes.is_empty() && s.node_labels.is_empty()) {
        let wrong = Wrong::new("RDC706", "neither nodes nor nodeLabels", "which nodes it is for");
        let cure = "name them, as `nodes: [\"gpu-*\"]`; what holds everywhere stands outside of sections";
        report.append(Path::new("sections").join(i), packed(wrong.with_cure(cure)));
    }
}

fn refuse(
    code: &'static str,
    seen: impl Display,
    wanted: impl Into<String>,
    cure: impl Into<String>,
) -> Result {
    refused(Wrong::new(code, seen.to_string(), wanted).with_cure(cure))
}

fn refused(wrong: Wrong) -> Result {
    Err(packed(wrong))
}

fn packed(wrong: Wrong) -> Error {
    Error::new(wrong.pack())
}
