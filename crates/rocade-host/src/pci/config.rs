//! PCI config space: the PCIe capability and access control services. Offsets from include/uapi/linux/pci_regs.h.

use rocade_core::host::{Acs, PcieSettings, PortType};

/// What an unprivileged reader gets.
const HEADER_LEN: usize = 64;
/// Where the extended capabilities begin.
const EXTENDED: usize = 0x100;
const STATUS: usize = 0x06;
const STATUS_CAP_LIST: u16 = 0x10;
const CAPABILITY_LIST: usize = 0x34;
const CAP_ID_EXP: u8 = 0x10;
const EXT_CAP_ID_ACS: u16 = 0x0d;
/// Peer-to-peer request redirect, completion redirect, egress control.
const ACS_REDIRECT: u16 = 0x04 | 0x08 | 0x20;
/// Lists are no longer than the space has room for; longer ones are loops.
const MOST_CAPABILITIES: usize = 48;

/// What could be read of a function's config space.
pub(crate) struct Config(Vec<u8>);

/// Why a fact is not there.
pub(crate) const ONLY_HEADER: &str = "config space is readable to 64 bytes only (needs root)";
const NO_EXTENDED: &str = "extended config space cannot be read";
const NOT_EXPRESS: &str = "not a PCIe function";

impl Config {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Config(bytes)
    }

    /// Device control: payload, read request, ordering.
    pub(crate) fn settings(&self) -> Result<PcieSettings, &'static str> {
        let control = self.word(self.express()? + 8).ok_or(NOT_EXPRESS)?;
        let bytes = |code: u16| (code < 6).then(|| 128 << code);
        let settings = |max_payload, max_read_request| PcieSettings {
            max_payload,
            max_read_request,
            relaxed_ordering: control & 0x10 != 0,
        };
        bytes(control >> 5 & 7)
            .zip(bytes(control >> 12 & 7))
            .map(|(p, r)| settings(p, r))
            .ok_or("reserved value")
    }

    pub(crate) fn port_type(&self) -> Result<PortType, &'static str> {
        let flags = self.word(self.express()? + 2).ok_or(NOT_EXPRESS)?;
        Ok(match flags >> 4 & 0xf {
            4 => PortType::Root,
            5 => PortType::Upstream,
            6 => PortType::Downstream,
            _ => PortType::Other,
        })
    }

    pub(crate) fn acs(&self) -> Result<Acs, &'static str> {
        self.express()?;
        if self.0.len() <= EXTENDED {
            return Err(NO_EXTENDED);
        }
        let mut at = EXTENDED;
        for _ in 0..MOST_CAPABILITIES {
            let Some(header) = self.0.get(at..at + 4) else { break };
            let header = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
            if header as u16 == EXT_CAP_ID_ACS {
                return Ok(match self.word(at + 6).ok_or(NO_EXTENDED)? {
                    0 => Acs::Off,
                    control if control & ACS_REDIRECT != 0 => Acs::Redirect,
                    _ => Acs::On,
                });
            }
            at = (header >> 20) as usize & !3;
            if at < EXTENDED {
                break;
            }
        }
        Ok(Acs::Absent)
    }

    /// Where the PCIe capability lies.
    fn express(&self) -> Result<usize, &'static str> {
        if self.0.len() <= HEADER_LEN {
            return Err(ONLY_HEADER);
        }
        let has_list = self.word(STATUS).is_some_and(|status| status & STATUS_CAP_LIST != 0);
        let mut at = self.byte(CAPABILITY_LIST).filter(|_| has_list).unwrap_or(0);
        for _ in 0..MOST_CAPABILITIES {
            let place = usize::from(at & !3);
            match self.byte(place).filter(|_| place >= HEADER_LEN) {
                Some(CAP_ID_EXP) => return Ok(place),
                Some(_) => at = self.byte(place + 1).unwrap_or(0),
                None => break,
            }
        }
        Err(NOT_EXPRESS)
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn word(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte(at)?, self.byte(at + 1)?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A downstream port: 256 bytes of payload, 4096 of read request, ACS with source validation and redirects.
    fn space() -> Vec<u8> {
        let mut space = vec![0; 4096];
        space[STATUS] = 0x10;
        space[CAPABILITY_LIST] = 0x60;
        space[0x60..0x6a].copy_from_slice(&[0x10, 0, 0x62, 0, 0, 0, 0, 0, 0x30, 0x58]);
        space[0x100..0x104].copy_from_slice(&[0x01, 0, 0x82, 0x14]);
        space[0x148..0x150].copy_from_slice(&[0x0d, 0, 1, 0, 0x7f, 0, 0x1d, 0]);
        space
    }

    #[test]
    fn payload_read_request_ordering_and_redirection_are_read() {
        let config = Config::new(space());
        let wanted = PcieSettings { max_payload: 256, max_read_request: 4096, relaxed_ordering: true };
        assert_eq!(config.settings(), Ok(wanted));
        assert_eq!((config.port_type(), config.acs()), (Ok(PortType::Downstream), Ok(Acs::Redirect)));
    }

    #[test]
    fn what_only_root_may_read_is_unknown_not_off() {
        let config = Config::new(space()[..64].to_vec());
        assert_eq!((config.settings(), config.acs()), (Err(ONLY_HEADER), Err(ONLY_HEADER)));
        assert_eq!(Config::new(space()[..256].to_vec()).acs(), Err(NO_EXTENDED));
    }

    #[test]
    fn lists_that_loop_or_lead_nowhere_end() {
        let mut space = space();
        space[0x60] = 0x09;
        space[0x61] = 0x60;
        assert_eq!(Config::new(space.clone()).settings(), Err(NOT_EXPRESS));
        space[0x60] = 0x10;
        space[0x102..0x104].copy_from_slice(&[0x02, 0x10]);
        assert_eq!(Config::new(space).acs(), Ok(Acs::Absent));
    }
}
