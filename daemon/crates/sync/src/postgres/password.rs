//! The password for a database: from the source that the settings name, otherwise from a password file like `psql`:
//! `passfile` of the address, `PGPASSFILE`, or `~/.pgpass`.

use std::path::{Path, PathBuf};

use recall_system::secret::{KeySource, Secret, read_password, read_private};

use crate::address::DatabaseAddress;

/// A password, if there is one, and its source for people.
pub(super) struct FoundPassword {
    pub password: Option<Secret>,
    pub place: String,
}

/// Looks up the password.
///
/// # Errors
/// The source cannot be read. The error is a message for the user.
pub(super) fn find(address: &DatabaseAddress, source: &KeySource) -> Result<FoundPassword, String> {
    let place = match source {
        KeySource::None => return from_passfile(address),
        KeySource::Environment(name) => format!("the variable {name}"),
        KeySource::File(path) => path.display().to_string(),
        KeySource::Keyring(account) => format!("the keyring's entry {account}"),
    };
    Ok(FoundPassword { password: read_password(source)?, place })
}

fn from_passfile(address: &DatabaseAddress) -> Result<FoundPassword, String> {
    let named = || std::env::var_os("PGPASSFILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let own = || std::env::home_dir().map(|home| home.join(".pgpass"));
    let Some(path) = address.passfile.clone().or_else(named).or_else(own) else {
        return Ok(FoundPassword { password: None, place: "~/.pgpass".to_owned() });
    };
    Ok(FoundPassword { password: in_passfile(&path, address)?, place: path.display().to_string() })
}

/// Looks up the password in a file. Returns `None` if the file does not exist or has none for this database.
fn in_passfile(path: &Path, address: &DatabaseAddress) -> Result<Option<Secret>, String> {
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let text = read_private(path, "password")?;
    Ok(text.lines().find_map(|line| password_in(line, address)).filter(|secret| !secret.reveal().is_empty()))
}

/// Returns the password of a line `host:port:database:user:password` if the line matches this database.
fn password_in(line: &str, address: &DatabaseAddress) -> Option<Secret> {
    if line.starts_with('#') {
        return None;
    }
    // `localhost` also matches any Unix socket.
    let host = |part: &str| part == address.host || (address.is_socket() && part == "localhost");
    let mut rest = line;
    let mut matches = |is_meant: &dyn Fn(&str) -> bool| {
        let (part, after) = part_of(rest)?;
        rest = after;
        (part == "*" || is_meant(&unescaped(part))).then_some(())
    };
    matches(&host)?;
    matches(&|part| part == address.port.to_string())?;
    matches(&|part| part == address.database)?;
    matches(&|part| part == address.user)?;
    // Colons in the password need no backslash.
    Some(Secret::new(&unescaped(rest)))
}

/// Splits a text at the next unescaped colon.
fn part_of(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    let end = text.char_indices().find_map(|(at, char)| {
        let ends = char == ':' && !is_escaped;
        is_escaped = char == '\\' && !is_escaped;
        ends.then_some(at)
    })?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

fn unescaped(part: &str) -> String {
    let mut chars = part.chars();
    let mut text = String::with_capacity(part.len());
    while let Some(char) = chars.next() {
        text.extend(if char == '\\' { chars.next() } else { Some(char) });
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::address::Address;

    fn address(url: &str) -> DatabaseAddress {
        match Address::parse(url).unwrap() {
            Address::Postgres(address) => address,
            Address::Folder(_) => panic!("{url}"),
        }
    }

    fn found(line: &str, url: &str) -> Option<String> {
        password_in(line, &address(url)).map(|secret| secret.reveal().to_owned())
    }

    #[test]
    fn a_password_line_matches_host_port_database_and_user_as_in_psql() {
        let url = "postgres://mia@db.example.com/recall";
        for (line, password) in [
            (concat!("db.example.com:5432:recall:mia", ":one"), Some("one")),
            ("*:*:*:*:a:b\\\\c\\:d", Some("a:b\\c:d")),
            (concat!("db.example.com:5432:recall:ben", ":one"), None),
            (concat!("db.example.com:6432:recall:mia", ":one"), None),
            (concat!("other:5432:recall:mia", ":one"), None),
            (concat!("#*:*:*:*", ":one"), None),
            ("*:*:*:mia", None),
            ("", None),
        ] {
            assert_eq!(found(line, url).as_deref(), password, "{line}");
        }
        assert_eq!(found("\\:\\:1:*:*:*:one", "postgres://mia@[::1]/r").as_deref(), Some("one"));
        let socket = "postgres://mia@/r?host=/run/postgresql";
        for host in ["localhost", "/run/postgresql"] {
            assert_eq!(found(&format!("{host}:*:*:*:one"), socket).as_deref(), Some("one"));
        }
    }

    #[test]
    fn a_password_file_must_be_private_and_may_be_absent() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("pgpass");
        let address = address(&format!("postgres://mia@db/r?passfile={}", path.display()));
        assert_eq!(find(&address, &KeySource::None).unwrap().password, None);
        std::fs::write(
            &path,
            concat!("# ours\nother:*:*:*", ":one\ndb:*:*:mia", ":two\n*:*:*:*", ":three\n"),
        )
        .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(find(&address, &KeySource::None).err().unwrap().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(find(&address, &KeySource::None).unwrap().password, Some(Secret::new("two")));
    }
}
