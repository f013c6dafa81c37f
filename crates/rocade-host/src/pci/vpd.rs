//! Vital product data: name, part number and serial number (PCI Local Bus Specification 3.0, appendix I).

use rocade_core::host::Vpd;

/// Field of the vital product data by which a ConnectX function says that it manages an NVSwitch.
const SWITCH_MANAGEMENT: &[u8] = b"SMDL=SW_MNG";
const TAG_NAME: u8 = 0x82;
const TAG_READ_ONLY: u8 = 0x90;

/// Whether the function carries no traffic but manages an NVSwitch.
pub(crate) fn is_switch_management(vpd: &[u8]) -> bool {
    vpd.windows(SWITCH_MANAGEMENT.len()).any(|part| part == SWITCH_MANAGEMENT)
}

/// What it says of the card; None where it is of another form.
pub(crate) fn parse_vpd(vpd: &[u8]) -> Option<Vpd> {
    let mut found = Vpd { name: None, part_number: None, serial_number: None };
    let mut rest = vpd;
    while let [tag @ (TAG_NAME | TAG_READ_ONLY), low, high, tail @ ..] = rest {
        let (content, next) = tail.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))?;
        match *tag {
            TAG_NAME => found.name = text(content),
            _ => parse_fields(content, &mut found),
        }
        rest = next;
    }
    (found != Vpd { name: None, part_number: None, serial_number: None }).then_some(found)
}

/// Two letters, a length, the value.
fn parse_fields(mut fields: &[u8], found: &mut Vpd) {
    while let [a, b, length, tail @ ..] = fields {
        let Some((value, next)) = tail.split_at_checked(usize::from(*length)) else { return };
        match [*a, *b] {
            [b'P', b'N'] => found.part_number = text(value),
            [b'S', b'N'] => found.serial_number = text(value),
            _ => {}
        }
        fields = next;
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VPD: &[u8] = b"\x82\x04\x00CX-7\x90\x16\x00PN\x05MCX75SN\x03M12VA\x05a=b:cRV";

    #[test]
    fn name_part_and_serial_number_are_read() {
        let vpd = parse_vpd(VPD).unwrap();
        assert_eq!((vpd.name.as_deref(), vpd.part_number.as_deref()), (Some("CX-7"), Some("MCX75")));
        assert_eq!(vpd.serial_number.as_deref(), Some("M12"));
    }

    #[test]
    fn data_cut_anywhere_does_not_panic() {
        for end in 0..VPD.len() {
            let _ = parse_vpd(&VPD[..end]);
        }
    }
}
