//! What stdout is: how wide, and whether words may be coloured. Colour never says what words do not.

use std::io::{IsTerminal, stdout};

/// Columns where stdout is no terminal: what fits a mail and a bug report.
const DEFAULT_WIDTH: usize = 100;
/// A narrower terminal gets lines that it wraps by itself.
const LEAST_WIDTH: usize = 60;

/// Where text goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    /// Columns of a line.
    pub(crate) width: usize,
    /// Whether words may be coloured.
    pub(crate) colour: bool,
}

impl Terminal {
    /// Asks stdout; `no_color` is the user's flag, beside the variable NO_COLOR.
    pub(crate) fn of_stdout(no_color: bool) -> Self {
        let size = rustix::termios::tcgetwinsize(stdout()).ok();
        let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        Terminal {
            width: columns.unwrap_or(DEFAULT_WIDTH).max(LEAST_WIDTH),
            colour: stdout().is_terminal() && may_colour(no_color),
        }
    }

    /// `text` in one of the eight colours of every terminal, by its number.
    pub(crate) fn paint(self, text: &str, colour: u8) -> String {
        if self.colour { format!("\x1b[3{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Whether neither the flag nor a set and not empty NO_COLOR forbids colour.
pub(crate) fn may_colour(no_color: bool) -> bool {
    !no_color && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_painted_only_where_colour_is_wanted() {
        let terminal = |colour| Terminal { width: 100, colour };
        assert_eq!(terminal(true).paint("no", 1), "\x1b[31mno\x1b[0m");
        assert_eq!(terminal(false).paint("no", 1), "no");
        assert!(!may_colour(true));
    }
}
