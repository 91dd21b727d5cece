//! How much of the statement texts is kept or shown.

use clap::{Args, ValueEnum};
use dbtime_collect::Texts;

/// What is kept, or shown, of the texts of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextKind {
    /// As they were sent, with their literals
    Full,
    /// Without literals and comments
    Normalized,
    /// Nothing
    None,
}

impl From<TextKind> for Texts {
    fn from(kind: TextKind) -> Texts {
        match kind {
            TextKind::Full => Texts::Full,
            TextKind::Normalized => Texts::Normalized,
            TextKind::None => Texts::None,
        }
    }
}

/// What is shown of them, live.
#[derive(Debug, Args)]
pub struct ShownTexts {
    /// What is shown of the texts of statements
    #[arg(long, value_name = "WHAT", default_value = "normalized")]
    pub text: TextKind,
}
