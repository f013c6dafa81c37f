//! Replaces in a recording what tells whose host it is: addresses, GUIDs, serial numbers, names. What matters to a
//! reader stays: subnets, vendors, what is equal, what is made of what. Pure: from an archive to an archive.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::archive::{Archive, Node};
use crate::netlink::PodRecord;

mod addresses;
mod binary;
mod files;
mod key;
mod names;
mod text;
mod words;

pub use key::Key;

use addresses::Addresses;
use text::print_groups;

/// What replaces the originals of one recording.
#[derive(Debug)]
pub struct Scrubber {
    key: Key,
    addresses: Addresses,
    /// Names and serial numbers, the longest first.
    words: Vec<(String, String)>,
    /// Addresses as bare hexadecimal digits, in both byte orders.
    hex: HashMap<String, String>,
    /// The same as bytes, from MACs upward: four bytes may be anything.
    raw: HashMap<Vec<u8>, Vec<u8>>,
}

impl Scrubber {
    /// Learns what an archive holds; the same key replaces the same originals by the same things.
    pub fn of(archive: &Archive, key: &Key) -> Scrubber {
        let mut scrubber = Scrubber {
            key: key.clone(),
            addresses: Addresses::new(key),
            words: names::collect(archive, key),
            hex: HashMap::new(),
            raw: HashMap::new(),
        };
        // The first time through finds the addresses that stand as such; then they are known in other forms.
        scrubber.replace_archive(archive);
        for (from, to) in scrubber.addresses.seen() {
            let reversed = |bytes: &[u8]| bytes.iter().rev().copied().collect::<Vec<u8>>();
            for (from, to) in [(reversed(&from), reversed(&to)), (from, to)] {
                scrubber.hex.insert(print_groups(&from, "", 1), print_groups(&to, "", 1));
                // Among bytes of any meaning, what starts with a zero is too often no address.
                if from.len() > 4 && from[0] != 0 {
                    scrubber.raw.insert(from, to);
                }
            }
        }
        scrubber
    }

    /// Whether some replacement is another one's original, so that originals seem to be left.
    pub fn is_ambiguous(&self) -> bool {
        self.hex.values().any(|to| self.hex.contains_key(to))
    }

    /// The archive without what tells its host.
    pub fn replace_archive(&self, archive: &Archive) -> Archive {
        let node = |path: &Path, node: &Node| match node {
            Node::File(content) => Node::File(self.replace_content(path, content)),
            Node::Link(target) => Node::Link(self.replace_path(target)),
            other => other.clone(),
        };
        let mut scrubbed = archive.rewrite(&|name| self.replace_file_name(name), &node);
        let records = self.replace_records(archive);
        scrubbed.netlink = records.netlink;
        scrubbed.statistics = records.statistics;
        scrubbed.pod = archive.pod.as_ref().map(|pod| self.replace_pod(pod));
        scrubbed
    }

    /// In the text form every record is a line of JSON, whatever it was asked for.
    fn replace_records(&self, archive: &Archive) -> Archive {
        let mut alone = Archive::default();
        alone.netlink = archive.netlink.clone();
        alone.statistics = archive.statistics.clone();
        let text = alone.print();
        let line = |line: &str| match line.strip_prefix(' ').and_then(|row| serde_json::from_str(row).ok()) {
            Some(row) => format!(" {}", self.replace_json(&row)),
            None => line.to_owned(),
        };
        let text = text.split('\n').map(line).collect::<Vec<_>>().join("\n");
        // A replacement has the form of its original. If one had not, its record would rather be lost than kept.
        Archive::parse(text.as_bytes()).unwrap_or_default()
    }

    /// Resources and HCAs keep their names: they say what the Pod was meant to get.
    fn replace_pod(&self, pod: &PodRecord) -> PodRecord {
        let name = |name: &str| words::replace_name(&self.key, name);
        PodRecord { name: name(&pod.name), namespace: name(&pod.namespace), ..pod.clone() }
    }

    /// Any record of a host, as a netlink answer or an inventory: the texts in it.
    pub fn replace_json(&self, value: &Value) -> Value {
        self.replace_field("", None, value)
    }

    fn replace_field(&self, name: &str, prefix: Option<u8>, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(match (text.parse(), prefix) {
                (Ok(address), Some(_)) => self.replace_net(address, prefix).to_string(),
                _ => self.replace_text("", name, text),
            }),
            Value::Array(all) => {
                // An address and the length of its prefix.
                let prefix = match &all[..] {
                    [Value::String(_), length] => length.as_u64().and_then(|length| length.try_into().ok()),
                    _ => None,
                };
                Value::Array(all.iter().map(|item| self.replace_field(name, prefix, item)).collect())
            }
            Value::Object(fields) => {
                let prefix = fields
                    .iter()
                    .find(|(name, _)| name.ends_with("prefix"))
                    .and_then(|(_, length)| u8::try_from(length.as_u64()?).ok());
                // A key may hold a device's name, but it is no text in which a host's name could stand.
                let field = |(key, value): (&String, &Value)| match value {
                    Value::String(text) if name == "annotations" => {
                        (key.clone(), Value::String(self.replace_annotated(key, text)))
                    }
                    _ => (self.replace_hex(key), self.replace_field(key, prefix, value)),
                };
                Value::Object(fields.iter().map(field).collect())
            }
            other => other.clone(),
        }
    }

    /// A device's name, which may hold its address.
    fn replace_name_of(&self, name: &str) -> String {
        self.replace(name, text::Kind::Version)
    }

    fn replace_file_name(&self, name: &OsStr) -> OsString {
        match name.to_str() {
            Some(text) => self.replace_name_of(text).into(),
            None => OsString::from_vec(self.replace_bytes_within(name.as_bytes())),
        }
    }

    fn replace_path(&self, path: &Path) -> PathBuf {
        let part = |part: Component<'_>| match part {
            Component::Normal(name) => self.replace_file_name(name),
            other => other.as_os_str().to_owned(),
        };
        path.components().map(part).collect()
    }
}
