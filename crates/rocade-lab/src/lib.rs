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
mod go;
pub mod holder;
pub mod host_packages;
pub mod image;
pub mod interrupt;
pub mod kernel;
pub mod kubernetes;
pub mod native;
pub mod preflight;
pub mod product;
pub mod record;
pub mod statistics;
pub mod steps;
pub mod traces;
