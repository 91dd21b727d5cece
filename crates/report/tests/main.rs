//! Reports of rows that are made by hand: one program, which is linked once.

mod answers;
mod causes;
mod chains;
mod commands;
mod comments;
mod comparison;
mod connecting;
mod conservation;
mod diff;
mod diff_causes;
mod dive;
mod exact_latches;
mod hand_made;
mod io;
mod latches;
mod latency;
mod locks;
mod next_steps;
mod presentation;
mod routines;
mod sched;
mod stack_views;
mod timeline;
mod trace;
mod waits_in_calls;
mod what_if;
