//! A remote that is a PostgreSQL database, such as `postgres://mia@db.example.com/recall`.
//!
//! Machines call functions and access no table (`functions.sql`). Each call is one transaction with an unnamed
//! statement, so that a connection pooler may use another session for each: no `LISTEN`, no session settings, no
//! session locks. A round uses one connection at a time, opened when it is first needed. After a connection failure
//! the rest of the round fails at once. So an unreachable server costs one timeout, not one for each project.

mod password;
pub mod setup;
mod tls;

use std::error::Error as _;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::config::{Config, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls, Row};

use recall_domain::plain::visible;
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::Record;
use recall_system::secret::KeySource;

use crate::address::{DatabaseAddress, ServerCheck};
use crate::segment::Seal;
use password::FoundPassword;
use setup::SCHEMA;
use tls::Tls;

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// SQLSTATE codes that the server's functions raise. The first is a bug in recall; the second means that the machine
/// belongs to another login.
const NOT_ACCEPTED: &str = "RC001";
const OTHER_LOGIN: &str = "RC002";

/// Why a database cannot be used. The message never contains a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    #[error("cannot find the password: {0}")]
    Password(String),
    #[error("{0}")]
    Certificate(String),
    #[error("cannot reach {server}: {why}")]
    Unreachable { server: String, why: String },
    #[error("{server} did not answer within {seconds} s")]
    Silent { server: String, seconds: u64 },
    #[error(
        "{server} offers no encryption. If you trust the network between, add sslmode=disable to the address"
    )]
    Unencrypted { server: String },
    #[error("cannot verify the identity of {server}: {why}")]
    Unproven { server: String, why: String },
    #[error("{server} asks for a password of {user}, and {place} has none for it")]
    NoPassword { server: String, user: String, place: String },
    #[error("{server} refuses {user} (with the password from {place}): {why}")]
    NotLetIn { server: String, user: String, place: String, why: String },
    #[error(
        "the database {database} is not set up for recall: run `recall remote init` with its address once"
    )]
    NotSetUp { database: String },
    #[error(
        "the database {database} was set up by an older recall: run `recall remote init` with its address again"
    )]
    Older { database: String },
    #[error(
        "the database {database} was set up by a newer recall (schema {schema}, known here: {SCHEMA}): update recall"
    )]
    Newer { database: String, schema: i32 },
    #[error(
        "{user} may not use recall's functions in the database {database}: an administrator grants it \
             recall_member, or recall_reader to read only"
    )]
    NotAllowed { database: String, user: String },
    #[error("the database {database} is not the one that was there before")]
    OtherDatabase { database: String },
    #[error("the disk of {server} is full. Nothing is lost: new changes wait here until it has space")]
    NoRoom { server: String },
    #[error("the server refused: {0}")]
    Refused(String),
    #[error("the server's answer cannot be understood: {0}")]
    Answer(String),
}

/// A database. It keeps its connection after the first use.
pub struct Database {
    address: DatabaseAddress,
    password: KeySource,
    state: Mutex<State>,
}

enum State {
    New,
    Open(Client),
    Failed(DatabaseError),
}

/// The last entry of a machine's log in the database.
pub(crate) struct Head {
    pub device: DeviceId,
    pub seq: u64,
    pub hash: String,
    /// Changes whenever the machine's progress does.
    pub progress_mark: Option<String>,
}

/// Entries to append in one call.
pub(crate) struct Append<'a> {
    pub space: &'a str,
    pub device: &'a DeviceId,
    pub seal: &'a Seal,
    /// The hash of the entry before the first.
    pub before: &'a str,
    pub records: &'a [Record],
}

/// Entries as stored in the database.
pub(crate) struct Page {
    pub seal: Seal,
    pub records: Vec<Record>,
}

/// A statement's parameter, with its type.
type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl Database {
    pub(crate) fn at(address: DatabaseAddress, password: KeySource) -> Self {
        Self { address, password, state: Mutex::new(State::New) }
    }

    /// Checks the database's id, and that this version knows its schema.
    pub(crate) async fn enter(&self, known: Option<&str>) -> Result<String, DatabaseError> {
        let row = self.one("SELECT schema, id FROM recall.enter()", &[]).await?;
        let (schema, id): (i32, String) = (value(&row, 0)?, value(&row, 1)?);
        let database = self.address.database.clone();
        match known {
            _ if schema > SCHEMA => Err(DatabaseError::Newer { database, schema }),
            _ if schema < SCHEMA => Err(DatabaseError::Older { database }),
            Some(known) if known != id => Err(DatabaseError::OtherDatabase { database }),
            _ => Ok(id),
        }
    }

    pub(crate) async fn heads(&self, space: &str) -> Result<Vec<Head>, DatabaseError> {
        let sql = "SELECT device, seq, hash, progress_mark FROM recall.heads($1)";
        let rows = self.all(sql, &[(&space, Type::TEXT)]).await?;
        let head = |row: &Row| {
            let device: String = value(row, 0)?;
            let Some(device) = DeviceId::parse(&device) else { return Ok(None) };
            Ok(Some(Head {
                device,
                seq: number(row, 1)?,
                hash: value(row, 2)?,
                progress_mark: value(row, 3)?,
            }))
        };
        rows.iter().filter_map(|row| head(row).transpose()).collect()
    }

    /// Reads the progress of these machines.
    pub(crate) async fn progress(
        &self,
        space: &str,
        devices: &[&str],
    ) -> Result<Vec<(String, String)>, DatabaseError> {
        if devices.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT device, progress FROM recall.progress($1, $2)";
        let rows = self.all(sql, &[(&space, Type::TEXT), (&devices, Type::TEXT_ARRAY)]).await?;
        rows.iter().map(|row| Ok((value(row, 0)?, value(row, 1)?))).collect()
    }

    /// Reads the entries after a given one. Returns none at the end of the log.
    pub(crate) async fn pull(
        &self,
        space: &str,
        device: &DeviceId,
        after: u64,
    ) -> Result<Vec<Page>, DatabaseError> {
        let sql = "SELECT header, hash, signature, first, kinds, items, times, bodies, body_hashes FROM recall.pull($1, $2, $3)";
        let after = signed(after)?;
        let parameters: [Parameter<'_>; 3] =
            [(&space, Type::TEXT), (&device.0, Type::TEXT), (&after, Type::INT8)];
        self.all(sql, &parameters).await?.iter().map(page).collect()
    }

    /// Appends to the machine's own log. Returns `None` once written; otherwise the actual end of the log, which the
    /// entries do not follow.
    pub(crate) async fn append(&self, append: &Append<'_>) -> Result<Option<(u64, String)>, DatabaseError> {
        let Append { space, device, seal, before, records } = append;
        let Some(first) = records.first().map(|record| record.seq) else { return Ok(None) };
        let first = signed(first)?;
        let column = |of: fn(&Record) -> &str| records.iter().map(of).collect::<Vec<&str>>();
        let (kinds, items, hashes) =
            (column(|it| &it.kind), column(|it| &it.item), column(|it| &it.body_hash));
        let times: Vec<i64> = records.iter().map(|record| record.at).collect();
        let bodies: Vec<Option<&str>> = records.iter().map(|record| record.body.as_deref()).collect();
        let sql =
            "SELECT written, seq, hash FROM recall.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let parameters: [Parameter<'_>; 12] = [
            (space, Type::TEXT),
            (&device.0, Type::TEXT),
            (&seal.head, Type::TEXT),
            (&seal.signature, Type::TEXT),
            (&first, Type::INT8),
            (before, Type::TEXT),
            (&seal.end, Type::TEXT),
            (&kinds, Type::TEXT_ARRAY),
            (&items, Type::TEXT_ARRAY),
            (&times, Type::INT8_ARRAY),
            (&bodies, Type::TEXT_ARRAY),
            (&hashes, Type::TEXT_ARRAY),
        ];
        let row = self.one(sql, &parameters).await?;
        match value(&row, 0)? {
            true => Ok(None),
            false => Ok(Some((number(&row, 1)?, value(&row, 2)?))),
        }
    }

    /// Empties bodies in the machine's own log.
    pub(crate) async fn blank(
        &self,
        space: &str,
        device: &DeviceId,
        seqs: &[u64],
    ) -> Result<(), DatabaseError> {
        let seqs: Vec<i64> = seqs.iter().map(|seq| signed(*seq)).collect::<Result<_, _>>()?;
        let parameters: [Parameter<'_>; 3] =
            [(&space, Type::TEXT), (&device.0, Type::TEXT), (&seqs, Type::INT8_ARRAY)];
        self.all("SELECT recall.blank($1, $2, $3)", &parameters).await.map(drop)
    }

    /// Writes how far the machine has read the others.
    pub(crate) async fn write_progress(
        &self,
        space: &str,
        device: &DeviceId,
        text: &str,
    ) -> Result<(), DatabaseError> {
        let parameters: [Parameter<'_>; 3] =
            [(&space, Type::TEXT), (&device.0, Type::TEXT), (&text, Type::TEXT)];
        self.all("SELECT recall.say_progress($1, $2, $3)", &parameters).await.map(drop)
    }

    async fn one(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Row, DatabaseError> {
        let rows = self.all(sql, parameters).await?;
        rows.into_iter().next().ok_or_else(|| DatabaseError::Answer("a row is missing".to_owned()))
    }

    async fn all(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let mut state = self.state.lock().await;
        if let State::New = *state {
            *state = match connected(&self.address, &self.password).await {
                Ok(client) => State::Open(client),
                Err(error) => State::Failed(error),
            };
        }
        let (error, is_lost) = match &*state {
            State::New => (self.silent(CONNECT_WITHIN), false),
            State::Failed(error) => return Err(error.clone()),
            State::Open(client) => match timeout(ANSWER_WITHIN, client.query_typed(sql, parameters)).await {
                Ok(Ok(rows)) => return Ok(rows),
                Ok(Err(error)) => (self.explained(&error), client.is_closed()),
                Err(_) => (self.silent(ANSWER_WITHIN), true),
            },
        };
        if is_lost {
            *state = State::Failed(error.clone());
        }
        Err(error)
    }

    fn silent(&self, within: Duration) -> DatabaseError {
        DatabaseError::Silent { server: self.address.server(), seconds: within.as_secs() }
    }

    /// Converts an error of a call into its cause.
    fn explained(&self, error: &tokio_postgres::Error) -> DatabaseError {
        let (database, user) = (self.address.database.clone(), self.address.user.clone());
        let Some(db_error) = error.as_db_error() else {
            return DatabaseError::Unreachable { server: self.address.server(), why: causes(error) };
        };
        let not_there = [SqlState::INVALID_SCHEMA_NAME, SqlState::UNDEFINED_FUNCTION];
        match db_error.code() {
            code if not_there.contains(code) => DatabaseError::NotSetUp { database },
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => DatabaseError::NotAllowed { database, user },
            code if *code == SqlState::DISK_FULL => DatabaseError::NoRoom { server: self.address.server() },
            code if [NOT_ACCEPTED, OTHER_LOGIN].contains(&code.code()) => {
                DatabaseError::Refused(visible(db_error.message()))
            }
            code => DatabaseError::Refused(visible(&format!("{} ({})", db_error.message(), code.code()))),
        }
    }
}

/// Connects, and spawns the task that serves the connection until its client is dropped.
async fn connected(address: &DatabaseAddress, source: &KeySource) -> Result<Client, DatabaseError> {
    let (asked, from) = (address.clone(), source.clone());
    // Reading the keyring runs a program, and certificates are files: both block.
    let prepared = tokio::task::spawn_blocking(move || {
        let found = password::find(&asked, &from).map_err(DatabaseError::Password)?;
        let tls = match asked.check {
            ServerCheck::Plain => None,
            _ => Some(Tls::of(&asked).map_err(DatabaseError::Certificate)?),
        };
        Ok((found, tls))
    });
    let (found, tls) =
        prepared.await.unwrap_or_else(|error| Err(DatabaseError::Answer(error.to_string())))?;
    let config = config(address, &found);
    let connecting = async {
        match tls {
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                tokio::spawn(connection);
                Ok(client)
            }
            Some(tls) => {
                let (client, connection) = config.connect(tls).await?;
                tokio::spawn(connection);
                Ok(client)
            }
        }
    };
    match timeout(CONNECT_WITHIN, connecting).await {
        Ok(connected) => connected.map_err(|error| not_connected(address, &found, &error)),
        Err(_) => Err(DatabaseError::Silent { server: address.server(), seconds: CONNECT_WITHIN.as_secs() }),
    }
}

fn config(address: &DatabaseAddress, found: &FoundPassword) -> Config {
    let mut config = Config::new();
    config
        .host(&address.host)
        .port(address.port)
        .user(&address.user)
        .dbname(&address.database)
        .application_name("recall")
        .connect_timeout(CONNECT_WITHIN)
        .ssl_mode(if address.check == ServerCheck::Plain { SslMode::Disable } else { SslMode::Require });
    if let Some(password) = &found.password {
        config.password(password.reveal());
    }
    config
}

/// Explains a failed connection.
fn not_connected(
    address: &DatabaseAddress,
    found: &FoundPassword,
    error: &tokio_postgres::Error,
) -> DatabaseError {
    let (server, user, place) = (address.server(), address.user.clone(), found.place.clone());
    if let Some(db_error) = error.as_db_error() {
        let why = visible(db_error.message());
        let refusals = [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION];
        return match found.password {
            _ if !refusals.contains(db_error.code()) => DatabaseError::Unreachable { server, why },
            None => DatabaseError::NotLetIn { server, user, place: "nowhere".to_owned(), why },
            Some(_) => DatabaseError::NotLetIn { server, user, place, why },
        };
    }
    let why = causes(error);
    if why.contains("password missing") {
        return DatabaseError::NoPassword { server, user, place };
    }
    if why.contains("server does not support TLS") {
        return DatabaseError::Unencrypted { server };
    }
    if why.contains("TLS handshake") {
        return DatabaseError::Unproven { server, why };
    }
    DatabaseError::Unreachable { server, why }
}

/// Joins an error and its causes into one line, without control characters: the server may have written it.
fn causes(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    visible(&text)
}

fn page(row: &Row) -> Result<Page, DatabaseError> {
    let seal = Seal { head: value(row, 0)?, end: value(row, 1)?, signature: value(row, 2)? };
    let first = number(row, 3)?;
    let (kinds, items, times): (Vec<String>, Vec<String>, Vec<i64>) =
        (value(row, 4)?, value(row, 5)?, value(row, 6)?);
    let (bodies, hashes): (Vec<Option<String>>, Vec<String>) = (value(row, 7)?, value(row, 8)?);
    let entries = kinds.into_iter().zip(items).zip(times).zip(bodies).zip(hashes);
    let record =
        |(seq, ((((kind, item), at), body), body_hash))| Record { seq, kind, item, at, body, body_hash };
    Ok(Page { seal, records: (first..).zip(entries).map(record).collect() })
}

fn value<'r, T: tokio_postgres::types::FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, DatabaseError> {
    row.try_get(at).map_err(|error| DatabaseError::Answer(causes(&error)))
}

fn number(row: &Row, at: usize) -> Result<u64, DatabaseError> {
    let number: i64 = value(row, at)?;
    u64::try_from(number).map_err(|error| DatabaseError::Answer(error.to_string()))
}

fn signed(number: u64) -> Result<i64, DatabaseError> {
    i64::try_from(number).map_err(|error| DatabaseError::Answer(error.to_string()))
}
