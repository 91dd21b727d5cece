//! Output is complete, fits the page, and cannot be broken by what was recorded.

use std::collections::BTreeMap;
use std::path::Path;

use crate::hand_made::{CPU, MS, busy_meta, busy_rows, meta, row, rows, session, stack};
use dbtime_model::recording::{Recording, RecordingWriter};
use dbtime_model::{Rows, State};
use dbtime_report::{FlameOptions, Folded, Options, Source, export, flame, json, report, text};
use quick_xml::events::Event;

/// Everything bad in one name: escape sequences, line breaks, separators, XML, a trailing number.
const HOSTILE: &str =
    " \u{1}\u{1b}]0;title\u{7}\u{9b}31m a;b\r\n<script>&\"'--]]>\u{0}\u{202e}\u{ffff}\t 42 17";

fn hostile_source() -> Source {
    let mut rows = rows();
    let (user, kernel) = (
        stack(&["main", HOSTILE], HOSTILE),
        stack(&[HOSTILE, "# x 9"], HOSTILE),
    );
    rows.sessions
        .push(session(5, 6_000, "client backend", HOSTILE, HOSTILE));
    let mut hostile = row(5, ("IO", HOSTILE, false), State::Kernel, 9_000);
    (hostile.user_stack, hostile.kernel_stack) = (user.id, kernel.id);
    rows.activity.push(hostile);
    rows.stacks.extend([user, kernel]);
    let mut meta = busy_meta();
    meta.host.name = HOSTILE.into();
    meta.database.version = HOSTILE.into();
    meta.notes[0].text = HOSTILE.into();
    meta.collector.reasons = vec![HOSTILE.into()];
    Source::memory(meta, rows)
}

fn export_as(folded: &Folded, name: &str) -> String {
    let mut out = Vec::new();
    export::write(folded, Path::new(name), &mut out).expect("exported");
    String::from_utf8(out).expect("UTF-8")
}

/// Texts of all `title` elements; panics if the XML is not well-formed or has a forbidden character.
fn titles(svg: &str) -> Vec<String> {
    assert!(
        svg.chars()
            .all(|c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)),
        "a character that XML forbids"
    );
    let mut reader = quick_xml::Reader::from_str(svg);
    reader.config_mut().check_comments = true;
    let mut titles = Vec::new();
    let mut inside = false;
    let mut open = Vec::new();
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(tag) => {
                for attribute in tag.attributes() {
                    attribute.expect("a well-formed attribute");
                }
                open.push(tag.name().as_ref().to_vec());
                inside = tag.name().as_ref() == b"title";
                if inside {
                    titles.push(String::new());
                }
            }
            Event::End(tag) => {
                assert_eq!(open.pop().as_deref(), Some(tag.name().as_ref()));
                inside = false;
            }
            Event::Text(content) if inside => {
                titles
                    .last_mut()
                    .expect("a title")
                    .push_str(&content.decode().expect("UTF-8"));
            }
            Event::GeneralRef(entity) if inside => {
                titles
                    .last_mut()
                    .expect("a title")
                    .push_str(&entity.decode().expect("UTF-8"));
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty());
    titles
}

#[test]
fn the_text_holds_the_numbers_that_matter() {
    let text = text::render(
        &report(&Source::memory(meta(), rows()), &Options::default()).expect("a report"),
        100,
    );
    let line = |start: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(start));
        line.unwrap_or_else(|| panic!("no line '{start}' in\n{text}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert!(line("DB time 4.600 s in 4.000 s elapsed").contains("1.15 average active sessions"));
    assert_eq!(line("CPU  "), "CPU 0.900 0.100 0.060 - 0.040 1.100 23.9");
    assert_eq!(
        line("DB time  "),
        "DB time 0.900 1.330 0.060 0.700 1.610 4.600 100.0"
    );
    assert_eq!(
        line("Client:ClientRead"),
        "Client:ClientRead 0.010 0.020 - - 3.370 3.400 100.0"
    );
    assert_eq!(
        line("= what the database can show"),
        "= what the database can show 5.660 123.0"
    );
    assert_eq!(
        line("CPU inside wait events"),
        "CPU inside wait events: counted twice -1.200 -26.1"
    );
    assert_eq!(line("= DB time"), "= DB time 4.600 100.0");
    assert_eq!(line("4711"), "4711 app@shop 3.100 2.260 0.060 1.680 4.000");
    assert_eq!(line("99 "), "99 checkpointer 0.500 ? ? ? ?");
    assert_eq!(line("2. 26.1 %"), "2. 26.1 %, 1.200 s: IO:DataFileRead, kernel");
    assert_eq!(
        line("samples"),
        "samples 1234, torn 9, lost 0; not sampled 0.100 s (0.8 % of all time shown)"
    );
    assert!(text.contains("Where DB time went (seconds, sampled)"));
    assert!(text.contains("Exact: the totals of each session"));
}

#[test]
fn lines_fit_the_page() {
    let report = report(&Source::memory(busy_meta(), busy_rows()), &Options::default()).expect("a report");
    for width in [80, 100, 160] {
        for line in text::render(&report, width).lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn what_is_not_shown_one_by_one_is_shown_as_a_sum() {
    let report = report(&Source::memory(busy_meta(), busy_rows()), &Options::default()).expect("a report");
    let text = text::render(&report, 100);
    let others = text
        .lines()
        .find(|line| line.contains("6 others"))
        .expect("the sum");
    // Outside of its idle wait, number n of the dozen has 530 + 13 n ms. Shown are 4711, 4712 and numbers 11 to
    // 4; the rest are 3 to 0, the checkpointer with 500 ms and the session that was not described with 11 ms.
    assert_eq!(4 * 530 + 13 * (3 + 2 + 1) + 500 + 11, 2_709);
    assert!(others.contains(" 2.709 "), "{others}");
    assert!(text.contains("9 other stacks: "), "{text}");
}

#[test]
fn no_column_for_other_states_unless_there_is_time_in_them() {
    let with = |state| {
        let mut rows = rows();
        rows.activity.push(row(1, CPU, state, 123));
        text::render(
            &report(&Source::memory(meta(), rows), &Options::default()).expect("a report"),
            100,
        )
    };
    let heads = |text: &str| -> Vec<String> {
        let head = text
            .lines()
            .find(|line| line.contains("wait event "))
            .expect("the head");
        head.split_whitespace().map(str::to_string).collect()
    };
    let usual = [
        "wait", "event", "user", "kernel", "runnable", "disk", "sleep", "total", "%",
    ];
    assert_eq!(heads(&with(State::User)), usual);
    assert!(!with(State::User).contains("other:"));
    let cpu = with(State::Cpu);
    assert!(cpu.contains("cpu: on a CPU, user or kernel not known.") && !cpu.contains("other:"));
    assert_eq!(heads(&cpu)[2..4], ["cpu", "user"]);
    assert!(heads(&with(State::Stopped)).contains(&"other".to_string()));
}

#[test]
fn hostile_names_reach_the_terminal_as_plain_text() {
    let options = Options {
        by: dbtime_report::Dimension::OF_TIME.to_vec(),
        stacks: 100,
        ..Options::default()
    };
    for options in [options, Options::default()] {
        let report = report(&hostile_source(), &options).expect("a report");
        let text = text::render(&report, 80);
        assert!(text.contains("title"), "the name itself is shown");
        assert!(
            text.lines().any(|line| line.trim().starts_with("6000 ")),
            "{text}"
        );
        let bad: Vec<char> = text
            .chars()
            .filter(|&c| c != '\n' && (c.is_control() || "\u{202e}\u{ffff}".contains(c)))
            .collect();
        assert!(bad.is_empty(), "{bad:?}");
        // JSON keeps what was recorded.
        let json: serde_json::Value = serde_json::from_str(&json::render(&report)).expect("JSON");
        assert_eq!(json["sessions"][0]["user"], HOSTILE);
    }
}

#[test]
fn hostile_names_cannot_break_folded_stacks() {
    let folded = flame(&hostile_source(), &FlameOptions::default()).expect("stacks");
    let text = export_as(&folded, "x.folded");
    assert_eq!(text.lines().count(), folded.stacks.len());
    let mut sum = 0;
    for (line, stack) in text.lines().zip(&folded.stacks) {
        let (names, value) = line.rsplit_once(' ').expect("a value");
        sum += value.parse::<u128>().expect("a number");
        assert_eq!(
            names.split(';').count(),
            stack.levels.len() + stack.user.len() + stack.kernel.len(),
            "{line}"
        );
        // What a reader of differential profiles would take for the first of two values.
        let last = names.rsplit(' ').next().expect("a word");
        assert!(last.parse::<f64>().is_err() || !names.contains(' '), "{line}");
        assert!(!line.contains(char::is_control), "{line}");
    }
    assert_eq!(sum, u128::from(13_600 * MS));
    assert!(text.contains("_[k]"));
}

#[test]
fn hostile_names_leave_the_svg_well_formed() {
    let folded = flame(&hostile_source(), &FlameOptions::default()).expect("stacks");
    let titles = titles(&export_as(&folded, "x.svg"));
    // 4.6 s of the hand-made recording and 9 s of the hostile session: above 10 s times are in ms.
    assert!(
        titles.iter().any(|title| title.starts_with("all (13,600 ms")),
        "{titles:?}"
    );
    assert!(
        titles
            .iter()
            .any(|title| title.contains("script") && title.contains("9,000 ms")),
        "{titles:?}"
    );
}

#[test]
fn frames_of_the_svg_are_as_wide_as_their_time() {
    let folded = flame(&Source::memory(meta(), rows()), &FlameOptions::default()).expect("stacks");
    let svg = export_as(&folded, "x.svg");
    let titles = titles(&svg);
    for title in [
        "all (4,600,000 us, 100%)",
        "Lock:transactionid (1,500,000 us, 32.61%)",
        "IO:DataFileRead (1,900,000 us, 41.30%)",
        "copy_page_to_iter (1,200,000 us, 26.09%)",
        "qsort_tuple (900,000 us, 19.57%)",
    ] {
        assert!(titles.iter().any(|t| t == title), "{title} is not in {titles:?}");
    }
    assert!(svg.contains("DB time of PostgreSQL 17.5 on db1.example, 2026-10-10 12:00:00 UTC"));
    assert!(svg.contains("Width: 4.600 s of DB time"));
}

/// When whole lines are compared, `read` alone sorts before `read all`, and that before `read;…`: a renderer that
/// sorts lines tears the frame `read` in two.
#[test]
fn equal_frames_meet_whatever_their_neighbours_are_called() {
    let stacks = [
        stack(&["read"], "m"),
        stack(&["read all"], "m"),
        stack(&["read", "copy"], "m"),
    ];
    let activity = stacks
        .iter()
        .map(|stack| {
            let mut row = row(1, CPU, State::User, 1_000);
            row.user_stack = stack.id;
            row
        })
        .collect();
    let rows = Rows {
        activity,
        stacks: stacks.to_vec(),
        ..rows()
    };
    let folded = flame(&Source::memory(meta(), rows), &FlameOptions::default()).expect("stacks");
    let mut seen = BTreeMap::new();
    for title in titles(&export_as(&folded, "x.svg")) {
        *seen.entry(title).or_insert(0) += 1;
    }
    assert_eq!(seen.get("read (2,000,000 us, 66.67%)"), Some(&1), "{seen:?}");
}

#[test]
fn the_same_recording_gives_the_same_bytes() {
    let draw = || {
        let source = Source::memory(busy_meta(), busy_rows());
        let report = report(&source, &Options::default()).expect("a report");
        let folded = flame(&source, &FlameOptions::default()).expect("stacks");
        [
            text::render(&report, 100),
            json::render(&report),
            export_as(&folded, "x.txt"),
            export_as(&folded, "x.svg"),
        ]
    };
    assert_eq!(draw(), draw());
}

#[test]
fn layers_have_colours_of_their_own() {
    let folded = flame(&Source::memory(meta(), rows()), &FlameOptions::default()).expect("stacks");
    let svg = export_as(&folded, "x.svg");
    let colour = |frame: &str| -> [u8; 3] {
        let after = &svg[svg.find(&format!("<title>{frame} (")).expect(frame)..];
        let rgb = &after[after.find("rgb(").expect("a colour") + 4..];
        let numbers: Vec<u8> = rgb[..rgb.find(')').expect("the end")]
            .split(',')
            .map(|n| n.parse().expect("a number"))
            .collect();
        numbers.try_into().expect("three")
    };
    for level in ["CPU", "IO:DataFileRead", "disk", "Lock:transactionid"] {
        let [r, g, b] = colour(level);
        assert!(b > r && b > g, "{level} is blue");
    }
    for user in ["main", "ReadBuffer", "ExecSort"] {
        let [r, g, b] = colour(user);
        assert!(g > b && (g >= r || r - g < 20), "{user} is green to yellow");
    }
    for kernel in ["vfs_read", "copy_page_to_iter"] {
        let [r, g, b] = colour(kernel);
        assert!(r > g && g > b && r - g > 60, "{kernel} is orange to red");
    }
}

#[test]
fn a_format_is_chosen_by_ending_and_unknown_endings_list_those_there_are() {
    let folded = flame(&Source::memory(meta(), rows()), &FlameOptions::default()).expect("stacks");
    assert!(export_as(&folded, "a/b.SVG").starts_with("<?xml"));
    for name in ["x.folded", "x.txt", "-"] {
        assert!(export_as(&folded, name).starts_with("CPU;kernel;main;"), "{name}");
    }
    for name in ["x.png", "x", "svg", ".svg"] {
        let error = export::write(&folded, Path::new(name), &mut Vec::new()).expect_err(name);
        assert_eq!(
            error.to_string(),
            format!(
                "{name}: no output format has this extension; choose one of .svg, .folded, .txt, \
             .pb.gz, .pprof, .speedscope.json, .firefox.json, .pftrace, .perfetto-trace, .otlp"
            )
        );
    }
}

#[test]
fn every_loss_is_shown_and_none_that_did_not_happen() {
    let words = [
        "kept without their stacks",
        "had preempted the session",
        "their own ended too soon",
        "wait event could not be read",
        "more than one period late",
        "the kernel refused",
        "single events lost",
        "sessions that were not recorded",
    ];
    let quality = |losses: &[u64; 8]| {
        let mut meta = meta();
        [
            meta.quality.torn_stacks,
            meta.quality.displaced,
            meta.quality.stood_in,
            meta.quality.waits_not_read,
            meta.quality.late_passes,
            meta.quality.failed_passes,
            meta.quality.latencies_lost,
            meta.quality.sessions_not_recorded,
        ] = *losses;
        text::render(
            &report(&Source::memory(meta, rows()), &Options::default()).expect("a report"),
            100,
        )
    };
    let none = quality(&[0; 8]);
    let all = quality(&[101, 102, 103, 104, 105, 106, 107, 108]);
    for (n, word) in words.iter().enumerate() {
        assert!(!none.contains(word), "{none}");
        let line = all.lines().find(|line| line.contains(word)).expect(word);
        assert!(line.ends_with(&format!(": {}", 101 + n)), "{line}");
    }
}

#[test]
fn an_empty_recording_is_said_to_be_empty() {
    let source = Source::memory(meta(), Rows::default());
    let report = report(&source, &Options::default()).expect("a report");
    assert!(report.is_empty());
    let text = text::render(&report, 80);
    assert!(text.contains("Nothing was recorded in this period."), "{text}");
    assert!(text.contains("samples 1234"), "{text}");
    assert!(json::render(&report).contains("\"db_time_ns\": 0"));
    let folded = flame(&source, &FlameOptions::default()).expect("no stacks");
    let error = export::write(&folded, Path::new("x.svg"), &mut Vec::new()).expect_err("nothing to draw");
    assert!(error.to_string().contains("empty"), "{error}");
}

#[test]
fn what_cannot_be_read_is_named_in_the_text() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("r.dbt");
    let mut writer = RecordingWriter::create(&path, meta()).expect("a recording");
    writer.write(&rows()).expect("a segment");
    writer.write(&rows()).expect("a segment");
    std::fs::write(path.join("activity/000002.parquet"), b"PAR1 cut").expect("written");
    let source = Source::from(Recording::open(&path).expect("a recording"));
    let report = report(&source, &Options::default()).expect("a report");
    assert_eq!(report.db_time_ns(), u128::from(4_600 * MS));
    let text = text::render(&report, 200);
    assert!(
        text.contains("not read: ") && text.contains("000002.parquet"),
        "{text}"
    );
    // Before the first number: what is missing may be nearly all.
    let first = text
        .lines()
        .position(|line| line.starts_with("Part of it could not be read"));
    let numbers = text.lines().position(|line| line.starts_with("DB time "));
    assert!(first.is_some() && first < numbers, "{text}");
    let json: serde_json::Value = serde_json::from_str(&json::render(&report)).expect("JSON");
    assert_eq!(json["quality"]["problems"].as_array().map(Vec::len), Some(2));
}

#[test]
fn amounts_that_are_no_time_are_nowhere_called_seconds() {
    use dbtime_model::recording::{Clock, Unit};
    for (unit, word) in [(Unit::Samples, "samples"), (Unit::Counts, "counts")] {
        let mut rows = rows();
        for row in &mut rows.activity {
            (row.count, row.ns) = (row.samples, 0);
        }
        rows.counters.clear();
        let mut meta = meta();
        (meta.collector.unit, meta.collector.clock) = (unit, Clock::None);
        (meta.start_us, meta.end_us, meta.cost.cpu_ns) = (0, 0, 0);
        for row in &mut rows.activity {
            row.time = 0;
        }
        let total: u64 = rows.activity.iter().map(|row| row.samples).sum();
        let source = Source::memory(meta, rows);
        let report = report(&source, &Options::default()).expect("a report");
        assert_eq!(report.ledger.total().total_ns(), u128::from(total));
        assert_eq!(report.average_active_sessions(), None);
        let text = text::render(&report, 100);
        // "How many per second" describes the recorder.
        let text = text.replace("samples per second and session", "");
        let words: Vec<&str> = text
            .split_whitespace()
            .map(|word| word.trim_matches([',', '(', ')', ':', ';']))
            .collect();
        let seconds = |pair: &[&str]| pair[0].ends_with(|c: char| c.is_ascii_digit()) && pair[1] == "s";
        assert!(words.contains(&word) && !text.contains("seconds"), "{text}");
        assert!(!words.windows(2).any(seconds), "{text}");
        let json = json::render(&report);
        assert!(
            json.contains(&format!("total_{word}")) && !json.contains("total_ns"),
            "{json}"
        );
    }
}
