//! Columns that the user can choose to group held locks by.

use std::fmt;
use std::str::FromStr;

use dbtime_model::choice::no_such;
use dbtime_model::{HeldLockRow, Session, Wait};

use super::holding::{innermost, session_label};
use super::{HoldMode, SingleLock};
use crate::dimensions::Dimensions;
use crate::group::known_query_id;
use crate::stacks::frames;

/// PostgreSQL's name for the locks of pages.
const OF_PAGES: &str = "BufferContent";
/// The same for all other locks.
const NO_PAGE: &str = "[no page]";

/// A property of a held lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatchColumn {
    /// Its name.
    Name,
    /// Which of the locks of the same name: number, page or address.
    Lock,
    /// The relation of the page that it protects.
    Relation,
    /// `exclusive` or `shared`, if known.
    Mode,
    /// Pid of the holder, or its number in the database (Oracle: `sid.serial#`) if that is all that is known.
    Session,
    /// Whose session that is.
    User,
    /// The kind of process.
    BackendType,
    /// What the application calls itself.
    Application,
    /// The statement, by its id.
    Query,
    /// The statement, by its name in the database (Oracle).
    SqlId,
    /// The statement, by its text.
    Statement,
    /// The wait event meanwhile.
    Wait,
    /// The state meanwhile.
    State,
    /// Where in the code: the innermost functions outside of the kernel.
    Where,
}

impl LatchColumn {
    /// Every column.
    pub const ALL: [LatchColumn; 14] = [
        LatchColumn::Name,
        LatchColumn::Lock,
        LatchColumn::Relation,
        LatchColumn::Mode,
        LatchColumn::Session,
        LatchColumn::User,
        LatchColumn::BackendType,
        LatchColumn::Application,
        LatchColumn::Query,
        LatchColumn::SqlId,
        LatchColumn::Statement,
        LatchColumn::Wait,
        LatchColumn::State,
        LatchColumn::Where,
    ];

    /// Its name on the command line, and its heading.
    pub fn as_str(self) -> &'static str {
        match self {
            LatchColumn::Name => "name",
            LatchColumn::Lock => "lock",
            LatchColumn::Relation => "relation",
            LatchColumn::Mode => "mode",
            LatchColumn::Session => "session",
            LatchColumn::User => "user",
            LatchColumn::BackendType => "backend_type",
            LatchColumn::Application => "application",
            LatchColumn::Query => "query",
            LatchColumn::SqlId => "sql_id",
            LatchColumn::Statement => "statement",
            LatchColumn::Wait => "wait",
            LatchColumn::State => "state",
            LatchColumn::Where => "where",
        }
    }

    /// Its value; empty if not known.
    pub(super) fn of(self, row: &HeldLockRow, dimensions: &mut Dimensions) -> String {
        let of_session =
            |take: fn(&Session) -> String, dimensions: &mut Dimensions| take(dimensions.session(row.session));
        match self {
            LatchColumn::Name => row.lock.to_string(),
            LatchColumn::Lock => match SingleLock::of_row(row) {
                any if any.is_any() => String::new(),
                one => one.label(),
            },
            LatchColumn::Relation => match SingleLock::of_row(row).relation_or_file() {
                None if row.lock != OF_PAGES => NO_PAGE.to_string(),
                relation => relation.unwrap_or_default(),
            },
            LatchColumn::Mode => HoldMode::of(row).as_str().to_string(),
            LatchColumn::Session => of_session(session_label, dimensions),
            LatchColumn::User => of_session(|session| session.user.clone(), dimensions),
            LatchColumn::BackendType => of_session(|session| session.backend_type.0.to_string(), dimensions),
            LatchColumn::Application => of_session(|session| session.application.clone(), dimensions),
            LatchColumn::Query => known_query_id(row.statement).unwrap_or_default(),
            LatchColumn::SqlId => dimensions.sql_id(row.statement).unwrap_or_default().to_string(),
            LatchColumn::Statement => dimensions
                .statement(row.statement)
                .unwrap_or_default()
                .to_string(),
            LatchColumn::Wait => Wait::event(&row.wait_class, &row.wait_event, false).to_string(),
            LatchColumn::State => row.state.to_string(),
            LatchColumn::Where => innermost(frames(row.user_stack, dimensions)).join(" > "),
        }
    }
}

impl fmt::Display for LatchColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LatchColumn {
    type Err = String;

    fn from_str(text: &str) -> Result<LatchColumn, String> {
        let mut all = LatchColumn::ALL.into_iter();
        all.find(|column| column.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| no_such("column", text, &LatchColumn::ALL.map(LatchColumn::as_str)))
    }
}
