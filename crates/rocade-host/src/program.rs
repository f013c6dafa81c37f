//! What of this program is in memory. Owns the call that lets go of it; when that is worth it is its callers' to say.

use std::fs;

use rustix::mm::{Advice, madvise};

/// Lets go of what is mapped of the program and its libraries and is as their files have it: for each page that is
/// touched the kernel maps up to sixteen (mm/memory.c, do_fault_around), and what only a start needs would stay. What
/// is needed again comes from the page cache at its next use. Where /proc is hidden nothing happens.
pub fn let_go_of_program() {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    for (start, bytes) in unchanged(&maps) {
        // SAFETY: it is a private mapping of a file that may not be written to and holds no page but the file's, so
        // that it reads the same when its pages are mapped anew; libraries stay where they are once they are loaded.
        let _ = unsafe { madvise(start as *mut _, bytes, Advice::LinuxDontNeed) };
    }
}

/// Start and bytes of each private mapping of a file that cannot be written to and has no page of its own, as those
/// have that the linker wrote addresses to and then locked (proc_pid_smaps(5)).
fn unchanged(smaps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match (words.first().copied().and_then(bounds), &words[..]) {
            (Some(bounds), [_, "r--p" | "r-xp", _, _, _, path, ..]) if path.starts_with('/') => {
                found.push(Some(bounds));
            }
            (Some(_), _) => found.push(None),
            // The mapping that these lines are about has pages of its own.
            (None, ["Anonymous:" | "Swap:", kib, ..]) if *kib != "0" => {
                found.last_mut().map(Option::take);
            }
            (None, _) => {}
        }
    }
    found.into_iter().flatten().collect()
}

/// Start and bytes of `START-END`, which opens a mapping's lines.
fn bounds(range: &str) -> Option<(usize, usize)> {
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    Some((start, usize::from_str_radix(end, 16).ok()?.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::unchanged;

    #[test]
    fn lets_go_of_what_is_as_the_file_has_it_and_of_nothing_else() {
        let mapping = |range: &str, rest: &str, anonymous: u32, swap: u32| {
            format!(
                "{range} {rest}\nRss:  8 kB\nAnonymous:  {anonymous} kB\nSwap:  {swap} kB\nVmFlags: rd mr \n"
            )
        };
        let smaps = [
            mapping("1000-3000", "r--p 00000000 fe:00 7 /bin/rocade", 0, 0),
            mapping("3000-7000", "r-xp 00002000 fe:00 7 /bin/rocade (deleted)", 0, 0),
            mapping("7000-8000", "r--p 00006000 fe:00 7 /bin/rocade", 4, 0),
            mapping("8000-9000", "r--p 00007000 fe:00 7 /bin/rocade", 0, 4),
            mapping("9000-a000", "rw-p 00008000 fe:00 7 /bin/rocade", 0, 0),
            mapping("a000-b000", "r--s 00000000 fe:00 8 /usr/lib/gconv-modules.cache", 0, 0),
            mapping("b000-c000", "r--p 00000000 00:00 0", 0, 0),
            mapping("c000-d000", "r-xp 00000000 00:00 0 [vdso]", 0, 0),
            mapping("d000-f000", "r-xp 00000000 fe:00 9 /lib/libc.so.6", 0, 0),
        ];
        assert_eq!(unchanged(&smaps.concat()), [(0x1000, 0x2000), (0x3000, 0x4000), (0xd000, 0x2000)]);
    }
}
