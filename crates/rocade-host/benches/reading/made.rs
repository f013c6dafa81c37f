//! A made host: so many RoCE HCAs, each on a PCI function of its own with one netdev, GID tables of 128 entries of which
//! four are set, as mlx5 has them after one IPv4 address was given.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

const GIDS: usize = 128;
const ATTRIBUTES: &[(&str, &str)] = &[
    ("node_guid", "a088:c203:00f2:7cd6"),
    ("sys_image_guid", "a088:c203:00f2:7cd6"),
    ("fw_ver", "28.39.3560"),
    ("board_id", "MT_0000000838"),
    ("hca_type", "MT4129"),
    ("hw_rev", "0"),
    ("node_type", "1: CA"),
    ("node_desc", "node HCA-1"),
];
const PORT: &[(&str, &str)] = &[
    ("link_layer", "Ethernet"),
    ("state", "4: ACTIVE"),
    ("phys_state", "5: LinkUp"),
    ("rate", "400 Gb/sec (4X NDR)"),
    ("lid", "0x0"),
    ("sm_lid", "0x0"),
    ("lid_mask_count", "0"),
    ("cap_mask", "0x04010000"),
    ("pkeys/0", "0xffff"),
];
const FUNCTION: &[(&str, &str)] = &[
    ("vendor", "0x15b3"),
    ("device", "0x1021"),
    ("subsystem_vendor", "0x15b3"),
    ("subsystem_device", "0x0041"),
    ("class", "0x020000"),
    ("revision", "0x00"),
    ("numa_node", "0"),
    ("current_link_speed", "32.0 GT/s PCIe"),
    ("current_link_width", "16"),
    ("max_link_speed", "32.0 GT/s PCIe"),
    ("max_link_width", "16"),
];
const COUNTERS: &[&str] = &[
    "link_downed",
    "link_error_recovery",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
];
const HW_COUNTERS: &[&str] = &[
    "duplicate_request",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "roce_adp_retrans",
    "rp_cnp_handled",
    "rx_icrc_encapsulated",
];

/// Writes the tree below `dir`.
pub(crate) fn lay_out(dir: &Path, hcas: usize) -> io::Result<()> {
    for class in ["infiniband", "infiniband_verbs", "infiniband_mad", "net"] {
        fs::create_dir_all(dir.join("sys/class").join(class))?;
    }
    fs::create_dir_all(dir.join("sys/bus/pci/devices"))?;
    fs::create_dir_all(dir.join("proc"))?;
    fs::write(dir.join("proc/version"), "Linux version 6.8.0 (a@b) (gcc) #1 SMP\n")?;
    (0..hcas).try_for_each(|number| lay_out_hca(dir, number))
}

fn lay_out_hca(dir: &Path, n: usize) -> io::Result<()> {
    // 32 functions of 8 devices a root bus.
    let (bus, slot, part) = (n / 32, n / 8 % 4 * 8 + 1, n % 8);
    let address = format!("{bus:04x}:{:02x}:{slot:02x}.{part}", 0x10);
    let function = format!("devices/pci{bus:04x}:00/{bus:04x}:00:01.0/{address}");
    let sys = dir.join("sys");
    let at = sys.join(&function);
    write_all(&at, FUNCTION)?;
    fs::write(at.join("config"), [0; 4096])?;
    symlink("../../../../bus/pci", at.join("subsystem"))?;
    symlink("../../../../bus/pci/drivers/mlx5_core", at.join("driver"))?;
    symlink(format!("../../../{function}"), sys.join("bus/pci/devices").join(&address))?;

    let hca = at.join("infiniband").join(format!("mlx5_{n}"));
    write_all(&hca, ATTRIBUTES)?;
    let port = hca.join("ports/1");
    write_all(&port, PORT)?;
    write_counters(&port.join("counters"), COUNTERS)?;
    write_counters(&port.join("hw_counters"), HW_COUNTERS)?;
    write_gids(&port, n)?;
    symlink(format!("../../{function}/infiniband/mlx5_{n}"), sys.join(format!("class/infiniband/mlx5_{n}")))?;

    fs::create_dir_all(at.join(format!("net/eth{n}")))?;
    let device = |class: &str, name: String, number: String| {
        let own = at.join(class).join(&name);
        write_all(
            &own,
            &[("ibdev", &format!("mlx5_{n}")), ("dev", &number), ("abi_version", "1"), ("port", "1")],
        )?;
        symlink(format!("../../{function}/{class}/{name}"), sys.join("class").join(class).join(name))
    };
    device("infiniband_verbs", format!("uverbs{n}"), format!("231:{}", 192 + n))?;
    device("infiniband_mad", format!("umad{n}"), format!("231:{n}"))?;
    device("infiniband_mad", format!("issm{n}"), format!("231:{}", 64 + n))
}

fn write_gids(port: &Path, n: usize) -> io::Result<()> {
    let link_local = format!("fe80:0000:0000:0000:a288:c2ff:fe{:02x}:{:04x}", n >> 16 & 0xff, n & 0xffff);
    let address = format!("0000:0000:0000:0000:0000:ffff:0a{:02x}:{:02x}04", n >> 8 & 0xff, n & 0xff);
    for folder in ["gids", "gid_attrs/types", "gid_attrs/ndevs"] {
        fs::create_dir_all(port.join(folder))?;
    }
    for index in 0..GIDS {
        let gid = match index {
            0 | 1 => link_local.as_str(),
            2 | 3 => address.as_str(),
            _ => "0000:0000:0000:0000:0000:0000:0000:0000",
        };
        fs::write(port.join("gids").join(index.to_string()), format!("{gid}\n"))?;
    }
    for index in 0..4 {
        let kind = if index % 2 == 0 { "IB/RoCE v1\n" } else { "RoCE v2\n" };
        fs::write(port.join("gid_attrs/types").join(index.to_string()), kind)?;
        fs::write(port.join("gid_attrs/ndevs").join(index.to_string()), format!("eth{n}\n"))?;
    }
    Ok(())
}

fn write_counters(dir: &Path, names: &[&str]) -> io::Result<()> {
    let zeros: Vec<(&str, &str)> = names.iter().map(|name| (*name, "0")).collect();
    write_all(dir, &zeros)
}

fn write_all(dir: &Path, files: &[(&str, &str)]) -> io::Result<()> {
    for (name, content) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        fs::write(path, format!("{content}\n"))?;
    }
    Ok(())
}
