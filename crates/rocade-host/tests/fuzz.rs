//! The fuzz targets (fuzz/) over their corpus and a few thousand changes of it, without a fuzzer; and the property that
//! a change to one HCA's files leaves the others as they are.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rocade_host::{Archive, Errno, Node, Root, read_host};
use serde_json::Value;

#[path = "../../../fuzz/src/targets.rs"]
#[allow(unreachable_pub, reason = "the fuzzer's crate needs them public")]
mod targets;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn no_target_panics_over_its_corpus() {
    for (name, target) in targets::TARGETS {
        let corpus: Vec<Vec<u8>> = fs::read_dir(top().join("fuzz/corpus").join(name))
            .unwrap()
            .map(|file| fs::read(file.unwrap().path()).unwrap())
            .collect();
        assert!(!corpus.is_empty(), "{name}");
        corpus.iter().for_each(|input| target(input));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_target_panics_over_a_changed_corpus(
        which in any::<prop::sample::Index>(),
        input in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (name, target) = which.get(targets::TARGETS);
        let mut files: Vec<PathBuf> =
            fs::read_dir(top().join("fuzz/corpus").join(name)).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let mut bytes = fs::read(input.get(&files)).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
        target(&bytes);
    }

    /// Any bytes, any errno, links to anywhere.
    #[test]
    fn a_change_to_one_hca_leaves_the_others(
        kind in prop::sample::select(vec!["seed-4hca-bond", "irdma-e810", "mlx4-dual-ib-eth", "rxe-vm", "efa-p4d"]),
        chosen in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), node()), 1..12),
    ) {
        let file = top().join("fixtures/hosts").join(kind).with_extension("host");
        let archive = Archive::parse(&fs::read(file).unwrap()).unwrap();
        let before = hcas(&archive);
        let (changed_hca, _) = chosen.get(&before);
        let folder = format!("/infiniband/{changed_hca}/");
        let mut paths = Vec::new();
        archive.visit(&mut |path, node| {
            if !matches!(node, Node::Dir(_)) && path.to_str().unwrap().contains(&folder) {
                paths.push(path.to_owned());
            }
        });
        let changes: Vec<(&PathBuf, Node)> = changes.into_iter().map(|(at, node)| (at.get(&paths), node)).collect();
        let mut changed = archive.rewrite(&|name| name.to_owned(), &|path: &Path, node: &Node| {
            changes.iter().find(|(at, _)| *at == path).map_or_else(|| node.clone(), |(_, node)| node.clone())
        });
        changed.netlink = archive.netlink.clone();
        let after = hcas(&changed);
        for (name, hca) in before.iter().filter(|(name, _)| name != changed_hca) {
            let now = after.iter().find(|(known, _)| known == name);
            prop_assert_eq!(now.map(|(_, hca)| hca), Some(hca), "{} after {:?}", name, changes);
        }
    }
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80).prop_map(Node::File),
        "[ -~]{0,20}\n".prop_map(|text| Node::File(text.into_bytes())),
        (1..140u8).prop_map(|n| Node::Fail(Errno::from_name(&format!("E{n}")).unwrap())),
        "[a-z./]{0,30}".prop_map(|target| Node::Link(target.into())),
        Just(Node::Skipped),
    ]
}

/// Every HCA, without what is told by comparing it with others.
fn hcas(archive: &Archive) -> Vec<(String, Value)> {
    let host = read_host(&Root::from(archive.clone()));
    let own = |hca: &rocade_core::Hca| {
        let mut value = serde_json::to_value(hca).unwrap();
        let fields = value.as_object_mut().unwrap();
        ["companions", "role", "planes"].iter().for_each(|relation| drop(fields.remove(*relation)));
        (hca.name.to_string(), value)
    };
    host.hcas.iter().map(own).collect()
}
