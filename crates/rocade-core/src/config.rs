//! Configuration as text → types.
