//! Two ends of a test: what each tells the other, and what comes of it. The messages of a stock tool's exchange are
//! text ↔ types here; sending them is not.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use crate::gid::Choice;
use crate::names::Gid;

pub mod expect;
mod message;
pub mod perf;

pub use message::{DONE, MESSAGE_BYTES, ParseMessageError};

/// Which end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Waited for the connection.
    Server,
    /// Connected, and sends first.
    Client,
}

impl Role {
    /// The other end's.
    pub fn other(self) -> Role {
        match self {
            Role::Server => Role::Client,
            Role::Client => Role::Server,
        }
    }
}

/// Where one end's QP is to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Local identifier on InfiniBand; 0 on RoCE.
    pub lid: u16,
    /// Number of the QP, 24 bits.
    pub qpn: u32,
    /// First packet sequence number of the sender, 24 bits.
    pub psn: u32,
    /// GID of the port; all zero where the LID is enough.
    pub gid: Gid,
}

impl fmt::Display for Endpoint {
    /// As ibv_rc_pingpong prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gid = Ipv6Addr::from(self.gid.0);
        write!(f, "LID 0x{:04x}, QPN 0x{:06x}, PSN 0x{:06x}, GID {gid}", self.lid, self.qpn, self.psn)
    }
}

/// Result of one end of a test between two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairResult {
    /// The test, as `pingpong`.
    pub test: String,
    /// This end's role.
    pub role: Role,
    /// What this end ran over.
    #[serde(flatten)]
    pub choice: Choice,
    /// This end's QP.
    pub local: Endpoint,
    /// The other end's.
    pub remote: Endpoint,
    /// Path MTU of the QP, bytes.
    pub mtu_bytes: u32,
    /// That no fabric was in between, and how that is known; None where that is not so, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopback: Option<String>,
    /// CPUs that this end's thread was held to, as 0-3,8; None where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Size of one message, bytes.
    pub message_bytes: u32,
    /// Round trips made.
    pub iterations: u32,
    /// Payload moved, both directions together.
    pub bytes: u64,
    /// Whether each received byte was compared with what was to come.
    pub data_checked: bool,
    /// Time of the loop.
    pub seconds: f64,
    /// 10⁶ bit/s, both directions together.
    pub mbit_per_second: f64,
    /// Time of a full round trip.
    pub usec_per_iteration: f64,
    /// Growth of this end's port counters during the test, those that grew.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Whether what was expected of it came; None where nothing was expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<perf::expect::Verdict>,
}
