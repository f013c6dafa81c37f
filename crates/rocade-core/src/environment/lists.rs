//! The lists of devices, interfaces and transports that NCCL and UCX read, in their grammars.

/// A list of NCCL: `^` excludes, `=` after it asks for exact names; `name[:port]`, no port or -1 for any. Names are
/// beginnings without `=` (src/misc/utils.cc, parseStringList and matchIfList).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NcclList<'a> {
    excludes: bool,
    pub(super) exact: bool,
    entries: Vec<(&'a str, Option<u32>)>,
}

impl<'a> NcclList<'a> {
    pub(super) fn parse(text: &'a str) -> NcclList<'a> {
        let rest = text.strip_prefix('^');
        let (excludes, rest) = (rest.is_some(), rest.unwrap_or(text));
        let names = rest.strip_prefix('=');
        let (exact, names) = (names.is_some(), names.unwrap_or(rest));
        let entry = |part: &'a str| {
            let mut parts = part.split(':');
            let name = parts.next().unwrap_or_default();
            (name, parts.next().and_then(|port| port.parse().ok()))
        };
        let entries = names.split(',').filter(|part| !part.is_empty()).map(entry).collect();
        NcclList { excludes, exact, entries }
    }

    /// Exact names alone, as Gloo reads them.
    pub(super) fn names_alone(text: &'a str) -> NcclList<'a> {
        let entries = text.split(',').filter(|part| !part.is_empty()).map(|name| (name, None)).collect();
        NcclList { excludes: false, exact: true, entries }
    }

    /// Whether it selects a port of a device; an interface has no port.
    pub(super) fn selects(&self, name: &str, port: Option<u32>) -> bool {
        let is_named = self.names().any(|(wanted, at)| {
            let named = if self.exact { name == wanted } else { name.starts_with(wanted) };
            named && (at.is_none() || port.is_none() || at == port)
        });
        is_named != self.excludes
    }

    /// The names and ports as they stand.
    pub(super) fn names(&self) -> impl Iterator<Item = (&'a str, Option<u32>)> {
        self.entries.iter().copied()
    }

    /// Whether the list says what is not wanted.
    pub(super) fn excludes(&self) -> bool {
        self.excludes
    }
}

/// A list of devices of UCX: exact names with a port or without, ranges as `mlx5_[0-3]:1`, `^` excludes, `all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UcxList<'a> {
    excludes: bool,
    entries: Vec<&'a str>,
}

impl<'a> UcxList<'a> {
    pub(super) fn parse(text: &'a str) -> UcxList<'a> {
        let names = text.strip_prefix('^');
        let entries =
            names.unwrap_or(text).split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        UcxList { excludes: names.is_some(), entries }
    }

    pub(super) fn selects(&self, name: &str, port: u32) -> bool {
        let with_port = format!("{name}:{port}");
        let is = |entry: &&str| *entry == "all" || is_in(entry, name) || is_in(entry, &with_port);
        self.entries.iter().any(is) != self.excludes
    }

    /// Whether RDMA transports are among those of a list of transports.
    pub(super) fn allows_rdma(&self) -> bool {
        let is_rdma = |entry: &&str| {
            let plain = entry.trim_start_matches('\\');
            let family = plain.split(['_', ':']).next().unwrap_or(plain);
            matches!(family, "all" | "ib" | "rc" | "dc" | "ud")
        };
        let rdma: Vec<&&str> = self.entries.iter().filter(|entry| is_rdma(entry)).collect();
        match self.excludes {
            false => !rdma.is_empty(),
            // Datagrams and dynamic connections remain where reliable connections alone are left out.
            true => !rdma.iter().any(|entry| ["ib", "all"].contains(entry)),
        }
    }
}

/// Whether a name is an entry's, which may hold one range of numbers.
fn is_in(entry: &str, name: &str) -> bool {
    let range = || {
        let (before, rest) = entry.split_once('[')?;
        let (numbers, after) = rest.split_once(']')?;
        let (first, last) = numbers.split_once('-')?;
        let number = name.strip_prefix(before)?.strip_suffix(after)?;
        let (first, last, number): (u32, u32, u32) =
            (first.parse().ok()?, last.parse().ok()?, number.parse().ok()?);
        Some((first..=last).contains(&number))
    };
    entry == name || range().unwrap_or(false)
}
