//! The bench: soft-RoCE machines, real Kubernetes, packages and images, made from Debian, Rust and Go alone.
//! Development only; the product depends on nothing here.
#![forbid(unsafe_code)]

pub mod cache;
pub mod chain;
pub mod cluster;
pub mod command;
pub mod debian;
pub mod demo;
pub mod disk;
pub mod fake_kubelet;
mod go;
pub mod holder;
pub mod host_packages;
pub mod host_tree;
pub mod image;
pub mod interrupt;
pub mod kernel;
pub mod kubernetes;
pub mod launch;
pub mod native;
pub mod paired;
pub mod peer;
pub mod preflight;
mod process;
pub mod product;
pub mod record;
pub mod stage;
pub mod statistics;
pub mod steps;
pub mod traces;
