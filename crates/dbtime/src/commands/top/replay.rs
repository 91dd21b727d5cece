//! A recording that is replayed: some seconds of it are in memory at a time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dbtime_model::recording::{Clock, Meta, Unit};
use dbtime_report::tui::Colours;
use dbtime_report::{MoreTables, Recent, Source, parse_moment};

use super::ScreenThread;
use super::feed::{Feed, SECOND_US};
use crate::output::say;
use crate::usage::Usage;

/// Steps to read beyond those asked for, on each side: the next ones are in memory already.
const AHEAD: i64 = 300;

/// See the module.
#[derive(Debug)]
pub(super) struct Replay {
    source: Source,
    bounds: (i64, i64),
    step_us: i64,
    /// Where to begin.
    begin_us: i64,
    loaded: Option<(i64, i64, Recent)>,
    told: Option<String>,
}

pub(super) fn run(
    recording: &Path,
    from: Option<&str>,
    seconds: u32,
    colours: Colours,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    if recording.is_file() {
        return Err(Usage(format!(
            "{} is a file: if another tool wrote it, 'dbtime import' turns it into a recording",
            recording.display()
        ))
        .into());
    }
    let replay = Replay::new(Source::open(recording)?, from)?;
    let feed = Feed::Replay(Box::new(replay));
    let screen = ScreenThread::start(feed, seconds, colours, stop)?;
    while !screen.is_over() && !stop.load(std::sync::atomic::Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
    screen.finish()?;
    say(format_args!(
        "see all of it with 'dbtime report {}'",
        dbtime_report::shell_word(&recording.display().to_string())
    ));
    Ok(())
}

impl Replay {
    fn new(source: Source, from: Option<&str>) -> Result<Replay, Usage> {
        let meta = source.meta();
        if meta.collector.clock == Clock::None || meta.collector.unit != Unit::Time {
            let what = "it does not say when anything happened, or for how long; see it with 'dbtime report'";
            return Err(Usage(format!("this recording cannot be replayed: {what}")));
        }
        let step_us = i64::from(meta.collector.resolution_s.max(1)) * SECOND_US;
        let down = |us: i64| us.div_euclid(step_us).saturating_mul(step_us);
        let first = down(meta.start_us);
        let end = down(meta.end_us.saturating_sub(1))
            .saturating_add(step_us)
            .max(first.saturating_add(step_us));
        let begin_us = match from {
            Some(text) => parse_moment(text, meta.start_us).map_err(|e| Usage(format!("--from: {e}")))?,
            None => first,
        };
        Ok(Replay {
            bounds: (first, end),
            step_us,
            begin_us: down(begin_us).min(end.saturating_sub(step_us)).max(first),
            loaded: None,
            told: None,
            source,
        })
    }

    pub(super) fn meta(&self) -> &Meta {
        self.source.meta()
    }

    pub(super) fn step_us(&self) -> i64 {
        self.step_us
    }

    pub(super) fn bounds(&self) -> (i64, i64) {
        self.bounds
    }

    /// Where to begin, microseconds since the Unix epoch.
    pub(super) fn begin_us(&self) -> i64 {
        self.begin_us
    }

    pub(super) fn source(&mut self, from_us: i64, to_us: i64, more: MoreTables) -> Source {
        let from_us = from_us.max(self.bounds.0);
        let to_us = to_us.min(self.bounds.1);
        let is_there = |(from, to, _): &(i64, i64, Recent)| *from <= from_us && to_us <= *to;
        let loaded = match self.loaded.take().filter(is_there) {
            Some(loaded) => loaded,
            None => {
                let beyond = AHEAD.saturating_mul(self.step_us);
                let around = self.load(from_us.saturating_sub(beyond), to_us.saturating_add(beyond));
                // Too many rows: those asked for have priority over those around them.
                match around.2.is_cut() {
                    true => self.load(from_us, to_us),
                    false => around,
                }
            }
        };
        let source = loaded.2.source(from_us, to_us, more);
        self.loaded = Some(loaded);
        source
    }

    fn load(&mut self, from_us: i64, to_us: i64) -> (i64, i64, Recent) {
        let (recent, problems) = Recent::of(&self.source, from_us, to_us);
        let first = problems.first().map(|problem| problem.0.clone());
        self.told = match (first, recent.is_cut()) {
            (Some(first), _) => Some(first),
            (None, true) => {
                Some("too many rows for memory: the first of these seconds are left out".to_string())
            }
            (None, false) => None,
        };
        (from_us, to_us, recent)
    }

    /// What could not be read or kept.
    pub(super) fn told(&self) -> Option<&str> {
        self.told.as_deref()
    }
}
