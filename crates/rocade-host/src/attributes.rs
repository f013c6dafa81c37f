//! Reading the attribute files of one sysfs directory into fields, with the reason kept for each that could not be.

use std::path::{Path, PathBuf};

use rocade_core::host::Unknown;

use crate::root::{Answer, Refusal, Root};

/// The attribute files of a directory.
pub(crate) struct Attributes<'a> {
    pub(crate) root: &'a Root,
    /// The directory, without links.
    pub(crate) dir: PathBuf,
    /// Field → why it could not be read.
    pub(crate) unknown: Unknown,
}

impl<'a> Attributes<'a> {
    pub(crate) fn of(root: &'a Root, dir: PathBuf) -> Self {
        Attributes { root, dir, unknown: Unknown::new() }
    }

    /// A field that every such directory has.
    pub(crate) fn needed<T>(
        &mut self,
        field: &str,
        file: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let answer = read_text(self.root, &self.dir.join(file));
        self.parsed(field, answer, parse)
    }

    /// The field of a needed file that has been read.
    pub(crate) fn parsed<T>(
        &mut self,
        field: &str,
        answer: Answer<String>,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.keep(field, answer, parse, false)
    }

    /// A field that some drivers and kernels do not have.
    pub(crate) fn optional<T>(
        &mut self,
        field: &str,
        file: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let answer = read_text(self.root, &self.dir.join(file));
        self.keep(field, answer, parse, true)
    }

    fn keep<T>(
        &mut self,
        field: &str,
        answer: Answer<String>,
        parse: impl Fn(&str) -> Option<T>,
        may_be_absent: bool,
    ) -> Option<T> {
        match answer {
            Ok(text) => {
                let value = parse(&text);
                if value.is_none() && !text.is_empty() {
                    let seen: String = text.chars().take(40).collect();
                    self.note(field, format!("unexpected text `{}`", seen.escape_debug()));
                }
                value
            }
            Err(refusal) if may_be_absent && refusal.is_absent() => None,
            Err(refusal) => {
                self.refused(field, refusal);
                None
            }
        }
    }

    pub(crate) fn refused(&mut self, field: &str, refusal: Refusal) {
        self.note(field, refusal.to_string());
    }

    fn note(&mut self, field: &str, why: String) {
        self.unknown.entry(field.to_owned()).or_insert(why);
    }
}

/// A file's text.
pub(crate) fn read_text(root: &Root, path: &Path) -> Answer<String> {
    root.read(path).map(to_text)
}

/// A file's content without its line break; bytes that are no UTF-8 are replaced.
pub(crate) fn to_text(content: Vec<u8>) -> String {
    let mut text = match String::from_utf8(content) {
        Ok(text) => text,
        Err(wrong) => String::from_utf8_lossy(wrong.as_bytes()).into_owned(),
    };
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// Any text but an empty one.
pub(crate) fn parse_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// A number in decimal, or in hexadecimal after `0x`.
pub(crate) fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Last component of what a link in the directory points to.
pub(crate) fn read_link_name(root: &Root, path: &Path) -> Answer<String> {
    let target = root.link(path)?;
    Ok(target.file_name().unwrap_or_default().to_string_lossy().into_owned())
}
