//! Whether an RC test can start on a port.
