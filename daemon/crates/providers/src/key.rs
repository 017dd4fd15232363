//! The key of a provider: read when it is needed, and never shown.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use super::KeySource;

/// The service name of keys in the system's keyring.
const SERVICE: &str = "recall";

/// A secret. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ApiKey(String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

impl ApiKey {
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

/// Reads the key. `None` if none is configured. A replaced key is used from the next call on.
///
/// # Errors
/// When the configured place has no key, as a message for the user.
pub(super) fn read(source: &KeySource) -> Result<Option<ApiKey>, String> {
    let text = match source {
        KeySource::None => return Ok(None),
        KeySource::Environment(name) => std::env::var(name).map_err(|_| {
            format!(
                "the variable {name} is not in the daemon's environment (it has none when a hook started it)"
            )
        })?,
        KeySource::File(path) => read_file(path)?,
        KeySource::Keyring(account) => read_keyring(account)?,
    };
    let key = text.trim();
    // A text that is invalid in a header is not a key, and must not be quoted in an error.
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the key is empty or contains invalid characters".to_owned());
    }
    Ok(Some(ApiKey(key.to_owned())))
}

fn read_file(path: &Path) -> Result<String, String> {
    const MOST: u64 = 64 * 1024;
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("the key file {shown} cannot be read: {error}");
    // A pipe must not block a job.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path);
    let file = opened.map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(format!("the key file {shown} is not a regular file"));
    }
    if metadata.mode() & 0o077 != 0 || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!("the key file {shown} can be read by others; run `chmod 600 {shown}`"));
    }
    let mut text = String::new();
    file.take(MOST)
        .read_to_string(&mut text)
        .map_err(|error| format!("the key file {shown} cannot be read: {error}"))?;
    Ok(text)
}

/// Asks the system's own program, because the keyring's libraries would make up a large part of the daemon for a few
/// users.
fn read_keyring(account: &str) -> Result<String, String> {
    let mut command = if cfg!(target_os = "macos") {
        let mut command = Command::new("security");
        command.args(["find-generic-password", "-s", SERVICE, "-a", account, "-w"]);
        command
    } else {
        let mut command = Command::new("secret-tool");
        command.args(["lookup", "service", SERVICE, "account", account]);
        command
    };
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| format!("the keyring cannot be asked: {error}"))?;
    if !output.status.success() {
        return Err(format!("the keyring has no entry {account:?} of the service {SERVICE:?}, or is locked"));
    }
    String::from_utf8(output.stdout).map_err(|_| "the keyring's entry is not text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_file_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "sk-planted-0123456789\n").unwrap();
        let source = KeySource::File(path.clone());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&source).unwrap_err().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let key = read(&source).unwrap().unwrap();
        assert_eq!(key.reveal(), "sk-planted-0123456789");
        assert!(!format!("{key:?}").contains("planted"));
        std::fs::write(&path, "two words").unwrap();
        assert!(!read(&source).unwrap_err().contains("two words"));
        std::fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(read(&source).unwrap_err().contains("not a regular file"));
    }

    #[test]
    fn a_missing_key_is_named_by_its_place() {
        assert_eq!(read(&KeySource::None), Ok(None));
        let missing = read(&KeySource::Environment("RECALL_TEST_NO_SUCH_KEY".to_owned())).unwrap_err();
        assert!(missing.contains("RECALL_TEST_NO_SUCH_KEY"), "{missing}");
    }
}
