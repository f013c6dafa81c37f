//! One soft-RoCE node: its seed (the files of this run, a tar that QEMU shows as a disk) and its QEMU.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use anyhow::{Context, Result};

use super::control_plane::Secrets;
use super::{Options, plan};
use crate::command;
use crate::holder::Holder;
use crate::kernel::Kernel;

const INIT: &str = include_str!("node-init.sh");
const RAIL_CNI: &str = include_str!("rail-cni.sh");
const CONTAINERD: &str = include_str!("containerd.toml");

/// What every node of a run gets.
#[derive(Debug)]
pub(super) struct Seed<'a> {
    pub(super) secrets: &'a Secrets,
    pub(super) options: &'a Options,
}

impl Seed<'_> {
    /// Writes the tar for node `number` to `place`.
    pub(super) fn write(&self, number: usize, place: &Path) -> Result<()> {
        let tree = tempfile::tempdir()?;
        let put = |path: &str, content: &[u8]| -> Result<()> {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().context("a seed file has a folder")?)?;
            fs::write(&path, content).with_context(|| format!("write {}", path.display()))
        };
        let json = |value: serde_json::Value| value.to_string().into_bytes();
        put("lab/init", INIT.as_bytes())?;
        put("lab/containerd.toml", CONTAINERD.as_bytes())?;
        put("lab/node.env", render_environment(number, self.options).as_bytes())?;
        put("lab/network", plan::render_node_network(number).as_bytes())?;
        put("lab/kubeconfig", &json(plan::kubeconfig(&self.secrets.token, "/lab/lab.crt")))?;
        put("lab/kubelet.json", &json(plan::kubelet_configuration()))?;
        for (folder, rails) in plan::CNI_FOLDERS {
            put(&format!("{folder}/10-pods.conflist"), &json(plan::cni_pod_network(number)))?;
            for rail in rails {
                let place = format!("{folder}/2{rail}-rail{rail}.conflist");
                put(&place, &json(plan::cni_rail(number, *rail)))?;
            }
        }
        put("usr/lib/cni/lab-rail", RAIL_CNI.as_bytes())?;
        put("lab/steering", plan::render_node_steering(number).as_bytes())?;
        put("lab/lab.crt", &fs::read(&self.secrets.certificate)?)?;
        put("lab/lab.key", &fs::read(&self.secrets.key)?)?;
        put("root/.ssh/authorized_keys", &fs::read(self.secrets.login.with_extension("pub"))?)?;
        put("etc/hosts", render_hosts().as_bytes())?;
        if let Some(rocade) = &self.options.rocade {
            fs::create_dir_all(tree.path().join("usr/local/bin"))?;
            let place = tree.path().join("usr/local/bin/rocade");
            command::run(Command::new("strip").arg("-o").arg(place).arg(rocade))?;
        }
        pack(tree.path(), place)
    }
}

/// Starts node `number`'s machine inside the holder: its disk is copy-on-write over `disk` and vanishes with it.
pub(super) fn start(
    holder: &Holder,
    number: usize,
    kernel: &Kernel,
    disk: &Path,
    seed: &Path,
) -> Result<Child> {
    let name = plan::NODES[number - 1];
    let logs = holder.folder().join("logs");
    let log = |service: &str| logs.join(format!("{name}-{service}.log")).display().to_string();
    let mut qemu = holder.command("qemu-system-x86_64");
    // KVM inside a virtual machine may be listed and hang, so emulation is what the lab is made for.
    qemu.args(["-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", "2048", "-display", "none", "-no-reboot"]);
    qemu.args(["-nodefaults", "-name", &format!("{name},debug-threads=on"), "-kernel"])
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(&kernel.initramfs);
    qemu.args([
        "-append",
        "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off apparmor=0 audit=0 nokaslr",
    ]);
    qemu.args(["-serial", &format!("file:{}", log("serial"))]);
    qemu.args(["-drive", &drive(disk, "snapshot=on,cache=unsafe"), "-drive", &drive(seed, "readonly=on")]);
    qemu.args(["-device", "virtio-serial-pci,max_ports=4"]);
    for (port, service) in [(1, "containerd"), (2, "kubelet")] {
        qemu.args(["-chardev", &format!("file,id={service},path={}", log(service))]);
        qemu.args(["-device", &format!("virtserialport,nr={port},chardev={service}")]);
    }
    for interface in 0..=plan::RAILS.len() {
        let (tap, mac) = (plan::tap(number, interface), plan::mac(number, interface));
        let mtu = if interface == 0 { String::new() } else { format!(",host_mtu={}", plan::RAIL_MTU) };
        qemu.args(["-netdev", &format!("tap,id=e{interface},ifname={tap},script=no,downscript=no")]);
        qemu.args(["-device", &format!("virtio-net-pci,netdev=e{interface},mac={mac},romfile={mtu}")]);
    }
    holder.spawn(&format!("{name}-qemu"), qemu.env("TMPDIR", holder.folder()))
}

fn drive(file: &Path, options: &str) -> String {
    // A comma in a path is doubled for QEMU.
    format!("if=virtio,format=raw,{options},file={}", file.display().to_string().replace(',', ",,"))
}

fn render_environment(number: usize, options: &Options) -> String {
    let rails: Vec<String> = (1..=plan::RAILS.len()).map(|rail| rail.to_string()).collect();
    let (name, address) = (plan::NODES[number - 1], plan::address(number));
    let kubernetes = if options.without_kubernetes { "" } else { "1" };
    format!("NODE={name}\nADDRESS={address}\nRAILS='{}'\nKUBERNETES={kubernetes}\n", rails.join(" "))
}

fn render_hosts() -> String {
    let nodes =
        plan::NODES.iter().enumerate().map(|(at, name)| format!("{} {name}\n", plan::address(at + 1)));
    format!("127.0.0.1 localhost\n{} lab\n{}", plan::LAB_ADDRESS, nodes.collect::<String>())
}

/// Owned by root; folders that the disk has keep their mode, as only these files are named.
fn pack(tree: &Path, place: &Path) -> Result<()> {
    let script = "chmod -R go-w . && chmod 755 lab/init usr/lib/cni/lab-rail && chmod 600 root/.ssh/authorized_keys && \
                  find . -type f -printf '%P\\n' | tar --owner=0 --group=0 -cf \"$1\" -T -";
    command::run(Command::new("sh").args(["-ec", script, "sh"]).arg(place).current_dir(tree)).map(drop)
}
