//! Collects the words of a recording that name its host, its Pod or its parts, so that they are found wherever else
//! they stand.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::binary::parse_vpd;
use super::files::{NAMING_VARIABLES, is_serial, parse_described_host};
use super::key::Key;
use super::words::{replace_name, replace_word};
use crate::archive::{Archive, Node};

/// Shorter words, and bare numbers, mean other things elsewhere; they are replaced only where they are known to name.
const SHORTEST: usize = 3;
const SHORTEST_SERIAL: usize = 6;

/// Word → replacement, the longest first.
pub(super) fn collect(archive: &Archive, key: &Key) -> Vec<(String, String)> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut components = HashSet::new();
    if let Some(pod) = &archive.pod {
        let named = [&pod.name, &pod.namespace].map(|name| (name.clone(), replace_name(key, name)));
        names.extend(named);
    }
    archive.visit(&mut |path, node| {
        components.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        let Node::File(content) = node else { return };
        for name in names_in(path, content) {
            let label = name.split('.').next().unwrap_or_default().to_owned();
            for name in [name, label] {
                names.insert(name.clone(), replace_name(key, &name));
            }
        }
        for serial in serials_in(path, content) {
            names.insert(serial.clone(), replace_word(key, &serial));
        }
    });
    let means_more = |word: &str| word.len() < SHORTEST || word.bytes().all(|b| b.is_ascii_digit());
    let mut words: Vec<(String, String)> = names
        .into_iter()
        .filter(|(word, replacement)| word != replacement && !means_more(word) && !components.contains(word))
        .collect();
    words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
    words
}

fn names_in(path: &Path, content: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(content);
    let one = |name: &str| vec![name.trim().to_owned()];
    match path.file_name().and_then(|name| name.to_str()) {
        Some("hostname") => one(&text),
        // The fifth field is where it is mounted (proc(5)).
        Some("mountinfo") => {
            text.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned).collect()
        }
        Some("kubelet.conf") => server_in(&text).map(|server| vec![server]).unwrap_or_default(),
        Some("node_desc") => parse_described_host(&text).map(one).unwrap_or_default(),
        Some("environ") => {
            let naming = |name: &str| NAMING_VARIABLES.iter().any(|naming| name.ends_with(naming));
            let variables = text.split('\0').filter_map(|variable| variable.split_once('='));
            variables.filter(|(name, _)| naming(name)).map(|(_, value)| value.to_owned()).collect()
        }
        _ => Vec::new(),
    }
}

/// The API server's name, if it is none of addresses.
fn server_in(text: &str) -> Option<String> {
    let url = text.split_whitespace().find_map(|word| word.trim_matches('"').split_once("://"))?.1;
    let place = url.split('/').next()?;
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    (host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_err()).then(|| host.to_owned())
}

fn serials_in(path: &Path, content: &[u8]) -> Vec<String> {
    let serials: Vec<String> = match path.file_name().and_then(|name| name.to_str()) {
        Some("vpd") => {
            let fields = parse_vpd(content);
            let serials = fields.iter().filter(|field| matches!(&field.keyword, b"SN" | b"YA"));
            serials
                .map(|field| String::from_utf8_lossy(&content[field.start..field.end]).into_owned())
                .collect()
        }
        Some(name) if is_serial(name) => vec![String::from_utf8_lossy(content).into_owned()],
        _ => Vec::new(),
    };
    let serials = serials.into_iter().map(|serial| serial.trim().to_owned());
    serials.filter(|serial| serial.len() >= SHORTEST_SERIAL).collect()
}
