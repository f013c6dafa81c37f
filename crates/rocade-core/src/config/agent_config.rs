//! `kind: AgentConfig`: YAML text → [`Document`], with every mistake as a finding with file, line and key; and back. What
//! may stand there is `form`'s, what must hold of it `rules`', what it means for a node `settle`'s.

use serde::Deserialize;
use serde_saphyr::path_map::{PathKey, PathKind};
use serde_saphyr::{Error, Location};

use super::wrong::{Wrong, nearest, quoted};
use super::{Config, Parsed};
use crate::finding::{Finding, Severity};
use crate::policy::API_VERSION;

mod form;
mod rules;
mod settle;
#[cfg(test)]
mod tests;
mod words;
mod write;

pub(super) use form::Document;
pub use form::Section;

/// The kind that this is.
const KIND: &str = "AgentConfig";

/// Keys of config.json, whose meaning has another name here.
const FOREIGN_KEYS: [(&str, &str); 11] = [
    ("configList", "resources"),
    ("periodicUpdateInterval", "rescanInterval"),
    ("resourceName", "name"),
    ("rdmaHcaMax", "sharing.slots"),
    ("devices", "selectors.netdevs"),
    ("ifNames", "netdevs"),
    ("pfNames", "netdevs"),
    ("linkTypes", "linkLayers"),
    ("rootDevices", "pciAddresses"),
    ("gidTableLen", "sharing.slots"),
    ("umad", "charDevices"),
];

/// The JSON schema (draft 2020-12) of the form, as written in docs/schema/agent-config.schema.json.
pub fn agent_config_schema() -> schemars::Schema {
    schemars::generate::SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Document>()
}

/// Writes a configuration as YAML that [`super::parse_config`] reads back; what is as it is by default is left out.
/// Nothing of config.json's own is kept: [`super::to_agent_config`] says what that loses.
pub fn render_agent_config(config: &Config, sections: Vec<Section>) -> String {
    write::text(&write::document(config, sections))
}

/// Reads a document; every mistake is an error here.
pub(super) fn parse_document(file: &str, text: &str) -> Parsed<Document> {
    let refuse = |found: Found| {
        let subject = format!("{file}:{} {}", found.line, found.path).trim_end().to_owned();
        found.wrong.finding(Severity::Error, subject)
    };
    let found = check_head(text).map(|wrong| vec![wrong]).unwrap_or_default();
    let found = if found.is_empty() { read(text) } else { Err(found) };
    match found {
        Ok(document) => Ok((document, Vec::new())),
        Err(found) => Err(found.into_iter().map(refuse).collect::<Vec<Finding>>()),
    }
}

/// A mistake and where it is.
struct Found {
    line: u64,
    path: String,
    wrong: Wrong,
}

/// The document's head, whose mistakes come before all others: another version may have other keys.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: Option<serde_saphyr::Spanned<String>>,
    kind: Option<serde_saphyr::Spanned<String>>,
}

fn check_head(text: &str) -> Option<Found> {
    // What is no mapping of texts is said better by the reading of the whole.
    let head: Head = serde_saphyr::from_str(text).ok()?;
    let keys = [("kind", head.kind, KIND), ("apiVersion", head.api_version, API_VERSION)];
    keys.into_iter().find_map(|(path, value, wanted)| {
        let line = value.as_ref().map_or(1, |value| value.referenced.line());
        let seen = match value {
            Some(value) if value.value == wanted => return None,
            Some(value) => quoted(&value.value),
            None => format!("no {path}"),
        };
        let wrong = Wrong::new("RDC713", seen, wanted).with_cure(format!("begin with `{path}: {wanted}`"));
        Some(Found { line, path: path.into(), wrong })
    })
}

fn read(text: &str) -> Result<Document, Vec<Found>> {
    let mut path = String::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
        let mut track = serde_path_to_error::Track::new();
        let document =
            Document::deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track));
        path = track.path().to_string();
        document
    });
    if let Err(error) = read {
        return Err(vec![found_by_reader(&error, &path, text)]);
    }
    match serde_saphyr::from_str_valid::<rules::Checked>(text) {
        Ok(checked) => Ok(checked.into_document()),
        Err(error) => Err(found_by_rules(&error, text)),
    }
}

/// All that the rules found.
fn found_by_rules(error: &Error, text: &str) -> Vec<Found> {
    let Error::ValidationError { issues, locations, .. } = error.without_snippet() else {
        return vec![found_by_reader(error, "", text)];
    };
    let found = issues.iter().map(|issue| {
        let line = locations.locations_for(&issue.path).map_or(1, |at| at.reference_location.line());
        let message = issue.message.clone().unwrap_or_default();
        let wrong = Wrong::unpack(&message).unwrap_or_else(|| Wrong::new("RDC703", message, "another value"));
        Found { line, path: written(&issue.path), wrong }
    });
    let mut found: Vec<Found> = found.collect();
    found.sort_by(|a, b| (a.line, &a.path).cmp(&(b.line, &b.path)));
    found
}

/// A path as it stands in the file: `resources[0].selectors.deviceIDs[1]`.
fn written(path: &PathKey) -> String {
    let mut text = String::new();
    for (kind, name) in path.segments() {
        match kind {
            PathKind::Index => text.push_str(&format!("[{name}]")),
            // garde's step into an Option.
            PathKind::Key if name.is_empty() => {}
            PathKind::Key if text.is_empty() => text.push_str(&form::key(name)),
            PathKind::Key => text.push_str(&format!(".{}", form::key(name))),
        }
    }
    text
}

/// The first thing that could not be read, in the words of this form.
fn found_by_reader(error: &Error, path: &str, text: &str) -> Found {
    let error = error.without_snippet();
    let location = error.location();
    let path = path.trim_end_matches('?').trim_matches('.').to_owned();
    let seen = location.and_then(|at| slice(text, at)).map_or_else(|| "nothing".to_owned(), quoted);
    let value = |wanted: &str| Wrong::new("RDC703", seen.clone(), wanted);
    let wrong = match error {
        Error::Message { msg, .. } => {
            Wrong::unpack(msg).unwrap_or_else(|| value("a value of this key").with_cure(msg))
        }
        Error::SerdeUnknownField { field, expected, .. } => unknown_key(field, expected),
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            let near = nearest(variant, expected).map(|word| format!("did you mean `{word}`?"));
            value(&format!("one of {}", expected.join(", "))).with_cure(near.unwrap_or_default())
        }
        Error::SerdeMissingField { field, .. } => rules::missing(field),
        Error::DuplicateMappingKey { .. } => {
            Wrong::new("RDC709", format!("{seen} for the second time"), "each key once")
                .with_cure("remove one")
        }
        Error::InvalidScalar { ty: "floating point", .. } => value("a number, as 200"),
        Error::InvalidScalar { ty: "boolean", .. } | Error::InvalidBooleanStrict { .. } => {
            value("true or false")
        }
        Error::InvalidScalar { .. } => value("a whole number, as 100"),
        Error::NullIntoString { .. } => value("a text").with_cure("leave the key out where it means nothing"),
        Error::Unexpected { expected: "sequence start", .. } => value("a list in [ ] or of lines with -"),
        Error::Unexpected { expected: "mapping start", .. } => value("keys with values"),
        Error::Unexpected { .. } | Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. } => {
            value("one value")
        }
        Error::MultipleDocuments { .. } => Wrong::new("RDC701", "a second document", "one document"),
        other => Wrong::new("RDC701", plain(other), "YAML").with_cure("correct the YAML"),
    };
    let path = match (error, &wrong.code) {
        (Error::DuplicateMappingKey { key: Some(key), .. }, _) => join(&path, key),
        (_, &"RDC701") => String::new(),
        _ => path,
    };
    Found { line: location.map_or(1, |at| at.line().max(1)), path, wrong }
}

fn unknown_key(field: &str, known: &[&str]) -> Wrong {
    let here = FOREIGN_KEYS.iter().find(|(key, _)| key.eq_ignore_ascii_case(field)).map(|(_, here)| *here);
    let near = here.or_else(|| nearest(field, known)).map(|key| format!("did you mean {key}?"));
    let wanted = format!("one of {}", known.join(", "));
    Wrong::new("RDC702", "an unknown key", wanted).with_cure(near.unwrap_or_default())
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The text at a place; None where it is none, or longer than a word.
fn slice(text: &str, at: Location) -> Option<&str> {
    let start = usize::try_from(at.span().byte_offset()?).ok()?;
    let length = usize::try_from(at.span().byte_len()?).ok()?;
    let slice = text.get(start..start.checked_add(length)?)?.lines().next()?;
    (!slice.is_empty()).then_some(slice)
}

/// The reader's own words without its place, which stands before them.
fn plain(error: &Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}
