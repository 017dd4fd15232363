//! The database file: opening, schema and migrations, backup, repair, and the encoding of values in rows.

pub(crate) mod backup;
pub(crate) mod bind;
pub(crate) mod by_query;
pub(crate) mod connection;
pub(crate) mod damage;
pub(crate) mod ids;
pub(crate) mod migration;
pub(crate) mod opening;
pub(crate) mod orphans;
pub(crate) mod repair;
pub(crate) mod row;
pub(crate) mod schema;
pub(crate) mod text;
