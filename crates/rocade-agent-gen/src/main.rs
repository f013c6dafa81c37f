//! Makes the Rust of the kubelet's gRPC interfaces from its proto files and writes it where it is committed:
//! `cargo run -p rocade-agent-gen`. Neither protoc nor this crate is needed to build rocade. Its test compares what
//! is committed with what it would write.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A proto file and the committed Rust made of it.
struct Interface {
    /// File name below proto/.
    proto: &'static str,
    /// File to write, relative to the folder of all crates.
    rust: &'static str,
    /// File name that prost derives from the proto's package.
    package: &'static str,
    /// Whether the serving side is wanted.
    server: bool,
    /// Messages that are not generated, each with the path of the Rust type that stands for it.
    own: &'static [(&'static str, &'static str)],
}

const INTERFACES: [Interface; 5] = [
    Interface {
        proto: "deviceplugin_v1beta1.proto",
        rust: "rocade-agent/src/api/v1beta1.rs",
        package: "v1beta1.rs",
        server: true,
        own: &[(".v1beta1.ListAndWatchResponse", "crate::list::DeviceList")],
    },
    // Both sides as the fake kubelet of the bench has them: with the list as a kubelet decodes it.
    Interface {
        proto: "deviceplugin_v1beta1.proto",
        rust: "rocade-lab/src/fake_kubelet/v1beta1.rs",
        package: "v1beta1.rs",
        server: true,
        own: &[],
    },
    Interface {
        proto: "podresources_v1.proto",
        rust: "rocade-agent/src/api/podresources_v1.rs",
        package: "v1.rs",
        server: true,
        own: &[(".v1.AllocatableResourcesResponse", "crate::pod_resources::Allocatable")],
    },
    Interface {
        proto: "pluginregistration_v1.proto",
        rust: "rocade-agent/src/api/pluginregistration_v1.rs",
        package: "pluginregistration.rs",
        server: true,
        own: &[],
    },
    Interface {
        proto: "podresources_v1.proto",
        rust: "rocade-lab/src/native/pod_resources_v1.rs",
        package: "v1.rs",
        server: false,
        own: &[],
    },
];

fn main() -> anyhow::Result<()> {
    for interface in &INTERFACES {
        let path = committed(interface);
        fs::write(&path, generate(interface)?).with_context(|| format!("write {}", path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

fn generate(interface: &Interface) -> anyhow::Result<String> {
    let protos = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let files = protox::compile([interface.proto], [&protos])
        .with_context(|| format!("compile {}", interface.proto))?;
    let out = tempfile::tempdir().context("make a folder for the generator")?;
    let configured = interface
        .own
        .iter()
        .fold(tonic_prost_build::configure(), |all, (message, path)| all.extern_path(*message, *path));
    configured
        .build_server(interface.server)
        .build_transport(false)
        .out_dir(out.path())
        .compile_fds(files)
        .with_context(|| format!("generate from {}", interface.proto))?;
    fs::read_to_string(out.path().join(interface.package))
        .with_context(|| format!("read what was made of {}", interface.proto))
}

fn committed(interface: &Interface) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(interface.rust)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_code_is_what_the_proto_files_give() {
        for interface in &INTERFACES {
            let there = fs::read_to_string(committed(interface)).expect("the committed file is there");
            let same = there == generate(interface).expect("the proto file compiles");
            assert!(same, "{} is stale: run `cargo run -p rocade-agent-gen`", interface.rust);
        }
    }
}
