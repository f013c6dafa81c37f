//! The secret that a scrubbing goes by: a keyed hash whose output tells nothing of what went in.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The secret. Recordings scrubbed with the same one replace equal originals by equal things.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// From a text or a file's content that its owner keeps.
    pub fn from_secret(secret: &[u8]) -> Key {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&Sha256::digest(secret));
        Key(Hmac::new(&block.into()))
    }

    /// A random one that nobody else has; the error is the kernel's.
    pub fn fresh() -> std::io::Result<Key> {
        let mut secret = [0; 32];
        let mut filled = 0;
        while filled < secret.len() {
            filled += rustix::rand::getrandom(&mut secret[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Key::from_secret(&secret))
    }

    /// 64 bits that depend on the key, on what the value is, and on the value.
    pub(super) fn hash(&self, kind: &str, value: &[u8]) -> u64 {
        let mut hmac = self.0.clone();
        hmac.update(&(kind.len() as u64).to_be_bytes());
        hmac.update(kind.as_bytes());
        hmac.update(value);
        let digest = hmac.finalize().into_bytes();
        digest.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}
