//! Everything of the command that is not measured in time: one program, which is linked once.

mod beside;
mod comparison;
mod exports;
mod hostile;
mod html;
mod import_bombs;
mod imports;
mod install;
mod killed_at_steps;
mod oracle_latches;
mod oracle_traces;
mod store;
mod unchanged;
mod usage;
mod waiters;
