//! How much of a host is read. What was not asked for is left empty.

/// The parts that a reader may do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Entries of the GID tables: a read an entry, and three for each that is set. A table's length is always read.
    pub gids: bool,
    /// Counters of ports, of devices and of the drivers of their interfaces.
    pub counters: bool,
    /// What roles are told from: routes, storage, accelerators, the API server's address.
    pub roles: bool,
    /// What a Pod may use: its grants, nodes, the limit of locked memory.
    pub pod: bool,
    /// All that stands around the HCAs: PCIe links, modules, limits, kernel settings, config space, accelerators, routes, quality
    /// of service, storage, the Pod.
    pub surroundings: bool,
    /// No more than a Pod's verdict rests on: of HCAs without a node here the name, the place and the verbs device alone;
    /// neither the kernel's release, RDMA netlink, management devices, nor what interfaces sit on.
    pub lean: bool,
}

impl Scope {
    /// Everything.
    pub const ALL: Scope =
        Scope { gids: true, counters: true, roles: true, pod: true, surroundings: true, lean: false };
    /// What granting HCAs to Pods needs: HCAs, ports, netdevs and char devices.
    pub const GRANTS: Scope =
        Scope { gids: false, counters: false, roles: false, pod: false, surroundings: false, lean: false };
    /// What tells whether a Pod can use RDMA, and no more.
    pub const POD: Scope = Scope { gids: true, pod: true, lean: true, ..Scope::GRANTS };
}
