//! Keys and passwords. They are read when needed, and never shown.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The service name of keys in the system's keyring.
const SERVICE: &str = "recall";

/// The location of a secret. It never contains the secret itself, because settings may be logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeySource {
    /// No secret, for servers that require none.
    #[default]
    None,
    /// A variable of the daemon's environment. It is present if a service manager or the user starts the daemon, but
    /// not if a hook does.
    Environment(String),
    /// A file that only its owner may read.
    File(PathBuf),
    /// An entry in the system's keyring, by its account name under the service `recall`.
    Keyring(String),
}

/// A secret. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Reads the key for a header. `None` if none is configured. If the key is replaced, the next call uses the new one.
///
/// # Errors
/// Fails when the configured location has no valid key, as a message for the user.
pub fn read_key(source: &KeySource) -> Result<Option<Secret>, String> {
    let Some(text) = read(source, "key")? else { return Ok(None) };
    let key = text.trim();
    // A text that is invalid in a header cannot be a key, and must not be quoted in an error.
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the key is empty or contains invalid characters".to_owned());
    }
    Ok(Some(Secret::new(key)))
}

/// Reads a password, which may be any single line of text. `None` if none is configured.
///
/// # Errors
/// Fails when the configured location has no valid password, as a message for the user.
pub fn read_password(source: &KeySource) -> Result<Option<Secret>, String> {
    let Some(text) = read(source, "password")? else { return Ok(None) };
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() || password.contains(['\n', '\0']) {
        return Err("the password is empty or longer than a line".to_owned());
    }
    Ok(Some(Secret::new(password)))
}

fn read(source: &KeySource, what: &str) -> Result<Option<String>, String> {
    let text = match source {
        KeySource::None => return Ok(None),
        KeySource::Environment(name) => std::env::var(name).map_err(|_| {
            format!(
                "the variable {name} is not in the daemon's environment (it has none when a hook started it)"
            )
        })?,
        KeySource::File(path) => read_private(path, what)?,
        KeySource::Keyring(account) => read_keyring(account)?,
    };
    Ok(Some(text))
}

/// Reads a file that nobody else may read. Error messages call its content `what`.
///
/// # Errors
/// Fails when it cannot be read, or others can read it, as a message for the user.
pub fn read_private(path: &Path, what: &str) -> Result<String, String> {
    const MOST: u64 = 64 * 1024;
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("the {what} file {shown} cannot be read: {error}");
    // Opening a FIFO must not block the caller.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path);
    let file = opened.map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(format!("the {what} file {shown} is not a regular file"));
    }
    if metadata.mode() & 0o077 != 0 || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!("the {what} file {shown} can be read by others; run `chmod 600 {shown}`"));
    }
    let mut text = String::new();
    file.take(MOST)
        .read_to_string(&mut text)
        .map_err(|error| format!("the {what} file {shown} cannot be read: {error}"))?;
    Ok(text)
}

/// Runs the system's own program, because the keyring's libraries would take up a large part of the daemon for a few
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
        .map_err(|error| format!("cannot query the keyring: {error}"))?;
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
    fn a_key_file_must_be_private_and_its_key_is_not_printed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "sk-planted-0123456789\n").unwrap();
        let source = KeySource::File(path.clone());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_key(&source).unwrap_err().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let key = read_key(&source).unwrap().unwrap();
        assert_eq!(key.reveal(), "sk-planted-0123456789");
        assert!(!format!("{key:?}").contains("planted"));
        std::fs::write(&path, "two words").unwrap();
        assert!(!read_key(&source).unwrap_err().contains("two words"));
        assert_eq!(read_password(&source).unwrap().unwrap().reveal(), "two words");
        std::fs::write(&path, "one\ntwo").unwrap();
        assert!(read_password(&source).unwrap_err().contains("longer than a line"));
        std::fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(read_key(&source).unwrap_err().contains("not a regular file"));
    }

    #[test]
    fn the_error_for_a_missing_key_names_its_source() {
        assert_eq!(read_key(&KeySource::None), Ok(None));
        let missing = read_key(&KeySource::Environment("RECALL_TEST_NO_SUCH_KEY".to_owned())).unwrap_err();
        assert!(missing.contains("RECALL_TEST_NO_SUCH_KEY"), "{missing}");
    }
}
