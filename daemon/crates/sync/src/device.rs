//! The name and the key of a data folder. The file is beside the database, so no backup or export contains it.

use std::io::{self, Write};
use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use super::hex::{hex, unhex};
use super::key::SealingKey;
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::hash;
use recall_system::trusted_file::{self, Links};

const MOST_BYTES: u64 = 4096;

/// A data folder's key pair, and the name that follows from it.
pub struct Device {
    pub id: DeviceId,
    key: Ed25519KeyPair,
    /// The seed from which this data folder's other keys are derived.
    seed: SealingKey,
}

#[derive(Deserialize, Serialize)]
struct Written {
    seed: String,
}

impl Device {
    /// Reads the file, or creates one with a new key.
    ///
    /// # Errors
    /// The file belongs to another user, or is unreadable or damaged. Such a file is never replaced: a new name would
    /// make this another machine for everybody.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        match trusted_file::read_text(path, Links::Refused, MOST_BYTES) {
            Ok(text) => {
                let written: Written = serde_json::from_str(&text).map_err(io::Error::other)?;
                let seed = unhex(&written.seed).ok_or_else(|| io::Error::other("the key is damaged"))?;
                Self::from_seed(&seed)
            }
            Err(why) if why.is_absence() => Self::renew(path),
            Err(why) => Err(io::Error::other(why.to_string())),
        }
    }

    /// Creates a new key, and replaces the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn renew(path: &Path) -> io::Result<Self> {
        let mut seed = [0_u8; 32];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_| io::Error::other("the system's random number generator failed"))?;
        let device = Self::from_seed(&seed)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        // Temporary files are private to the user.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(serde_json::to_string(&Written { seed: hex(&seed) })?.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        std::fs::File::open(folder)?.sync_all()?;
        Ok(device)
    }

    fn from_seed(seed: &[u8]) -> io::Result<Self> {
        let key =
            Ed25519KeyPair::from_seed_unchecked(seed).map_err(|error| io::Error::other(error.to_string()))?;
        let seed = SealingKey::from_bytes(seed).ok_or_else(|| io::Error::other("the key is damaged"))?;
        Ok(Self { id: named(&hex(key.public_key().as_ref())), key, seed })
    }

    /// The public key as hexadecimal digits.
    pub(crate) fn public_key(&self) -> String {
        hex(self.key.public_key().as_ref())
    }

    /// Derives a key of this data folder for another purpose.
    pub(crate) fn derived(&self, purpose: &str) -> SealingKey {
        self.seed.derived(&[purpose])
    }

    pub fn sign(&self, text: &str) -> String {
        hex(self.key.sign(text.as_bytes()).as_ref())
    }
}

/// Whether the device with this name signed the text. The name proves the public key.
pub(crate) fn is_signed(device: &DeviceId, public_key: &str, text: &str, signature: &str) -> bool {
    let (Some(key), Some(signature)) = (unhex(public_key), unhex(signature)) else { return false };
    named(public_key) == *device
        && UnparsedPublicKey::new(&ED25519, key).verify(text.as_bytes(), &signature).is_ok()
}

fn named(public_key: &str) -> DeviceId {
    let mut name = hash(["recall-device-1", public_key]);
    name.truncate(32);
    DeviceId(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_data_folder_keeps_its_device_id_until_it_is_renewed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("device.json");
        let first = Device::load_or_create(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Device::load_or_create(&path).unwrap().id, first.id);
        assert_eq!(DeviceId::parse(&first.id.0), Some(first.id.clone()));
        assert_ne!(Device::renew(&path).unwrap().id, first.id);
        // A damaged file is never replaced silently.
        std::fs::write(&path, "{\"seed\": \"12").unwrap();
        assert!(Device::load_or_create(&path).is_err());
    }

    #[test]
    fn a_signature_is_valid_only_for_its_device_and_text() {
        let home = tempfile::tempdir().unwrap();
        let device = |name: &str| Device::load_or_create(&home.path().join(name)).unwrap();
        let (a, b) = (device("a"), device("b"));
        let signature = a.sign("text");
        assert!(is_signed(&a.id, &a.public_key(), "text", &signature));
        assert!(!is_signed(&a.id, &a.public_key(), "another text", &signature));
        assert!(!is_signed(&a.id, &b.public_key(), "text", &b.sign("text")), "another key has another name");
        assert!(
            !is_signed(&a.id, &a.public_key(), "text", "zz") && !is_signed(&a.id, "", "text", &signature)
        );
    }
}
