//! Properties of the text form and of lookups.

use proptest::prelude::*;

use super::*;

fn parsed(body: &str) -> Result<Archive, WrongLine> {
    let lines = body.lines().count() + 1;
    Archive::parse(format!("rocade-host 1\n{body}end {lines}\n").as_bytes())
}

#[test]
fn what_was_never_tried_is_not_what_is_absent() {
    let archive = parsed(
        "dir /sys/class/net\n text bonding_masters bond0\n skip statistics\npart /proc\n fail a ENOENT\n",
    )
    .unwrap();
    let read = |path| archive.read(Path::new(path));
    assert_eq!(read("/sys/class/net/bonding_masters"), Ok(b"bond0\n".to_vec()));
    assert_eq!(read("/sys/class/net/eth0"), Err(Refusal::Errno(Errno::NOENT)));
    assert_eq!(read("/sys/class/net/eth0/mtu"), Err(Refusal::Errno(Errno::NOENT)));
    assert_eq!(read("/sys/class/net/statistics/x"), Err(Refusal::NeverTried));
    assert_eq!(read("/sys/class/infiniband"), Err(Refusal::NeverTried));
    assert_eq!(read("/proc/a"), Err(Refusal::Errno(Errno::NOENT)));
    assert_eq!(read("/proc/b"), Err(Refusal::NeverTried));
    assert_eq!(archive.list(Path::new("/proc")), Err(Refusal::NeverTried));
}

#[test]
fn a_run_stands_for_each_of_its_entries() {
    let archive = parsed("dir /gids\n text 0 a\n fail 1..40 EINVAL\n").unwrap();
    assert_eq!(archive.list(Path::new("/gids")).unwrap().len(), 41);
    assert_eq!(archive.read(Path::new("/gids/40")), Err(Refusal::Errno(Errno::INVAL)));
    assert!(archive.print().contains("\n fail 1..40 EINVAL\n"));
}

#[test]
fn a_fault_is_named_by_its_line_and_by_what_was_wanted() {
    let fault = |text: &str| {
        let wrong = Archive::parse(text.as_bytes()).unwrap_err();
        (wrong.line, wrong.to_string())
    };
    let cases = [
        ("", 1, "a recorded host starts with it"),
        ("GIF89a", 1, "a recorded host starts with it"),
        ("rocade-host 3\nend 1\n", 1, "needs a newer rocade"),
        ("rocade-host 1\ndir /a\n text b c\n", 4, "wanted dir, part"),
        ("rocade-host 1\ndir /a\n text b c", 3, "the file is cut"),
        ("rocade-host 1\ndir /a\nend 3\n", 3, "lines are missing or added"),
        ("rocade-host 1\ndir /a\n fail b EWHAT\nend 3\n", 3, "seen ` fail b EWHAT`"),
        ("rocade-host 1\ndir /a\n text b c\n text b c\nend 4\n", 4, "does not have yet"),
        ("rocade-host 1\ndir a\nend 2\n", 2, "an absolute path"),
        ("rocade-host 1\ndir /a/../b\nend 2\n", 2, "without dots"),
        ("rocade-host 1\nnetlink links\n {\"index\":1}\nend 3\n", 3, "a record of this kind"),
        ("rocade-host 2\npod\n {}\n {\"x\":1}\nend 4\n", 4, "a record of this kind"),
        (
            "rocade-host 2\nethtool statistics\n {\"netdev\":\"a\",\"failed\":\"EWHAT\"}\nend 3\n",
            3,
            "a record of this kind",
        ),
        ("rocade-host 2\nethtool pauses\nend 2\n", 2, "ethtool statistics"),
        ("rocade-host 1\nend 1\nmore\n", 3, "nothing after the end line"),
        ("rocade-host 1\ndir /a\n skip 0..4294967295\nend 3\n", 3, "fewer entries"),
    ];
    for (text, line, words) in cases {
        let (at, message) = fault(text);
        assert!(at == line && message.contains(words), "{text:?}: line {at}: {message}");
    }
}

#[test]
fn a_path_without_end_is_refused() {
    let deep = format!("dir {}\n", "/a".repeat(100_000));
    assert!(parsed(&deep).is_err());
}

fn any_node() -> impl Strategy<Value = Node> {
    prop_oneof![
        Just(Node::Skipped),
        "[ -~\u{e4}\u{20ac}\n]{0,20}".prop_map(|target| Node::Link(target.into())),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Node::File),
        "([ -~\u{e4}]{0,12}\n){1,3}".prop_map(|text| Node::File(text.into_bytes())),
        (0..40usize).prop_map(|zeros| Node::File(vec![0; zeros])),
        Just(Node::Fail(Errno::INVAL)),
        (any::<u32>(), any::<u32>(), 0..0o7777u16).prop_map(|(major, minor, mode)| Node::Char {
            major,
            minor,
            mode
        }),
    ]
}

fn any_name() -> impl Strategy<Value = OsString> {
    use std::os::unix::ffi::OsStringExt;
    prop_oneof![
        (0..30u32).prop_map(|n| n.to_string().into()),
        prop::collection::vec(any::<u8>(), 1..6).prop_map(OsString::from_vec),
    ]
    .prop_filter("a file name", |n: &OsString| {
        let bytes = n.as_encoded_bytes();
        !bytes.contains(&b'/') && !bytes.contains(&0) && bytes != b"." && bytes != b".."
    })
}

fn any_statistics() -> impl Strategy<Value = StatisticsRecord> {
    let values = prop::collection::btree_map("[ -~\u{fffd}]{0,32}", any::<u64>(), 0..4);
    ("[a-z0-9.@ ]{1,15}", prop::option::of(values), prop::option::of(Just(Errno::OPNOTSUPP)))
        .prop_map(|(netdev, values, failed)| StatisticsRecord { netdev, values, failed })
}

fn any_archive() -> impl Strategy<Value = Archive> {
    let entry = (prop::collection::vec(any_name(), 1..4), any_node());
    let mac = prop::option::of("[0-9a-f:]{0,17}");
    let link = ("[a-z0-9.@ ]{1,15}", any::<u32>(), any::<u32>(), mac);
    let statistics = prop::collection::vec(any_statistics(), 0..3);
    let links = prop::option::of(prop::collection::vec(link, 0..3));
    (prop::collection::vec(entry, 0..30), any_name(), links, statistics).prop_map(
        |(entries, listed, links, statistics)| {
            let mut archive = Archive::default();
            for (path, node) in entries {
                archive.put(&Path::new("/").join(path.iter().collect::<PathBuf>()), node);
            }
            archive.put_dir(&Path::new("/").join(listed), true);
            let link = |(name, index, mtu, mac)| Link {
                index,
                name,
                link_type: 1,
                flags: 0,
                mtu,
                mac,
                kind: None,
                master: Some(index),
                lower: None,
                lower_is_foreign: index % 2 == 0,
            };
            archive.netlink.links = Dump(links.map(|links| Ok(links.into_iter().map(link).collect())));
            archive.statistics = statistics;
            archive.netlink.rdma_system = Dump(Some(Err(Errno::PROTONOSUPPORT)));
            archive
        },
    )
}

proptest! {
    #[test]
    fn parsing_gives_back_what_was_printed(archive in any_archive()) {
        prop_assert_eq!(Archive::parse(archive.print().as_bytes()), Ok(archive));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Archive::parse(&bytes);
        let _ = Archive::parse(&[b"rocade-host 1\n", &bytes[..]].concat());
    }

    #[test]
    fn no_change_to_a_line_makes_it_panic(archive in any_archive(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = archive.print().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(changed) = Archive::parse(&text) {
            prop_assert_eq!(Archive::parse(changed.print().as_bytes()), Ok(changed));
        }
    }
}
