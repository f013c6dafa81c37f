//! Bandwidth and latency tests over RC QPs, wire-compatible with perftest's ib_{write,read,send}_{bw,lat} in both roles.

pub mod conversation;
