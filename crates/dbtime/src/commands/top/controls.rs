//! What is shown, and what each key changes.

use std::time::{Duration, Instant};

use dbtime_model::recording::Meta;
use dbtime_report::tui::{self, Answers, Chart, Colours, Extent, Page, Screen, Subject, Table, View};
use dbtime_report::{Filter, MoreTables, shell_word, timeline};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Rect, Size};

use super::feed::{Feed, SECOND_US};
use super::keys::{Action, action};
use crate::filter_line;
use crate::time_of_day::now_us;

/// Seconds that the tables can cover, besides what was asked for.
const TIMES_S: [i64; 5] = [1, 5, 15, 60, 300];
/// Asking takes at most this part of the time: one in so many.
const REST: u32 = 25;
/// Most characters of a filter.
const MOST_TYPED: usize = 2_000;
/// How long a message is shown, unless a key is pressed.
const SAID: Duration = Duration::from_secs(10);

/// What a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    Quit,
}

/// What is open on top of a view.
enum Opened {
    Help,
    Session(u32),
    Stack,
    /// Events of a kind and a name.
    Event(String, String),
}

/// A filter, and the text that was typed for it.
#[derive(Default)]
struct Typed {
    text: String,
    filter: Filter,
}

/// See the module.
pub(super) struct Controls {
    feed: Feed,
    colours: Colours,
    meta: Meta,
    size: Size,
    /// Seconds that the tables cover.
    time_s: i64,
    /// Their end, microseconds since the Unix epoch; none until there is a second.
    end_us: Option<i64>,
    /// The latest moment ever shown: usually the right end of the bars.
    reached_us: i64,
    is_running: bool,
    /// In a replay: when its last second was first shown.
    played: Instant,
    view: View,
    orders: [usize; View::ALL.len()],
    chosen: [Option<Subject>; View::ALL.len()],
    /// The last one applies; one can go back to those before.
    filters: Vec<Typed>,
    typed: Option<String>,
    message: Option<(String, Instant)>,
    told: Option<String>,
    opened: Option<Opened>,
    page: Page,
    above: usize,
    chart: Chart,
    /// The time that the bars cover.
    charted: Option<(i64, i64)>,
    /// How often rows had arrived by then.
    charted_additions: u64,
    answers: Result<Answers, String>,
    table: Table,
    others: Vec<(View, Table)>,
    was_recording: bool,
    /// What was asked last is not what should be shown.
    is_stale: bool,
    asked: Instant,
    asking_took: Duration,
}

impl Controls {
    pub(super) fn new(feed: Feed, seconds: u32, colours: Colours) -> Controls {
        let (end_us, reached_us) = match &feed {
            Feed::Live(_) => (None, 0),
            Feed::Replay(replay) => {
                let end = replay.begin_us().saturating_add(replay.step_us());
                (Some(end), end)
            }
        };
        Controls {
            meta: feed.meta(),
            feed,
            colours,
            size: Size::default(),
            time_s: seconds.into(),
            end_us,
            reached_us,
            is_running: true,
            played: Instant::now(),
            view: View::Ledger,
            orders: [0; View::ALL.len()],
            chosen: Default::default(),
            filters: Vec::new(),
            typed: None,
            message: None,
            told: None,
            opened: None,
            page: Page::default(),
            above: 0,
            chart: Chart::default(),
            charted: None,
            charted_additions: 0,
            answers: Err("the first second is not over yet".to_string()),
            table: Table::default(),
            others: Vec::new(),
            was_recording: false,
            is_stale: true,
            asked: Instant::now(),
            asking_took: Duration::ZERO,
        }
    }

    /// Checks whether there is anything new to show, in a terminal of this size.
    pub(super) fn look(&mut self, size: Size) -> bool {
        let mut is_new = std::mem::replace(&mut self.size, size) != size;
        self.is_stale |= is_new;
        let told = self.feed.told();
        if told != self.told {
            self.told = told;
            match self.told.clone() {
                Some(told) => self.say(told),
                None => self.message = None,
            }
            is_new = true;
        }
        while let Some(said) = self.feed.said() {
            self.say(said);
            is_new = true;
        }
        let is_recording = self.feed.is_recording();
        is_new |= std::mem::replace(&mut self.was_recording, is_recording) != is_recording;
        if self
            .message
            .as_ref()
            .is_some_and(|(_, since)| since.elapsed() >= SAID)
        {
            self.message = None;
            is_new = true;
        }
        self.go_on();
        if self.is_stale {
            self.ask();
            is_new = true;
        }
        is_new
    }

    /// Time goes on, unless it is frozen.
    fn go_on(&mut self) {
        // Asking must not take CPU that the database needs.
        if self.asked.elapsed() < self.asking_took * REST {
            self.played = self.played.max(self.asked);
            return;
        }
        let Some((first, last)) = self.feed.bounds(now_us()) else {
            return;
        };
        if self.feed.is_live() {
            self.reached_us = self.reached_us.max(last);
            if self.is_running && self.end_us != Some(last) {
                self.end_us = Some(last);
                self.is_stale = true;
            } else if !self.is_running && self.asked.elapsed() >= Duration::from_secs(1) {
                // The bars move on, and the oldest seconds are dropped.
                self.is_stale = true;
                if let Some(end) = self.end_us.filter(|end| *end <= first) {
                    self.go_to(end);
                }
            }
            return;
        }
        let step_us = self.feed.step_us();
        let step = Duration::from_micros(step_us.unsigned_abs());
        while self.is_running && self.played.elapsed() >= step {
            self.played += step;
            let end = self.end_us.unwrap_or(last);
            if end >= last {
                self.is_running = false;
                self.say("the recording ends here".to_string());
            }
            self.go_to(end.saturating_add(step_us));
        }
    }

    /// Shows the time up to this moment, or the nearest available.
    fn go_to(&mut self, end_us: i64) {
        let Some((first, last)) = self.feed.bounds(now_us()) else {
            return;
        };
        let least = first.saturating_add(self.feed.step_us()).min(last);
        let end_us = end_us.clamp(least, last);
        self.end_us = Some(end_us);
        self.reached_us = self.reached_us.max(end_us);
        self.is_stale = true;
    }

    /// Length of the time that the tables cover, microseconds: rounded up to whole rows.
    fn time_us(&self) -> i64 {
        let step_us = self.feed.step_us();
        let us = self.time_s.saturating_mul(SECOND_US);
        us.saturating_add(step_us - 1)
            .div_euclid(step_us)
            .saturating_mul(step_us)
    }

    fn chosen_time(&self) -> (i64, i64) {
        let end = self.end_us.unwrap_or(0);
        (end.saturating_sub(self.time_us()), end)
    }

    fn filter(&self) -> Filter {
        self.filters
            .last()
            .map(|typed| typed.filter.clone())
            .unwrap_or_default()
    }

    /// The filter of the tables.
    fn filter_of_time(&self) -> Filter {
        let (from, to) = self.chosen_time();
        Filter {
            from_us: Some(from),
            to_us: Some(to),
            ..self.filter()
        }
    }

    fn ask(&mut self) {
        self.is_stale = false;
        let begin = Instant::now();
        self.meta = self.feed.meta();
        if self.end_us.is_some() {
            let (from, to) = self.chosen_time();
            let more = self.view.needs();
            let source = self.feed.source(from, to, more);
            self.answers = Answers::of(&source, &self.filter_of_time(), more).map_err(|e| e.to_string());
            self.ask_for_bars();
            self.fill_table();
            self.fill_page();
        }
        self.asked = Instant::now();
        self.asking_took = begin.elapsed();
    }

    /// The end of the bars: the latest moment shown, unless the chosen time is before all of them.
    fn end_of_bars(&self) -> i64 {
        let (from, to) = self.chosen_time();
        match self.reached_us.saturating_sub(self.bars_us()) <= from {
            true => self.reached_us,
            // A quarter of them comes after it.
            false => {
                let step_us = self.feed.step_us();
                let after = (self.bars_us() / 4).div_euclid(step_us).saturating_mul(step_us);
                to.saturating_add(after).min(self.reached_us)
            }
        }
    }

    /// Time that all bars cover, microseconds.
    fn bars_us(&self) -> i64 {
        let columns = i64::from(Chart::columns(self.size.width).max(1));
        columns.saturating_mul(self.feed.step_us())
    }

    fn ask_for_bars(&mut self) {
        let step_us = self.feed.step_us();
        let to = self.end_of_bars();
        let first = self.feed.bounds(now_us()).map_or(to, |(first, _)| first);
        let from = to.saturating_sub(self.bars_us()).max(first);
        let ask_from = match self.charted {
            Some((charted_from, charted_to)) if charted_from <= from && from <= charted_to => {
                if charted_to >= to && !self.feed.is_live() {
                    return;
                }
                // Rows of earlier seconds may have arrived late.
                let changed = self.feed.changed_since(self.charted_additions);
                let next = charted_to.min(to);
                changed.unwrap_or(next).clamp(from, next.max(from))
            }
            _ => from,
        };
        if ask_from >= to {
            return;
        }
        let filter = Filter {
            from_us: Some(ask_from),
            to_us: Some(to),
            ..self.filter()
        };
        // What arrives in between is asked for again.
        let additions = self.feed.additions();
        let source = self.feed.source(ask_from, to, MoreTables::default());
        self.charted_additions = additions;
        let width_s = u32::try_from(step_us / SECOND_US).unwrap_or(u32::MAX);
        // There may be nothing in this time that matches the filter.
        if let Ok(bars) = timeline(&source, &tui::bars(&filter, width_s)) {
            self.chart.take(&bars);
        }
        let charted_from = match self.charted {
            Some((before, charted_to)) if before <= ask_from && ask_from <= charted_to => before,
            _ => ask_from,
        };
        self.charted = Some((charted_from, to));
    }

    fn fill_table(&mut self) {
        let order = self.orders[self.view as usize];
        self.table = match &self.answers {
            Ok(answers) => tui::table(answers, self.view, order),
            Err(_) => Table::default(),
        };
        let area = Rect::new(0, 0, self.size.width, self.size.height);
        let has_room = tui::Layout::of(area).is_some_and(|layout| layout.others.is_some());
        self.others = match &self.answers {
            Ok(answers) if has_room => {
                let table = |view: View| (view, tui::table(answers, view, self.orders[view as usize]));
                self.view.beside().map(table).to_vec()
            }
            _ => Vec::new(),
        };
    }

    fn fill_page(&mut self) {
        let area = Rect::new(0, 0, self.size.width, self.size.height);
        let columns = tui::Layout::of(area).map_or(area.width, |layout| layout.body.width);
        let columns = columns.saturating_sub(1).max(20);
        self.page = match &self.opened {
            Some(Opened::Help) => tui::help(),
            Some(Opened::Session(pid)) => {
                let (from, to) = self.chosen_time();
                let of_it = Filter {
                    sessions: vec![*pid],
                    ..self.filter_of_time()
                };
                let mut since = |from_us: i64| {
                    let source = self.feed.source(from_us, to, MoreTables::default());
                    let filter = Filter {
                        from_us: Some(from_us),
                        ..of_it.clone()
                    };
                    tui::of_session(&source, &filter)
                };
                let last = to.saturating_sub(SECOND_US);
                // A session that has ended has no last second.
                let now = (from < last).then(|| since(last).ok()).flatten();
                match since(from) {
                    Ok(answers) => tui::session(&answers, now.as_ref(), columns),
                    Err(e) => tui::nothing(&e.to_string()),
                }
            }
            Some(Opened::Event(kind, name)) => match &self.answers {
                Ok(answers) => tui::distribution(answers, kind, name),
                Err(why) => tui::nothing(why),
            },
            // It stays as it was when it was opened.
            Some(Opened::Stack) => return,
            None => Page::default(),
        };
    }

    /// Draws it.
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let mode = match (self.feed.is_live(), self.is_running, self.was_recording) {
            (true, true, false) => "LIVE",
            (true, true, true) => "REC LIVE",
            (true, false, false) => "FROZEN",
            (true, false, true) => "REC FROZEN",
            (false, true, _) => "REPLAY",
            (false, false, _) => "PAUSED",
        };
        let screen = Screen {
            meta: &self.meta,
            answers: self.answers.as_ref().map_err(String::as_str),
            chart: &self.chart,
            extent: Extent {
                to_us: self.end_of_bars(),
                chosen: self.chosen_time(),
            },
            view: self.view,
            table: &self.table,
            chosen: self.place(),
            others: &self.others,
            page: self.opened.as_ref().map(|_| (&self.page, self.above)),
            mode,
            filter: self.filters.last().map_or("", |typed| &typed.text),
            typed: self.typed.as_deref(),
            message: self.message.as_ref().map(|(text, _)| text.as_str()),
            colours: self.colours,
        };
        tui::draw(&screen, area, buffer);
    }

    /// Position of the chosen row, which may have gone.
    fn place(&self) -> Option<usize> {
        let chosen = self.chosen[self.view as usize].as_ref();
        let found = chosen.and_then(|chosen| self.table.rows.iter().position(|row| row.subject == *chosen));
        found.or((!self.table.rows.is_empty()).then_some(0))
    }

    fn say(&mut self, text: String) {
        self.message = Some((text, Instant::now()));
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        self.message = None;
        let is_end = matches!(key.code, KeyCode::Char('c')) && key.modifiers.contains(KeyModifiers::CONTROL);
        if self.typed.is_some() && !is_end {
            self.type_filter(key);
            return Next::Go;
        }
        match action(key) {
            Some(Action::Quit) => return Next::Quit,
            Some(action) => self.act(action),
            None => {}
        }
        Next::Go
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Quit => {}
            Action::Help => self.open(Opened::Help),
            Action::Show(view) => self.show(view),
            Action::NextView => self.show(View::ALL[(self.view as usize + 1) % View::ALL.len()]),
            Action::ViewBefore => {
                let at = self.view as usize + View::ALL.len() - 1;
                self.show(View::ALL[at % View::ALL.len()]);
            }
            Action::Move(rows) => self.move_by(rows),
            Action::Order => {
                let order = &mut self.orders[self.view as usize];
                *order = (*order + 1) % self.view.orders();
                self.fill_table();
            }
            Action::Time(is_longer) => self.change_time(is_longer),
            Action::Filter => {
                self.typed = Some(
                    self.filters
                        .last()
                        // More is added to it.
                        .map_or_else(String::new, |typed| format!("{} ", typed.text)),
                );
            }
            Action::Freeze => self.freeze(!self.is_running),
            Action::Step(steps) => {
                self.freeze(false);
                if let Some(end) = self.end_us {
                    self.go_to(end.saturating_add(steps.saturating_mul(self.feed.step_us())));
                }
            }
            Action::First => {
                self.freeze(false);
                if let Some((first, _)) = self.feed.bounds(now_us()) {
                    self.go_to(first);
                }
            }
            Action::Last => {
                let is_live = self.feed.is_live();
                self.freeze(is_live);
                self.go_to(i64::MAX);
            }
            Action::Record => {
                if let Some(why) = self.feed.record() {
                    self.say(why);
                }
            }
            Action::Open => self.open_chosen(),
            Action::Back => {
                if self.opened.take().is_none() && self.filters.pop().is_some() {
                    self.filter_has_changed();
                }
                self.is_stale = true;
            }
        }
    }

    /// Time goes on (true), or not.
    fn freeze(&mut self, is_running: bool) {
        self.is_running = is_running;
        self.played = Instant::now();
        self.is_stale = true;
    }

    fn show(&mut self, view: View) {
        self.opened = None;
        self.view = view;
        // Different views ask for different things.
        self.is_stale = true;
        self.fill_table();
    }

    fn open(&mut self, opened: Opened) {
        self.opened = Some(opened);
        self.above = 0;
        self.fill_page();
    }

    fn move_by(&mut self, rows: i64) {
        let moved = |place: usize, most: usize| {
            let place = i64::try_from(place)
                .unwrap_or(i64::MAX)
                .saturating_add(rows)
                .max(0);
            usize::try_from(place).unwrap_or(0).min(most)
        };
        if self.opened.is_some() {
            let area = Rect::new(0, 0, self.size.width, self.size.height);
            let height = tui::Layout::of(area).map_or(0, |layout| layout.body.height);
            self.above = moved(self.above, self.page.most_above(height));
        } else if let Some(place) = self.place() {
            let place = moved(place, self.table.rows.len() - 1);
            // A sum cannot be chosen.
            let is_sum = |at: usize| self.table.rows[at].subject == Subject::Sum;
            let at = match rows > 0 {
                true => (place..self.table.rows.len()).find(|at| !is_sum(*at)),
                false => (0..=place).rev().find(|at| !is_sum(*at)),
            };
            if let Some(at) = at {
                self.chosen[self.view as usize] = Some(self.table.rows[at].subject.clone());
            }
        }
    }

    fn change_time(&mut self, is_longer: bool) {
        let next = match is_longer {
            true => TIMES_S.into_iter().find(|s| *s > self.time_s),
            false => TIMES_S.into_iter().rev().find(|s| *s < self.time_s),
        };
        if let Some(next) = next {
            self.time_s = next;
            self.is_stale = true;
        }
        self.say(format!("the tables cover {} s", self.time_us() / SECOND_US));
    }

    fn open_chosen(&mut self) {
        if self.opened.is_some() {
            return;
        }
        let chosen = self.place().map(|at| self.table.rows[at].subject.clone());
        match chosen {
            Some(Subject::Session(0, _)) => self.say("nothing is known about this session".to_string()),
            Some(Subject::Link(0, _)) => self.say("this is not a session that can be opened".to_string()),
            Some(Subject::Session(pid, _) | Subject::Link(pid, _)) => self.open(Opened::Session(pid)),
            Some(Subject::Event(kind, name)) => self.open(Opened::Event(kind, name)),
            Some(Subject::Stack(at)) => {
                let stack = self
                    .answers
                    .as_ref()
                    .ok()
                    .and_then(|answers| answers.report.stacks.top.get(at));
                if let Some(stack) = stack {
                    self.page = tui::stack(stack);
                    self.open(Opened::Stack);
                }
            }
            Some(Subject::Wait(wait)) => {
                self.filter_more(&format!("wait={}", shell_word(&wait)), View::Sql);
            }
            Some(Subject::Statement(id)) => {
                self.filter_more(&format!("query={}", id.cast_signed()), View::Sessions);
            }
            Some(Subject::Sum) | None => {}
        }
    }

    /// Adds a condition to the filter; shows the result in another view.
    fn filter_more(&mut self, word: &str, view: View) {
        let text = match self.filters.last() {
            Some(typed) if !typed.text.is_empty() => format!("{} {word}", typed.text),
            _ => word.to_string(),
        };
        self.set_filter(text);
        self.view = view;
    }

    fn type_filter(&mut self, key: KeyEvent) {
        let Some(typed) = &mut self.typed else { return };
        match key.code {
            KeyCode::Esc => self.typed = None,
            KeyCode::Enter => {
                let text = self.typed.take().unwrap_or_default();
                if !self.set_filter(text.trim().to_string()) {
                    // It can be corrected.
                    self.typed = Some(text);
                }
            }
            KeyCode::Backspace => {
                typed.pop();
            }
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => typed.clear(),
            KeyCode::Char(c)
                if !key.modifiers.contains(KeyModifiers::CONTROL) && typed.chars().count() < MOST_TYPED =>
            {
                typed.push(c);
            }
            _ => {}
        }
    }

    /// False if it is not a filter.
    fn set_filter(&mut self, text: String) -> bool {
        match filter_line::parse(&text) {
            Ok(_) if text.is_empty() => self.filters.clear(),
            Ok(filter) => self.filters.push(Typed { text, filter }),
            Err(why) => {
                self.say(why);
                return false;
            }
        }
        self.filter_has_changed();
        true
    }

    fn filter_has_changed(&mut self) {
        self.chart.clear();
        self.charted = None;
        self.is_stale = true;
    }
}
