//! What is known of one file that was imported, beside its rows.

use std::path::{Path, PathBuf};

use crate::oracle_trace::{CallView, IntervalView};

/// Lines that were not understood and are kept to be shown.
const UNKNOWN_KEPT: usize = 5;

/// Bytes of such a line that are kept.
const UNKNOWN_TEXT: usize = 120;

/// A line that was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLine {
    /// Counts from 1.
    pub number: u64,
    /// Its beginning.
    pub text: String,
}

/// A trace file. Times in microseconds of the file's own clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFile {
    /// Where it is.
    pub path: PathBuf,
    /// Lines in it.
    pub lines: u64,
    /// Lines that were not understood.
    pub unknown_lines: u64,
    /// The first few of them.
    pub first_unknown: Vec<UnknownLine>,
    /// First `tim`.
    pub first_tim_us: Option<i64>,
    /// Last `tim`.
    pub last_tim_us: Option<i64>,
    /// Time breakdown by calls.
    pub call_view: CallView,
    /// Time breakdown from the first to the last `tim`.
    pub interval_view: IntervalView,
    /// The database stopped writing because the file had reached its size limit.
    pub size_limited: bool,
}

impl TraceFile {
    pub(crate) fn new(path: &Path) -> TraceFile {
        TraceFile {
            path: path.to_path_buf(),
            lines: 0,
            unknown_lines: 0,
            first_unknown: Vec::new(),
            first_tim_us: None,
            last_tim_us: None,
            call_view: CallView::default(),
            interval_view: IntervalView::default(),
            size_limited: false,
        }
    }

    pub(crate) fn unknown_line(&mut self, number: u64, text: &[u8]) {
        self.unknown_lines += 1;
        if self.first_unknown.len() < UNKNOWN_KEPT {
            let text = &text[..text.len().min(UNKNOWN_TEXT)];
            self.first_unknown.push(UnknownLine {
                number,
                text: String::from_utf8_lossy(text).into_owned(),
            });
        }
    }

    /// What a person should know about the file, in sentences.
    pub(crate) fn problems(&self) -> Vec<String> {
        let path = self.path.display();
        let mut problems = Vec::new();
        if self.size_limited {
            problems.push(format!(
                "{path}: the database stopped writing at its size limit (max_dump_file_size); what came later is missing"
            ));
        }
        if self.unknown_lines > 0 {
            let first: Vec<String> = self
                .first_unknown
                .iter()
                .map(|line| format!("{path}:{}: {}", line.number, line.text.trim()))
                .collect();
            problems.push(format!(
                "{path}: {} of {} lines not understood and passed over: {}",
                self.unknown_lines,
                self.lines,
                first.join("; ")
            ));
        }
        problems
    }
}
