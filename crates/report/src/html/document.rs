//! What the numbers in the page's columns stand for, as JSON; and the columns.

use dbtime_model::latency::kind;
use dbtime_model::recording::{Clock, Unit};
use dbtime_model::{CauseKind, SessionState, State, WaitKind};
use serde::Serialize;

use super::causes::{Chain, Link};
use super::columns::{Column, Columns};
use super::latencies::Latencies;
use super::latency_cells::{Apart, Events};
use super::parts::{FORMAT, FunctionsJson, PaletteJson, Texts, node_columns};
use super::{HtmlPage, Table, cut};
use crate::group::{Dimension, query_id};
use crate::latency::kind_words;
use crate::number::Amounts;
use crate::palette;
use crate::text;
use crate::text::latency::{HOW_TO_RECORD, explanation, quantiles};
use crate::timeline::{Mark, is_long};
use crate::top_sql::NoStatements;

/// Most bytes of the name of an event.
const LONGEST_NAME: usize = 200;

/// The dictionaries of a page.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    format: u32,
    /// What the page is about.
    page: &'static str,
    /// Version of the program that wrote the page.
    dbtime: &'static str,
    /// 0 = not known.
    cpus: u32,
    /// What was recorded and which of it is exact: the first lines of the report.
    first_lines: Vec<String>,
    /// Remarkable findings: sentences of the report.
    sentences: Vec<String>,
    /// How far to trust it: the last lines of the report.
    quality: Vec<String>,
    /// `time`, `samples`, `counts`
    unit: &'static str,
    /// `utc`, `relative`, `none`
    clock: &'static str,
    /// Microseconds since the Unix epoch, like the next two.
    start_us: i64,
    from_us: i64,
    to_us: i64,
    are_times: bool,
    /// If not, programs are distinguished, and sessions have titles.
    knows_database: bool,
    /// Why the database's view cannot be compared with what the operating system saw; empty if it can.
    one_sided: &'a str,
    /// A session's time in a window may have begun before it: see [`crate::timeline`].
    may_be_long: bool,
    gaps: Vec<(i64, i64)>,
    /// If not all of the time was recorded: the last second of each period that was, and its length (nanoseconds).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    periods: Vec<(i64, u64)>,
    marks: Vec<MarkJson>,
    no_timeline: Option<&'a str>,
    no_statements: Option<&'static str>,
    left_out_ns: u64,
    no_causes: Option<&'static str>,
    /// `session`, `device` …; the last one is for what there was no room for.
    cause_kinds: Vec<&'static str>,
    /// Kind, and indices into `links`.
    chains: Vec<Vec<u32>>,
    /// Session, statement, wait, state of the session, state: indices into dictionaries.
    links: Vec<[u32; 5]>,
    /// The waited-for ones of the lock table; the first one stands for those without room.
    waited_locks: &'a [String],
    latencies: LatenciesJson<'a>,
    states: [&'static str; State::ALL.len()],
    /// `cpu`, `queue`, `blocked`, `unknown` of each of them.
    state_groups: [&'static str; State::ALL.len()],
    session_states: Vec<&'static str>,
    waits: Vec<WaitJson<'a>>,
    statements: Vec<StatementJson<'a>>,
    /// Texts of sessions.
    names: Vec<&'a str>,
    sessions: SessionsJson,
    /// For each session the one that represents it in stacks; empty when each represents itself.
    alike: &'a [u32],
    #[serde(flatten)]
    functions: FunctionsJson<'a>,
    /// Modules of the code, and that of each function: indices, from 1.
    code_modules: &'a [String],
    code_of_functions: &'a [usize],
    /// Length of a window in seconds, and start of the first, of cells without and with stacks.
    times: WindowsJson,
    stacks: WindowsJson,
    causes: WindowsJson,
    locks: WindowsJson,
    palette: PaletteJson,
    columns: &'a [Column],
}

/// The server's own activities, or notes.
#[derive(Serialize)]
struct MarkJson {
    kind: &'static str,
    from_us: i64,
    /// Same as `from_us` for a moment.
    to_us: i64,
    text: String,
    colour: &'static str,
}

impl MarkJson {
    fn of(mark: &Mark) -> MarkJson {
        MarkJson {
            kind: mark.kind.as_str(),
            from_us: mark.from_us,
            to_us: mark.to_us,
            text: cut(&mark.text, LONGEST_NAME),
            colour: palette::of_mark(mark.kind),
        }
    }
}

#[derive(Serialize)]
struct LatenciesJson<'a> {
    /// What to do if there are none.
    how_to_record: Option<&'static str>,
    quantiles: &'static str,
    lost: u64,
    /// How sessions are distinguished: `each`, `alike`, `none`.
    apart: &'static str,
    /// For each session the one that represents it; empty when each represents itself.
    alike: &'a [u32],
    kinds: Vec<KindJson<'a>>,
    /// Kind (its index), name, device, source.
    series: Vec<(usize, String, String, String)>,
    /// Bounds in nanoseconds.
    buckets: &'a [(u64, u64)],
    width_s: i64,
    first_s: i64,
}

#[derive(Serialize)]
struct KindJson<'a> {
    kind: &'a str,
    words: &'a str,
    explanation: &'static str,
    /// What its names are: `wait`, `query`, `other`.
    names: &'static str,
}

#[derive(Serialize)]
struct WaitJson<'a> {
    label: String,
    class: &'a str,
    event: &'a str,
    recorded_event: &'a str,
    class_by_cpu: String,
    /// `none`, `event`, `unknown`
    kind: &'static str,
    idle: bool,
}

#[derive(Serialize)]
struct StatementJson<'a> {
    /// As PostgreSQL prints it: signed.
    query: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sql_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

/// Columns of sessions: pids, and indices into `names`.
#[derive(Default, Serialize)]
struct SessionsJson {
    pid: Vec<u32>,
    foreground: Vec<u8>,
    user: Vec<u32>,
    database: Vec<u32>,
    application: Vec<u32>,
    client: Vec<u32>,
    backend_type: Vec<u32>,
    program: Vec<u32>,
}

#[derive(Serialize)]
struct WindowsJson {
    width_s: i64,
    first_s: i64,
}

impl<'a> Document<'a> {
    pub(super) fn new(page: &'a HtmlPage, columns: &'a [Column]) -> Document<'a> {
        let report = &page.report;
        let meta = &report.meta;
        let mut sentences: Vec<String> = Vec::new();
        sentences.extend(report.saturation.as_ref().and_then(|of| of.sentence.clone()));
        sentences.push(report.database_view.explanation.clone());
        let (sessions, names) = sessions(page);
        // Reports of traces have them elsewhere.
        let has_statements = page.statements.len() > 1;
        Document {
            format: FORMAT,
            page: "recording",
            dbtime: env!("CARGO_PKG_VERSION"),
            cpus: meta.host.cpus,
            first_lines: text::first_lines(report),
            sentences,
            quality: text::quality_lines(report),
            unit: match meta.collector.unit {
                Unit::Time => "time",
                Unit::Samples => "samples",
                Unit::Counts => "counts",
            },
            clock: match meta.collector.clock {
                Clock::Utc => "utc",
                Clock::Relative => "relative",
                Clock::None => "none",
            },
            start_us: meta.start_us,
            from_us: report.period.from_us,
            to_us: report.period.to_us,
            are_times: Amounts::of(meta).are_times(),
            knows_database: knows_database(page),
            one_sided: match report.database_view.has_both_sides {
                true => "",
                false => &report.database_view.explanation,
            },
            may_be_long: is_long(meta),
            periods: meta
                .periods
                .iter()
                .map(|period| (period.last_second_us(), period.elapsed_ns))
                .collect(),
            gaps: page
                .over_time
                .iter()
                .flat_map(|of| &of.gaps)
                .map(|gap| (gap.from_us, gap.to_us))
                .collect(),
            marks: page
                .over_time
                .iter()
                .flat_map(|of| &of.marks)
                .map(MarkJson::of)
                .collect(),
            no_timeline: page.over_time.as_ref().err().map(String::as_str),
            no_statements: report
                .top_sql
                .as_ref()
                .err()
                .filter(|_| !has_statements)
                .map(|why| match why {
                    NoStatements::NotRecorded => "Statements were not recorded, or none was executed.",
                    NoStatements::WithoutIds => {
                        "The SQL is not known: the server does not compute query ids (compute_query_id = on \
                     makes it do so)."
                    }
                }),
            left_out_ns: u64::try_from(page.left_out_ns).unwrap_or(u64::MAX),
            no_causes: page.causes.why_not,
            cause_kinds: CauseKind::ALL
                .iter()
                .map(|kind| kind.as_str())
                .chain(["left out"])
                .collect(),
            chains: page.causes.chains.iter().map(chain).collect(),
            links: page.causes.links.iter().map(link).collect(),
            waited_locks: &page.locks.names,
            latencies: latencies(page),
            states: State::ALL.map(State::as_str),
            state_groups: State::ALL.map(|state| match state.group() {
                Some(dbtime_model::StateGroup::OnCpu) => "cpu",
                Some(dbtime_model::StateGroup::RunQueue) => "queue",
                Some(dbtime_model::StateGroup::Blocked) => "blocked",
                None => "unknown",
            }),
            session_states: SessionState::ALL.iter().map(|state| state.as_str()).collect(),
            waits: page
                .waits
                .iter()
                .map(|named| WaitJson {
                    label: named.wait.to_string(),
                    class: &named.wait.class,
                    event: &named.wait.event,
                    recorded_event: named.recorded_event(),
                    class_by_cpu: named.wait.class_by_cpu().into_owned(),
                    kind: match named.wait.kind() {
                        WaitKind::None => "none",
                        WaitKind::Event => "event",
                        WaitKind::Unknown => "unknown",
                    },
                    idle: named.wait.idle,
                })
                .collect(),
            statements: page
                .statements
                .iter()
                .map(|statement| StatementJson {
                    query: query_id(statement.id),
                    sql_id: statement.sql_id.as_deref(),
                    text: statement.text.as_deref(),
                })
                .collect(),
            names,
            sessions,
            alike: &page.alike,
            functions: FunctionsJson::of(&page.functions),
            code_modules: &page.modules.names,
            code_of_functions: &page.modules.of_functions,
            times: WindowsJson::of(&page.times),
            stacks: WindowsJson::of(&page.stacks),
            causes: WindowsJson::of(&page.causes.table),
            locks: WindowsJson::of(&page.locks.table),
            palette: PaletteJson::new(),
            columns,
        }
    }
}

fn latencies(page: &HtmlPage) -> LatenciesJson<'_> {
    let (meta, of) = (&page.report.meta, &page.latencies);
    let names = |kind: &str| match kind {
        kind::COMMAND => "query",
        kind::WAIT | kind::WAIT_CALL | kind::ORACLE_WAIT | kind::ORACLE_WAIT_DB | kind::SCHED => "wait",
        kind::READ | kind::READ_CPU | kind::READ_QUEUE | kind::READ_DEVICE => "wait",
        _ => "other",
    };
    LatenciesJson {
        how_to_record: of.kinds.is_empty().then_some(HOW_TO_RECORD),
        quantiles: quantiles(meta),
        lost: meta.quality.latencies_lost,
        apart: match of.apart {
            Apart::Each => "each",
            Apart::Alike => "alike",
            Apart::None => "none",
        },
        alike: &of.alike,
        kinds: of
            .kinds
            .iter()
            .map(|kind| KindJson {
                kind,
                words: kind_words(kind, meta),
                explanation: explanation(kind, meta),
                names: names(kind),
            })
            .collect(),
        series: of
            .series
            .iter()
            .map(|one| {
                let kind = of.kinds.iter().position(|kind| **kind == *one.kind);
                let [name, device, source] =
                    [&one.name, &one.device, &one.source].map(|text| cut(text, LONGEST_NAME));
                (kind.unwrap_or(0), name, device, source)
            })
            .collect(),
        buckets: &of.buckets,
        width_s: of.width_s,
        first_s: of.cells.first().map_or(0, |(cell, _)| cell.window_s),
    }
}

/// Kind and links as numbers.
fn chain(chain: &Chain) -> Vec<u32> {
    let place = |kind: CauseKind| CauseKind::ALL.iter().position(|other| *other == kind);
    let kind = chain.kind.and_then(place).unwrap_or(CauseKind::ALL.len());
    [kind as u32]
        .into_iter()
        .chain(chain.links.iter().copied())
        .collect()
}

fn link(link: &Link) -> [u32; 5] {
    [
        link.session,
        link.statement,
        link.wait,
        link.session_state as u32,
        link.state as u32,
    ]
}

impl WindowsJson {
    fn of(table: &Table) -> WindowsJson {
        WindowsJson {
            width_s: table.width_s,
            first_s: table.cells.first().map_or(0, |(cell, _)| cell.window_s),
        }
    }
}

fn knows_database(page: &HtmlPage) -> bool {
    Dimension::usual(&page.report.meta) != Dimension::Program
}

fn sessions(page: &HtmlPage) -> (SessionsJson, Vec<&str>) {
    let has_programs = !knows_database(page);
    let mut names = Texts::default();
    let mut columns = SessionsJson::default();
    for session in &page.sessions {
        columns.pid.push(session.pid);
        columns
            .foreground
            .push(session.backend_type.is_foreground().into());
        for (column, text) in [
            (&mut columns.user, session.user.as_str()),
            (&mut columns.database, &session.database),
            (&mut columns.application, &session.application),
            (&mut columns.client, &session.client),
            (&mut columns.backend_type, &session.backend_type.0),
        ] {
            column.push(names.place(text));
        }
        columns
            .program
            .push(names.place(if has_programs { &session.title } else { "" }));
    }
    (columns, names.list)
}

/// Cells and call paths.
pub(super) fn columns(page: &HtmlPage) -> Columns {
    let mut columns = Columns::default();
    // The column in the place of the stack is named after what it contains.
    for (name, table, stack) in [
        ("times", &page.times, None),
        ("stacks", &page.stacks, Some("leaf")),
        ("causes", &page.causes.table, Some("chain")),
        ("locks", &page.locks.table, Some("lock")),
    ] {
        let first_s = table.cells.first().map_or(0, |(cell, _)| cell.window_s);
        let window = |window_s: i64| {
            let number = (i128::from(window_s) - i128::from(first_s)) / i128::from(table.width_s);
            u32::try_from(number).unwrap_or(u32::MAX)
        };
        let cells = || table.cells.iter().map(|(cell, _)| cell);
        let amounts = || table.cells.iter().map(|(_, amount)| amount);
        let mut long = |column: &str, numbers: &mut dyn Iterator<Item = u32>| {
            columns.long(&format!("{name}.{column}"), numbers);
        };
        long("window", &mut cells().map(|cell| window(cell.window_s)));
        long("session", &mut cells().map(|cell| cell.session));
        long("statement", &mut cells().map(|cell| cell.statement));
        long("wait", &mut cells().map(|cell| cell.wait));
        if let Some(stack) = stack {
            long(stack, &mut cells().map(|cell| cell.stack));
        }
        // 64-bit numbers in two halves.
        long("ns_low", &mut amounts().map(|amount| amount.ns as u32));
        long("ns_high", &mut amounts().map(|amount| (amount.ns >> 32) as u32));
        long(
            "samples",
            &mut amounts().map(|amount| u32::try_from(amount.samples).unwrap_or(u32::MAX)),
        );
        let mut short = |column: &str, numbers: &mut dyn Iterator<Item = u8>| {
            columns.short(&format!("{name}.{column}"), numbers);
        };
        short("place", &mut cells().map(|cell| cell.place));
        short("state", &mut cells().map(|cell| cell.state));
        short("session_state", &mut cells().map(|cell| cell.session_state));
        short("flags", &mut cells().map(|cell| cell.flags));
    }
    latency_columns(&page.latencies, &mut columns);
    node_columns(&page.nodes, &page.functions, &mut columns);
    page.modules.columns(&mut columns);
    columns
}

fn latency_columns(latencies: &Latencies, columns: &mut Columns) {
    let first_s = latencies.cells.first().map_or(0, |(cell, _)| cell.window_s);
    let cells = || latencies.cells.iter().map(|(cell, _)| cell);
    columns.long(
        "latencies.window",
        cells().map(|cell| {
            let number = (i128::from(cell.window_s) - i128::from(first_s)) / i128::from(latencies.width_s);
            u32::try_from(number).unwrap_or(u32::MAX)
        }),
    );
    // 0 = no session.
    columns.long(
        "latencies.session",
        cells().map(|cell| cell.session.wrapping_add(1)),
    );
    columns.long("latencies.series", cells().map(|cell| cell.series));
    columns.long("latencies.bucket", cells().map(|cell| cell.bucket));
    let mut wide = |name: &str, numbers: &dyn Fn(&Events) -> u64| {
        let events = || latencies.cells.iter().map(|(_, events)| numbers(events));
        columns.long(
            &format!("latencies.{name}_low"),
            events().map(|number| number as u32),
        );
        columns.long(
            &format!("latencies.{name}_high"),
            events().map(|number| (number >> 32) as u32),
        );
    };
    wide("count", &|events| events.count);
    wide("sum", &|events| events.sum_ns);
    wide("max", &|events| events.max_ns);
}
