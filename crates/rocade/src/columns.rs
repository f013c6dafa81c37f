//! Aligned columns within a width. Long cells continue below; words stay whole, so that an address or a name can be
//! copied, even where a row then gets wider than asked.

/// Between two columns.
pub(crate) const GAP: &str = "  ";

/// Lays out rows, the first of which is the heading.
pub(crate) fn lay_out<const N: usize>(rows: &[[String; N]], width: usize) -> String {
    let widths = fit(rows, width);
    let mut text = String::new();
    for row in rows {
        let cells: Vec<Vec<String>> = row.iter().zip(widths).map(|(cell, width)| wrap(cell, width)).collect();
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let part = |(cell, width): (&Vec<String>, usize)| {
                format!("{:width$}", cell.get(line).map_or("", String::as_str))
            };
            let parts: Vec<String> = cells.iter().zip(widths).map(part).collect();
            text.push_str(parts.join(GAP).trim_end());
            text.push('\n');
        }
    }
    text
}

/// Narrows columns as long as the row is too wide: always the one where that costs the fewest further lines for what
/// it gains. No column gets narrower than its longest word.
fn fit<const N: usize>(rows: &[[String; N]], width: usize) -> [usize; N] {
    let room = width.saturating_sub(GAP.len() * N.saturating_sub(1));
    let mut widths: [usize; N] = std::array::from_fn(|column| narrowed(rows, column, usize::MAX));
    while widths.iter().sum::<usize>() > room {
        let now = count_lines(rows, &widths);
        let step = |column: usize| {
            let mut next = widths;
            next[column] = narrowed(rows, column, widths[column].checked_sub(1)?);
            let gain = widths[column].checked_sub(next[column]).filter(|gain| *gain > 0)?;
            Some(((count_lines(rows, &next) - now) * 100 / gain, next))
        };
        let Some((_, next)) = (0..N).filter_map(step).min_by_key(|(cost, _)| *cost) else { break };
        widths = next;
    }
    widths
}

/// Width that a column really takes when its cells are wrapped at `limit`.
fn narrowed<const N: usize>(rows: &[[String; N]], column: usize, limit: usize) -> usize {
    let widest = |row: &[String; N]| wrap(&row[column], limit).iter().map(|line| length(line)).max();
    rows.iter().filter_map(widest).max().unwrap_or(0)
}

fn count_lines<const N: usize>(rows: &[[String; N]], widths: &[usize; N]) -> usize {
    let lines =
        |row: &[String; N]| row.iter().zip(widths).map(|(cell, width)| wrap(cell, *width).len()).max();
    rows.iter().filter_map(lines).sum()
}

/// Lines of at most `width`, broken between words.
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

/// Columns that a text takes.
pub(crate) fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_cell_continues_below_and_its_words_stay_whole() {
        let rows = [["A", "B"], ["x", "one two three"], ["y", "fe80::25:f2ff:fe8d:a24d→1"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(lay_out(&rows, 12), "A  B\nx  one two three\ny  fe80::25:f2ff:fe8d:a24d→1\n");
        assert_eq!(lay_out(&rows[..2], 10), "A  B\nx  one two\n   three\n");
    }
}
