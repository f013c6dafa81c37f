//! Numbers as the stock tools read them: strtol(3) with base 0, by which 0x10 is 16 and 010 is 8.

use std::ops::RangeInclusive;

/// A number that fits; None if the text is another.
fn read<N: TryFrom<u64>>(text: &str) -> Option<N> {
    let (digits, radix) = match (text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")), text) {
        (Some(digits), _) => (digits, 16),
        (None, "0") => (text, 10),
        (None, _) => text.strip_prefix('0').map_or((text, 10), |digits| (digits, 8)),
    };
    // from_str_radix takes a sign, which has no place here.
    let number = digits.starts_with(|digit: char| digit.is_ascii_hexdigit()).then_some(digits)?;
    N::try_from(u64::from_str_radix(number, radix).ok()?).ok()
}

/// Any number of its type.
pub(crate) fn number<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    read(text).ok_or_else(|| "not a number, as 26, 0x1a or 032, or too large a one".to_owned())
}

/// One of a range.
pub(crate) fn within<N>(text: &str, range: RangeInclusive<N>) -> Result<N, String>
where
    N: TryFrom<u64> + PartialOrd + std::fmt::Display,
{
    let fitting = read(text).filter(|number| range.contains(number));
    fitting.ok_or_else(|| format!("a number from {} to {} is wanted", range.start(), range.end()))
}

/// Bytes, with K or M behind them for 2¹⁰ and 2²⁰.
pub(crate) fn size(text: &str) -> Result<u32, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 1 << 10),
        Some((at, 'M' | 'm')) => (&text[..at], 1 << 20),
        _ => (text, 1),
    };
    let bytes = read::<u32>(digits).and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "a size is a number of bytes, or of KiB or MiB with K or M behind it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strtol_reads_them_with_base_0() {
        for (text, wanted) in [("0", 0), ("104", 104), ("0x68", 104), ("0X68", 104), ("0150", 104), ("00", 0)]
        {
            assert_eq!(number::<u8>(text), Ok(wanted), "{text}");
        }
        for wrong in ["", "x", "0x", "-1", "+1", "0x-1", "08", "1 ", "256", "0x100", "1.5"] {
            assert!(number::<u8>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_number_out_of_its_range_is_told_the_range() {
        assert_eq!(within("0x4853", 1..=u16::MAX), Ok(18515));
        assert_eq!(within("0", 1..=u16::MAX).unwrap_err(), "a number from 1 to 65535 is wanted");
    }

    #[test]
    fn sizes_have_units_beside_any_base() {
        for (text, bytes) in [("65536", 65536), ("0x10000", 65536), ("64K", 65536), ("0x1M", 1 << 20)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "K", "64KK", "64G", "4096M", "-1", "0x"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
