//! Sizes of messages as people write them.

/// Bytes, with K or M for 2¹⁰ and 2²⁰ of them as the stock tools have it.
pub(crate) fn parse_size(text: &str) -> Result<u32, String> {
    let (digits, unit) = match text.trim_end_matches(['K', 'k', 'M', 'm']) {
        digits if digits.len() == text.len() => (digits, 1),
        digits if digits.len() + 1 == text.len() => {
            (digits, if text.ends_with(['K', 'k']) { 1 << 10 } else { 1 << 20 })
        }
        _ => ("", 1),
    };
    let bytes = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "a size is a number of bytes, or of KiB or MiB with K or M behind it".to_owned())
}

/// Bytes in the largest unit that says them exactly, as parse_size reads it.
pub(crate) fn size_in_words(bytes: u32) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_stock_tools_read_them_and_written_back() {
        for (text, bytes) in [("2", 2), ("1023", 1023), ("64K", 65536), ("1M", 1 << 20), ("3000", 3000)] {
            assert_eq!((parse_size(text), size_in_words(bytes).as_str()), (Ok(bytes), text));
        }
        assert_eq!((parse_size("8k"), parse_size("8m")), (Ok(8192), Ok(8 << 20)));
        for wrong in ["", "K", "64KK", "64KM", "64G", "-1", "1.5K", "4096M", "5000000000"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
