//! PostgreSQL, as far as the host can see it; only where the user wants it, a connection is made and its own statistics are asked for.

mod all_locks;
mod backend_status;
mod connection;
mod database;
mod encoding;
mod held_locks;
mod lock_functions;
mod lock_looks;
mod lock_words;
mod locks;
mod normal;
mod page_locks;
mod proc_array;
mod query_ids;
mod record_fields;
mod relations;
mod replication;
mod routines;
pub(crate) mod server;
mod standby;
mod statement_counts;
pub(crate) mod statistics;
mod status_check;
mod status_entries;
pub(crate) mod title;
pub(crate) mod titles;
mod tokens;
mod transactions;
pub(crate) mod wait_events;
mod wait_symbol;

pub use connection::Connect;
pub(crate) use database::PostgresDatabase;
pub(crate) use lock_functions::LockFunctions;
pub(crate) use query_ids::{NO_QUERY_IDS, gives_query_ids};
pub(crate) use server::Server;
pub use server::{RunningServer, running_servers};
