//! Statistics that a driver names itself, as `ethtool -S` shows them (include/uapi/linux/ethtool.h,
//! net/ethtool/ioctl.c). Owns the crate's one ioctl, and with it all of its unsafe code; what is kept of the answer is
//! `statistics`' matter.
//!
//! Ethtool netlink does not have them: STRSET_GET gives their names (ETH_SS_STATS), but STATS_GET the values of standard
//! groups alone (net/ethtool/stats.c), none of which has discards by priority, pause storms or PCIe stalls.

use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::slice;

use rustix::io::Errno as Raw;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::root::{Answer, Refusal};
use crate::statistics::{NAME_LEN, Statistics, decode_statistics};

const SIOCETHTOOL: Opcode = 0x8946;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETH_SS_STATS: u32 = 1;

/// More names than any driver has: 128 queues of mlx5 have some ten thousand.
const MOST: usize = 1 << 17;
/// Queues may come and go between two of the questions; then all are asked again.
const ATTEMPTS: usize = 3;

/// The statistics of an interface of this network namespace. EOPNOTSUPP where its driver has none, EAGAIN where their
/// number changes all the time.
pub(crate) fn read_statistics(netdev: &str) -> Answer<Statistics> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None).map_err(refused)?;
    let asked = Asked { socket, name: name_of(netdev).map_err(refused)? };
    for _ in 0..ATTEMPTS {
        let count = asked.count().map_err(refused)?;
        if count == 0 {
            return Ok(Statistics::new());
        }
        if count > MOST {
            return Err(Refusal::Garbled);
        }
        let answers = asked.names(count).and_then(|names| Ok((names, asked.values(count)?)));
        match answers {
            Ok((names, values)) => {
                if let Some(statistics) = decode_statistics(&names, &values) {
                    return Ok(statistics);
                }
            }
            // More than there was room for.
            Err(Raw::FAULT) => {}
            Err(errno) => return Err(refused(errno)),
        }
    }
    Err(refused(Raw::AGAIN))
}

fn refused(errno: Raw) -> Refusal {
    Refusal::Errno(errno.into())
}

/// An interface's name as the kernel takes it: at most 15 bytes, and zeros (IFNAMSIZ).
fn name_of(netdev: &str) -> Result<[u8; 16], Raw> {
    let mut name = [0; 16];
    match name[..15].get_mut(..netdev.len()) {
        Some(place) => place.copy_from_slice(netdev.as_bytes()),
        None => return Err(Raw::NODEV),
    }
    Ok(name)
}

/// The interface that is asked.
struct Asked {
    socket: OwnedFd,
    name: [u8; 16],
}

impl Asked {
    /// How many statistics there are: struct ethtool_sset_info, a mask of one set and its count.
    fn count(&self) -> Result<usize, Raw> {
        let mut memory = Memory::of(20)?;
        memory.put(0, &ETHTOOL_GSSET_INFO.to_ne_bytes());
        memory.put(8, &(1u64 << ETH_SS_STATS).to_ne_bytes());
        self.command(&mut memory)?;
        // A set that the driver does not have is taken out of the mask.
        if memory.bytes()[8..16].iter().all(|byte| *byte == 0) {
            return Err(Raw::OPNOTSUPP);
        }
        Ok(memory.word(16))
    }

    /// Their names, each NAME_LEN bytes: struct ethtool_gstrings, whose header has 12 bytes.
    fn names(&self, count: usize) -> Result<Vec<u8>, Raw> {
        let mut memory = Memory::of(12 + count * NAME_LEN)?;
        memory.put(0, &ETHTOOL_GSTRINGS.to_ne_bytes());
        memory.put(4, &ETH_SS_STATS.to_ne_bytes());
        // Where this is no longer the driver's number, newer kernels give no names, older ones as many as there are.
        memory.put(8, &(count as u32).to_ne_bytes());
        self.command(&mut memory)?;
        let length = memory.word(8).saturating_mul(NAME_LEN);
        Ok(memory.bytes().get(12..12 + length.min(MOST * NAME_LEN)).unwrap_or_default().to_vec())
    }

    /// Their values, 8 bytes each: struct ethtool_stats, whose header has 8 bytes.
    fn values(&self, count: usize) -> Result<Vec<u8>, Raw> {
        let mut memory = Memory::of(8 + count * 8)?;
        memory.put(0, &ETHTOOL_GSTATS.to_ne_bytes());
        memory.put(4, &(count as u32).to_ne_bytes());
        self.command(&mut memory)?;
        let length = memory.word(4).saturating_mul(8);
        Ok(memory.bytes().get(8..8 + length.min(MOST * 8)).unwrap_or_default().to_vec())
    }

    /// Has the kernel carry out the command that stands in memory, and write its answer there.
    fn command(&self, memory: &mut Memory) -> Result<(), Raw> {
        let mut request = Request { name: self.name, data: memory.start, more: [0; 3] };
        // SAFETY: SIOCETHTOOL takes a struct ifreq, which Request is no smaller than. It reads and writes memory from
        // `data` on, which is live while `memory` is borrowed. The commands used here only read of the device, and write
        // there as many bytes as the driver has statistics at that moment, which may be more than there is room for: then
        // they meet the forbidden pages behind it, and the kernel stops with EFAULT.
        unsafe { ioctl(self.socket.as_fd(), Updater::<SIOCETHTOOL, Request>::new(&mut request)) }
    }
}

/// struct ifreq (include/uapi/linux/if.h): a name, and a union of at most 24 bytes that starts with the pointer.
#[repr(C)]
struct Request {
    name: [u8; 16],
    data: *mut c_void,
    more: [usize; 3],
}

/// Memory for a command, zeroed, with forbidden pages behind it: what the kernel writes too much must not land in
/// anything else's.
struct Memory {
    start: *mut c_void,
    room: usize,
}

/// The largest page that Linux has on any machine; larger pages are none of user memory's.
const PAGE: usize = 1 << 16;

impl Memory {
    /// For at least so many bytes.
    fn of(bytes: usize) -> Result<Memory, Raw> {
        let room = bytes.next_multiple_of(PAGE);
        // SAFETY: a new mapping at a place that the kernel chooses overlaps no memory in use.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), room + PAGE, ProtFlags::empty(), MapFlags::PRIVATE) }?;
        let memory = Memory { start, room };
        // SAFETY: these are the first pages of the mapping above, which nobody else knows.
        unsafe { mprotect(start, room, MprotectFlags::READ | MprotectFlags::WRITE) }?;
        Ok(memory)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `of` mapped so many bytes, zeroed and readable; the kernel writes them only within `Asked::command`,
        // which borrows the memory for itself, and they live as long as `self`.
        unsafe { slice::from_raw_parts(self.start.cast(), self.room) }
    }

    /// Writes into the header of a command.
    fn put(&mut self, at: usize, value: &[u8]) {
        // SAFETY: as for `bytes`; the borrow is for writing, so there is no other one.
        let bytes: &mut [u8] = unsafe { slice::from_raw_parts_mut(self.start.cast(), self.room) };
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// A number of 32 bits.
    fn word(&self, at: usize) -> usize {
        let word = self.bytes()[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        word as usize
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the whole mapping that `of` made; every borrow of it has ended with `self`.
        let unmapped = unsafe { munmap(self.start, self.room + PAGE) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::Errno;

    #[test]
    fn an_interface_without_statistics_and_one_that_is_none_are_refused() {
        assert_eq!(read_statistics("lo"), Err(Refusal::Errno(Errno::OPNOTSUPP)));
        assert_eq!(read_statistics("no-such-netdev"), Err(Refusal::Errno(Errno::NODEV)));
        assert_eq!(read_statistics("a name that is too long"), Err(Refusal::Errno(Errno::NODEV)));
    }

    #[test]
    fn behind_the_room_for_an_answer_are_forbidden_pages() {
        let mut memory = Memory::of(PAGE + 1).unwrap();
        assert_eq!(memory.bytes().len(), 2 * PAGE);
        memory.put(2 * PAGE - 4, &7u32.to_ne_bytes());
        assert_eq!(memory.word(2 * PAGE - 4), 7);
        let behind = format!("{:x}-", memory.start.addr() + memory.room);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mapping = maps.lines().find(|line| line.trim_start_matches('0').starts_with(&behind)).unwrap();
        assert_eq!(mapping.split(' ').nth(1), Some("---p"), "{mapping}");
    }
}
