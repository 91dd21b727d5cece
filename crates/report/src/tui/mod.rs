//! The live screen: answers about the last seconds, drawn into the cells of a terminal. This module only draws; keys, and which rows
//! to ask for what, are handled elsewhere.
//!
//! ```text
//! answers   the questions that a screen asks
//! chart     average active sessions over time
//! views     the ledger, statements, sessions and stacks as tables
//! causes    who was waited for, as a table
//! latency   single events as a table, and the distribution of one
//! table     which columns there is room for
//! pages     one session, one stack, the help
//! pen       how untrusted text is written
//! colours   what a terminal can show
//! ```

mod answers;
mod causes;
mod chart;
mod colours;
mod latency;
mod pages;
mod pen;
mod table;
mod views;

use dbtime_model::recording::{Clock, Meta};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

pub use answers::{Answers, bars, of_session};
pub use chart::{Chart, Extent};
pub use colours::Colours;
pub use latency::distribution;
pub use pages::{Page, help, nothing, session, stack};
pub use table::{Row, Subject, Table};
pub use views::{View, table};

use crate::filter::SECOND_US;
use crate::group::{date_and_time, moment};
use crate::number::counted;
use pen::{line, plain, width, write, write_right};

/// Enough columns for a date.
const WITH_DATE: u16 = 100;
/// Minimum size of the area.
const LEAST: (u16, u16) = (60, 16);
/// Lines above the bars.
const HEADER: u16 = 2;
/// Lines of the legend and of the titles of the views.
const TITLES: u16 = 2;
/// The line of the keys.
const FOOTER: u16 = 1;
/// From this size on, other views are shown beside the selected one.
const WITH_OTHERS: (u16, u16) = (150, 40);
/// Width of the other views, as a percentage.
const OTHERS: u16 = 42;
/// Between the selected view and the others.
const BORDER: &str = "│";

/// Everything that a screen shows.
#[derive(Debug)]
pub struct Screen<'a> {
    /// What the recording says about itself.
    pub meta: &'a Meta,
    /// The answers, or why there are none.
    pub answers: Result<&'a Answers, &'a str>,
    /// The bars.
    pub chart: &'a Chart,
    /// Which of them to draw.
    pub extent: Extent,
    /// The selected view.
    pub view: View,
    /// Its rows.
    pub table: &'a Table,
    /// The selected row.
    pub chosen: Option<usize>,
    /// The views beside it, if there is room.
    pub others: &'a [(View, Table)],
    /// A page over the view, and how many of its lines are scrolled off the top.
    pub page: Option<(&'a Page, usize)>,
    /// LIVE, REPLAY …
    pub mode: &'a str,
    /// The current filter.
    pub filter: &'a str,
    /// A filter that is being typed.
    pub typed: Option<&'a str>,
    /// A one-time message.
    pub message: Option<&'a str>,
    /// What the terminal can show.
    pub colours: Colours,
}

/// Positions of the parts of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    header: Rect,
    /// The bars with their axes.
    pub chart: Rect,
    legend: Rect,
    titles: Rect,
    /// The table, or a page.
    pub body: Rect,
    /// Two other views, one above the other.
    pub others: Option<[Rect; 2]>,
    footer: Rect,
}

impl Layout {
    /// For an area; none when it is too small.
    pub fn of(area: Rect) -> Option<Layout> {
        if area.width < LEAST.0 || area.height < LEAST.1 {
            return None;
        }
        // A third for the bars: 7 lines of 24, 18 of 60.
        let chart = ((area.height - HEADER - TITLES - FOOTER) / 3 + 1).clamp(5, 18);
        let part = |from: u16, height: u16| Rect::new(area.x, area.y + from, area.width, height);
        let titles = HEADER + chart + 1;
        let mut body = part(titles + 1, area.height - titles - 1 - FOOTER);
        let others = (area.width >= WITH_OTHERS.0 && area.height >= WITH_OTHERS.1).then(|| {
            let width = area.width * OTHERS / 100;
            body.width -= width + 1;
            let (x, height) = (body.right() + 1, body.height / 2);
            [
                Rect::new(x, body.y, width, height),
                Rect::new(x, body.y + height, width, body.height - height),
            ]
        });
        Some(Layout {
            header: part(0, HEADER),
            chart: part(HEADER, chart),
            legend: part(HEADER + chart, 1),
            titles: part(titles, 1),
            body,
            others,
            footer: part(area.height - FOOTER, FOOTER),
        })
    }
}

/// Draws a screen.
pub fn draw(screen: &Screen<'_>, area: Rect, buffer: &mut Buffer) {
    let Some(layout) = Layout::of(area) else {
        // What matters first: the terminal may be narrow.
        let text = format!("{} x {} at least, for dbtime top", LEAST.0, LEAST.1);
        if let Some(first) = line(area, 0) {
            write(buffer, (first.x, first.y), &text, first.width, Style::new());
        }
        return;
    };
    header(screen, buffer, layout.header);
    screen
        .chart
        .draw(buffer, layout.chart, screen.extent, screen.colours);
    if let Ok(answers) = screen.answers {
        chart::legend(buffer, layout.legend, screen.chart, answers, screen.colours);
    }
    titles(screen, buffer, layout.titles);
    match (screen.page, screen.answers) {
        (Some((page, above)), _) => page.draw(buffer, layout.body, above),
        (None, Ok(_)) => screen.table.draw(buffer, layout.body, screen.chosen),
        (None, Err(why)) => {
            write(
                buffer,
                (layout.body.x, layout.body.y + 1),
                &plain(why),
                layout.body.width,
                Style::new(),
            );
        }
    }
    if let (Some(places), Ok(_)) = (layout.others, screen.answers) {
        let faint = Style::new().add_modifier(Modifier::DIM);
        for y in layout.body.top()..layout.body.bottom() {
            write(buffer, (layout.body.right(), y), BORDER, 1, faint);
        }
        for ((view, table), place) in screen.others.iter().zip(places) {
            let bold = Style::new().add_modifier(Modifier::BOLD);
            write(buffer, (place.x, place.y), view.title(), place.width, bold);
            let below = Rect::new(place.x, place.y + 1, place.width, place.height - 1);
            table.draw(buffer, below, None);
        }
    }
    footer(screen, buffer, layout.footer);
}

fn header(screen: &Screen<'_>, buffer: &mut Buffer, area: Rect) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let meta = screen.meta;
    let mode = match screen.extent.chosen {
        // No second is complete yet.
        (_, 0) => screen.mode.to_string(),
        _ => format!("{} {}", screen.mode, when(screen, area.width)),
    };
    let mode_columns = width(&mode);
    write_right(
        buffer,
        (area.x, area.y),
        &mode,
        area.width,
        bold.add_modifier(Modifier::REVERSED),
    );
    let room = area.width.saturating_sub(mode_columns + 1);
    let mut server = plain(&meta.database.in_short());
    for (word, text) in [
        ("", &meta.database.target),
        ("on ", &meta.host.name),
        ("", &meta.database.data_directory),
    ] {
        if !text.is_empty() && text != "server" {
            server.push_str(&format!(", {word}{}", plain(text)));
        }
    }
    let end = write(buffer, (area.x, area.y), "dbtime top  ", room, bold);
    write(
        buffer,
        (end, area.y),
        &server,
        room - (end - area.x),
        Style::new(),
    );

    let mut facts = Vec::new();
    if let Ok(answers) = screen.answers {
        let report = &answers.report;
        let seconds = report.elapsed_ns() as f64 / 1e9;
        let aas = report
            .average_active_sessions()
            .map_or_else(|| "-".to_string(), |aas| format!("{aas:.2}"));
        facts.push(format!("AAS {aas} in {} s", short(seconds)));
        // Problems come before what is always there.
        let quality = &report.quality;
        if !quality.problems.is_empty() {
            facts.push(format!(
                "{} reading it",
                counted(quality.problems.len(), "problem")
            ));
        }
        if quality.sessions_not_recorded > 0 {
            facts.push(format!(
                "{} not recorded",
                counted(quality.sessions_not_recorded, "session")
            ));
        }
    }
    if meta.host.cpus > 0 {
        facts.push(counted(meta.host.cpus, "CPU"));
    }
    facts.push(match meta.collector.rate_hz {
        0 => meta.collector.tier.clone(),
        rate => format!("{} at {rate} Hz", meta.collector.tier),
    });
    if let Ok(answers) = screen.answers {
        let quality = &answers.report.quality;
        let not_sampled = quality.unsampled_percent().unwrap_or(0.0);
        facts.push(format!("not sampled {not_sampled:.1} %"));
        facts.push(format!("lost {}", quality.lost));
        facts.push(format!("torn {}", quality.torn));
        if let Some(percent) = quality.recorder_percent_of_one_cpu {
            facts.push(format!("recorder {percent:.1} % of a CPU since its start"));
        }
    }
    // A fact that does not fit is left out entirely.
    let mut text = String::new();
    for fact in facts {
        let more = if text.is_empty() {
            plain(&fact)
        } else {
            format!("{text} | {}", plain(&fact))
        };
        if width(&more) <= area.width {
            text = more;
        }
    }
    write(buffer, (area.x, area.y + 1), &text, area.width, Style::new());
}

/// The end of the selected time.
fn when(screen: &Screen<'_>, columns: u16) -> String {
    let end = screen.extent.chosen.1;
    match screen.meta.collector.clock {
        Clock::Relative => {
            let since_start = end.saturating_sub(screen.meta.start_us);
            format!("second {}", since_start.div_euclid(SECOND_US))
        }
        Clock::Utc | Clock::None => match date_and_time(end) {
            Some((_, time)) if columns < WITH_DATE => format!("{time} UTC"),
            _ => format!("{} UTC", moment(end)),
        },
    }
}

/// `5`, `4.2`.
fn short(seconds: f64) -> String {
    format!("{}", (seconds * 10.0).round() / 10.0)
}

fn titles(screen: &Screen<'_>, buffer: &mut Buffer, area: Rect) {
    let filter = match screen.filter.is_empty() {
        true => String::new(),
        false => format!(" only {}", plain(screen.filter)),
    };
    let whole = |number: usize, view: View| format!(" {number} {} ", view.title());
    let all: u16 = (1..)
        .zip(View::ALL)
        .map(|(n, view)| width(&whole(n, view)) + 1)
        .sum();
    // If there is not enough room for both: the view, and the filter.
    let is_short = all.saturating_add(width(&filter)) > area.width;
    let mut x = area.x;
    for (number, view) in (1..).zip(View::ALL) {
        let is_chosen = view == screen.view;
        let style = match is_chosen {
            true => Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED),
            false => Style::new(),
        };
        let text = match is_short && !is_chosen {
            true => format!(" {number} "),
            false => whole(number, view),
        };
        x = write(buffer, (x, area.y), &text, area.right().saturating_sub(x), style) + 1;
    }
    let style = Style::new().add_modifier(Modifier::BOLD);
    write(
        buffer,
        (x, area.y),
        &filter,
        area.right().saturating_sub(x),
        style,
    );
}

fn footer(screen: &Screen<'_>, buffer: &mut Buffer, area: Rect) {
    let place = (area.x, area.y);
    if let (Some(typed), None) = (screen.typed, screen.message) {
        // The user looks at the end of what is typed.
        let text = plain_typed(typed);
        let room = usize::from(area.width.saturating_sub(10));
        let hidden = text.chars().count().saturating_sub(room);
        let shown: String = text.chars().skip(hidden).collect();
        let end = write(
            buffer,
            place,
            "filter: ",
            area.width,
            Style::new().add_modifier(Modifier::BOLD),
        );
        let end = write(buffer, (end, area.y), &shown, area.right() - end, Style::new());
        let cursor = Style::new().add_modifier(Modifier::REVERSED);
        write(buffer, (end, area.y), " ", 1, cursor);
        return;
    }
    if let Some(message) = screen.message {
        let style = Style::new().add_modifier(Modifier::BOLD);
        write(buffer, place, &plain(message), area.width, style);
        return;
    }
    let keys = match screen.page {
        Some(_) => "Esc back  Up/Down move  Space freeze  q quit",
        None => "q quit  ? help  Tab view  Enter open  s order  / filter  r record  Space freeze  +/- time",
    };
    let faint = Style::new().add_modifier(Modifier::DIM);
    write(buffer, place, keys, area.width, faint);
}

/// As typed, including trailing blanks.
fn plain_typed(typed: &str) -> String {
    crate::printable::printable(typed).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_fill_the_screen_whatever_its_size() {
        for (columns, rows) in [(60, 16), (80, 24), (200, 60), (300, 200)] {
            let layout = Layout::of(Rect::new(0, 0, columns, rows)).expect("it is large enough");
            let parts = [
                layout.header,
                layout.chart,
                layout.legend,
                layout.titles,
                layout.body,
                layout.footer,
            ];
            let mut next = 0;
            for part in parts {
                let others = layout.others.filter(|_| part == layout.body);
                let width = part.width + others.map_or(0, |others| others[0].width + 1);
                assert_eq!((part.y, width), (next, columns), "{columns} x {rows}");
                if let Some([above, below]) = others {
                    assert_eq!(
                        (above.y, above.bottom(), below.bottom()),
                        (part.y, below.y, part.bottom())
                    );
                    assert!(
                        above.width >= 60 && part.width >= 80,
                        "{columns} x {rows}: {layout:?}"
                    );
                }
                next = part.bottom();
            }
            assert_eq!(next, rows);
            assert!(layout.body.height >= 5, "{columns} x {rows}: {layout:?}");
            assert_eq!(layout.others.is_some(), columns >= 200, "{columns} x {rows}");
        }
        assert_eq!(Layout::of(Rect::new(0, 0, 59, 24)), None);
        assert_eq!(Layout::of(Rect::new(0, 0, 80, 15)), None);
    }
}
