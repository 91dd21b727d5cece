//! What a host can be like for an hour: a real recording, cut into the windows that a recorder makes of its seconds.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::{Result, bail, ensure};
use dbtime_model::recording::{Meta, Recording};
use dbtime_model::{
    CommentRow, Rows, SessionId, SessionRow, StackId, StackRow, StatementRow, Table, Timed, Windows,
};

/// Microseconds of a second.
pub(crate) const SECOND_US: i64 = 1_000_000;

/// A recording of some minutes.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Its description.
    pub(crate) meta: Meta,
    /// Its rows, window by window; times count from the begin of the window.
    pub(crate) windows: Vec<Rows>,
    /// What the rows refer to.
    pub(crate) sessions: HashMap<SessionId, SessionRow>,
    /// Sessions that began while it was recorded: different ones each time.
    pub(crate) begun: HashSet<SessionId>,
    /// Stacks.
    pub(crate) stacks: HashMap<StackId, StackRow>,
    /// Statements.
    pub(crate) statements: HashMap<u64, StatementRow>,
    /// Comments of statements.
    pub(crate) comments: HashMap<u64, CommentRow>,
}

impl Shape {
    /// Reads a recording whose rows cover single seconds; one that is shorter than a window makes one window.
    ///
    /// # Errors
    /// It cannot be read, or has longer rows.
    pub(crate) fn read(path: &Path, resolution_s: u32) -> Result<Shape> {
        let recording = Recording::open(path)?;
        let meta = recording.meta().clone();
        ensure!(
            meta.collector.resolution_s <= 1,
            "{}: its rows stand for more than a second",
            path.display()
        );
        let mut rows = Rows::default();
        take(&recording, &mut rows.activity)?;
        take(&recording, &mut rows.counters)?;
        take(&recording, &mut rows.latency)?;
        take(&recording, &mut rows.causes)?;
        take(&recording, &mut rows.held_locks)?;
        take(&recording, &mut rows.locks)?;
        take(&recording, &mut rows.sessions)?;
        take(&recording, &mut rows.stacks)?;
        take(&recording, &mut rows.statements)?;
        take(&recording, &mut rows.comments)?;
        let Some(begin) = rows.activity.iter().map(Timed::time).min() else {
            bail!("{}: nothing was recorded", path.display());
        };
        let described = |row: &SessionRow| (row.id, row.clone());
        let sessions: HashMap<SessionId, SessionRow> = rows.sessions.iter().map(described).collect();
        let begun = sessions
            .values()
            .filter(|session| session.started >= meta.start_us);
        Ok(Shape {
            begun: begun.map(|session| session.id).collect(),
            sessions,
            stacks: std::mem::take(&mut rows.stacks)
                .into_iter()
                .map(|row| (row.id, row))
                .collect(),
            statements: std::mem::take(&mut rows.statements)
                .into_iter()
                .map(|row| (row.id, row))
                .collect(),
            comments: std::mem::take(&mut rows.comments)
                .into_iter()
                .map(|row| (row.id, row))
                .collect(),
            windows: windows(rows, begin, resolution_s)?,
            meta,
        })
    }
}

fn take<T: Table>(recording: &Recording, rows: &mut Vec<T>) -> Result<()> {
    let problems = recording.read(|batch| rows.extend(batch));
    match problems.first() {
        Some(problem) => bail!("{}", problem.0),
        None => Ok(()),
    }
}

/// Adds up seconds like the recorder. The last window, which is incomplete, is left out unless it is the only one.
fn windows(rows: Rows, begin_us: i64, resolution_s: u32) -> Result<Vec<Rows>> {
    let length_us = i64::from(resolution_s) * SECOND_US;
    let last = rows.activity.iter().map(Timed::time).max().unwrap_or(begin_us);
    let whole = usize::try_from(((last - begin_us) / SECOND_US + 1) / i64::from(resolution_s))?.max(1);
    let mut windows: Vec<Rows> = vec![Rows::default(); whole];
    // Moments from 0 on: windows begin at multiples of their length.
    let cut = (begin_us, length_us);
    spread(rows.activity, cut, &mut windows, |rows| &mut rows.activity);
    spread(rows.counters, cut, &mut windows, |rows| &mut rows.counters);
    spread(rows.latency, cut, &mut windows, |rows| &mut rows.latency);
    spread(rows.causes, cut, &mut windows, |rows| &mut rows.causes);
    spread(rows.held_locks, cut, &mut windows, |rows| &mut rows.held_locks);
    spread(rows.locks, cut, &mut windows, |rows| &mut rows.locks);
    Ok(windows
        .into_iter()
        .map(|seconds| {
            // From a moment before all rows on, so that none keeps its second.
            let mut sums = Windows::new(resolution_s, -2 * length_us);
            let mut rows = sums.pass(seconds, 0);
            rows.append(sums.finish());
            rows
        })
        .collect())
}

/// Puts each row into its window.
fn spread<T: Timed>(
    rows: Vec<T>,
    (begin_us, length_us): (i64, i64),
    windows: &mut [Rows],
    of: impl Fn(&mut Rows) -> &mut Vec<T>,
) {
    for mut row in rows {
        let since = row.time() - begin_us;
        let window = usize::try_from(since.div_euclid(length_us)).ok();
        if let Some(window) = window.and_then(|window| windows.get_mut(window)) {
            row.set_time(since.rem_euclid(length_us));
            of(window).push(row);
        }
    }
}
