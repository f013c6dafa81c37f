//! The tables of docs/environment.md are written from the code and compared here. `make docs` writes them anew.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::path::Path;

use rocade_core::environment::{FOUND, RULES};

/// Puts a table between its two marks.
fn with_table(page: &str, mark: &str, table: &str) -> String {
    let (open, close) = (format!("<!-- {mark} -->\n"), format!("<!-- end of {mark} -->"));
    let (before, rest) = page.split_once(&open).unwrap();
    let (_, after) = rest.split_once(&close).unwrap();
    format!("{before}{open}{table}{close}{after}")
}

fn table<'a>(head: &str, rows: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let rows: String = rows.map(|(name, text)| format!("| {name} | {text} |\n")).collect();
    format!("| {head} |\n| --- | --- |\n{rows}")
}

#[test]
fn the_page_of_the_environment_has_the_rules_and_codes_that_the_code_has() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/environment.md");
    let written = std::fs::read_to_string(&file).unwrap();
    let rules = table("rule | what it says", RULES.iter().map(|rule| (rule.id, rule.text)));
    let page = with_table(
        &with_table(&written, "rules", &rules),
        "codes",
        &table("code | what was found", FOUND.iter().copied()),
    );
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written == page, "docs/environment.md is not what the code says: run `make docs`");
}
