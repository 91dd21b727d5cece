//! What an SQL trace says, against arithmetic on rows made by hand.

mod hand_made;

use dbtime_model::counter::oracle;
use dbtime_model::recording::{Meta, RecordingWriter};
use dbtime_model::{Caller, CounterRow, LatencyRow, PlanStep, Rows, SessionId, StatementRow};
use dbtime_report::{
    Dimension, Filter, LatencyDimension, LatencyOptions, Options, Report, ReportError, Source, TraceOptions, heat_map,
    json, latency, report, text,
};
use hand_made::traced::{DEEPEST, DICTIONARY, PLAN, SEQUENTIAL, SELECT, count, trace_meta, trace_rows, waits};
use hand_made::{FIRST_SECOND, meta, rows};
use proptest::prelude::*;
use serde_json::{Value, json};

const HOSTILE: &str = "\u{1b}]0;title\u{7}\u{1b}[2Jselect\r\n<script>&\"'\u{202e}\u{0}\u{ffff}";

fn of(meta: Meta, rows: Rows, options: &Options) -> Report {
    report(&Source::memory(meta, rows), options).expect("a report")
}

fn whole() -> Report {
    of(trace_meta(), trace_rows(), &Options::default())
}

fn json_of(report: &Report) -> Value {
    serde_json::from_str(&json::render(report)).expect("JSON")
}

/// The text with single blanks.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn look() {
    let options = Options {
        trace: TraceOptions {
            plans: true,
            ..TraceOptions::default()
        },
        ..Options::default()
    };
    let report = of(trace_meta(), trace_rows(), &options);
    eprintln!("{}", text::render(&report, 120));
    eprintln!("{}", text::render(&report, 80));
    eprintln!("{}", json::render(&report));
}
