//! The k8s-rdma-shared-dev-plugin's command line, which Go's package flag reads: one dash or two, `-flag=value`, and
//! booleans in Go's words. Its flags are -config-file, -use-cdi, -kubelet-root-dir, -version and -v
//! (github.com/Mellanox/k8s-rdma-shared-dev-plugin cmd/k8s-rdma-shared-dp/main.go); none of them is without meaning here.

use std::ffi::OsString;

/// Those that Go takes with one dash and clap would take for letters.
const LONG: [&str; 4] = ["config-file", "use-cdi", "kubelet-root-dir", "version"];

/// The command line with a second dash before the plugin's flags, where the command is `agent`.
pub(crate) fn with_two_dashes(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let args: Vec<OsString> = args.collect();
    let is_agent = args.get(1).is_some_and(|command| command == "agent");
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let dashed = args.into_iter().enumerate().map(|(i, arg)| match arg.to_str() {
        Some(text) if is_agent && i < end && is_plugins(text) => format!("-{text}").into(),
        _ => arg,
    });
    dashed.collect()
}

fn is_plugins(arg: &str) -> bool {
    let name = arg.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    name.is_some_and(|name| LONG.contains(&name.split('=').next().unwrap_or(name)))
}

/// A boolean as Go's strconv.ParseBool reads it.
pub(super) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("wanted true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command, Later};

    fn agent(line: &str) -> crate::agent::Args {
        let args = line.split(' ').map(OsString::from);
        match Cli::try_parse_from(with_two_dashes(args))
            .unwrap_or_else(|error| panic!("{line}: {error}"))
            .command
        {
            Command::Agent(Later(args)) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_plugins_flags_are_taken_with_one_dash_and_two() {
        for line in [
            "rocade agent -config-file=/c.json -use-cdi -kubelet-root-dir /k",
            "rocade agent --config-file /c.json --use-cdi=T -kubelet-root-dir=/k",
            "rocade agent --use-cdi --config=/c.json --kubelet-root-dir=/k",
        ] {
            let args = agent(line);
            let source = args.config_source();
            assert_eq!((source.file, source.use_cdi), (Some("/c.json".into()), true), "{line}");
            assert_eq!(args.plugin.kubelet_root_dir.as_deref(), Some(std::path::Path::new("/k")), "{line}");
        }
        for line in ["rocade agent", "rocade agent -use-cdi=false", "rocade agent --use-cdi=0"] {
            let source = agent(line).config_source();
            assert_eq!((source.file, source.use_cdi), (None, false), "{line}");
        }
    }

    #[test]
    fn the_plugin_directory_is_below_the_kubelets_root_only_where_it_is_there() {
        let root = tempfile::tempdir().unwrap();
        let args = agent(&format!("rocade agent -kubelet-root-dir={}", root.path().display()));
        assert_eq!(args.device_plugin_dir(), std::path::Path::new(rocade_agent::DEVICE_PLUGIN_DIR));
        let plugins = root.path().join("device-plugins");
        std::fs::create_dir(&plugins).unwrap();
        assert_eq!(args.device_plugin_dir(), plugins);
    }

    #[test]
    fn the_version_is_printed_for_each_of_its_flags() {
        for flag in ["-v", "-version", "--version"] {
            let args = ["rocade", "agent", flag].map(OsString::from);
            let error = Cli::try_parse_from(with_two_dashes(args.into_iter())).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::DisplayVersion, "{flag}");
        }
    }

    #[test]
    fn what_is_not_the_agents_or_stands_behind_two_dashes_keeps_its_dashes() {
        for line in ["rocade check -version", "rocade agent -- -use-cdi", "rocade agent -x -use-cdi2"] {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(with_two_dashes(args.clone().into_iter()), args);
        }
    }
}
