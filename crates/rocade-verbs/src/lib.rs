//! The hands: libibverbs, loaded when it is first needed, and the RDMA tests over it. A test is handed a connected
//! stream, an HCA, a port and a GID index; it opens no TCP connection, chooses no GID, reads no sysfs and prints
//! nothing. Only a port's writes to itself need no stream.
//!
//! Each verbs object is an owned type that keeps its parents alive (`QueuePair` its CQ and PD, those the `Device`, that
//! the `Library`), so that none can be destroyed before what hangs on it. All of them stay on one thread.

pub mod ah;
pub mod cq;
mod data;
pub mod device;
pub mod error;
pub mod events;
pub mod exchange;
pub mod library;
pub mod looped;
pub mod mr;
pub mod pages;
pub mod pd;
pub mod perftest;
pub mod pingpong;
pub mod placement;
pub mod qp;
pub mod ring;

/// What bindgen made of the header; its unsafe blocks pass on the contracts of the C functions.
#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "generated"
)]
#[rustfmt::skip]
mod bindings;

pub use error::VerbsError;
pub use library::Library;
