//! `recall remote init`: creates roles, tables and functions in a database, or updates them. All of it is one
//! transaction under a lock. So two runs at once, or a killed one, leave nothing half done.

use tokio::time::timeout;
use tokio_postgres::Transaction;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use recall_domain::plain::visible;
use recall_system::secret::KeySource;

use super::{ANSWER_WITHIN, DatabaseError, causes, connected, value};
use crate::address::DatabaseAddress;

/// The schema version that this recall creates and uses.
pub(super) const SCHEMA: i32 = 1;
/// The migrations from each version to the next. A released one never changes.
const STEPS: [&str; 1] = [include_str!("schema_1.sql")];
const ROLES: &str = include_str!("roles.sql");
const FUNCTIONS: &str = include_str!("functions.sql");
/// The advisory lock's key, chosen at random to avoid collisions.
const LOCK: i64 = 7_226_810_350_915_147_311;
const OLDEST_SERVER: i32 = 130_000;

/// The result of the setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupOutcome {
    Made,
    Updated {
        from: i32,
    },
    /// Only its functions were created again; the schema was current.
    Current,
}

/// Why a database cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("the server is PostgreSQL {0}; recall needs version 13 or newer")]
    OldServer(String),
    #[error("the database {0} has a schema called recall that is not recall's")]
    Foreign(String),
    #[error(
        "{user} may not do this on {server}: {why}. The role that runs the setup needs CREATEROLE, and CREATE on the database"
    )]
    NotAllowed { user: String, server: String, why: String },
    #[error("the server has no role {0:?}; create it with CREATE ROLE")]
    NoRole(String),
    #[error("the server refused: {0}")]
    Refused(String),
}

/// Sets a database up, and grants these roles access.
pub async fn init(
    address: &DatabaseAddress,
    password: &KeySource,
    members: &[String],
) -> Result<SetupOutcome, SetupError> {
    let mut client = connected(address, password).await?;
    let failed = |error: tokio_postgres::Error| refused(address, &error);
    let work = async {
        let transaction = client.transaction().await.map_err(failed)?;
        let outcome = in_transaction(address, &transaction, members).await?;
        transaction.commit().await.map_err(failed)?;
        Ok(outcome)
    };
    let silent = || DatabaseError::Silent { server: address.server(), seconds: ANSWER_WITHIN.as_secs() };
    timeout(ANSWER_WITHIN, work).await.unwrap_or_else(|_| Err(silent().into()))
}

async fn in_transaction(
    address: &DatabaseAddress,
    on: &Transaction<'_>,
    members: &[String],
) -> Result<SetupOutcome, SetupError> {
    let failed = |error: tokio_postgres::Error| refused(address, &error);
    let run = async |sql: &str| on.batch_execute(sql).await.map_err(failed);
    run(&format!("SELECT pg_advisory_xact_lock({LOCK})")).await?;
    let sql = "SELECT current_setting('server_version_num')::int4, current_setting('server_version'),
                      EXISTS (SELECT FROM pg_namespace WHERE nspname = 'recall'),
                      EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                              WHERE n.nspname = 'recall' AND c.relname = 'meta')";
    let row = on.query_typed_one(sql, &[]).await.map_err(failed)?;
    let (has_schema, has_meta): (bool, bool) = (value(&row, 2)?, value(&row, 3)?);
    if value::<i32>(&row, 0)? < OLDEST_SERVER {
        return Err(SetupError::OldServer(value(&row, 1)?));
    }
    if has_schema && !has_meta {
        return Err(SetupError::Foreign(address.database.clone()));
    }
    run(ROLES).await?;
    if !has_schema {
        run("CREATE SCHEMA recall AUTHORIZATION recall_owner").await?;
    }
    run("SET LOCAL ROLE recall_owner").await?;
    let from = match has_meta {
        false => 0,
        true => {
            let row = on.query_typed_one("SELECT schema FROM recall.meta", &[]).await.map_err(failed)?;
            value::<i32>(&row, 0)?
        }
    };
    if from > SCHEMA {
        return Err(DatabaseError::Newer { database: address.database.clone(), schema: from }.into());
    }
    for step in STEPS.iter().skip(usize::try_from(from).unwrap_or_default()) {
        run(step).await?;
    }
    run(FUNCTIONS).await?;
    run(&format!("UPDATE recall.meta SET schema = {SCHEMA}")).await?;
    run("RESET ROLE").await?;
    for member in members {
        let sql = "SELECT format('GRANT recall_member TO %I', rolname) FROM pg_roles WHERE rolname = $1";
        let row = on.query_typed_opt(sql, &[(member, Type::TEXT)]).await.map_err(failed)?;
        let Some(row) = row else { return Err(SetupError::NoRole(member.clone())) };
        run(value(&row, 0)?).await?;
    }
    Ok(match from {
        0 => SetupOutcome::Made,
        SCHEMA => SetupOutcome::Current,
        from => SetupOutcome::Updated { from },
    })
}

fn refused(address: &DatabaseAddress, error: &tokio_postgres::Error) -> SetupError {
    let (server, user) = (address.server(), address.user.clone());
    match error.as_db_error() {
        None => DatabaseError::Unreachable { server, why: causes(error) }.into(),
        Some(db_error) if *db_error.code() == SqlState::INSUFFICIENT_PRIVILEGE => {
            SetupError::NotAllowed { user, server, why: visible(db_error.message()) }
        }
        Some(db_error) => {
            SetupError::Refused(visible(&format!("{} ({})", db_error.message(), db_error.code().code())))
        }
    }
}
