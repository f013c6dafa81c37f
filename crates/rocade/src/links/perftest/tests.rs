//! Command lines of the stock tools, and the tables around their figures.

use std::collections::BTreeSet;

use rocade_core::gid::Choice;
use rocade_core::pair::perf::message::Key;
use rocade_core::pair::perf::{Amount, Sizes, StockLatency};
use rocade_core::{Gid, GidEntry, GidIndex, GidType, PortNum};

use super::options::Number;
use super::*;
use crate::perf::refused::REFUSED;

fn test(stock_name: &str) -> Test {
    Test::ALL.into_iter().find(|test| test.stock_name() == stock_name).unwrap()
}

fn read(tool: &str, line: &str) -> anyhow::Result<Args> {
    let test = test(tool);
    let line = [tool].into_iter().chain(line.split_whitespace());
    Args::read(test, &Args::command(test).try_get_matches_from(line)?)
}

fn settle(tool: &str, line: &str) -> Options {
    read(tool, line).unwrap().settle(test(tool)).unwrap()
}

/// What `--help` of each tool of perftest 6.06 lists, with a value where one is taken; `-h` apart.
const BANDWIDTH: &str = "-b -I=64 -N -q=2 -Q=10 -t=64 -w=1 -y=1 -l=2 -O --mr_per_qp --report-both --report_gbits \
                         --report-per-port --reversed --run_infinitely --wait_destroy=1 --disable_pcie_relaxed \
                         --burst_size=1 --typical_pkt_size=1 --rate_limit=1 --rate_units=g --rate_limit_type=SW \
                         --recv_post_list=2";
const LATENCY: &str = "-C -H -U --latency_gap=1";
const EACH: &str = "-a -c=RC -d=mlx5_0 -D=4 -f=1 -F -i=1 -L=64 -m=1024 -n=100 -p=18515 -R -s=64 -S=1 -T=1 -u=14 -V \
                    -W=a -x=3 -z --out_json --out_json_file=f --cpu_util --dlid=1 --dont_xchg_versions --force-link=IB \
                    --ipv6 --source_ip=127.0.0.1 --mmap=f --mmap-offset=1 --odp --use_old_post_send \
                    --perform_warm_up --pkey_index=1 --retry_count=1 --tclass=1 --use_hugepages --log_dci_streams=1 \
                    --log_active_dci_streams=1 --aes_xts --encrypt_on_tx --sig_before --aes_block_size=512 \
                    --data_enc_keys_number=1 --kek_path=p --credentials_path=p --data_enc_key_app_path=p";
const SEND: &str = "-e -X=1 -g -M=1 -r=100 --inline_recv=1 --use-srq";
/// What later versions call otherwise or have besides, as far as it is known.
const LATER: &str = "--comm_rdma_cm --com_rdma_cm --report-histogrm --ipv6-addr --bind_source_ip=127.0.0.1 --use_cuda=0 \
                     --use_cuda_bus_id=0000:3b:00.0 --use_cuda_dmabuf --use_rocm=0 --use_neuron=0 --use_neuron_dmabuf \
                     --use_hl=0 --use_mlu=0 --use-null-mr --payload_file_path=f --data_validation --flow_label=1 \
                     --write_with_imm --unsolicited_write --use_ooo --no_ddp --no_lock --congest_type=DCQCN \
                     --connectionless";
const READ: &str = "-e -X=1 -o=4 --inline_recv=1";

#[test]
fn each_option_of_each_tool_is_taken_or_refused_with_its_reason() {
    let mut refused = BTreeSet::new();
    for test in Test::ALL {
        let measure = if test.measure == Measure::Bandwidth { BANDWIDTH } else { LATENCY };
        let operation = match test.operation {
            Operation::Send => SEND,
            Operation::Read => READ,
            Operation::Write => "",
        };
        for option in [EACH, measure, operation, LATER].iter().flat_map(|all| all.split_whitespace()) {
            // A letter's value stands apart, as scripts have it.
            let line = if option.starts_with("--") { option.to_owned() } else { option.replace('=', " ") };
            match read(test.stock_name(), &line) {
                Ok(_) => {}
                Err(error) if error.is::<clap::Error>() => panic!("{test} {option}: {error}"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.starts_with("rocade has no -") && said.contains(": "), "{said}");
                    refused.insert(option);
                }
            }
        }
    }
    // --comm_rdma_cm is -z.
    assert_eq!(refused.len(), REFUSED.len() + 1, "{refused:?}");
    for changing in ["-R", "-z", "-T=1", "-l=2", "-O", "--odp", "--use-srq", "--report-both"] {
        assert!(refused.contains(changing), "{changing}");
    }
}

#[test]
fn the_stock_letters_make_the_stock_test() {
    let options =
        settle("ib_write_bw", "-d mlx5_0 -x 3 -s 1M -n 100 -q 4 -b -t 64 -S 2 --tclass=106 -F 10.0.0.1");
    assert_eq!((options.sizes, options.amount), (Sizes::One(1 << 20), Amount::Iterations(100)));
    assert_eq!((options.qps, options.bidirectional, options.tx_depth), (4, true, 64));
    assert_eq!((options.service_level, options.traffic_class, options.cq_moderation), (2, 106, 1));
    // Depths are passed over in latency tests, as the tools do.
    let options = settle("ib_write_lat", "-t 64 -Q 10 -D 4");
    assert_eq!((options.tx_depth, options.cq_moderation, options.amount), (1, 1, Amount::Seconds(4)));
    let options = settle("ib_send_bw", "--rate_limit=1000 --rate_units=M -a");
    assert_eq!((options.rate_limit_gbps, options.sizes), (Some(8.388608), Sizes::All));
    assert_eq!(read("ib_read_bw", "-x 200").unwrap().gid_index, Some(200));
    // getopt takes what is left of a long name where it is enough.
    assert_eq!(settle("ib_read_bw", "--iter=50 --outs 2").amount, Amount::Iterations(50));
}

/// The tools read nearly every number with strtol(3) of base 0.
#[test]
fn numbers_may_be_hexadecimal_and_octal() {
    let options =
        settle("ib_write_bw", "--tclass=0x68 -s 0x10000 -n 0x10 -q 02 -t 0x20 -S 0x3 --pkey_index=0x1");
    assert_eq!((options.traffic_class, options.sizes), (104, Sizes::One(65536)));
    assert_eq!((options.amount, options.qps, options.tx_depth), (Amount::Iterations(16), 2, 16));
    assert_eq!((options.service_level, options.pkey_index), (3, 1));
    let args = read("ib_write_bw", "-x 0x3 -p 0x4853 -i 0x2").unwrap();
    assert_eq!((args.gid_index, args.port, args.ib_port), (Some(3), 18515, PortNum(2)));
    for wrong in ["--tclass=0x100", "-p 0", "-i 256", "-q 08", "-n -1"] {
        assert!(read("ib_write_bw", wrong).unwrap_err().is::<clap::Error>(), "{wrong}");
    }
}

#[test]
fn an_mtu_that_is_none_leaves_the_ports_own() {
    let args = read("ib_write_bw", "-m 9000").unwrap();
    assert_eq!((args.odd_mtu(), args.settle(test("ib_write_bw")).unwrap().mtu_bytes), (Some(9000), None));
    let args = read("ib_write_bw", "-m 2048").unwrap();
    assert_eq!((args.odd_mtu(), args.settle(test("ib_write_bw")).unwrap().mtu_bytes), (None, Some(2048)));
}

#[test]
fn what_the_tools_refuse_is_refused() {
    for (tool, line, wanted) in [
        ("ib_write_lat", "-b", "ib_write_lat: both directions"),
        ("ib_write_lat", "-q 2", "ib_write_lat: 2 QPs"),
        ("ib_write_bw", "-a -D 2", "ib_write_bw: all sizes by time"),
        ("ib_write_bw", "-n 4", "ib_write_bw: 4 messages: 5 to"),
    ] {
        let error = format!("{:#}", read(tool, line).unwrap().settle(test(tool)).unwrap_err());
        assert!(error.starts_with(wanted), "{error}");
    }
    for (tool, line, wanted) in [
        ("ib_write_bw", "-c UD", "rocade has no connection type UD: it tests RC alone"),
        (
            "ib_write_bw",
            "--rate_limit=1 --rate_units=p",
            "rocade has no --rate_units=p: a limit is of what is sent, and not of packets",
        ),
        (
            "ib_write_bw",
            "--rate_limit=1 --rate_limit_type=HW",
            "rocade has no --rate_limit_type=HW: a limit is kept by this process, and not by the HCA",
        ),
        ("ib_write_bw", "--output=latency", "ib_write_bw measures something else"),
        ("ib_write_lat", "--output=bandwidth", "ib_write_lat measures something else"),
    ] {
        assert_eq!(read(tool, line).unwrap_err().to_string(), wanted);
    }
    assert_eq!(read("ib_write_bw", "--output=message_rate").unwrap().output, Some(Number::MessageRate));
    assert_eq!(read("ib_write_bw", "--output bandwidth").unwrap().output, Some(Number::Bandwidth));
}

fn choice() -> Choice {
    Choice {
        hca: "rxe0".parse().unwrap(),
        port: PortNum(1),
        gid: Some(GidEntry {
            index: GidIndex(1),
            gid: Gid::from_address("10.9.0.1".parse().unwrap()),
            gid_type: Some(GidType::V2),
            netdev: Some("eth0".into()),
            address: None,
        }),
        reason: String::new(),
        warnings: vec![],
    }
}

fn settings<'a>(role: Role, options: &'a Options, choice: &'a Choice) -> Settings<'a> {
    let (mtu_bytes, inline_bytes, outstanding_reads) = (1024, 0, 128);
    Settings { role, options, choice, link_type: "Ethernet", mtu_bytes, inline_bytes, outstanding_reads }
}

/// The lines that differ by test and role; the rest is the whole of one.
fn differing(tool: &str, line: &str, role: Role) -> Vec<String> {
    let (options, choice) = (settle(tool, line), choice());
    let text = settings(role, &options, &choice).render();
    let differing = ["Test", "TX", "RX", "CQ", "Max", "Out", "PCIe"];
    let keep = |line: &&str| differing.iter().any(|word| line.contains(word));
    text.lines().filter(keep).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_banner_is_perftests() {
    let (options, choice) = (settle("ib_write_bw", ""), choice());
    assert_eq!(
        settings(Role::Client, &options, &choice).render(),
        "---------------------------------------------------------------------------------------\n\
         \x20                   RDMA_Write BW Test\n\
         \x20Dual-port       : OFF\t\tDevice         : rxe0\n\
         \x20Number of qps   : 1\t\tTransport type : IB\n\
         \x20Connection type : RC\t\tUsing SRQ      : OFF\n\
         \x20PCIe relax order: ON\n\
         \x20ibv_wr* API     : OFF\n\
         \x20TX depth        : 128\n\
         \x20CQ Moderation   : 1\n\
         \x20Mtu             : 1024[B]\n\
         \x20Link type       : Ethernet\n\
         \x20GID index       : 1\n\
         \x20Max inline data : 0[B]\n\
         \x20rdma_cm QPs\t : OFF\n\
         \x20Data ex. method : Ethernet\n\
         ---------------------------------------------------------------------------------------\n"
    );
    let ro = "PCIe relax order: ON";
    assert_eq!(
        differing("ib_send_bw", "-b", Role::Server),
        [
            "Send Bidirectional BW Test",
            ro,
            "TX depth        : 128",
            "RX depth        : 512",
            "CQ Moderation   : 1",
            "Max inline data : 0[B]"
        ]
    );
    assert_eq!(
        differing("ib_send_lat", "", Role::Server),
        ["Send Latency Test", ro, "RX depth        : 512", "Max inline data : 0[B]"]
    );
    assert_eq!(
        differing("ib_read_lat", "", Role::Server),
        ["RDMA_Read Latency Test", ro, "Outstand reads  : 128"]
    );
    assert_eq!(differing("ib_write_lat", "", Role::Client)[1], "PCIe relax order: OFF");
}

fn key(gid: Option<Gid>) -> Key {
    let (lid, out_reads, qpn, psn) = (0, 128, 0x13, 0xd34eb0);
    Key { lid, out_reads, qpn, psn, rkey: 0x5d7, vaddr: 0x7f99_cc26_7000, gid, srqn: 0 }
}

/// The address line of a capture of ib_write_bw 6.06.
#[test]
fn addresses_are_perftests_with_gids_in_decimal() {
    let (options, choice) = (settle("ib_write_bw", ""), choice());
    let gid = Gid::from_address("10.9.0.1".parse().unwrap());
    let settings = settings(Role::Client, &options, &choice);
    assert_eq!(
        settings.render_keys(&[key(Some(gid))], &[key(None)]),
        " local address: LID 0000 QPN 0x0013 PSN 0xd34eb0 RKey 0x0005d7 VAddr 0x007f99cc267000\n \
         GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:09:00:01\n \
         remote address: LID 0000 QPN 0x0013 PSN 0xd34eb0 RKey 0x0005d7 VAddr 0x007f99cc267000\n"
    );
    let options = settle("ib_read_bw", "");
    let line = Settings { options: &options, ..settings }.render_keys(&[key(None)], &[]);
    assert_eq!(
        line,
        " local address: LID 0000 QPN 0x0013 PSN 0xd34eb0 OUT 0x80 RKey 0x0005d7 VAddr 0x007f99cc267000\n"
    );
    let options = settle("ib_send_bw", "");
    let line = Settings { options: &options, ..settings }.render_keys(&[key(None)], &[]);
    assert_eq!(line, " local address: LID 0000 QPN 0x0013 PSN 0xd34eb0\n");
}

#[test]
fn the_json_file_is_json_with_perftests_names() {
    let (options, choice) = (settle("ib_write_bw", "--report_gbits"), choice());
    let (bytes, iterations, unit) = (65536, 50, Unit::Gigabits);
    let row =
        Row::Bandwidth { bytes, iterations, peak: 0.040781, average: 0.0407, rate_mpps: 0.000078, unit };
    let text = json::render(&settings(Role::Client, &options, &choice), &row);
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["test_info"]["test"], "RDMA_Write_BW_Test");
    assert_eq!(file["test_info"]["GID_index"], 1);
    let results = serde_json::json!({
        "MsgSize": 65536, "n_iterations": 50, "BW_peak": 0.040781, "BW_average": 0.0407, "MsgRate": 0.000078
    });
    assert_eq!(file["results"], results);
    let us = StockLatency {
        min_us: 1.0,
        max_us: 9.0,
        typical_us: 2.0,
        average_us: 2.5,
        stdev_us: 0.0,
        p99_us: 3.0,
        p99_9_us: 9.0,
    };
    let row = Row::Latency { bytes: 2, iterations: 1000, us };
    let text = json::render(&settings(Role::Client, &options, &choice), &row);
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&file["results"]["t_typical"], &file["results"]["percentile_99.9"]),
        (&2.0.into(), &9.0.into())
    );
}

#[test]
fn a_limit_that_no_size_reaches_is_told_in_perftests_words() {
    let (bytes, iterations, unit) = (65536, 50, Unit::Gigabits);
    let row = |average, rate_mpps| Row::Bandwidth { bytes, iterations, peak: 0.0, average, rate_mpps, unit };
    let rows = [row(10.0, 0.5), row(90.0, 0.2)];
    for (line, wanted) in [
        ("-w 90", None),
        ("-w 91", Some("Error: BW result is below bw limit")),
        ("-y 0.5", None),
        ("-y 0.6", Some("Error: Msg rate  is below msg_rate limit")),
        ("", None),
    ] {
        assert_eq!(read("ib_write_bw", line).unwrap().limits(&rows), wanted, "{line}");
    }
}
