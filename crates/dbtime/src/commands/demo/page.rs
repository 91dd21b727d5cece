//! The page that the demo prints: what was done, both ledgers side by side, the differences, and where to look next.

use dbtime_model::State;
use dbtime_report::{Section, Step, Sums, percent};

use super::comparison::{Comparison, Run};
use super::data::{ReadFrom, SHARED_BUFFERS};
use super::explanation::sentence;
use super::output_directory::OutputDirectory;
use super::reads::ROWS_PER_STATEMENT;
use super::two_runs::{Row, TwoRuns};

/// Text is no wider than this, however wide the terminal is.
const WIDEST: usize = 120;
/// What would be printed as zero.
const TOO_SMALL_NS: u128 = 5_000_000;

pub(super) fn render(comparison: &Comparison, directory: &OutputDirectory, width: usize) -> String {
    let width = width.min(WIDEST);
    [
        paragraph(&what_was_done(comparison), width),
        throughput(comparison),
        ledgers(comparison).render(width),
        database_views(comparison).render(width),
        comparison
            .runs
            .each_ref()
            .map(|run| paragraph(&sentence(run), width))
            .concat(),
        where_to_look(directory),
    ]
    .join("\n")
}

fn what_was_done(comparison: &Comparison) -> String {
    let meta = &comparison.runs[0].report.meta;
    format!(
        "The same random single-row reads, recorded twice: {} {}, one client, {ROWS_PER_STATEMENT} rows by primary key \
         per statement, {} MB of data, shared_buffers {SHARED_BUFFERS}.",
        meta.database.product,
        meta.database.version,
        comparison.bytes / 1_000_000,
    )
}

fn throughput(comparison: &Comparison) -> String {
    let mut text = format!(
        "  {:<14}{:>10}{:>10}{:>20}{:>26}\n",
        "reads from", "TPS", "rows/s", "DB time per row", "data in the page cache"
    );
    for run in &comparison.runs {
        let per_row = run
            .db_time_per_row_ns()
            .map_or_else(|| "?".to_string(), |ns| format!("{:.1} us", ns / 1e3));
        text += &format!(
            "  {:<14}{:>10.1}{:>10.0}{per_row:>20}{:>26}\n",
            name(run),
            run.transactions_per_second,
            run.rows_per_second(),
            resident(run),
        );
    }
    text
}

fn name(run: &Run) -> &'static str {
    match run.from {
        ReadFrom::PageCache => "page cache",
        ReadFrom::Device => "device",
    }
}

/// The worse of the two measurements.
fn resident(run: &Run) -> String {
    let shares = run.residency.map(|residency| residency.share() * 100.0);
    let worse = match run.from {
        ReadFrom::PageCache => shares[0].min(shares[1]),
        ReadFrom::Device => shares[0].max(shares[1]),
    };
    format!("{worse:.1} %")
}

/// Heading and nanoseconds of a column.
type Column = (&'static str, fn(&Sums) -> u128);

fn ledgers(comparison: &Comparison) -> TwoRuns {
    let ledgers = comparison.runs.each_ref().map(|run| &run.report.ledger);
    let db_time = ledgers.map(|ledger| ledger.sum(Section::DbTime).clone());
    let mut columns: Vec<Column> = vec![
        ("user", |sums| sums.state_ns(State::User)),
        ("kernel", |sums| sums.state_ns(State::Kernel)),
        ("runnable", |sums| sums.state_ns(State::Runnable)),
        ("disk", |sums| sums.state_ns(State::Disk)),
        ("sleep", |sums| sums.state_ns(State::Sleep)),
    ];
    if db_time.iter().any(|sums| sums.other_ns() >= TOO_SMALL_NS) {
        columns.push(("other", Sums::other_ns));
    }
    columns.push(("total", Sums::total_ns));
    let row = |name: &str, sums: &[Sums; 2], is_sum: bool| Row {
        name: name.to_string(),
        cells: [0, 1].map(|run| {
            let share = share(sums[run].total_ns(), db_time[run].total_ns());
            let times = columns.iter().map(|(_, column)| seconds(column(&sums[run])));
            times.chain([share]).collect()
        }),
        is_sum,
    };
    let mut rows: Vec<Row> = comparison
        .lines
        .iter()
        .filter(|line| line.sums.iter().any(|sums| sums.total_ns() >= TOO_SMALL_NS))
        .map(|line| row(&line.name, &line.sums, false))
        .collect();
    rows.push(row("DB time", &db_time, true));
    TwoRuns {
        title: "Where DB time went, in seconds (totals exact, their split sampled)",
        first_column: "wait event",
        columns: columns.iter().map(|(head, _)| *head).chain(["%"]).collect(),
        runs: comparison.runs.each_ref().map(name),
        rows,
    }
}

/// From what the database counts to DB time.
fn database_views(comparison: &Comparison) -> TwoRuns {
    let views = comparison.runs.each_ref().map(|run| &run.report.database_view);
    let row = |name: &str, ns: [u128; 2], is_sum: bool| Row {
        name: name.to_string(),
        cells: [0, 1].map(|run| vec![seconds(ns[run]), share(ns[run], views[run].db_time_ns)]),
        is_sum,
    };
    let mut rows = vec![
        row("  CPU (getrusage)", views.map(|view| view.cpu_ns), false),
        row("+ time inside wait events", views.map(|view| view.wait_ns), false),
    ];
    let steps = views.map(|view| view.steps());
    for (number, (step, _)) in steps[0].into_iter().enumerate() {
        let ns = [0, 1].map(|run| steps[run][number].1);
        let name = match step {
            Step::CpuAndWaits => "= CPU + waits",
            Step::DoubleCounted => "- CPU inside waits, counted twice",
            Step::CpuInsideIdleWaits => "- CPU inside idle waits",
            Step::RunQueueInsideIdleWaits => "+ waiting for a CPU, called idle",
            Step::RunQueueOutsideWaits => "+ waiting for a CPU, not counted",
            Step::BlockedOutsideWaits => "+ blocked outside waits, not counted",
            Step::StateUnknownOutsideWaits => "+ state not known, outside waits",
            Step::WaitUnknownOffCpu => "+ wait event not known",
        };
        if ns.iter().any(|ns| *ns >= TOO_SMALL_NS) {
            rows.push(row(name, ns, step == Step::CpuAndWaits));
        }
    }
    rows.push(row("= DB time", views.map(|view| view.db_time_ns), true));
    TwoRuns {
        title: "What the database itself can count, and how that leads to DB time",
        first_column: "",
        columns: vec!["seconds", "% DB time"],
        runs: comparison.runs.each_ref().map(name),
        rows,
    }
}

fn where_to_look(directory: &OutputDirectory) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "dbtime".to_string());
    let [cached, device] = ReadFrom::BOTH.map(|from| directory.recording(from).path().display().to_string());
    let [cached_flame, device_flame] =
        ReadFrom::BOTH.map(|from| directory.flame_graph(from).path().display().to_string());
    let page = directory.page().path().display().to_string();
    format!(
        "Recordings:    {cached}  {device}\n\
         Flame graphs:  {cached_flame}  {device_flame}  (open them in a browser)\n\
         What differs:  {page}  (open it in a browser)\n\
         Drill down:    {program} report {device}\n               \
         {program} flame {device} --by state,wait -o by-state.svg\n"
    )
}

/// Wraps text at blanks.
fn paragraph(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines.join("\n") + "\n"
}

/// Two decimals; a dash for exactly nothing, so that it differs from very little.
fn seconds(ns: u128) -> String {
    match ns {
        0 => "-".to_string(),
        ns => format!("{:.2}", ns as f64 / 1e9),
    }
}

fn share(part: u128, whole: u128) -> String {
    match percent(part, whole) {
        Some(percent) if part > 0 => format!("{percent:.1}"),
        _ => "-".to_string(),
    }
}
