//! Aligned columns, text broken into lines, and findings counted in words. Words stay whole, so that an address or a name
//! can be copied.

use rocade_core::Severity;

/// Between two columns.
pub(crate) const GAP: &str = "  ";

/// Lays out rows, the first of which is the heading, as wide as they are.
pub(crate) fn lay_out<Row: AsRef<[String]>>(rows: &[Row]) -> String {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.as_ref().get(column)).map(|c| length(c)).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.as_ref().iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join(GAP).trim_end());
        text.push('\n');
    }
    text
}

/// Lines of at most `width`, broken between words; a longer word has a line of its own.
pub(crate) fn wrap(cell: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in cell.split(' ') {
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `2 errors, 1 warning`.
pub(crate) fn count_severities(severities: impl Iterator<Item = Severity> + Clone) -> String {
    let named = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let parts: Vec<String> = named
        .into_iter()
        .map(|(severity, word)| (severities.clone().filter(|one| *one == severity).count(), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}{}", if count == 1 { "" } else { "s" }))
        .collect();
    if parts.is_empty() { "nothing found".to_owned() } else { parts.join(", ") }
}

/// Columns that a text takes.
pub(crate) fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_with_their_last_word() {
        let rows = [["A", "B"], ["x→y", ""], ["z", "fe80::1→1"]].map(|row| row.map(str::to_owned));
        assert_eq!(lay_out(&rows), "A    B\nx→y\nz    fe80::1→1\n");
    }

    #[test]
    fn a_word_that_is_too_long_stays_whole() {
        assert_eq!(
            wrap("one two fe80::25:f2ff:fe8d:a24d→1 x", 7),
            ["one two", "fe80::25:f2ff:fe8d:a24d→1", "x"]
        );
    }
}
