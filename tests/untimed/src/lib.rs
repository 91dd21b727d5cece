//! End-to-end tests that come to the same result whatever else the machine does: of files of other tools and of recordings that a
//! test has written, of pages and exports. Unlike those of `dbtime_tests`, whose means they share, they run beside each other.
//!
//! What holds a recording against a clock, against counters of the kernel or against another tool's times, what looks for all servers
//! of the host or at what is left in the kernel does not belong here.
