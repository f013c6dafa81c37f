//! One function a target: any bytes must end in an answer or an error, never in a panic.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rocade_core::check::{Against, check};
use rocade_core::config::{ConfigFile, parse_config};
use rocade_core::lint::{self, Source};
use rocade_core::pair::perf::{EndFacts, Options, SizeResult, Test, block, message, negotiation};
use rocade_core::policy::Policy;
use rocade_core::{Host, judge};
use rocade_host::{
    Archive, Errno, Key, Node, Root, Scrubber, decode_netlink, decode_statistics, read_host, record,
};

/// The host whose files are changed: small, with an HCA, vital product data and config space.
const HOST: &str = include_str!("../../fixtures/hosts/hot-unplug-race.host");

/// A host with rails, and what it offers of them.
const RAILS: &str = include_str!("../../fixtures/hosts/seed-4hca-bond.host");
const CONFIG: &str = include_str!("../../fixtures/configs/three-rails.json");

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("archive", archive),
    ("file", file),
    ("netlink", netlink),
    ("config", config),
    ("lint", lint),
    ("perftest", perftest),
    ("policy", policy),
    ("scrub", scrub),
    ("statistics", statistics),
];

/// The text form: what parses prints to what parses to the same, and can be read, judged and recorded again.
pub fn archive(data: &[u8]) {
    let Ok(archive) = Archive::parse(data) else { return };
    let text = archive.print();
    assert_eq!(Archive::parse(text.as_bytes()).as_ref(), Ok(&archive), "{text}");
    look(&archive);
    record(&Root::from(archive));
}

/// The parser of each file: one file of a host holds these bytes, or fails with this error. The first two bytes choose
/// which, the third what happens to it.
pub fn file(data: &[u8]) {
    static PARSED: OnceLock<(Archive, Vec<PathBuf>)> = OnceLock::new();
    let [high, low, kind, content @ ..] = data else { return };
    let (host, files) = PARSED.get_or_init(|| {
        let host = Archive::parse(HOST.as_bytes()).expect("a recorded host");
        let mut files = Vec::new();
        host.visit(&mut |path, node| {
            files.extend((!matches!(node, Node::Dir(_))).then(|| path.to_owned()));
        });
        (host, files)
    });
    let chosen = &files[usize::from(u16::from_be_bytes([*high, *low])) % files.len()];
    let changed = host.rewrite(&|name| name.to_owned(), &|path: &Path, node: &Node| match kind % 4 {
        _ if path != chosen => node.clone(),
        0 => Errno::from_name(&format!("E{}", kind / 4 + 1)).map_or(Node::Skipped, Node::Fail),
        1 => Node::Link(String::from_utf8_lossy(content).into_owned().into()),
        _ => Node::File(content.to_vec()),
    });
    look(&changed);
}

/// Netlink replies as the kernel sends them.
pub fn netlink(data: &[u8]) {
    decode_netlink(data);
}

/// A driver's own statistics: of 40 bytes 32 are a name's and 8 a value's.
pub fn statistics(data: &[u8]) {
    let count = data.len() / 40;
    let (names, values) = data.split_at(count * 32);
    let kept = decode_statistics(names, &values[..count * 8]).expect("as many names as values");
    assert!(kept.len() <= count);
}

/// A configuration of either dialect.
pub fn config(data: &[u8]) {
    let _ = parse_config("config", &String::from_utf8_lossy(data), true);
}

/// Manifests, judged for a node and its configuration; and the patch of what was found.
pub fn lint(data: &[u8]) {
    static FACTS: OnceLock<(ConfigFile, Host)> = OnceLock::new();
    let (config, host) = FACTS.get_or_init(|| {
        let mut host = read_host(&Root::from(Archive::parse(RAILS.as_bytes()).expect("a recorded host")));
        judge(&mut host);
        (parse_config("config.json", CONFIG, true).expect("a configuration").0, host)
    });
    let text = String::from_utf8_lossy(data);
    let source = Source { name: "manifests.yaml", text: &text };
    let against = lint::Against { namespace: Some("demo"), config: Some(config), host: Some(host) };
    for against in [against, lint::Against::default()] {
        let _ = lint::lint(&[source], &against).patch(0, &source);
    }
}

/// What the other end of a bandwidth or latency test may send: stock messages, and a block of rocade's. What is read is
/// written to what reads the same.
pub fn perftest(data: &[u8]) {
    if let Some(message) = data.first_chunk() {
        let _ = message::Announcement::parse(message);
    }
    if let Some(key) = message::Key::parse(data) {
        assert_eq!(message::Key::parse(&key.to_message()), Some(key));
    }
    if let Some(fields) = data.first_chunk::<40>() {
        let (fields, _) = fields.as_chunks::<8>();
        let report = message::Report::from_messages(fields.try_into().expect("five fields"));
        assert_eq!(report.to_messages(), fields);
        let finite = |found: SizeResult| found.seconds.is_finite() && found.messages > 0;
        assert!(report.result().is_none_or(finite), "{report:?}");
    }
    let own = negotiation::block(&Options::stock(Test::ALL[0]), message::Unit::Mebibytes);
    let _ = negotiation::difference(&own, data);
    assert_eq!(negotiation::answer(data).len(), data.len());
    let Some((header, payload)) = data.split_first_chunk() else { return };
    match block::parse_header(header) {
        Ok((block::Kind::Hello, _)) => content::<block::Hello>(payload),
        Ok((block::Kind::Mtu, _)) => content::<block::Mtu>(payload),
        Ok((block::Kind::Facts, _)) => content::<EndFacts>(payload),
        Ok((block::Kind::Keys, _)) => content::<block::Keys>(payload),
        Ok((block::Kind::Barrier, _)) => content::<block::Barrier>(payload),
        Ok((block::Kind::Results, _)) => content::<block::Results>(payload),
        Ok((block::Kind::Failed, _)) => content::<block::Failed>(payload),
        Err(_) => {}
    }
}

fn content<T: block::Content + PartialEq + std::fmt::Debug>(payload: &[u8]) {
    let Ok(content) = block::parse_payload::<T>(payload) else { return };
    // With the fields that the payload lacked it may have become too large.
    let Ok(written) = block::write(&content) else { return };
    assert_eq!(block::parse_payload::<T>(&written[block::HEADER_BYTES..]), Ok(content));
}

/// A policy.
pub fn policy(data: &[u8]) {
    let _ = Policy::parse("policy.yaml", &String::from_utf8_lossy(data));
}

/// Scrubbing: any archive stays an archive.
pub fn scrub(data: &[u8]) {
    let Ok(archive) = Archive::parse(data) else { return };
    let scrubbed = Scrubber::of(&archive, &Key::from_secret(b"fuzz")).replace_archive(&archive);
    assert_eq!(Archive::parse(scrubbed.print().as_bytes()), Ok(scrubbed));
}

fn look(archive: &Archive) {
    let mut host = read_host(&Root::from(archive.clone()));
    judge(&mut host);
    check(&host, &Against::default());
}
