//! Wrong usage that the argument parser cannot detect.

/// What is wrong, and what to do: the exit code is that of wrong usage.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);
