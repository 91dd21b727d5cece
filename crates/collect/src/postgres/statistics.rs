//! What the server itself counts, queried once a second over a connection: for the whole server, for single sessions where it counts those
//! (PostgreSQL 18), and for statements where it has pg_stat_statements. What its sessions execute is queried over the same connection, if
//! they cannot be read.
//!
//! ```text
//! thread       connects and queries, as the server's user and without any capability
//! Growth       how much each number grew; the first answer is the baseline
//! ```
//!
//! Numbers keep the names that they have in the server's views, whatever its version: a column that a later version adds is included.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use postgres::{Client, SimpleQueryMessage};
use serde_json::{Map, Value};

use super::activity::{Activity, AllShown, Shown};
use super::connection::{Connect, Reach, ServerUser, connected, described};
use super::server::Server;
use super::statement_counts::{Failed, StatementCounts};
use crate::clock::{Clock, monotonic_ns};
use crate::process;

/// Longer than connecting and one answer may take.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);
/// How long the last answer is waited for.
const ENDS_WITHIN: Duration = Duration::from_secs(3);
/// Answers that may wait to be taken.
const MOST_WAITING: usize = 16;

/// A view that is queried.
#[derive(Debug, Clone, Copy)]
struct View {
    name: &'static str,
    /// First major version that has it.
    since: u32,
    /// Columns of its answer: beginning of the names, what distinguishes several rows with that, the process that the row is about, if any,
    /// and the row.
    question: &'static str,
}

const VIEWS: [View; 7] = [
    View {
        name: "pg_stat_database",
        since: 0,
        question: "SELECT 'pg_stat_database', datid::text, NULL, to_jsonb(s) - 'datid' - 'numbackends' FROM pg_stat_database s",
    },
    View {
        name: "pg_stat_wal",
        since: 0,
        question: "SELECT 'pg_stat_wal', '', NULL, to_jsonb(s) FROM pg_stat_wal s",
    },
    View {
        name: "pg_stat_bgwriter",
        since: 0,
        question: "SELECT 'pg_stat_bgwriter', '', NULL, to_jsonb(s) FROM pg_stat_bgwriter s",
    },
    View {
        name: "pg_stat_checkpointer",
        since: 17,
        question: "SELECT 'pg_stat_checkpointer', '', NULL, to_jsonb(s) FROM pg_stat_checkpointer s",
    },
    // Sizes do not change, so they are no growth.
    View {
        name: "pg_stat_io",
        since: 16,
        question: "SELECT concat_ws('.', 'pg_stat_io', backend_type, object, context), '', NULL, to_jsonb(s) FROM pg_stat_io s",
    },
    // Most of a session's fifteen or so rows are all 0.
    View {
        name: "pg_stat_get_backend_io",
        since: 18,
        question: "SELECT concat_ws('.', 'pg_stat_backend_io', object, context), concat(pid, backend_start), pid::text, to_jsonb(s)
           FROM (SELECT pid, backend_start FROM pg_stat_activity) a, pg_stat_get_backend_io(pid) s
          WHERE greatest(reads, writes, writebacks, extends, hits, evictions, reuses, fsyncs) > 0",
    },
    View {
        name: "pg_stat_get_backend_wal",
        since: 18,
        question: "SELECT 'pg_stat_backend_wal', concat(pid, backend_start), pid::text, to_jsonb(s)
           FROM (SELECT pid, backend_start FROM pg_stat_activity) a, pg_stat_get_backend_wal(pid) s",
    },
];

/// Settings that make the server count something, as this connection has them.
const SETTINGS: &str = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN
    ('track_activities', 'track_counts', 'track_io_timing', 'track_wal_io_timing', 'compute_query_id')";

/// What is not counted, and is 0 in the views, if these are off.
const TURNED_OFF: [(&str, &str); 5] = [
    ("track_activities", "what sessions execute"),
    ("track_counts", "rows and blocks of pg_stat_database"),
    (
        "track_io_timing",
        "read and write times: blk_read_time, blk_write_time, and those of pg_stat_io",
    ),
    (
        "track_wal_io_timing",
        "WAL write times: wal_write_time, wal_sync_time",
    ),
    ("compute_query_id", "query ids, unless an extension computes them"),
];

/// How much something that the server counts has grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Of which process; none: of the whole server.
    pub(crate) pid: Option<u32>,
    /// Of which statement, by its id; 0: of none in particular.
    pub(crate) statement: u64,
    /// View and column, and what distinguishes its rows; ends in `_ns` if it is a time.
    pub(crate) name: String,
    pub(crate) value: i64,
}

/// An answer, or a note for the user.
#[derive(Debug)]
pub(crate) enum Told {
    /// Between these moments, CLOCK_MONOTONIC.
    Grown(u64, u64, Vec<Growth>),
    /// What sessions execute: queried at this moment, CLOCK_MONOTONIC; pids are those of this host.
    Shown(u64, Vec<Shown>),
    Note(String),
}

/// See the module.
pub(crate) struct ServerStatistics {
    told: Receiver<Told>,
    /// When it is dropped, the thread queries once more and ends.
    tell_whom: Sender<Anew>,
}

/// The server to query from now on, and whether it continues the counts of the one before.
type Anew = (Asked, bool);

impl ServerStatistics {
    /// Connects, and queries from now on at every second of the clock. `activity`: how to query what sessions execute, if that is wanted.
    /// When this returns, the first answer is there.
    ///
    /// # Errors
    /// No connection can be made, or the server does not answer.
    pub(super) fn start(
        connect: &Connect,
        server: &Server,
        clock: Clock,
        activity: Option<Activity>,
    ) -> Result<ServerStatistics, String> {
        let (asked, user) = Asked::of(connect, server, activity)?;
        let (tell_whom, anew) = channel();
        let (tell, told) = sync_channel(MOST_WAITING);
        let (begin, begun) = sync_channel(1);
        let mut asking = Asking::begin(asked, clock);
        let ask_on = move || {
            let first = user.become_in_thread().and_then(|()| asking.first(&tell));
            let goes_on = first.is_ok();
            let _ = begin.send(first);
            if goes_on {
                asking.go_on(&anew, &tell);
            }
        };
        std::thread::Builder::new()
            .name("statistics".to_string())
            .spawn(ask_on)
            .map_err(|e| e.to_string())?;
        begun
            .recv_timeout(BEGINS_WITHIN)
            .map_err(|_| format!("no answer within {} s", BEGINS_WITHIN.as_secs()))??;
        Ok(ServerStatistics { told, tell_whom })
    }

    /// Makes it query this server from now on, which runs in place of the one before; `goes_on`: on the same directory, with the counts of
    /// that one. The thread stays the same user: it has no privileges left to become another.
    ///
    /// # Errors
    /// The server does not say where it listens, perhaps not yet.
    pub(super) fn ask_anew(
        &self,
        connect: &Connect,
        server: &Server,
        activity: Option<Activity>,
        goes_on: bool,
    ) -> Result<(), String> {
        let (asked, _) = Asked::of(connect, server, activity)?;
        // Without a thread nothing is queried, which has been reported.
        let _ = self.tell_whom.send((asked, goes_on));
        Ok(())
    }

    /// What has arrived since the last call.
    pub(crate) fn take(&self) -> impl Iterator<Item = Told> {
        self.told.try_iter()
    }

    /// Makes it query once more, and waits for that.
    pub(crate) fn finish(self) -> Vec<Told> {
        drop(self.tell_whom);
        let mut last = Vec::new();
        while let Ok(told) = self.told.recv_timeout(ENDS_WITHIN) {
            last.push(told);
        }
        last
    }
}

/// A server that is queried.
struct Asked {
    server: Server,
    reach: Reach,
    /// Those that this version has, and does not refuse.
    views: Vec<View>,
    /// How to query what sessions execute; None: it is not queried.
    activity: Option<Activity>,
}

impl Asked {
    /// With the user as which it is queried.
    fn of(
        connect: &Connect,
        server: &Server,
        activity: Option<Activity>,
    ) -> Result<(Asked, ServerUser), String> {
        let user = ServerUser::of(server.postmaster).map_err(|e| e.to_string())?;
        let asked = Asked {
            reach: connect.to(server.postmaster, user)?,
            server: server.clone(),
            views: views(server.major),
            activity,
        };
        Ok((asked, user))
    }

    fn has_ended(&self) -> bool {
        process::parent(self.server.postmaster).is_none()
    }
}

fn views(major: u32) -> Vec<View> {
    VIEWS.into_iter().filter(|view| major >= view.since).collect()
}

/// State of the thread.
struct Asking {
    asked: Asked,
    /// Notes that are still to be passed on.
    notes: Vec<String>,
    clock: Clock,
    client: Option<Client>,
    /// When the last answer came, CLOCK_MONOTONIC.
    asked_ns: u64,
    known: Known,
    /// The last query got no answer, which has been reported.
    is_away: bool,
    /// pg_stat_statements has not been looked for yet.
    looks_for_statements: bool,
    /// None if there is no such extension, which has been reported.
    statements: Option<StatementCounts>,
    /// What has been reported about that and about settings.
    said: Vec<String>,
    /// It has been reported that this user may not see what all sessions execute.
    told_of_hidden: bool,
    /// It has been reported that this query gets no answer.
    told_of_activity: bool,
}

impl Asking {
    fn begin(asked: Asked, clock: Clock) -> Asking {
        Asking {
            asked,
            notes: Vec::new(),
            clock,
            client: None,
            asked_ns: 0,
            known: Known::default(),
            is_away: false,
            looks_for_statements: true,
            statements: None,
            said: Vec::new(),
            told_of_hidden: false,
            told_of_activity: false,
        }
    }

    fn first(&mut self, tell: &SyncSender<Told>) -> Result<(), String> {
        let rows = self.ask()?;
        self.known.grown(&rows);
        self.asked_ns = monotonic_ns();
        for told in self.ask_activity() {
            // Nobody receives anything yet, and there is room.
            let _ = tell.try_send(told);
        }
        self.look_for_statements();
        Ok(())
    }

    fn go_on(&mut self, anew: &Receiver<Anew>, tell: &SyncSender<Told>) {
        let mut told: Vec<Told> = Vec::new();
        loop {
            let is_last = self.wait(anew);
            told.extend(self.ask_activity());
            told.extend(self.ask_views());
            self.look_for_statements();
            self.ask_statements(is_last, &mut told);
            told.extend(self.notes.drain(..).map(Told::Note));
            // Waits if nobody receives them: the next answer includes the growth of that time.
            let is_heard = told.drain(..).all(|told| tell.send(told).is_ok());
            if is_last || !is_heard {
                return;
            }
        }
    }

    /// Waits for the next second; true if the query then is the last one.
    fn wait(&mut self, anew: &Receiver<Anew>) -> bool {
        let until = self.clock.next_second(monotonic_ns());
        loop {
            let left = Duration::from_nanos(until.saturating_sub(monotonic_ns()));
            match anew.recv_timeout(left) {
                Ok(anew) => self.begin_anew(anew),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    fn begin_anew(&mut self, (asked, goes_on): Anew) {
        self.asked = asked;
        self.client = None;
        self.looks_for_statements = true;
        if !goes_on {
            self.known = Known::default();
            self.statements = None;
        }
    }

    fn ask_views(&mut self) -> Option<Told> {
        match self.ask() {
            Ok(rows) => {
                self.is_away = false;
                let now = monotonic_ns();
                let mut grown = self.known.grown(&rows);
                self.name_by_host(&mut grown);
                let from = std::mem::replace(&mut self.asked_ns, now);
                Some(Told::Grown(from, now, grown))
            }
            Err(why) => {
                self.client = None;
                let is_said = std::mem::replace(&mut self.is_away, true);
                (!is_said).then(|| {
                    Told::Note(format!(
                        "the server no longer reports its statistics: {why}; trying again every second"
                    ))
                })
            }
        }
    }

    /// Looks for pg_stat_statements, and for what is turned off, if that is due and the server answers.
    fn look_for_statements(&mut self) {
        let looks = self.looks_for_statements;
        let Some(client) = self.client.as_mut().filter(|_| looks) else {
            return;
        };
        self.looks_for_statements = false;
        let mut notes: Vec<String> = turned_off(client).into_iter().collect();
        match StatementCounts::find(client, &self.asked.reach) {
            Ok(mut statements) => {
                if let Some(earlier) = self.statements.take() {
                    statements.go_on_from(earlier);
                }
                self.statements = Some(statements);
            }
            Err(_) if client.is_closed() => {}
            Err(note) => {
                self.statements = None;
                notes.push(note);
            }
        }
        // The next connection will show.
        if self.client.as_ref().is_some_and(Client::is_closed) {
            self.looks_for_statements = true;
            return;
        }
        for note in notes {
            self.say_once(note);
        }
    }

    /// Reports it, unless that was done before.
    fn say_once(&mut self, note: String) {
        if !self.said.contains(&note) {
            self.notes.push(note.clone());
            self.said.push(note);
        }
    }

    /// What sessions execute now. If the connection is lost, the views, which are queried next, open another one.
    fn ask_activity(&mut self) -> Vec<Told> {
        let (Some(client), Some(activity)) = (&mut self.client, self.asked.activity) else {
            return Vec::new();
        };
        let asked_ns = monotonic_ns();
        match activity.ask(client) {
            Ok(AllShown { sessions, hidden }) => {
                self.told_of_activity = false;
                let mut told = vec![Told::Shown(asked_ns, self.by_host(sessions))];
                if hidden > 0 && !std::mem::replace(&mut self.told_of_hidden, true) {
                    told.push(Told::Note(format!(
                        "the user of --connect cannot see what {hidden} sessions execute: it needs the role pg_read_all_stats"
                    )));
                }
                told
            }
            Err(_) if client.is_closed() => Vec::new(),
            Err(why) => match std::mem::replace(&mut self.told_of_activity, true) {
                true => Vec::new(),
                false => vec![Told::Note(format!(
                    "pg_stat_activity does not say what sessions execute: {why}; trying again every second"
                ))],
            },
        }
    }

    fn by_host(&self, mut sessions: Vec<Shown>) -> Vec<Shown> {
        if let Some(hosts) = self.asked.server.host_pids() {
            sessions.retain_mut(|session| {
                hosts.get(&session.pid).is_some_and(|host| {
                    session.pid = *host;
                    true
                })
            });
        }
        sessions
    }

    fn ask_statements(&mut self, is_last: bool, told: &mut Vec<Told>) {
        let (Some(client), Some(statements)) = (&mut self.client, &mut self.statements) else {
            return;
        };
        if !is_last && !statements.is_due() {
            return;
        }
        match statements.grown(client) {
            Ok(grown) => {
                told.push(Told::Grown(grown.from_ns, grown.to_ns, grown.growths));
                told.extend(grown.notes.into_iter().map(Told::Note));
            }
            // The views, which are queried next, report it.
            Err(Failed::Gone) => {}
            Err(Failed::Refused(why)) => {
                self.statements = None;
                told.push(Told::Note(format!(
                    "the server's counts of single statements are no longer recorded: {why}"
                )));
            }
        }
    }

    fn ask(&mut self) -> Result<Vec<Row>, String> {
        let client = match &mut self.client {
            Some(client) => client,
            // Another server may answer there by now: it is queried once it is known what it is.
            None if self.asked.has_ended() => return Err("it has ended".to_string()),
            none => none.insert(connected(&self.asked.reach)?),
        };
        let answer = match answers(client, &self.asked.views) {
            Err(e) if is_refusal(&e) => {
                // One refused view fails all others.
                let mut refused = Vec::new();
                self.asked.views.retain(|view| match answers(client, &[*view]) {
                    Err(e) if is_refusal(&e) => {
                        refused.push(format!("{} ({})", view.name, described(&e)));
                        false
                    }
                    // The next query reports any other error.
                    _ => true,
                });
                if refused.is_empty() {
                    return Err(described(&e));
                }
                let answer = answers(client, &self.asked.views);
                let note = not_told(&refused, self.asked.views.is_empty());
                self.say_once(note);
                answer
            }
            other => other,
        };
        let answer = answer.map_err(|e| described(&e))?;
        Ok(answer.iter().filter_map(Row::of).collect())
    }

    fn name_by_host(&self, grown: &mut Vec<Growth>) {
        let Some(hosts) = self.asked.server.host_pids() else {
            return;
        };
        grown.retain_mut(|growth| match &mut growth.pid {
            None => true,
            Some(pid) => hosts.get(pid).is_some_and(|host| {
                *pid = *host;
                true
            }),
        });
    }
}

/// Queries views in one transaction, so that they are of one moment.
fn answers(client: &mut Client, views: &[View]) -> Result<Vec<SimpleQueryMessage>, postgres::Error> {
    let questions: Vec<&str> = views.iter().map(|view| view.question).collect();
    client.simple_query(&questions.join(";"))
}

/// The server will answer the same next time: there is no such thing, or it may not be read.
fn is_refusal(error: &postgres::Error) -> bool {
    error.code().is_some_and(|code| is_lasting(code.code()))
}

/// By the class of a SQLSTATE: syntax error or access rule violation, feature not supported.
fn is_lasting(state: &str) -> bool {
    ["42", "0A"].iter().any(|class| state.starts_with(class))
}

fn not_told(refused: &[String], is_all: bool) -> String {
    let rest = if is_all {
        ""
    } else {
        "; its other statistics are reported"
    };
    format!(
        "not known, because the server does not report it: {}{rest}",
        refused.join("; ")
    )
}

/// What the server does not count because a setting is off, if anything: a 0 in its views would look like a count.
fn turned_off(client: &mut Client) -> Option<String> {
    let answer = match client.simple_query(SETTINGS) {
        Ok(answer) => answer,
        Err(e) => {
            return Some(format!(
                "cannot tell whether the server counts everything: {}",
                described(&e)
            ));
        }
    };
    let settings = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some((row.get(0)?, row.get(1)?)),
        _ => None,
    });
    off(settings)
}

fn off<'a>(settings: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let settings: HashMap<&str, &str> = settings.collect();
    let off = TURNED_OFF
        .iter()
        .filter(|(name, _)| settings.get(name).is_some_and(|setting| *setting == "off"));
    let off: Vec<String> = off.map(|(name, what)| format!("{name} ({what})")).collect();
    (!off.is_empty()).then(|| {
        format!(
            "these settings of the server are off, so what it would count with them is not known, even where its views show 0: {}",
            off.join("; ")
        )
    })
}

/// A row of a view.
struct Row {
    name: String,
    which: String,
    pid: Option<u32>,
    columns: Map<String, Value>,
}

impl Row {
    fn of(message: &SimpleQueryMessage) -> Option<Row> {
        let SimpleQueryMessage::Row(row) = message else {
            return None;
        };
        Some(Row {
            name: row.get(0)?.to_string(),
            which: row.get(1).unwrap_or_default().to_string(),
            pid: row.get(2).and_then(|pid| pid.parse().ok()),
            columns: serde_json::from_str(row.get(3)?).ok()?,
        })
    }

    /// Its numbers, by name; times in nanoseconds. What the views call a time is in fractional milliseconds.
    fn numbers(&self) -> impl Iterator<Item = (String, i64)> {
        self.columns.iter().filter_map(|(column, value)| {
            let name = format!("{}.{column}", self.name);
            match column.ends_with("_time") {
                true => value.as_f64().map(|ms| (name + "_ns", (ms * 1e6).round() as i64)),
                false => value.as_i64().map(|number| (name, number)),
            }
        })
    }
}

/// The numbers of the last answer.
#[derive(Default)]
struct Known {
    /// By name, and what distinguishes rows with the same name.
    numbers: HashMap<(String, String), i64>,
    /// There was an answer.
    has_begun: bool,
}

impl Known {
    /// How much the numbers have grown since the last answer, by name and process. A new one began at 0; one that is smaller now has begun
    /// anew.
    fn grown(&mut self, rows: &[Row]) -> Vec<Growth> {
        let earlier = std::mem::take(&mut self.numbers);
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let mut sums: HashMap<(Option<u32>, String), i64> = HashMap::new();
        for row in rows {
            for (name, number) in row.numbers() {
                let key = (name.clone(), row.which.clone());
                let before = earlier.get(&key).copied().unwrap_or(0);
                self.numbers.insert(key, number);
                let growth = match number >= before {
                    true => number - before,
                    false => number,
                };
                if growth != 0 && !is_first {
                    *sums.entry((row.pid, name)).or_default() += growth;
                }
            }
        }
        let mut grown: Vec<Growth> = sums
            .into_iter()
            .map(|((pid, name), value)| Growth {
                pid,
                statement: 0,
                name,
                value,
            })
            .collect();
        grown.sort_by(|a, b| (a.pid, &a.name).cmp(&(b.pid, &b.name)));
        grown
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(name: &str, which: &str, pid: Option<u32>, columns: Value) -> Row {
        let Value::Object(columns) = columns else {
            panic!("columns");
        };
        Row {
            name: name.to_string(),
            which: which.to_string(),
            pid,
            columns,
        }
    }

    fn growth(pid: Option<u32>, name: &str, value: i64) -> Growth {
        Growth {
            pid,
            statement: 0,
            name: name.to_string(),
            value,
        }
    }

    #[test]
    fn each_version_is_asked_for_the_views_that_it_has() {
        for (major, many) in [(15, 3), (16, 4), (17, 5), (18, 7), (19, 7)] {
            assert_eq!(views(major).len(), many, "{major}");
        }
        let of_sessions = |view: &View| view.name == "pg_stat_get_backend_io";
        assert!(!views(17).iter().any(of_sessions));
    }

    #[test]
    fn rows_of_one_name_are_summed_and_what_is_no_number_is_left_out() {
        let mut known = Known::default();
        let database = |which: &str, blocks: i64, ms: f64| {
            let columns = json!({"blks_read": blocks, "blk_read_time": ms, "stats_reset": "2026-01-01", "conflicts": null});
            row("d", which, None, columns)
        };
        assert_eq!(known.grown(&[database("1", 10, 0.5), database("2", 20, 0.0)]), []);
        let grown = known.grown(&[
            database("1", 13, 0.75),
            database("2", 24, 0.0),
            database("3", 5, 0.0),
        ]);
        assert_eq!(
            grown,
            [
                growth(None, "d.blk_read_time_ns", 250_000),
                growth(None, "d.blks_read", 3 + 4 + 5)
            ]
        );
    }

    #[test]
    fn what_is_not_counted_is_named() {
        let all_on = [("track_io_timing", "on"), ("compute_query_id", "auto")];
        assert_eq!(off(all_on.into_iter()), None);
        let some_off = [
            ("track_wal_io_timing", "off"),
            ("track_counts", "on"),
            ("track_io_timing", "off"),
        ];
        let told = off(some_off.into_iter()).expect("something is off");
        for part in ["track_io_timing (", "blk_read_time", "track_wal_io_timing ("] {
            assert!(told.contains(part), "{told}");
        }
        assert!(!told.contains("track_counts"), "{told}");
    }

    #[test]
    fn a_view_is_given_up_only_where_the_server_refuses_it() {
        // insufficient_privilege, undefined_table; query_canceled, admin_shutdown, too_many_connections.
        for lasting in ["42501", "42P01"] {
            assert!(is_lasting(lasting), "{lasting}");
        }
        for passing in ["57014", "57P01", "53300", "08006"] {
            assert!(!is_lasting(passing), "{passing}");
        }
    }

    #[test]
    fn who_comes_begins_at_nothing_and_so_does_what_is_reset() {
        let mut known = Known::default();
        let session = |pid: u32, reads: i64| row("s", &pid.to_string(), Some(pid), json!({"reads": reads}));
        known.grown(&[session(1, 100)]);
        assert_eq!(
            known.grown(&[session(1, 7), session(2, 9)]),
            [growth(Some(1), "s.reads", 7), growth(Some(2), "s.reads", 9)]
        );
        // It ends, and another process gets its pid.
        assert_eq!(known.grown(&[session(1, 7)]), []);
        assert_eq!(
            known.grown(&[session(1, 7), session(2, 9)]),
            [growth(Some(2), "s.reads", 9)]
        );
    }
}
