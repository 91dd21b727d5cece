//! What the command `dbtime` shares with its tests and benchmarks.

pub mod throwaway;
