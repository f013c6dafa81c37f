//! The binary under the names of other tools: the links, and lines of those tools' form.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocade_core::Host;
use tempfile::TempDir;

const ROCADE: &str = env!("CARGO_BIN_EXE_rocade");
const LINKS: [&str; 9] = [
    "ib_write_bw",
    "ib_write_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_send_bw",
    "ib_send_lat",
    "ibv_rc_pingpong",
    "ibdev2netdev",
    "show_gids",
];
/// Those of them that are perftest's.
const PERFTEST: std::ops::Range<usize> = 0..6;

fn run(program: impl AsRef<Path>, arguments: &[&str]) -> Output {
    Command::new(program.as_ref()).args(arguments).output().unwrap()
}

fn install(dir: &Path) -> Output {
    run(ROCADE, &["install", dir.to_str().unwrap()])
}

fn installed() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(ROCADE, &["install", "--links", dir.path().to_str().unwrap()]).status.code(), Some(0));
    dir
}

fn fixture(kind: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
    folder.join(kind).with_extension("host").to_str().unwrap().to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// stdout of a link over a recorded host.
fn say(dir: &TempDir, link: &str, arguments: &[&str], kind: &str) -> String {
    let output = run(dir.path().join(link), &[arguments, &["--from", &fixture(kind)]].concat());
    assert_eq!(output.status.code(), Some(0), "{link} {kind}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn install_puts_the_program_and_relative_links_and_may_be_run_again() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(install(dir.path()).status.code(), Some(0));
    let program = dir.path().join("rocade");
    assert!(fs::read(&program).unwrap() == fs::read(ROCADE).unwrap(), "the copy is not the program");
    for link in LINKS {
        assert_eq!(fs::read_link(dir.path().join(link)).unwrap(), Path::new("rocade"));
    }
    let all = names(dir.path());
    assert_eq!(all.len(), LINKS.len() + 1);
    fs::write(&program, b"\x7fELF of an older release").unwrap();
    fs::remove_file(dir.path().join("show_gids")).unwrap();
    std::os::unix::fs::symlink("/an/older/rocade", dir.path().join("show_gids")).unwrap();
    assert_eq!(install(dir.path()).status.code(), Some(0));
    assert!(fs::read(&program).unwrap() == fs::read(ROCADE).unwrap(), "the older program is still there");
    assert_eq!(fs::read_link(dir.path().join("show_gids")).unwrap(), Path::new("rocade"));
    assert_eq!(names(dir.path()), all);
}

#[test]
fn what_install_put_works_where_the_directory_is_mounted_elsewhere() {
    let outer = tempfile::tempdir().unwrap();
    let (here, there) = (outer.path().join("here"), outer.path().join("there"));
    fs::create_dir(&here).unwrap();
    assert_eq!(install(&here).status.code(), Some(0));
    fs::rename(&here, &there).unwrap();
    let output = run(there.join("ibdev2netdev"), &["--from", &fixture("seed-4hca-bond")]);
    assert!(text(&output.stdout).starts_with("mlx5_0 port 1 ==> ens18np0 (Up)"), "{}", text(&output.stderr));
    // The copy installs itself into its own directory, and does not copy itself.
    let again = run(there.join("rocade"), &["install", there.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(0));
    assert!(!text(&again.stdout).lines().any(|line| line.ends_with("/rocade")), "{}", text(&again.stdout));
}

#[test]
fn install_makes_links_alone_where_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(ROCADE, &["install", "--links", dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(names(dir.path()).len(), LINKS.len());
    for link in LINKS {
        assert_eq!(fs::read_link(dir.path().join(link)).unwrap(), Path::new(ROCADE));
    }
}

#[test]
fn install_makes_nothing_where_a_name_is_another_programs() {
    type Make = fn(&Path);
    let foreign: [(&str, Make); 6] = [
        ("show_gids", |place| fs::write(place, "#!/bin/bash").unwrap()),
        ("show_gids", |place| std::os::unix::fs::symlink("/opt/vendor/show_gids", place).unwrap()),
        ("show_gids", |place| fs::create_dir(place).unwrap()),
        ("rocade", |place| fs::write(place, "#!/bin/bash").unwrap()),
        ("rocade", |place| std::os::unix::fs::symlink("/opt/vendor/tool", place).unwrap()),
        ("rocade", |place| fs::create_dir(place).unwrap()),
    ];
    for (name, make) in foreign {
        let dir = tempfile::tempdir().unwrap();
        make(&dir.path().join(name));
        let output = install(dir.path());
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains(&format!("{name} is there and is no ")) && said.contains("hint: "), "{said}");
        assert_eq!(names(dir.path()), [name]);
    }
    assert_eq!(install(Path::new("/nonexistent")).status.code(), Some(2));
}

#[test]
fn ibdev2netdev_says_of_the_guides_host_what_the_guide_shows() {
    let dir = installed();
    assert_eq!(
        say(&dir, "ibdev2netdev", &[], "seed-4hca-bond"),
        "mlx5_0 port 1 ==> ens18np0 (Up)\n\
         mlx5_3 port 1 ==> ens21np0 (Up)\n\
         mlx5_4 port 1 ==> ens20np0 (Up)\n\
         mlx5_bond_0 port 1 ==> bond0 (Up)\n"
    );
    let verbose = say(&dir, "ibdev2netdev", &["-v"], "seed-4hca-bond");
    assert_eq!(
        verbose.lines().last().unwrap(),
        "0000:a7:00.0 mlx5_bond_0 (MT4119 - MCX556A-ECAT) CX556A - ConnectX-5 QSFP28 fw 16.35.3502 port 1 (ACTIVE) \
         ==> bond0 (Up)"
    );
}

#[test]
fn inventory_says_of_the_guides_host_what_rdma_link_says_there() {
    let output = run(ROCADE, &["inventory", "-o", "json", "--from", &fixture("seed-4hca-bond")]);
    let host: Host = serde_json::from_slice(&output.stdout).unwrap();
    let links: Vec<String> = host
        .hcas
        .iter()
        .flat_map(|hca| hca.ports.iter().map(move |port| (hca, port)))
        .map(|(hca, port)| {
            let netdev = port.netlink_netdev.as_deref().unwrap();
            format!("{}/{} {} {netdev}", hca.name, port.port, port.state.as_deref().unwrap())
        })
        .collect();
    assert_eq!(
        links,
        [
            "mlx5_0/1 ACTIVE ens18np0",
            "mlx5_3/1 ACTIVE ens21np0",
            "mlx5_4/1 ACTIVE ens20np0",
            "mlx5_bond_0/1 ACTIVE ens67f0np0"
        ]
    );
}

#[test]
fn show_gids_has_the_scripts_lines_with_the_guides_index() {
    let dir = installed();
    let shown = say(&dir, "show_gids", &["mlx5_0"], "seed-4hca-bond");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV",
            "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---"
        ]
    );
    assert!(
        lines[2].starts_with("mlx5_0\t1\t0\tfe80:0000:") && lines[2].ends_with("\t\t\tv1\tens18np0"),
        "{shown}"
    );
    assert_eq!(lines[5], "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a08:0a04\t10.8.10.4  \tv2\tens18np0");
    assert_eq!(lines[6..], ["n_gids_found=4"]);
    let whole = say(&dir, "show_gids", &[], "seed-4hca-bond");
    assert!(whole.contains("\nmlx5_bond_0\t1\t3\t") && whole.ends_with("\nn_gids_found=16\n"), "{whole}");
}

#[test]
fn show_gids_names_the_hcas_when_asked_for_another() {
    let output = run(installed().path().join("show_gids"), &["mlx9", "--from", &fixture("seed-4hca-bond")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no HCA mlx9 here\nhint: HCAs of this host: mlx5_0 mlx5_3"));
}

#[test]
fn where_there_is_no_rdma_the_links_say_why() {
    let dir = installed();
    for (link, wanted) in [("ibdev2netdev", ""), ("show_gids", "n_gids_found=0\n")] {
        let output = run(dir.path().join(link), &["--from", &fixture("no-rdma")]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).ends_with(wanted) && text(&output.stderr).contains("no RDMA device: "));
    }
}

#[test]
fn ibdev2netdev_has_a_line_of_the_scripts_form_for_each_port_of_any_vendor() {
    let dir = installed();
    for kind in kinds() {
        let output = run(ROCADE, &["inventory", "-o", "json", "--from", &fixture(&kind)]);
        let host: Host = serde_json::from_slice(&output.stdout).unwrap();
        let (plain, verbose) =
            (say(&dir, "ibdev2netdev", &[], &kind), say(&dir, "ibdev2netdev", &["-v"], &kind));
        let mut lines = plain.lines().zip(verbose.lines());
        for hca in &host.hcas {
            for port in &hca.ports {
                let (line, verbose) = lines.next().unwrap();
                let netdev = port.netdev.as_deref().unwrap_or("");
                let tail = |line: &str| line.split_once(&format!(" ==> {netdev} (")).unwrap().1.to_owned();
                assert!(line.starts_with(&format!("{} port {} ==> ", hca.name, port.port)), "{line}");
                assert!(["Up)", "Down)", ")"].contains(&tail(line).as_str()) && tail(line) == tail(verbose));
                let card = format!(" {} (", hca.name);
                let state = format!(" port {} ({:6}) ==> ", port.port, port.state.as_deref().unwrap_or("NA"));
                assert!(
                    verbose.contains(&card) && verbose.contains(" fw ") && verbose.contains(&state),
                    "{verbose}"
                );
            }
        }
        assert_eq!((lines.next(), plain.lines().count()), (None, verbose.lines().count()));
    }
}

fn kinds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
    let files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let hosts = files.iter().filter(|file| file.extension().is_some_and(|it| it == "host"));
    let kinds: Vec<String> =
        hosts.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert!(kinds.len() >= 34, "{kinds:?}");
    kinds
}

#[test]
fn ibv_rc_pingpongs_options_that_rocade_lacks_are_refused_by_name() {
    let dir = installed();
    for (option, named) in [("-o", "on-demand paging"), ("--new_send", "post sends"), ("-t", "timestamps")] {
        let output = run(dir.path().join("ibv_rc_pingpong"), &[option, "127.0.0.1"]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains("rocade has no -") && said.contains(named), "{said}");
    }
}

#[test]
fn under_its_stock_name_the_pingpong_takes_every_letter_of_the_stock_tool() {
    let stock = "-d nonexistent0 -p 18515 -s 64 -m 2048 -r 10 -n 5 -l 3 -e -g 3 -i 1 -c 127.0.0.1";
    let arguments: Vec<&str> = stock.split(' ').collect();
    let output = run(installed().path().join("ibv_rc_pingpong"), &arguments);
    let said = text(&output.stderr);
    // Understood as a whole: what it complains of is the HCA, not the command line.
    assert!(output.status.code() == Some(1) && said.starts_with("rocade: no HCA"), "{said}");
}

#[test]
fn under_its_stock_name_the_pingpong_ends_as_the_tool_does() {
    let dir = installed();
    let program = dir.path().join("ibv_rc_pingpong");
    let code = |line: &str| {
        let output = run(&program, &line.split(' ').collect::<Vec<_>>());
        (output.status.code(), text(&output.stderr))
    };
    let (usage, said) = code("--no-such-option");
    assert!(usage == Some(1) && said.contains("\nhint: rocade has the options of ibv_rc_pingpong"), "{said}");
    assert_eq!(code("-s 0").0, Some(1));
    assert_eq!(code("--help").0, Some(0));
    // Of an option given twice the last counts, as with getopt(3), and numbers are strtol's of base 0.
    let (twice, said) = code("-n 5 -n 10 -e -e -s 64 -s 0x80 -d nonexistent0 -p 18515 -p 0x4853 127.0.0.1");
    assert!(twice == Some(1) && said.starts_with("rocade: no HCA"), "{said}");
    assert_eq!(code("-d nonexistent0 -m 010000 nowhere.invalid").0, Some(1));
}

/// F81: -R fails where connections over TCP work, as rdma_cm needs an address on a netdev of the HCA besides.
#[test]
fn under_the_names_of_perftest_whatever_fails_ends_with_1_as_there() {
    let dir = installed();
    for link in &LINKS[PERFTEST] {
        let program = dir.path().join(link);
        let refused = run(&program, &["-R", "127.0.0.1"]);
        let said = text(&refused.stderr);
        assert!(
            said.starts_with("rocade: rocade has no -R (--rdma_cm): ") && said.contains("\nhint: "),
            "{said}"
        );
        let unknown = run(&program, &["--no-such-option"]);
        let said = text(&unknown.stderr);
        assert!(said.contains("'--no-such-option'"), "{said}");
        assert!(
            said.contains("\nhint: rocade has the options of perftest 6.06 and some of later ones'"),
            "{said}"
        );
        // Understood as a whole: what it complains of is the HCA, not the command line.
        let line =
            "-d nonexistent0 -i 1 -p 18516 -s 64 -n 100 -x 3 -F -m 1024 -S 1 --report_gbits --tclass=106";
        let arguments: Vec<&str> = line.split(' ').chain(["127.0.0.1"]).collect();
        let untestable = run(&program, &arguments);
        let said = text(&untestable.stderr);
        assert!(said.starts_with("rocade: no HCA"), "{said}");
        for output in [refused, unknown, untestable] {
            assert_eq!(output.status.code(), Some(1), "{link}");
            assert_eq!(text(&output.stdout), "", "{link}");
        }
        let version = run(&program, &["-V"]);
        assert_eq!((version.status.code(), text(&version.stdout).as_str()), (Some(0), "Version: 6.06\n"));
    }
}
