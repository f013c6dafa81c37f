//! Writes `crates/rocade-verbs/src/bindings.rs` from the headers of libibverbs-dev, run by hand when they change:
//!
//! ```text
//! apt-get download libibverbs-dev libc6-dev-arm64-cross linux-libc-dev-arm64-cross linux-libc-dev   # of the newest Debian
//! for deb in *.deb; do dpkg -x "$deb" root; done
//! LIBCLANG_PATH=… cargo run -p rocade-verbs-gen -- root/usr/include root/usr/aarch64-linux-gnu/include
//! ```
//!
//! libclang comes from the package libclang-dev or from PyPI's `libclang`; the latter lacks the compiler's own
//! headers: name them by `BINDGEN_EXTRA_CLANG_ARGS=-I/usr/lib/gcc/x86_64-linux-gnu/12/include`.
//!
//! The headers are read for both architectures. The declarations must come out equal; layout assertions that differ
//! (structs that hold a pthread mutex) are kept for each architecture.

#![forbid(unsafe_code)]

use std::path::Path;

use anyhow::{Context, bail, ensure};

/// The exported functions in use: each is in every libibverbs since rdma-core 15, so that all are required at load.
const FUNCTIONS: &[&str] = &[
    "ibv_ack_async_event",
    "ibv_ack_cq_events",
    "ibv_alloc_pd",
    "ibv_close_device",
    "ibv_create_ah",
    "ibv_create_comp_channel",
    "ibv_create_cq",
    "ibv_create_qp",
    "ibv_dealloc_pd",
    "ibv_dereg_mr",
    "ibv_destroy_ah",
    "ibv_destroy_comp_channel",
    "ibv_destroy_cq",
    "ibv_destroy_qp",
    "ibv_event_type_str",
    "ibv_free_device_list",
    "ibv_get_async_event",
    "ibv_get_cq_event",
    "ibv_get_device_guid",
    "ibv_get_device_list",
    "ibv_get_device_name",
    "ibv_modify_qp",
    "ibv_open_device",
    "ibv_query_device",
    "ibv_query_gid",
    "ibv_query_port",
    "ibv_reg_mr",
    "ibv_wc_status_str",
];

const HEAD: &str = "\
//! Declarations of libibverbs (GPL-2.0 OR OpenIB.org BSD), written by rocade-verbs-gen from <infiniband/verbs.h>.
//! Do not edit.

";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [headers, arm_headers] = arguments.as_slice() else {
        bail!("usage: rocade-verbs-gen INCLUDE_DIR AARCH64_INCLUDE_DIR");
    };
    let x86 = generate(headers, "x86_64-unknown-linux-gnu", None)?;
    let arm = generate(headers, "aarch64-unknown-linux-gnu", Some(arm_headers))?;
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rocade-verbs/src/bindings.rs");
    std::fs::write(&out, format!("{HEAD}{}", merge(&x86, &arm)?))
        .with_context(|| format!("write {}", out.display()))
}

fn generate(headers: &str, target: &str, system: Option<&str>) -> anyhow::Result<String> {
    let arguments = system.into_iter().chain([headers]).map(|dir| format!("-I{dir}"));
    let bindings = bindgen::Builder::default()
        .header_contents("wrapper.h", "#include <infiniband/verbs.h>\n")
        .clang_arg(format!("--target={target}"))
        .clang_args(arguments)
        .allowlist_function(FUNCTIONS.join("|"))
        .allowlist_type("ibv_(access_flags|mtu|port_attr|send_flags|qp_attr_mask|wc_status)")
        .dynamic_library_name("Verbs")
        .dynamic_link_require_all(true)
        .blocklist_type("(__)?(pthread|atomic)_.*")
        .generate_comments(false)
        .raw_line("use libc::{pthread_cond_t, pthread_mutex_t};")
        .size_t_is_usize(true)
        .prepend_enum_name(false)
        .derive_default(true)
        // C enums as plain integers: a value that this header does not know is not undefined behaviour.
        .default_enum_style(bindgen::EnumVariation::Consts)
        .formatter(bindgen::Formatter::Prettyplease)
        .generate()
        .with_context(|| format!("read infiniband/verbs.h for {target}"))?;
    Ok(bindings.to_string())
}

/// One text for both architectures: equal items once, unlike layout assertions behind their architecture.
fn merge(x86: &str, arm: &str) -> anyhow::Result<String> {
    let (x86, arm) = (items(x86), items(arm));
    ensure!(x86.len() == arm.len(), "x86_64 has {} items, aarch64 {}", x86.len(), arm.len());
    let mut out = String::new();
    for (x, a) in x86.iter().zip(&arm) {
        if x == a {
            out.push_str(x);
        } else if x.contains("const _: () =") && a.contains("const _: () =") {
            out.push_str(&format!(
                "#[cfg(target_arch = \"x86_64\")]\n{x}#[cfg(target_arch = \"aarch64\")]\n{a}"
            ));
        } else {
            bail!("the architectures declare unlike things:\n{x}\n{a}");
        }
    }
    Ok(out)
}

/// Top-level items of formatted Rust, each with its attributes: a new one starts at an unindented line once the item
/// before has ended.
fn items(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    for line in text.split_inclusive('\n') {
        let ended = items.last().is_some_and(|item| item.ends_with("}\n") || item.ends_with(";\n"));
        if ended && !line.starts_with([' ', '}']) {
            items.push(String::new());
        }
        if let Some(item) = items.last_mut() {
            item.push_str(line);
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str =
        "#[repr(C)]\npub struct A {\n    a: u8,\n}\nconst _: () = {\n    [\"A\"][1];\n};\npub type B = u8;\n";

    #[test]
    fn equal_declarations_appear_once() {
        assert_eq!(merge(X86, X86).unwrap(), X86);
    }

    #[test]
    fn unlike_layout_assertions_are_kept_for_each_architecture() {
        let merged = merge(X86, &X86.replace("[1]", "[2]")).unwrap();
        assert!(merged.contains("#[cfg(target_arch = \"x86_64\")]\nconst _: () = {\n    [\"A\"][1];\n};\n"));
        assert!(merged.contains("#[cfg(target_arch = \"aarch64\")]\nconst _: () = {\n    [\"A\"][2];\n};\n"));
        assert_eq!(merged.matches("pub struct A").count(), 1);
    }

    #[test]
    fn unlike_declarations_are_refused() {
        assert!(merge(X86, &X86.replace("B = u8", "B = u16")).is_err());
    }
}
