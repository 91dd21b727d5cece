//! Oracle as seen from the host: its sessions and the places of their wait events come from a file that a SQL*Plus script made
//! (docs/oracle-live.md); no connection is made.

mod event_names;
mod instance;
mod map;
mod name_table;
pub(crate) mod wait_functions;

pub(crate) use instance::Instance;
