//! Which GID a connection uses, and why.
