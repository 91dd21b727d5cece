//! Makes a fleet's days: each recording as the recorder writes it, put into the store as the agent puts it.
//!
//! Windows of a real recording follow one another as they did there, starting at a different place for each host, again and again. All
//! amounts change: those of a window shrink by the same factor (by up to a fifth), so that the sums of each session still agree, and never
//! exceed the time that passed. For other differences between hosts see [`crate::host`].

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use dbtime::output::ProgressLine;
use dbtime_model::recording::{DatabaseMeta, Meta, Quality, Recording, RecordingWriter};
use dbtime_model::{CauseRow, Described, Rows, SessionId, SessionRow, StackId};
use dbtime_store::{Address, Outcome, PutOptions, Store};

use crate::MakeArguments;
use crate::host::{Build, Host, RELEASES};
use crate::shape::{SECOND_US, Shape};

const HOUR_US: i64 = 3_600 * SECOND_US;
/// The most by which amounts shrink.
const LESS: f64 = 0.2;

/// What was made.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Made {
    pub(crate) hosts: u32,
    pub(crate) recordings: u64,
    /// Rows of activity.
    pub(crate) rows: u64,
    /// Time in them, nanoseconds.
    pub(crate) ns: u64,
    /// Bytes of all files in the store.
    pub(crate) bytes: u64,
    /// Time that it took.
    pub(crate) seconds: f64,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} hosts, {} recordings: {} rows of activity with {:.3} s, {:.1} MB, made and put in {:.0} s",
            self.hosts,
            self.recordings,
            self.rows,
            self.ns as f64 / 1e9,
            self.bytes as f64 / 1e6,
            self.seconds
        )
    }
}

impl Made {
    fn add(&mut self, other: Made) {
        self.hosts += other.hosts;
        self.recordings += other.recordings;
        self.rows += other.rows;
        self.ns += other.ns;
        self.bytes += other.bytes;
    }
}

/// A recording, as every release has it.
struct Source {
    shape: Shape,
    builds: Vec<Build>,
}

/// Makes the fleet and puts it into the store.
///
/// # Errors
/// A recording cannot be read, or the store cannot be written.
pub(crate) fn make(arguments: &MakeArguments) -> Result<Made> {
    if 24 % arguments.rotate != 0 {
        bail!("--rotate {}: a day does not divide by it", arguments.rotate);
    }
    let begun = Instant::now();
    let sources = arguments
        .shapes
        .iter()
        .map(|path| {
            let shape = Shape::read(path, arguments.resolution)?;
            let builds = (0..RELEASES.len())
                .map(|release| Build::new(&shape, release))
                .collect();
            Ok(Source { shape, builds })
        })
        .collect::<Result<Vec<Source>>>()?;
    let address = Address::to_put(arguments.store.as_os_str())?;
    drop(Store::open_or_make(&address)?);
    let (next, sum) = (AtomicU32::new(0), Mutex::new(Made::default()));
    let line = Mutex::new(ProgressLine::new());
    let failed: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= arguments.hosts {
                        return;
                    }
                    match make_host(arguments, &sources, &address, number) {
                        Ok(made) => {
                            let mut sum = lock(&sum);
                            sum.add(made);
                            lock(&line).show(&format!("{} of {} hosts", sum.hosts, arguments.hosts));
                        }
                        Err(e) => {
                            // No thread begins another one.
                            next.store(arguments.hosts, Ordering::Relaxed);
                            lock(&failed).get_or_insert(e);
                        }
                    }
                }
            });
        }
    });
    if let Some(e) = lock(&failed).take() {
        return Err(e);
    }
    let made = *lock(&sum);
    Ok(Made {
        seconds: begun.elapsed().as_secs_f64(),
        ..made
    })
}

/// What a panicked thread leaves behind is never used.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn make_host(arguments: &MakeArguments, sources: &[Source], store: &Address, number: u32) -> Result<Made> {
    let host = Host::new(arguments.seed, number, sources.len(), arguments.days);
    let store = Store::open(store)?;
    let midnight = arguments
        .first
        .to_zoned(jiff::tz::TimeZone::UTC)?
        .timestamp()
        .as_microsecond();
    let mut made = Made {
        hosts: 1,
        ..Made::default()
    };
    for day in 0..arguments.days {
        for first in (0..arguments.hours).step_by(arguments.rotate as usize) {
            let hours = first..(first + arguments.rotate).min(arguments.hours);
            let scratch = tempfile::tempdir()?;
            let path = scratch.path().join("made.dbt");
            let one = Hours {
                arguments,
                sources,
                host: &host,
                midnight,
                day,
            };
            made.add(one.record(hours, &path)?);
            let recording = Recording::open(&path)?;
            let put = store.put(&recording, &host.name, &PutOptions::default())?;
            if put.outcome != Outcome::Stored {
                bail!("{}: {:?}: is the store empty?", host.name, put.outcome);
            }
            made.recordings += 1;
            made.bytes += put.bytes;
        }
    }
    Ok(made)
}

/// Hours of a day of a host.
struct Hours<'a> {
    arguments: &'a MakeArguments,
    sources: &'a [Source],
    host: &'a Host,
    /// Of the first day, microseconds since the Unix epoch.
    midnight: i64,
    day: u32,
}

impl Hours<'_> {
    fn begin(&self, hour: u32) -> i64 {
        self.midnight + (i64::from(self.day) * 24 + i64::from(hour)) * HOUR_US
    }

    /// Writes the recording of some hours, a segment for each, and merges them.
    fn record(&self, hours: std::ops::Range<u32>, path: &Path) -> Result<Made> {
        let first = self
            .sources
            .get(self.host.shape(self.day, hours.start))
            .context("no shape")?;
        let (begin, end) = (self.begin(hours.start), self.begin(hours.end));
        let mut writer = RecordingWriter::create(path, self.meta(&first.shape.meta, begin, end))?;
        let (mut described, mut made) = (Described::default(), Made::default());
        for hour in hours {
            let rows = self.rows(hour, &mut described)?;
            made.rows += rows.activity.len() as u64;
            made.ns += rows.activity.iter().map(|row| row.ns).sum::<u64>();
            writer.meta().quality.samples += rows.activity.iter().map(|row| row.samples).sum::<u64>();
            writer.write(&rows)?;
        }
        writer.begin_compacting(true)?;
        writer.go_on_compacting(true)?;
        writer.finish()?;
        Ok(made)
    }

    fn meta(&self, recorded: &Meta, begin: i64, end: i64) -> Meta {
        let release = RELEASES[self.host.release];
        let major = release.split('.').next().unwrap_or(release);
        let mut meta = Meta {
            start_us: begin,
            end_us: end,
            complete: false,
            segments: Default::default(),
            quality: Quality::default(),
            notes: Vec::new(),
            database: DatabaseMeta {
                version: release.to_string(),
                data_directory: format!("/var/lib/postgresql/{major}/main"),
                executable: format!("/usr/lib/postgresql/{major}/bin/postgres"),
                target: "server".to_string(),
                ..recorded.database.clone()
            },
            ..recorded.clone()
        };
        meta.host.name.clone_from(&self.host.name);
        meta.collector.resolution_s = self.arguments.resolution;
        meta.collector.series = format!("{}-{}", self.host.pid(1), self.midnight);
        meta
    }

    /// Rows of an hour, with descriptions of what they refer to that have not been made yet.
    fn rows(&self, hour: u32, described: &mut Described) -> Result<Rows> {
        let number = self.host.shape(self.day, hour);
        let source = self.sources.get(number).context("no shape")?;
        let (host, shape) = (self.host, &source.shape);
        let build = source.builds.get(host.release).context("no build")?;
        let length_us = i64::from(self.arguments.resolution) * SECOND_US;
        let begin = self.begin(hour);
        let windows = HOUR_US / length_us;
        let mut rows = Rows::default();
        // By their ids in the recording: one session for each pass through it.
        let mut sessions: HashSet<(u64, SessionId)> = HashSet::new();
        let mut named = Described::default();
        for window in 0..windows {
            let time = begin + window * length_us;
            let position = (time / length_us).unsigned_abs() + host.offset;
            let pass = position / shape.windows.len() as u64;
            let recorded = &shape.windows[usize::try_from(position % shape.windows.len() as u64)?];
            let part = 1.0 - LESS * host.drawn(time);
            let is_here =
                |session: SessionId| session == SessionId::RECORDER || host.has(number, shape, session);
            // A wait for a session that is not here was a wait for nobody here.
            let is_whole =
                |row: &&CauseRow| is_here(row.session) && row.chain.iter().all(|link| is_here(link.session));
            let mut here = Rows {
                activity: those(&recorded.activity, |row| is_here(row.session)),
                counters: those(&recorded.counters, |row| is_here(row.session)),
                latency: those(&recorded.latency, |row| is_here(row.session)),
                causes: those(&recorded.causes, is_whole),
                held_locks: those(&recorded.held_locks, |row| is_here(row.session)),
                locks: those(&recorded.locks, |row| is_here(row.session)),
                ..Rows::default()
            };
            let of_window = here.refers_to();
            sessions.extend(of_window.sessions.iter().map(|id| (pass, *id)));
            named.add(of_window);
            let session = |id: &mut SessionId| *id = host.session(number, shape, pass, *id);
            let statement = |id: &mut u64| *id = host.statement(*id);
            let stack = |id: &mut StackId| *id = build.stack(*id);
            let less = |ns: &mut u64| *ns = (*ns as f64 * part) as u64;
            for row in &mut here.activity {
                row.time = time;
                session(&mut row.session);
                statement(&mut row.statement);
                stack(&mut row.kernel_stack);
                stack(&mut row.user_stack);
                less(&mut row.ns);
            }
            for row in &mut here.counters {
                row.time = time;
                session(&mut row.session);
                statement(&mut row.statement);
                row.value = (row.value as f64 * part) as i64;
            }
            for row in &mut here.latency {
                row.time = time;
                session(&mut row.session);
                statement(&mut row.statement);
                stack(&mut row.stack);
            }
            for row in &mut here.causes {
                row.time = time;
                session(&mut row.session);
                statement(&mut row.statement);
                for link in &mut row.chain {
                    session(&mut link.session);
                    statement(&mut link.statement);
                    stack(&mut link.kernel_stack);
                    stack(&mut link.user_stack);
                }
            }
            for row in &mut here.held_locks {
                row.time = time;
                session(&mut row.session);
                statement(&mut row.statement);
                stack(&mut row.kernel_stack);
                stack(&mut row.user_stack);
                less(&mut row.ns);
            }
            for row in &mut here.locks {
                row.time = time;
                session(&mut row.session);
                statement(&mut row.statement);
                less(&mut row.ns);
            }
            rows.append(here);
        }
        self.describe(number, &sessions, &named, described, &mut rows)?;
        Ok(rows)
    }

    /// Adds descriptions of these sessions, and of what else is named, of a shape, except for those made already.
    fn describe(
        &self,
        number: usize,
        sessions: &HashSet<(u64, SessionId)>,
        named: &Described,
        described: &mut Described,
        rows: &mut Rows,
    ) -> Result<()> {
        let source = self.sources.get(number).context("no shape")?;
        let (host, shape) = (self.host, &source.shape);
        let build = source.builds.get(host.release).context("no build")?;
        for (pass, session) in sorted(sessions) {
            let id = host.session(number, shape, pass, session);
            if let Some(row) = shape.sessions.get(&session)
                && described.sessions.insert(id)
            {
                rows.sessions.push(SessionRow {
                    id,
                    pid: host.pid(row.pid),
                    leader_pid: host.pid(row.leader_pid),
                    // Those that were there before are older than the fleet's days.
                    started: row.started - shape.meta.start_us
                        + if shape.begun.contains(&session) {
                            self.pass_begin(shape, pass)
                        } else {
                            self.midnight
                        },
                    title: row.title.replace("pgbench_", "app_"),
                    ..row.clone()
                });
            }
        }
        for stack in sorted(&named.stacks) {
            if let Some(row) = build.stacks.get(&stack)
                && described.stacks.insert(row.id)
            {
                rows.stacks.push(row.clone());
            }
        }
        for statement in sorted(&named.statements) {
            if let Some(row) = shape.statements.get(&statement)
                && described.statements.insert(host.statement(statement))
            {
                rows.statements.push(host.described(row));
            }
        }
        for comment in sorted(&named.comments) {
            if let Some(row) = shape.comments.get(&comment)
                && described.comments.insert(comment)
            {
                rows.comments.push(row.clone());
            }
        }
        Ok(())
    }

    /// When this pass through a recording began.
    fn pass_begin(&self, shape: &Shape, pass: u64) -> i64 {
        let windows = (pass * shape.windows.len() as u64).saturating_sub(self.host.offset);
        windows.cast_signed() * i64::from(self.arguments.resolution) * SECOND_US
    }
}

fn those<T: Clone>(rows: &[T], are_meant: impl FnMut(&&T) -> bool) -> Vec<T> {
    rows.iter().filter(are_meant).cloned().collect()
}

fn sorted<T: Copy + Ord>(ids: &HashSet<T>) -> Vec<T> {
    let mut ids: Vec<T> = ids.iter().copied().collect();
    ids.sort_unstable();
    ids
}
