//! End-to-end tests whose results do not depend on what else the machine does: of files of other tools, of recordings that a test has
//! written, of pages and exports. Unlike those of `dbtime_tests`, whose helpers they share, they run in parallel.
//!
//! Tests that compare a recording with a clock, with counters of the kernel or with another tool's times, or that look for all servers of
//! the host or at what is left in the kernel, do not belong here.
