//! A running server: a collector, and the last seconds of its rows in memory. Nothing is written unless a recording is wanted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dbtime_collect::{Collector, Ending, Options, Status};
use dbtime_model::output::caller_of_sudo;
use dbtime_report::tui::Colours;
use dbtime_report::{Recent, shell_word};

use super::ScreenThread;
use super::feed::{Feed, Shared};
use super::saving::{Ending as LastRows, Saving, Standings};
use crate::output::{ProgressLine, say};
use crate::record::Outcome;

/// How many seconds one can go back.
const KEPT_S: i64 = 300;
/// How long one step waits for events.
const STEP: Duration = Duration::from_millis(50);
/// How long after the end of a second its rows have usually arrived.
const USUALLY_LATE_US: i64 = 400_000;
/// How long after the end of a second its rows are waited for at most.
const LATEST_US: i64 = 3_000_000;

pub(super) fn run(
    options: &Options,
    seconds: u32,
    colours: Colours,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let mut line = ProgressLine::new();
    line.show("attaching …");
    let ending = Ending::when(stop);
    let mut collector = Collector::start(options, &ending)?;
    drop(line);
    // Threads started from now on do not have them either.
    collector.give_up_privileges(caller_of_sudo().is_some())?;
    let shared = Arc::new(Shared::new(Recent::new(collector.meta(), KEPT_S)));
    let feed = Feed::Live(Arc::clone(&shared));
    let screen = ScreenThread::start(feed, seconds, colours, stop)?;
    let mut recorder = Recorder {
        collector,
        shared,
        standings: Standings::default(),
        saving: None,
        ending: None,
        made: Vec::new(),
    };
    let recorded = recorder.run(|| screen.is_over() || stop.load(Ordering::Relaxed));
    if recorded.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
    let shown = screen.finish();
    let saved = recorder.end();
    recorded.and(shown).and(saved)
}

/// Takes rows as they come, passes them on, and has them written if that is wanted.
struct Recorder {
    collector: Collector,
    shared: Arc<Shared>,
    standings: Standings,
    saving: Option<Saving>,
    /// A recording whose last rows are being written.
    ending: Option<LastRows>,
    /// What was recorded.
    made: Vec<Outcome>,
}

impl Recorder {
    /// Runs until the end.
    fn run(&mut self, is_over: impl Fn() -> bool) -> anyhow::Result<()> {
        let mut has_ended = false;
        let mut noted = 0;
        let mut gone: Option<Instant> = None;
        while !is_over() {
            self.save();
            if has_ended {
                std::thread::sleep(STEP);
                continue;
            }
            let status = self.collector.step(STEP)?;
            if status == Status::Ended {
                has_ended = true;
                self.collector.finish()?;
                *self.shared.told() = Some("the session has ended".to_string());
            }
            if let Status::ServerGone(since) = status
                && gone != Some(since)
            {
                gone = Some(since);
                *self.shared.told() = Some("the server has stopped; waiting for it to start".to_string());
            } else if gone.is_some() && status == Status::Recording {
                gone = None;
                *self.shared.told() = None;
            }
            let notes = self.collector.notes();
            if let Some(note) = notes.get(noted..).and_then(|notes| notes.last()) {
                *self.shared.told() = Some(note.text.clone());
                noted = notes.len();
            }
            self.take();
        }
        Ok(())
    }

    /// Takes what has arrived.
    fn take(&mut self) {
        if self.collector.rows().is_empty() && !self.collector.has_much_to_take() {
            return;
        }
        let rows = self.collector.take_rows();
        let meta = self.collector.meta();
        if let Some(saving) = &mut self.saving {
            saving.add(&rows);
        }
        let mut recent = self.shared.recent();
        self.standings.add(&meta, recent.oldest_us());
        recent.add(meta, rows);
    }

    /// Begins, continues or ends a recording, as wanted.
    fn save(&mut self) {
        let is_wanted = self.shared.wants_recording.load(Ordering::Relaxed);
        if let Some(ending) = self.ending.take() {
            match ending.is_over() {
                true => {
                    let said = match self.end_saving(ending) {
                        Ok(Some(path)) => format!("recorded {path}"),
                        Ok(None) => "nothing was recorded".to_string(),
                        Err(e) => format!("recording has ended: {e:#}"),
                    };
                    self.shared.say(said);
                }
                false => self.ending = Some(ending),
            }
        }
        match (self.saving.take(), is_wanted) {
            // One after the other.
            (None, true) if self.ending.is_some() => {}
            (None, true) => match Saving::begin(&self.collector.meta(), &self.standings, &self.shared) {
                Ok(saving) => self.saving = Some(saving),
                Err(e) => {
                    self.shared.wants_recording.store(false, Ordering::Relaxed);
                    self.shared.say(format!("cannot record: {e:#}"));
                }
            },
            (Some(mut saving), true) => {
                if !saving.go_on(|| self.collector.meta(), &self.shared.recent()) {
                    self.shared.wants_recording.store(false, Ordering::Relaxed);
                }
                self.saving = Some(saving);
            }
            (Some(mut saving), false) => {
                let now_us = self.collector.now_us();
                let until_us = saving.until_us(now_us);
                let is_whole =
                    now_us >= until_us.saturating_add(USUALLY_LATE_US) && self.collector.is_settled(until_us);
                match is_whole || now_us >= until_us.saturating_add(LATEST_US) {
                    true => self.ending = Some(saving.end(self.collector.meta(), &self.shared.recent())),
                    false => self.saving = Some(saving),
                }
            }
            (None, false) => {}
        }
        let is_recording = self.saving.is_some();
        self.shared.is_recording.store(is_recording, Ordering::Relaxed);
    }

    /// Waits for the end of a recording. Returns its name; none if nothing was recorded.
    fn end_saving(&mut self, ending: LastRows) -> anyhow::Result<Option<String>> {
        let outcome = ending.finish()?;
        if outcome.activity_rows == 0 {
            return Ok(None);
        }
        let path = outcome.path.display().to_string();
        self.made.push(outcome);
        Ok(Some(path))
    }

    /// Ends a recording in progress, and says where all of them are.
    fn end(&mut self) -> anyhow::Result<()> {
        let mut ended = Ok(());
        if let Some(ending) = self.ending.take() {
            ended = self.end_saving(ending).map(|_| ());
        }
        if self.saving.is_some() {
            // The last second, too.
            ended = ended.and(self.collector.finish().map_err(anyhow::Error::from));
            self.take();
        }
        if let Some(saving) = self.saving.take() {
            let ending = saving.end(self.collector.meta(), &self.shared.recent());
            ended = ended.and(self.end_saving(ending).map(|_| ()));
        }
        for outcome in &self.made {
            let name = outcome.path.display().to_string();
            say(format_args!(
                "recorded {name}: see it with 'dbtime report {}'",
                shell_word(&name)
            ));
        }
        ended
    }
}
