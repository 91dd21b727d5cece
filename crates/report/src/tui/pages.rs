//! What opens over a view: one session, one stack, the help. Scrollable lines.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::answers::Answers;
use super::pen::{line, plain, width, write};
use crate::group::query_id;
use crate::ledger::Section;
use crate::printable::printable;
use crate::report::Report;
use crate::server_start::start_of_server;
use crate::session_work::SessionWork;
use crate::stacks::StackTime;
use crate::statement_text::NOT_RECORDED;
use crate::sums::percent;

/// Most lines of a statement: if it is longer, its beginning tells most.
const STATEMENT_LINES: usize = 40;

/// A line of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Heading(String),
    Text(String),
}

/// Lines, possibly more than fit on the screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page(Vec<Line>);

impl Page {
    /// A text, wrapped at this many columns.
    pub(super) fn of_text(text: &str, columns: u16) -> Page {
        let mut page = Page::default();
        page.wrapped(text, columns);
        page
    }

    pub(super) fn heading(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push(Line::Text(String::new()));
        }
        self.0.push(Line::Heading(plain(text)));
    }

    /// Untrusted text, wrapped at this many columns.
    fn wrapped(&mut self, text: &str, columns: u16) {
        let text = plain(text);
        let mut lines = 0;
        let mut line = String::new();
        for word in text.split(' ') {
            if !line.is_empty() && width(&line) + 1 + width(word) > columns {
                self.0.push(Line::Text(std::mem::take(&mut line)));
                lines += 1;
                if lines == STATEMENT_LINES {
                    self.0.push(Line::Text("…".to_string()));
                    return;
                }
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.0.push(Line::Text(line));
    }

    pub(super) fn line(&mut self, text: &str) {
        self.0.push(Line::Text(printable(text).into_owned()));
    }

    /// How many lines can be above the first one shown, in an area of this height.
    pub fn most_above(&self, height: u16) -> usize {
        self.0.len().saturating_sub(height.into())
    }

    pub(super) fn draw(&self, buffer: &mut Buffer, area: Rect, above: usize) {
        let above = above.min(self.most_above(area.height));
        for (at, line) in self.0.iter().skip(above).take(area.height.into()).enumerate() {
            let place = (area.x, area.y + at as u16);
            match line {
                Line::Heading(text) => {
                    let style = Style::new().add_modifier(Modifier::BOLD);
                    write(buffer, place, text, area.width, style);
                }
                Line::Text(text) => {
                    write(buffer, place, text, area.width, Style::new());
                }
            }
        }
        let below = self.most_above(area.height) - above;
        if let (true, Some(last)) = (below > 0, line(area, area.height.saturating_sub(1))) {
            buffer.set_style(last, Style::reset());
            let more = format!("… {} more lines: Down, Page Down", below + 1);
            write(
                buffer,
                (last.x, last.y),
                &format!("{more:width$}", width = last.width.into()),
                last.width,
                Style::new(),
            );
        }
    }
}

/// One session: who it is, its statement, what it does now, where its time went, its stacks. `now`: the last second, if there are
/// more than one. `columns`: for wrapping.
pub fn session(answers: &Answers, now: Option<&Answers>, columns: u16) -> Page {
    let mut page = Page::default();
    let report = &answers.report;
    let elapsed = report.elapsed_ns();
    for work in &answers.work {
        who(&mut page, work, elapsed);
        if work.statement != 0 {
            page.heading(&format!("Statement {}", query_id(work.statement)));
            page.wrapped(work.text.as_deref().unwrap_or(NOT_RECORDED), columns);
        }
    }
    if answers.work.is_empty() {
        page.heading("The session did nothing in these seconds, or has ended");
    }
    if let Some(now) = now {
        page.heading("In the last second");
        where_it_went(&mut page, &now.report);
        // Time without samples has no frames.
        let stacks = &now.report.stacks.top;
        let has_frames = |stack: &&StackTime| !(stack.kernel.is_empty() && stack.user.is_empty());
        if let Some(stack) = stacks.iter().find(has_frames).or(stacks.first()) {
            add_stack(&mut page, stack, "its DB time in the last second");
        }
    }
    page.heading("Where its time went");
    where_it_went(&mut page, report);
    for stack in &report.stacks.top {
        add_stack(&mut page, stack, "its DB time");
    }
    page
}

/// Its waits, by its state meanwhile.
fn where_it_went(page: &mut Page, report: &Report) {
    let total: u128 = report.ledger.total().total_ns();
    for row in &report.ledger.rows {
        let states: Vec<String> = dbtime_model::State::ALL
            .into_iter()
            .filter(|state| row.sums.state_ns(*state) > 0)
            .map(|state| {
                let part = percent(row.sums.state_ns(state), total).unwrap_or(0.0);
                format!("{state} {part:.1} %")
            })
            .collect();
        let part = percent(row.sums.total_ns(), total).unwrap_or(0.0);
        let idle = match row.section {
            Section::Idle => " (idle)",
            Section::DbTime | Section::Background => "",
        };
        let label = format!("{}{idle}", row.labels.concat());
        page.line(&format!("{part:6.1} % {label:30} {}", states.join(", ")));
    }
}

fn who(page: &mut Page, work: &SessionWork, elapsed_ns: u128) {
    let session = &work.session;
    page.heading(&format!("Session {} ({})", session.pid, session.backend_type));
    let facts = [
        ("user", &session.user),
        ("database", &session.database),
        ("client", &session.client),
        ("application", &session.application),
        ("service", &session.service),
        ("module", &session.module),
        ("action", &session.action),
        ("client_id", &session.client_id),
        ("sid", &session.sid),
    ];
    let facts: Vec<String> = facts
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name} {}", plain(value)))
        .collect();
    if !facts.is_empty() {
        page.line(&facts.join(", "));
    }
    let rate = match elapsed_ns {
        0 => 0.0,
        elapsed_ns => work.active.total_ns() as f64 / elapsed_ns as f64,
    };
    let state = match work.session_state.to_string() {
        none if none.is_empty() => none,
        state => format!("; session state: {state}"),
    };
    page.line(&format!(
        "AAS {rate:.2}, most in {} ({}){state}",
        work.main_wait.0, work.main_state.0
    ));
}

/// One stack, innermost function first.
pub fn stack(stack: &StackTime) -> Page {
    let mut page = Page::default();
    add_stack(&mut page, stack, "DB time");
    page
}

fn add_stack(page: &mut Page, stack: &StackTime, whole: &str) {
    page.heading(&format!(
        "Stack with {:.1} % of {whole}: {} ({})",
        stack.percent, stack.wait, stack.state
    ));
    let kernel = stack.kernel.iter().rev().map(|frame| (frame, "kernel"));
    let start = start_of_server(&stack.user);
    let user = stack.user[start..].iter().rev().map(|frame| (frame, "user"));
    let mut before = "";
    for (frame, kind) in kernel.chain(user) {
        let mark = if kind == before { "" } else { kind };
        page.line(&format!("  {mark:6} {frame}"));
        before = kind;
    }
    if stack.kernel.is_empty() && stack.user.is_empty() {
        page.line("  [no stack]");
    }
}

/// Why there is nothing to show.
pub fn nothing(why: &str) -> Page {
    let mut page = Page::default();
    page.line(why);
    page
}

/// What the keys do.
pub fn help() -> Page {
    let mut page = Page::default();
    page.heading("dbtime top: where database time goes, second by second");
    for line in [
        "  1 … 6, Tab     ledger, SQL, sessions, stacks, causes, latency",
        "  Up, Down       select a row (in a page: move)",
        "  Enter          open a session, a stack or the distribution of an event; for a",
        "                 wait event show its statements, for a statement its sessions",
        "  Esc            back: close it, or remove the last filter",
        "  s              change the sort order (* marks the column)",
        "  + -            longer, shorter time for the tables (thick below the bars)",
        "  /              filter: user=bob wait=IO state=disk query=42 session=4711, or as",
        "                 in 'dbtime report': --where user=bob --wait IO",
        "  Space          freeze; go on",
        "  Left, Right    a second back, forward (this freezes)",
        "  [ ]            a minute back, forward; so do Shift-Left, Shift-Right",
        "  Home, End      to the first, to the last second",
        "  r              record what is kept and what follows, in the directory where",
        "                 dbtime was started; again: stop",
        "  q, Ctrl-C      quit",
    ] {
        page.line(line);
    }
    page.heading("What is shown");
    for line in [
        "  AAS            average active sessions: in no idle wait, on average",
        "  bars           AAS of each second by wait class; broken line: number of CPUs",
        "  c v !          below the bars: a checkpoint, autovacuum at work, a note",
        "                 (dbtime report --timeline says what)",
        "  user, kernel,  what the operating system says the sessions were doing, in AAS",
        "    runnable …",
        "  causes         whom blocked sessions waited for: each under the one it waited for,",
        "                 how long it waited itself and how long those behind it (in AAS)",
        "  latency        single events, where they are counted: --exact, --exact=calls;",
        "                 at once: how many were in progress at a time, on average",
        "  not sampled    time that the kernel counted but no sample fell into",
        "  lost, torn     samples for which there was no room, and those dropped because",
        "                 the session ran while it was read",
    ] {
        page.line(line);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped_at_words_and_end_somewhere() {
        let mut page = Page::default();
        page.wrapped("select a,\n  b from\u{1b} t", 9);
        let text = |text: &str| Line::Text(text.to_string());
        assert_eq!(page.0, [text("select a,"), text("b from? t")]);
        let mut page = Page::default();
        page.wrapped(&"word ".repeat(10_000), 20);
        assert_eq!(page.0.len(), STATEMENT_LINES + 1);
    }

    #[test]
    fn what_is_below_is_told_until_the_end() {
        let page = help();
        let area = Rect::new(0, 0, 80, 10);
        let last = |above: usize| -> String {
            let mut buffer = Buffer::empty(area);
            page.draw(&mut buffer, area, above);
            (0..80).map(|x| buffer[(x, 9)].symbol().to_string()).collect()
        };
        let lines = page.0.len();
        assert!(
            last(0).starts_with(&format!("… {} more lines", lines - 9)),
            "{}",
            last(0)
        );
        assert!(!last(lines).contains("more lines"), "{}", last(lines));
    }

    #[test]
    fn the_end_of_a_page_can_be_reached() {
        let page = help();
        assert!(page.most_above(10) > 0);
        assert_eq!(page.most_above(200), 0);
    }
}
