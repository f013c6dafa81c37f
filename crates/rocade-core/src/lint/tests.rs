//! That any text ends in findings or in none, and that changed manifests do: never in a panic, and never in a patch that
//! cannot be read.

use proptest::prelude::*;

use super::read::is_readable;
use super::{Against, Source, lint, patch};

const MANIFESTS: [&str; 6] = [
    include_str!("../../../../fixtures/manifests/wrong/RDC741-unlike.yaml"),
    include_str!("../../../../fixtures/manifests/wrong/RDC755-other-volumes.yaml"),
    include_str!("../../../../fixtures/manifests/wrong/RDC765-trailing-comma.yaml"),
    include_str!("../../../../fixtures/manifests/wrong/RDC773-smaller.yaml"),
    include_str!("../../../../fixtures/manifests/wrong/RDC780-by-mpirun.yaml"),
    include_str!("../../../../fixtures/manifests/wrong/RDC785-master-without.yaml"),
];

/// Judges the text; where it can be read, it can be with the patch too.
fn judge(text: &str) {
    let source = Source { name: "a.yaml", text };
    let report = lint(&[source], &Against { namespace: Some("demo"), ..Against::default() });
    let _ = report.patch(0, &source);
    if report.unread == 0 {
        let edits: Vec<_> = report.findings.iter().flat_map(|found| &found.edits).collect();
        assert!(is_readable(&patch::apply(text, &edits)), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_ends_in_an_answer(text in any::<String>()) {
        judge(&text);
    }

    #[test]
    fn changed_manifests_end_in_an_answer(
        which in 0..MANIFESTS.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..12_usize, 0..4_usize), 1..6),
    ) {
        let mut text: Vec<char> = MANIFESTS[which].chars().collect();
        for (at, length, what) in changes {
            let at = at.index(text.len().max(1)).min(text.len());
            let end = (at + length).min(text.len());
            let put = ["", "\n", "{", " *a"][what];
            text.splice(at..end, put.chars());
        }
        judge(&text.into_iter().collect::<String>());
    }

    #[test]
    fn lines_in_another_order_end_in_an_answer(which in 0..MANIFESTS.len(), keys in prop::collection::vec(any::<u8>(), 80)) {
        let lines = MANIFESTS[which].lines().zip(&keys).filter(|(_, key)| **key > 20);
        let mut kept: Vec<(&str, usize)> = lines.enumerate().map(|(at, (line, key))| (line, at + usize::from(*key > 240) * 3)).collect();
        kept.sort_by_key(|(_, at)| *at);
        let text: String = kept.iter().map(|(line, _)| format!("{line}\n")).collect();
        judge(&text);
    }
}
