//! PostgreSQL, as far as the host can see it: no SQL connection is made.

mod backend_status;
mod database;
mod held_locks;
mod locks;
mod normal;
mod query_ids;
pub(crate) mod server;
pub(crate) mod title;
pub(crate) mod titles;
mod transactions;
pub(crate) mod wait_events;
mod wait_symbol;

pub(crate) use database::PostgresDatabase;
pub(crate) use query_ids::gives_query_ids;
pub(crate) use server::Server;
pub use server::{RunningServer, running_servers};
