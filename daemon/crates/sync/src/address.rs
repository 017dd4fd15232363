//! The address of a remote: a folder, or a PostgreSQL database.

use std::fmt;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

use super::folder::RemoteFolder;

const DEFAULT_PORT: u16 = 5432;

/// The parsed address of a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Folder(RemoteFolder),
    Postgres(DatabaseAddress),
}

/// A database on a PostgreSQL server. Its address never contains a password, because addresses are displayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseAddress {
    /// A host name, an IP address, or the folder of the server's Unix socket.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    pub check: ServerCheck,
    /// The certificate authorities to trust instead of the system's.
    pub root_cert: Option<PathBuf>,
    /// The client's certificate and its key.
    pub client_cert: Option<(PathBuf, PathBuf)>,
    /// A password file instead of `~/.pgpass`.
    pub passfile: Option<PathBuf>,
}

/// How the server is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerCheck {
    /// Its certificate must be valid for its name.
    Name,
    /// Its certificate must come from a trusted authority; the name may differ.
    Authority,
    /// Not authenticated, but the connection is encrypted.
    Encrypted,
    /// Not encrypted.
    Plain,
}

/// The kind of a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteKind {
    Folder,
    Postgres,
}

/// Why a text is not a valid address. The error contains no part of the address, which could be a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error(
        "is neither a folder, such as file:///media/stick/recall, nor a database, such as \
             postgres://mia@db.example.com/recall"
    )]
    Unknown,
    #[error(
        "contains a password, and addresses are shown: take it out, and put it into ~/.pgpass, or name its place by \
             password_file, password_keyring or password_env"
    )]
    Password,
    #[error("has no {0}: postgres://USER@HOST/DATABASE")]
    Missing(&'static str),
    #[error("has a part that is not valid UTF-8")]
    NotText,
    #[error("has a port that is not a number")]
    Port,
    #[error("has the unknown parameter {0:?}")]
    Parameter(String),
    #[error(
        "asks for sslmode={0}, which may send everything unencrypted: use verify-full, verify-ca, require or disable"
    )]
    WeakMode(String),
    #[error("has the unknown sslmode {0:?}: use verify-full, verify-ca, require or disable")]
    Mode(String),
    #[error("must name {0} by an absolute path")]
    Relative(&'static str),
    #[error(
        "needs sslrootcert for sslmode=verify-ca: any authority that the system trusts could sign for any name"
    )]
    NoAuthority,
    #[error("has only one of sslcert and sslkey")]
    HalfCertificate,
    #[error("names several servers; name one")]
    Several,
}

impl RemoteKind {
    pub const ALL: [Self; 2] = [Self::Folder, Self::Postgres];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Postgres => "postgres",
        }
    }
}

impl fmt::Display for RemoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "a folder",
            Self::Postgres => "PostgreSQL",
        })
    }
}

impl Address {
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let scheme = ["postgres://", "postgresql://"].into_iter().find_map(|scheme| url.strip_prefix(scheme));
        match scheme {
            Some(rest) => Ok(Self::Postgres(DatabaseAddress::parse(rest)?)),
            None => RemoteFolder::at(url).map(Self::Folder).ok_or(AddressError::Unknown),
        }
    }

    pub fn kind(&self) -> RemoteKind {
        match self {
            Self::Folder(_) => RemoteKind::Folder,
            Self::Postgres(_) => RemoteKind::Postgres,
        }
    }
}

impl DatabaseAddress {
    /// Parses what follows the scheme.
    fn parse(rest: &str) -> Result<Self, AddressError> {
        let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if user.contains(':') {
            return Err(AddressError::Password);
        }
        let (host, port) = host_and_port(host)?;
        let mut address = Self {
            host: decoded(host)?,
            port,
            user: decoded(user)?,
            database: decoded(path)?,
            check: ServerCheck::Name,
            root_cert: None,
            client_cert: None,
            passfile: None,
        };
        let mut mode = None;
        let (mut cert, mut key) = (None, None);
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            match name.as_str() {
                "password" | "sslpassword" => return Err(AddressError::Password),
                "host" => address.host = value,
                "port" => address.port = value.parse().map_err(|_| AddressError::Port)?,
                "user" => address.user = value,
                "dbname" => address.database = value,
                "sslmode" => mode = Some(check_of(&value)?),
                "sslrootcert" => address.root_cert = Some(absolute(value, "sslrootcert")?),
                "sslcert" => cert = Some(absolute(value, "sslcert")?),
                "sslkey" => key = Some(absolute(value, "sslkey")?),
                "passfile" => address.passfile = Some(absolute(value, "passfile")?),
                _ => return Err(AddressError::Parameter(name)),
            }
        }
        address.client_cert = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(AddressError::HalfCertificate),
        };
        // A Unix socket has no TLS; its data stays on the machine.
        let usual = if address.is_socket() { ServerCheck::Plain } else { ServerCheck::Name };
        address.check = mode.unwrap_or(usual);
        address.checked()
    }

    fn checked(self) -> Result<Self, AddressError> {
        let empty = [(&self.user, "user"), (&self.host, "host"), (&self.database, "database")];
        if let Some((_, missing)) = empty.into_iter().find(|(text, _)| text.is_empty()) {
            return Err(AddressError::Missing(missing));
        }
        if self.host.contains(',') {
            return Err(AddressError::Several);
        }
        if self.check == ServerCheck::Authority && self.root_cert.is_none() {
            return Err(AddressError::NoAuthority);
        }
        Ok(self)
    }

    pub(crate) fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }

    /// The server's address, for people.
    pub fn server(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

fn host_and_port(text: &str) -> Result<(&str, u16), AddressError> {
    // An IPv6 address contains colons.
    let (host, port) = match text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':').unwrap_or(rest)),
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = if port.is_empty() { DEFAULT_PORT } else { port.parse().map_err(|_| AddressError::Port)? };
    Ok((host, port))
}

fn decoded(text: &str) -> Result<String, AddressError> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| AddressError::NotText)?;
    if text.contains('\0') { Err(AddressError::NotText) } else { Ok(text.into_owned()) }
}

fn absolute(value: String, name: &'static str) -> Result<PathBuf, AddressError> {
    match Path::new(&value).is_absolute() {
        true => Ok(PathBuf::from(value)),
        false => Err(AddressError::Relative(name)),
    }
}

fn check_of(mode: &str) -> Result<ServerCheck, AddressError> {
    match mode {
        "verify-full" => Ok(ServerCheck::Name),
        "verify-ca" => Ok(ServerCheck::Authority),
        "require" => Ok(ServerCheck::Encrypted),
        "disable" => Ok(ServerCheck::Plain),
        "allow" | "prefer" => Err(AddressError::WeakMode(mode.to_owned())),
        _ => Err(AddressError::Mode(mode.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(url: &str) -> Result<DatabaseAddress, AddressError> {
        Address::parse(url).map(|address| match address {
            Address::Postgres(address) => address,
            Address::Folder(_) => panic!("{url}"),
        })
    }

    #[test]
    fn database_addresses_are_parsed_with_user_host_database_and_options() {
        let address = database("postgres://mia%40acme@db.example.com/recall").unwrap();
        assert_eq!(
            (address.user.as_str(), address.server().as_str(), address.database.as_str(), address.check),
            ("mia@acme", "db.example.com:5432", "recall", ServerCheck::Name)
        );
        let address = database("postgresql://mia@[::1]:6432/m?sslmode=disable").unwrap();
        assert_eq!((address.host.as_str(), address.port, address.check), ("::1", 6432, ServerCheck::Plain));
        let address = database("postgres://mia@/m?host=/run/postgresql").unwrap();
        assert!(address.is_socket() && address.check == ServerCheck::Plain);
        let address =
            database("postgres://m@h/d?sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem&passfile=/p")
                .unwrap();
        assert_eq!(address.client_cert, Some(("/c.pem".into(), "/k.pem".into())));
        assert_eq!((address.root_cert, address.passfile), (Some("/ca.pem".into()), Some("/p".into())));
        assert_eq!(Address::parse("file:///a").map(|address| address.kind()), Ok(RemoteKind::Folder));
    }

    #[test]
    fn a_password_in_an_address_is_rejected_and_not_printed() {
        for url in [
            concat!("postgres://mia:swordfish", "@db/recall"),
            concat!("postgres://mia@db/recall?pass", "word=swordfish"),
            "postgres://mia:@db/recall",
        ] {
            let error = database(url).unwrap_err();
            assert_eq!(error, AddressError::Password, "{url}");
            assert!(error.to_string().contains("~/.pgpass") && !error.to_string().contains("swordfish"));
        }
    }

    #[test]
    fn the_error_for_an_invalid_address_names_the_problem() {
        for (url, named) in [
            ("https://db/recall", "neither a folder"),
            ("postgres://db/recall", "no user"),
            ("postgres://mia@/recall", "no host"),
            ("postgres://mia@db", "no database"),
            ("postgres://mia@db/", "no database"),
            ("postgres://mia@db:x/r", "port"),
            ("postgres://mia@a,b/r", "several servers"),
            ("postgres://mia@db/r?sslmode=prefer", "unencrypted"),
            ("postgres://mia@db/r?sslmode=full", "unknown sslmode"),
            ("postgres://mia@db/r?sslmode=verify-ca", "needs sslrootcert"),
            ("postgres://mia@db/r?sslcert=/a", "only one"),
            ("postgres://mia@db/r?sslrootcert=ca.pem", "absolute path"),
            ("postgres://mia@db/r?options=-c%20x", "unknown parameter \"options\""),
            ("postgres://mia%ff@db/r", "not valid UTF-8"),
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains(named), "{url}: {error}");
        }
    }
}
