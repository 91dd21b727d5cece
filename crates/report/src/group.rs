//! The dimensions by which time and latencies are grouped.

use std::fmt;

use dbtime_model::literals::without_literals;
use dbtime_model::recording::Meta;
use dbtime_model::{CauseKind, CommentRow, Session, SessionId, State, Wait, comment};

use crate::alike_statements::AlikeStatements;
use crate::dimensions::{Comment, Dimensions};
use crate::filter::SECOND_US;
use crate::scan::Activity;
use crate::size_label::{blocks_label, bytes_label};

/// Something by which time, or events of `--latency`, can be grouped; the words of `--by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// `session`: one connection or process, shown by its pid.
    Session,
    /// `user`: database user.
    User,
    /// `database`: database of the session.
    Database,
    /// `backend_type`: kind of server process.
    BackendType,
    /// `client`: where the client connected from.
    Client,
    /// `wait`: wait event with its class; `CPU` for none.
    Wait,
    /// `wait_class`: class of the wait event; `CPU` for none, `Client (no CPU)` for a command that has no CPU.
    WaitClass,
    /// `state`: what the operating system says.
    State,
    /// `session_state`: what the database says about the session as a whole (PostgreSQL: active, idle in transaction …).
    SessionState,
    /// `cause`: kind of what blocked time waited for in the end (client, session, device …); none for other time.
    Cause,
    /// `root`: whom it waited for in the end, and what that one was doing; none for other time.
    Root,
    /// `program`: name of the process, or its title.
    Program,
    /// `statement`: normalised SQL statement.
    Statement,
    /// `query`: the statement by its id in the database (PostgreSQL: `queryid`).
    Query,
    /// `plan`: the plan of the statement, by its id in the database (PostgreSQL 18: what a module has set).
    Plan,
    /// `sql_id`: the statement by its name in the database.
    SqlId,
    /// `application`: what the application calls itself (PostgreSQL: `application_name`).
    Application,
    /// `service`: what the client connected to.
    Service,
    /// `module`: program, as the application names it.
    Module,
    /// `action`: what the program is doing, as the application says: of its session, or in the comment of the statement.
    Action,
    /// `client_id`: on whose behalf, as the application says.
    ClientId,
    /// `sid`: the session as the database numbers it (Oracle: `sid.serial#`).
    Sid,
    /// `trace`: the request by its trace id, as the comment of the statement says (sqlcommenter: `traceparent`).
    Trace,
    /// `route`: of the request, as the comment says.
    Route,
    /// `controller`: of the request, as the comment says.
    Controller,
    /// `comment_application`: the application, as the comment says; not what the connection calls itself.
    CommentApplication,
    /// `routine`: innermost function of a procedural language in the stack (PostgreSQL: PL/pgSQL).
    Routine,
    /// `routine_line`: the same with the line that it was at.
    RoutineLine,
    /// `host`: host that the session runs on: of several recordings of a store.
    Host,
    /// `server`: data directory of its server.
    Server,
    /// `second`: second of the recording, UTC; for an event, the one in which it ended.
    Second,
    /// `name` (or `wait`): wait event, system call, block operation.
    Name,
    /// `kind`: what was measured.
    Kind,
    /// `device`: block device.
    Device,
    /// `io_size`: bytes of the request.
    IoSize,
    /// `blocks`: blocks of the database that were read or written.
    Blocks,
    /// `source`: where the data of a read came from.
    Source,
    /// `file`: file that was read.
    File,
    /// `relation`: table or index of that file.
    Relation,
}

impl Dimension {
    /// Dimensions of time, in the order of the documentation.
    pub const OF_TIME: [Dimension; 31] = [
        Dimension::Session,
        Dimension::User,
        Dimension::Database,
        Dimension::BackendType,
        Dimension::Client,
        Dimension::Wait,
        Dimension::WaitClass,
        Dimension::State,
        Dimension::SessionState,
        Dimension::Cause,
        Dimension::Root,
        Dimension::Program,
        Dimension::Statement,
        Dimension::Query,
        Dimension::Plan,
        Dimension::SqlId,
        Dimension::Application,
        Dimension::Service,
        Dimension::Module,
        Dimension::Action,
        Dimension::ClientId,
        Dimension::Sid,
        Dimension::Trace,
        Dimension::Route,
        Dimension::Controller,
        Dimension::CommentApplication,
        Dimension::Routine,
        Dimension::RoutineLine,
        Dimension::Host,
        Dimension::Server,
        Dimension::Second,
    ];

    /// Dimensions of latencies, in the order of the documentation.
    pub const OF_LATENCIES: [Dimension; 27] = [
        Dimension::Name,
        Dimension::Kind,
        Dimension::Device,
        Dimension::Session,
        Dimension::IoSize,
        Dimension::Blocks,
        Dimension::Source,
        Dimension::File,
        Dimension::Relation,
        Dimension::Second,
        Dimension::Statement,
        Dimension::Query,
        Dimension::Plan,
        Dimension::SqlId,
        Dimension::User,
        Dimension::Database,
        Dimension::BackendType,
        Dimension::Client,
        Dimension::Program,
        Dimension::Application,
        Dimension::Service,
        Dimension::Module,
        Dimension::Action,
        Dimension::ClientId,
        Dimension::Sid,
        Dimension::Host,
        Dimension::Server,
    ];

    /// Parses the name of a dimension of time.
    ///
    /// # Errors
    /// No such dimension; the message lists those there are.
    pub fn parse_of_time(name: &str) -> Result<Dimension, String> {
        named(name, &Dimension::OF_TIME)
            .map_err(|choice| format!("unknown dimension '{name}': choose from {choice}"))
    }

    /// Parses the name of a dimension of latencies.
    ///
    /// # Errors
    /// No such dimension; the message lists those there are.
    pub fn parse_of_latencies(name: &str) -> Result<Dimension, String> {
        let name = match name {
            "wait" => Dimension::Name.as_str(),
            other => other,
        };
        named(name, &Dimension::OF_LATENCIES)
            .map_err(|choice| format!("latencies have no dimension '{name}': choose from {choice}"))
    }

    /// The default: the wait, or the program in files that know no database.
    pub fn usual(meta: &Meta) -> Dimension {
        if meta.database.product.is_empty() && !meta.files.is_empty() {
            Dimension::Program
        } else {
            Dimension::Wait
        }
    }

    /// What is known of a session; none if the dimension is not a fact of sessions.
    pub fn of_session(self, session: &Session) -> Option<&str> {
        Some(match self {
            Dimension::User => &session.user,
            Dimension::Database => &session.database,
            Dimension::BackendType => &session.backend_type.0,
            Dimension::Client => &session.client,
            Dimension::Program => &session.title,
            Dimension::Application => &session.application,
            Dimension::Service => &session.service,
            Dimension::Module => &session.module,
            Dimension::Action => &session.action,
            Dimension::ClientId => &session.client_id,
            Dimension::Sid => &session.sid,
            Dimension::Host => &session.host,
            Dimension::Server => &session.server,
            _ => return None,
        })
    }

    /// What the comment of a statement says; none if the dimension is not something that comments say.
    pub fn of_comment(self, comment: &CommentRow) -> Option<&str> {
        Some(match self {
            Dimension::Trace => &comment.trace_id,
            Dimension::Route => &comment.route,
            Dimension::Controller => &comment.controller,
            Dimension::Action => &comment.action,
            Dimension::CommentApplication => &comment.application,
            _ => return None,
        })
    }

    /// True for what is known of sessions.
    pub(crate) fn is_of_sessions(self) -> bool {
        self.of_session(&Session::default()).is_some()
    }

    /// True for what comments of statements say.
    pub(crate) fn is_of_comments(self) -> bool {
        self.of_comment(&NO_COMMENT).is_some()
    }

    /// What is known of a session, or else what the comment of its statement says; none if the dimension is neither.
    pub(crate) fn of_request<'a>(self, session: &'a Session, comment: Comment<'a>) -> Option<&'a str> {
        match (self.of_session(session), self.of_said(comment)) {
            (Some(""), Some(said)) | (None, Some(said)) => Some(said),
            (known, _) => known,
        }
    }

    fn of_said(self, comment: Comment<'_>) -> Option<&str> {
        match comment {
            Comment::Says(comment) => self.of_comment(comment),
            Comment::None => self.of_comment(&NO_COMMENT).and(Some("")),
            Comment::NotKnown => self.of_comment(&NO_COMMENT).and(Some(NOT_KNOWN)),
        }
    }

    /// True for what is known only of parts of blocked time.
    pub(crate) fn is_of_causes(self) -> bool {
        matches!(self, Dimension::Cause | Dimension::Root)
    }

    /// The word used on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Dimension::Session => "session",
            Dimension::User => "user",
            Dimension::Database => "database",
            Dimension::BackendType => "backend_type",
            Dimension::Client => "client",
            Dimension::Wait => "wait",
            Dimension::WaitClass => "wait_class",
            Dimension::State => "state",
            Dimension::SessionState => "session_state",
            Dimension::Cause => "cause",
            Dimension::Root => "root",
            Dimension::Program => "program",
            Dimension::Statement => "statement",
            Dimension::Query => "query",
            Dimension::Plan => "plan",
            Dimension::SqlId => "sql_id",
            Dimension::Application => "application",
            Dimension::Service => "service",
            Dimension::Module => "module",
            Dimension::Action => "action",
            Dimension::ClientId => "client_id",
            Dimension::Sid => "sid",
            Dimension::Trace => "trace",
            Dimension::Route => "route",
            Dimension::Controller => "controller",
            Dimension::CommentApplication => "comment_application",
            Dimension::Routine => "routine",
            Dimension::RoutineLine => "routine_line",
            Dimension::Host => "host",
            Dimension::Server => "server",
            Dimension::Second => "second",
            Dimension::Name => "name",
            Dimension::Kind => "kind",
            Dimension::Device => "device",
            Dimension::IoSize => "io_size",
            Dimension::Blocks => "blocks",
            Dimension::Source => "source",
            Dimension::File => "file",
            Dimension::Relation => "relation",
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The dimension of this name, or else the names of all.
fn named(name: &str, all: &[Dimension]) -> Result<Dimension, String> {
    let found = all.iter().find(|dimension| dimension.as_str() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|dimension| dimension.as_str()).collect();
        names.join(", ")
    })
}

/// The dimensions of `by` for which none of these rows of labels has a known value.
pub(crate) fn not_recorded<'a>(
    by: &[Dimension],
    labels: impl Iterator<Item = &'a [String]> + Clone,
) -> Vec<Dimension> {
    let is_nothing = |label: &String| matches!(label.as_str(), NONE | NOT_KNOWN | NO_PLAN);
    let mut absent = Vec::new();
    for (n, dimension) in by.iter().enumerate() {
        let mut values = labels.clone().filter_map(|labels| labels.get(n)).peekable();
        if values.peek().is_some() && values.all(is_nothing) {
            absent.push(*dimension);
        }
    }
    absent
}

/// Stands for an empty value.
pub(crate) const NONE: &str = "[none]";
/// Stands for an unknown value.
pub(crate) const NOT_KNOWN: &str = "[unknown]";

/// Stands for the plan where the database reported none.
const NO_PLAN: &str = "[no plan id]";

/// A comment that says nothing.
static NO_COMMENT: CommentRow = CommentRow {
    id: comment::NONE,
    trace_id: String::new(),
    span_id: String::new(),
    application: String::new(),
    controller: String::new(),
    action: String::new(),
    route: String::new(),
};

/// Value of one dimension.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Value {
    Session(SessionId),
    Text(String),
    Wait(Wait),
    State(State),
    Statement(u64),
    Query(u64),
    Plan(i64),
    SqlId(u64),
    Second(i64),
    Bytes(u64),
    Blocks(u64),
}

impl Value {
    /// `[none]` stands for an empty value, `[unknown]` for an unknown one.
    pub(crate) fn label(&self, dimensions: &mut Dimensions) -> String {
        match self {
            Value::Session(id) => match dimensions.session(*id).pid {
                0 => NOT_KNOWN.to_string(),
                pid => pid.to_string(),
            },
            Value::Text(text) if text.is_empty() => NONE.to_string(),
            Value::Text(text) => text.clone(),
            Value::Wait(wait) => wait.to_string(),
            Value::State(state) => state.to_string(),
            Value::Statement(id) => match dimensions.statement(*id) {
                Some(text) => text.to_string(),
                None => nameless(*id),
            },
            Value::Query(0) => NOT_KNOWN.to_string(),
            Value::Query(id) => query_id(*id),
            Value::Plan(id) => plan_label(*id),
            Value::SqlId(id) => statement_name(*id, dimensions.sql_id(*id), dimensions.hash_value(*id)),
            Value::Second(us) => moment(*us),
            Value::Bytes(bytes) => bytes_label(*bytes),
            Value::Blocks(blocks) => blocks_label(*blocks),
        }
    }
}

/// Values of the dimensions that time is grouped by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey(Vec<Value>);

impl GroupKey {
    /// The group that a row, or a part of one, belongs to.
    pub(crate) fn of(by: &[Dimension], activity: &Activity<'_>) -> GroupKey {
        let Activity {
            row,
            session,
            wait,
            cause,
            comment,
            dimensions,
            ..
        } = *activity;
        let routine = || dimensions.routine(row.user_stack).unwrap_or([NOT_KNOWN; 2]);
        let value = |dimension: &Dimension| match dimension {
            Dimension::Session => Value::Session(session.id),
            Dimension::Wait => Value::Wait(wait.clone()),
            Dimension::WaitClass => Value::Text(wait.class_by_cpu().into_owned()),
            Dimension::State => Value::State(row.state),
            Dimension::SessionState => Value::Text(row.session_state.to_string()),
            Dimension::Cause => Value::Text(match cause.map(|cause| cause.kind) {
                None => String::new(),
                Some(CauseKind::Unknown) => NOT_KNOWN.to_string(),
                Some(kind) => kind.as_str().to_string(),
            }),
            Dimension::Root => Value::Text(match cause.map(|cause| cause.root.as_str()) {
                None => String::new(),
                Some("") => NOT_KNOWN.to_string(),
                Some(root) => root.to_string(),
            }),
            Dimension::Statement => Value::Statement(row.statement),
            Dimension::Query => Value::Query(row.statement),
            Dimension::Plan => Value::Plan(row.plan),
            Dimension::SqlId => Value::SqlId(row.statement),
            Dimension::Routine => Value::Text(routine()[0].to_string()),
            Dimension::RoutineLine => Value::Text(routine()[1].to_string()),
            Dimension::Second => Value::Second(row.time),
            fact => Value::Text(fact.of_request(session, comment).unwrap_or_default().to_string()),
        };
        GroupKey(by.iter().map(value).collect())
    }

    /// The same with each statement replaced by the one that represents it.
    pub(crate) fn grouped(mut self, alike: &AlikeStatements) -> GroupKey {
        for value in &mut self.0 {
            if let Value::Statement(id) | Value::Query(id) | Value::SqlId(id) = value {
                *id = alike.of(*id);
            }
        }
        self
    }

    /// The second, when it is one of the dimensions.
    pub(crate) fn second(&self) -> Option<i64> {
        self.0.iter().find_map(|value| match value {
            Value::Second(second) => Some(*second),
            _ => None,
        })
    }

    /// The wait, when it is one of the dimensions.
    pub(crate) fn wait(&self) -> Option<&Wait> {
        self.0.iter().find_map(|value| match value {
            Value::Wait(wait) => Some(wait),
            _ => None,
        })
    }

    /// The statement, when its id is one of the dimensions.
    pub(crate) fn query(&self) -> Option<u64> {
        self.0.iter().find_map(|value| match value {
            Value::Query(id) => Some(*id),
            _ => None,
        })
    }

    /// One text per dimension; a statement that stands for several has `?` for their literals.
    pub(crate) fn labels(&self, alike: &AlikeStatements, dimensions: &mut Dimensions) -> Vec<String> {
        self.0
            .iter()
            .map(|value| match value {
                Value::Statement(id) if alike.size(*id, dimensions) > 1 => match dimensions.statement(*id) {
                    Some(text) => without_literals(text),
                    None => nameless(*id),
                },
                value => value.label(dimensions),
            })
            .collect()
    }
}

/// The name of a statement: its `sql_id`, else its hash value (older databases), else its id.
pub(crate) fn statement_name(id: u64, sql_id: Option<&str>, hash_value: u64) -> String {
    match (sql_id, hash_value) {
        (Some(sql_id), _) => sql_id.to_string(),
        (None, 0) => nameless(id),
        (None, hash_value) => format!("hash {hash_value}"),
    }
}

/// Stands for a statement of which nothing but its id is known; 0 = not even that.
fn nameless(statement: u64) -> String {
    match statement {
        0 => NOT_KNOWN.to_string(),
        id => format!("[statement {}]", query_id(id)),
    }
}

/// The id of a statement as people know it: signed, the way PostgreSQL shows a queryid.
pub(crate) fn query_id(statement: u64) -> String {
    statement.cast_signed().to_string()
}

/// [`query_id`] if it is known: 0 = none.
pub(crate) fn known_query_id(statement: u64) -> Option<String> {
    (statement != 0).then(|| query_id(statement))
}

/// The id of a plan as the database shows it: signed, like a queryid. 0 = none was reported.
fn plan_label(plan: i64) -> String {
    match plan {
        0 => NO_PLAN.to_string(),
        id => id.to_string(),
    }
}

/// A moment in UTC, to the second: `2026-10-10 12:00:00`.
pub(crate) fn moment(us: i64) -> String {
    match jiff::Timestamp::from_second(us.div_euclid(SECOND_US)) {
        Ok(timestamp) => timestamp.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => format!("[{us} us]"),
    }
}

/// The same as date and time of day; none outside of the calendar.
pub(crate) fn date_and_time(us: i64) -> Option<(String, String)> {
    let timestamp = jiff::Timestamp::from_second(us.div_euclid(SECOND_US)).ok()?;
    let part = |format: &str| timestamp.strftime(format).to_string();
    Some((part("%Y-%m-%d"), part("%H:%M:%S")))
}

/// The same to the microsecond: `2026-10-10 12:00:00.123456`.
pub(crate) fn exact_moment(us: i64) -> String {
    match moment(us) {
        outside if outside.starts_with('[') => outside,
        second => format!("{second}.{:06}", us.rem_euclid(SECOND_US)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dimension_is_read_as_it_is_written() {
        for dimension in Dimension::OF_TIME {
            assert_eq!(Dimension::parse_of_time(dimension.as_str()), Ok(dimension));
        }
        let error = Dimension::parse_of_time("sql").expect_err("no dimension");
        assert!(error.contains("'sql'") && error.contains("wait_class"), "{error}");
        for dimension in Dimension::OF_LATENCIES {
            assert_eq!(Dimension::parse_of_latencies(dimension.as_str()), Ok(dimension));
        }
    }

    #[test]
    fn time_and_latencies_have_dimensions_of_their_own() {
        assert_eq!(Dimension::parse_of_time("wait"), Ok(Dimension::Wait));
        assert_eq!(Dimension::parse_of_latencies("wait"), Ok(Dimension::Name));
        let error = Dimension::parse_of_latencies("state").expect_err("events have none");
        assert!(error.contains("'state'") && error.contains("io_size"), "{error}");
        let error = Dimension::parse_of_time("io_size").expect_err("time has none");
        assert!(error.starts_with("unknown dimension 'io_size'"), "{error}");
    }

    #[test]
    fn a_moment_outside_of_the_calendar_is_still_shown() {
        assert_eq!(moment(1_000_000), "1970-01-01 00:00:01");
        assert_eq!(moment(-1), "1969-12-31 23:59:59");
        assert!(moment(i64::MAX).contains(&i64::MAX.to_string()));
    }
}
