//! Variables in the forms that shells, programs, NCCL and UCX read. Decides nothing.

use std::fmt::Write as _;

use anyhow::Context;
use rocade_core::environment::{By, Environment, Library, NcclSource, Variable};
use serde_json::json;

use crate::columns::{GAP, lay_out};

/// Version of the document; raised when a field changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// `export NAME=VALUE` lines. What the user has set is there already.
pub(super) fn shell(told: &Environment) -> String {
    let ours = told.variables.iter().filter(|variable| variable.by == By::Rule);
    let line = |variable: &Variable| {
        Some(format!("export {}={}\n", variable.name, quote(variable.value.as_deref()?)))
    };
    ours.filter_map(line).collect()
}

/// A word that a POSIX shell reads as it is.
fn quote(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_:,./^=-".contains(c);
    // A word that begins with `=` is a path search in zsh.
    if !value.is_empty() && value.chars().all(plain) && !value.starts_with('=') {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// `NAME=VALUE` lines as NCCL reads them: no quotes, no blanks, comments at the beginning of a line
/// (<https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html>).
pub(super) fn nccl_conf(told: &Environment) -> String {
    let head = format!("# This Pod's own, by rocade env. NCCL {}.\n", told.nccl);
    file(told, Library::Nccl, &head)
}

/// The same for UCX, which reads it as an INI file without a section.
pub(super) fn ucx_conf(told: &Environment) -> String {
    file(told, Library::Ucx, "# This Pod's own, by rocade env.\n")
}

/// What the user has set is in it too: launchers over ssh drop the environment, and a variable counts above the file.
fn file(told: &Environment, library: Library, head: &str) -> String {
    let mut text = head.to_owned();
    for variable in told.variables.iter().filter(|variable| variable.library == library) {
        // Neither reader knows quotes or continued lines.
        let value = variable.value.as_deref().filter(|value| !value.contains(['\n', '\r']));
        if let Some(value) = value {
            let _ = writeln!(text, "{}={value}", variable.name);
        }
    }
    text
}

/// Ports, pairs and every variable with its reason.
pub(super) fn table(told: &Environment) -> String {
    let mut rows = vec![["PORT", "GID", "ADDRESS", "NETDEV"].map(str::to_owned).to_vec()];
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    rows.extend(told.ports.iter().map(|port| {
        vec![
            format!("{}:{}", port.hca, port.port),
            or_dash(port.gid_index.map(|index| index.to_string())),
            or_dash(port.address.map(|address| address.to_string())),
            or_dash(port.netdev.clone()),
        ]
    }));
    let mut text = lay_out(&rows);
    for (what, why) in &told.left_out {
        let _ = writeln!(text, "{what}{GAP}left out: {why}");
    }
    for pair in &told.pairs {
        let _ = writeln!(text, "GPU {}{GAP}{}{GAP}{}", pair.gpu, pair.distance, pair.hca);
    }
    let _ = writeln!(text, "NCCL {}, {}\n", told.nccl, source_in_words(&told.nccl_source));
    let mut rows = vec![["VARIABLE", "VALUE", "RULE", "WHY"].map(str::to_owned).to_vec()];
    rows.extend(told.variables.iter().map(|variable| {
        let value = variable.value.clone().unwrap_or_else(|| "-".to_owned());
        vec![variable.name.to_owned(), value, variable.rule.to_owned(), variable.why.clone()]
    }));
    text + &lay_out(&rows)
}

/// All of it.
pub(super) fn json(told: &Environment) -> anyhow::Result<String> {
    let mut document = json!({"schema_version": SCHEMA_VERSION});
    let told = serde_json::to_value(told).context("write JSON")?;
    if let (Some(document), serde_json::Value::Object(told)) = (document.as_object_mut(), told) {
        document.extend(told);
    }
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
}

/// How NCCL's version is known.
pub(super) fn source_in_words(source: &NcclSource) -> String {
    match source {
        NcclSource::Asked => "as --nccl says".to_owned(),
        NcclSource::Library(file) => format!("by {file}"),
        NcclSource::Assumed => "assumed: --nccl says another".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_read_another() {
        assert_eq!(quote("mlx5_2:1,mlx5_3:1"), "mlx5_2:1,mlx5_3:1");
        assert_eq!(quote("=mlx5_2:1"), "'=mlx5_2:1'");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quote(""), "''");
    }
}
