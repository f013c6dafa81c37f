//! The CDI spec file of every recorded host, as the CNCF's own library reads it, validates it and injects its devices.
//! Behind the feature `bench` for the weight of that library alone.

use std::path::{Path, PathBuf};

use container_device_interface::cache::{CdiOption, new_cache, with_auto_refresh};
use container_device_interface::spec::read_spec;
use container_device_interface::spec_dirs::with_spec_dirs;
use oci_spec::runtime::Spec as Container;
use rocade_core::cdi::spec;
use rocade_host::{Root, Scope, read_parts};

fn hosts() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
    let entries =
        std::fs::read_dir(dir).expect("the recorded hosts").map(|entry| entry.expect("an entry").path());
    let mut hosts: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "host")).collect();
    hosts.sort();
    hosts
}

fn read(host: &Path) -> rocade_core::Host {
    read_parts(&Root::open(host).expect("a recording"), Scope::GRANTS)
}

#[test]
fn every_recorded_hosts_file_is_a_valid_spec_with_a_device_for_each_hca_that_has_nodes() {
    let (mut with_devices, temp) = (0, tempfile::tempdir().expect("a directory"));
    for path in hosts() {
        let host = read(&path);
        let spec = spec(&host);
        let verbs =
            host.hcas.iter().filter(|hca| hca.uverbs.as_ref().is_some_and(|device| device.is_there()));
        let named = spec
            .devices
            .iter()
            .filter(|device| !device.name.ends_with(".umad") && !device.name.ends_with(".issm"));
        assert_eq!(named.count(), verbs.count(), "{}", path.display());
        if spec.devices.is_empty() {
            continue;
        }
        let file = temp.path().join("rocade.dev-hca.json");
        std::fs::write(&file, serde_json::to_string_pretty(&spec).expect("JSON")).expect("a file");
        let read = read_spec(&file, 0).unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
        assert_eq!(
            read.get_devices().len(),
            spec.devices.len(),
            "{}: two devices of one name",
            path.display()
        );
        with_devices += 1;
    }
    assert!(with_devices > 20, "{with_devices} hosts have devices");
}

/// F42: a container that asks for two resources gets both HCAs. Every node is /dev/null here, whose numbers the library
/// looks up; its path in the container is the HCA's.
#[test]
fn two_resources_in_one_container_are_both_injected_and_what_they_share_once() {
    let host = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/seed-4hca-bond.host"));
    let spec = spec(&host);
    let temp = tempfile::tempdir().expect("a directory");
    let mut text = serde_json::to_value(&spec).expect("JSON");
    stand_in(&mut text);
    std::fs::write(temp.path().join("rocade.dev-hca.json"), text.to_string()).expect("a file");
    let names = |node: &str| spec.split(&[node.to_owned(), "/dev/infiniband/rdma_cm".to_owned()]).names;
    let both = [names("/dev/infiniband/uverbs0"), names("/dev/infiniband/uverbs1")].concat();
    assert_eq!(both.len(), 2, "{both:?}");
    let dirs = [temp.path().to_str().expect("UTF-8")];
    let options: Vec<CdiOption> = vec![with_auto_refresh(false), with_spec_dirs(&dirs)];
    let mut container = Container::default();
    let cache = new_cache(options);
    let mut cache = cache.lock().expect("nobody panicked");
    cache.inject_devices(Some(&mut container), both).expect("both are known");
    let devices = container.linux().as_ref().and_then(|linux| linux.devices().clone()).expect("devices");
    let mut paths: Vec<_> = devices.iter().map(|device| device.path().display().to_string()).collect();
    paths.sort();
    assert_eq!(paths, ["rdma_cm", "uverbs0", "uverbs1"].map(|name| format!("/dev/infiniband/{name}")));
}

fn stand_in(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(object) if object.contains_key("permissions") => {
            object.insert("hostPath".into(), "/dev/null".into());
        }
        serde_json::Value::Object(object) => object.values_mut().for_each(stand_in),
        serde_json::Value::Array(array) => array.iter_mut().for_each(stand_in),
        _ => {}
    }
}
