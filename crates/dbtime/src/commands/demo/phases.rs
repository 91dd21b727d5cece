//! What the demo is doing now: one line that is redrawn on a terminal, one line per phase elsewhere.

use std::io::{self, IsTerminal};

use crate::output::{ProgressLine, say};

pub(super) struct Phases {
    line: ProgressLine,
    phase: String,
    detail: String,
}

impl Phases {
    pub(super) fn new() -> Phases {
        Phases {
            line: ProgressLine::new(),
            phase: String::new(),
            detail: String::new(),
        }
    }

    /// A new phase begins.
    pub(super) fn begin(&mut self, phase: &str) {
        self.phase = format!("demo: {phase}");
        self.detail.clear();
        if !io::stderr().is_terminal() {
            say(format_args!("{}", self.phase));
        }
        self.line.show(&self.phase);
    }

    /// How far the phase is, for those who watch.
    pub(super) fn detail(&mut self, detail: &str) {
        if detail != self.detail {
            self.detail = detail.to_string();
            self.line.show(&format!("{}, {detail}", self.phase));
        }
    }

    /// Something that has to stay on the screen.
    pub(super) fn note(&mut self, note: &str) {
        self.line.clear();
        say(format_args!("note: {note}"));
        self.line.show(&self.phase);
    }
}
