//! Error numbers by name, as they stand in a recorded host. Owns the table; knows nothing of what failed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kernel error number; prints its name (`EINVAL`), or `E` and the number where the table has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Errno(i32);

const NAMES: &[(&str, rustix::io::Errno)] = &[
    ("EPERM", rustix::io::Errno::PERM),
    ("ENOENT", rustix::io::Errno::NOENT),
    ("EINTR", rustix::io::Errno::INTR),
    ("EIO", rustix::io::Errno::IO),
    ("ENXIO", rustix::io::Errno::NXIO),
    ("EAGAIN", rustix::io::Errno::AGAIN),
    ("ENOMEM", rustix::io::Errno::NOMEM),
    ("EACCES", rustix::io::Errno::ACCESS),
    ("EFAULT", rustix::io::Errno::FAULT),
    ("EBUSY", rustix::io::Errno::BUSY),
    ("ENODEV", rustix::io::Errno::NODEV),
    ("ENOTDIR", rustix::io::Errno::NOTDIR),
    ("EISDIR", rustix::io::Errno::ISDIR),
    ("EINVAL", rustix::io::Errno::INVAL),
    ("ENFILE", rustix::io::Errno::NFILE),
    ("EMFILE", rustix::io::Errno::MFILE),
    ("ENOSPC", rustix::io::Errno::NOSPC),
    ("EROFS", rustix::io::Errno::ROFS),
    ("ENAMETOOLONG", rustix::io::Errno::NAMETOOLONG),
    ("ENOSYS", rustix::io::Errno::NOSYS),
    ("ELOOP", rustix::io::Errno::LOOP),
    ("ENODATA", rustix::io::Errno::NODATA),
    ("EOVERFLOW", rustix::io::Errno::OVERFLOW),
    ("EOPNOTSUPP", rustix::io::Errno::OPNOTSUPP),
    ("EPROTONOSUPPORT", rustix::io::Errno::PROTONOSUPPORT),
    ("EAFNOSUPPORT", rustix::io::Errno::AFNOSUPPORT),
    ("ENETDOWN", rustix::io::Errno::NETDOWN),
    ("ENOBUFS", rustix::io::Errno::NOBUFS),
    ("ETIMEDOUT", rustix::io::Errno::TIMEDOUT),
    ("ECONNREFUSED", rustix::io::Errno::CONNREFUSED),
    ("EHOSTDOWN", rustix::io::Errno::HOSTDOWN),
    ("EALREADY", rustix::io::Errno::ALREADY),
    ("ESTALE", rustix::io::Errno::STALE),
    ("EREMOTEIO", rustix::io::Errno::REMOTEIO),
    ("ETIME", rustix::io::Errno::TIME),
    ("EBADF", rustix::io::Errno::BADF),
    ("EEXIST", rustix::io::Errno::EXIST),
    ("ENOTCONN", rustix::io::Errno::NOTCONN),
    ("EMSGSIZE", rustix::io::Errno::MSGSIZE),
];

impl Errno {
    pub(crate) const TIMEDOUT: Errno = Errno::of(rustix::io::Errno::TIMEDOUT);
    pub(crate) const NOENT: Errno = Errno::of(rustix::io::Errno::NOENT);
    pub(crate) const NOTDIR: Errno = Errno::of(rustix::io::Errno::NOTDIR);
    pub(crate) const ISDIR: Errno = Errno::of(rustix::io::Errno::ISDIR);
    pub(crate) const INVAL: Errno = Errno::of(rustix::io::Errno::INVAL);
    pub(crate) const LOOP: Errno = Errno::of(rustix::io::Errno::LOOP);
    pub(crate) const NXIO: Errno = Errno::of(rustix::io::Errno::NXIO);
    pub(crate) const NODEV: Errno = Errno::of(rustix::io::Errno::NODEV);
    pub(crate) const OPNOTSUPP: Errno = Errno::of(rustix::io::Errno::OPNOTSUPP);
    pub(crate) const PROTONOSUPPORT: Errno = Errno::of(rustix::io::Errno::PROTONOSUPPORT);

    const fn of(errno: rustix::io::Errno) -> Errno {
        Errno(errno.raw_os_error())
    }

    /// From its name, or `E` and a number.
    pub fn from_name(name: &str) -> Option<Errno> {
        let known = NAMES.iter().find(|(n, _)| *n == name).map(|(_, e)| Errno::of(*e));
        known.or_else(|| name.strip_prefix('E')?.parse().ok().filter(|n| *n > 0).map(Errno))
    }

    /// From the positive number that the kernel's headers give it.
    pub(crate) fn from_raw(raw: i32) -> Errno {
        Errno(raw)
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Self {
        Errno::of(errno)
    }
}

impl From<Errno> for String {
    fn from(errno: Errno) -> Self {
        errno.to_string()
    }
}

impl TryFrom<String> for Errno {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Errno::from_name(&name).ok_or("no name of an error number")
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, e)| e.raw_os_error() == self.0) {
            Some((name, _)) => f.pad(name),
            None => write!(f, "E{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_go_both_ways() {
        for text in ["EINVAL", "EOPNOTSUPP", "ENODEV", "EPROTONOSUPPORT", "E999"] {
            assert_eq!(Errno::from_name(text).unwrap().to_string(), text);
        }
        for text in ["", "E", "EWHAT", "E-1", "E0", "22"] {
            assert_eq!(Errno::from_name(text), None, "{text}");
        }
    }
}
