//! Values of bind variables: the lines behind `BINDS #N:`.
//!
//! A text value stands between quotes as it is, line ends included and quotes inside not marked, so lines of it can look
//! like anything, records included. `avl=` says how many bytes it has.

use std::collections::HashMap;

use dbtime_model::BindSet;

use super::record::parse;

/// Bytes kept of a value.
const MAX_VALUE: usize = 256;

/// Values kept of an execution.
const MAX_VALUES: usize = 256;

/// Different sets of values kept of a statement.
const MAX_SETS: usize = 1_000;

/// The section that is being read.
#[derive(Debug, Default)]
pub(super) struct Binds {
    pub(super) cursor: u64,
    /// Values so far; empty when nobody asked for them.
    pub(super) values: Vec<String>,
    keep: bool,
    /// Bytes of the coming value.
    length: Option<usize>,
    open: Option<OpenValue>,
}

/// A text value whose end was not read yet.
#[derive(Debug)]
struct OpenValue {
    /// Bytes read of it.
    seen: usize,
    /// The last line ended with a quote, although bytes are missing.
    may_be_over: bool,
    kept: Vec<u8>,
}

impl Binds {
    /// `keep`: values are asked for.
    pub(super) fn new(cursor: u64, keep: bool) -> Binds {
        Binds {
            cursor,
            keep,
            ..Binds::default()
        }
    }

    /// Takes a line of the section. False when it is none.
    pub(super) fn line(&mut self, line: &[u8]) -> bool {
        let is_head = line.starts_with(b" Bind#") || line.starts_with(b" bind ");
        if let Some(open) = &mut self.open {
            let is_over = open.may_be_over && (is_head || parse(line).is_some());
            if !is_over {
                open.seen += 1;
                self.text(line);
                return true;
            }
            self.end_value();
        }
        if parse(line).is_some() {
            return line.trim_ascii().is_empty();
        }
        if is_head {
            self.length = None;
        }
        if let Some(at) = memchr::memmem::find(line, b" avl=") {
            let digits = line[at + 5..].iter().take_while(|byte| byte.is_ascii_digit());
            self.length = digits.fold(None, |length: Option<usize>, digit| {
                Some(
                    length
                        .unwrap_or(0)
                        .saturating_mul(10)
                        .saturating_add(usize::from(digit - b'0')),
                )
            });
        }
        match line.trim_ascii_start().strip_prefix(b"value=") {
            Some([b'"', text @ ..]) => {
                self.open = Some(OpenValue {
                    seen: 0,
                    may_be_over: false,
                    kept: Vec::new(),
                });
                self.text(text);
            }
            Some(value) => self.value(value),
            None => {}
        }
        true
    }

    /// A line of a text value, without what is before its quote.
    fn text(&mut self, line: &[u8]) {
        let Some(open) = &mut self.open else { return };
        let text = line.strip_suffix(b"\"");
        let bytes = text.unwrap_or(line);
        if self.keep && open.kept.len() < MAX_VALUE {
            if open.seen > 0 {
                open.kept.push(b'\n');
            }
            open.kept.extend_from_slice(&bytes[..bytes.len().min(MAX_VALUE)]);
            if text.is_some() && self.length.is_some_and(|length| open.seen + bytes.len() < length) {
                open.kept.push(b'"');
            }
        }
        let is_all = self.length.is_none_or(|length| open.seen + bytes.len() >= length);
        open.seen += line.len();
        open.may_be_over = text.is_some() && !is_all;
        // Beyond its length it is damaged.
        let is_beyond = self.length.is_some_and(|length| open.seen > length + 1);
        if text.is_some() && is_all || is_beyond {
            self.end_value();
        }
    }

    fn end_value(&mut self) {
        if let Some(open) = self.open.take() {
            let kept = open.kept;
            let end = if open.may_be_over && kept.ends_with(b"\"") {
                kept.len() - 1
            } else {
                kept.len()
            };
            self.value(&kept[..end]);
        }
    }

    fn value(&mut self, value: &[u8]) {
        if self.keep && self.values.len() < MAX_VALUES {
            let cut = &value[..value.len().min(MAX_VALUE)];
            let mut text = String::from_utf8_lossy(cut).into_owned();
            if value.len() > MAX_VALUE {
                text.push_str("...");
            }
            self.values.push(text);
        }
    }

    /// The section is over.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.end_value();
        self.values
    }
}

/// Executions by the values of their bind variables.
#[derive(Debug, Default)]
pub(super) struct BindSets {
    sets: Vec<(u64, BindSet)>,
    by_values: HashMap<(u64, Vec<String>), usize>,
    of_statement: HashMap<u64, usize>,
}

impl BindSets {
    /// The set of these values; none when the statement has had too many.
    pub(super) fn set(&mut self, statement: u64, values: Vec<String>) -> Option<usize> {
        let key = (statement, values);
        if let Some(at) = self.by_values.get(&key) {
            return Some(*at);
        }
        let count = self.of_statement.entry(statement).or_default();
        if *count >= MAX_SETS {
            return None;
        }
        *count += 1;
        let set = BindSet {
            values: key.1.clone(),
            ..BindSet::default()
        };
        self.sets.push((statement, set));
        self.by_values.insert(key, self.sets.len() - 1);
        Some(self.sets.len() - 1)
    }

    /// Adds a call made with these values.
    pub(super) fn call(&mut self, set: usize, executions: u64, us: u64, rows: u64) {
        if let Some((_, set)) = self.sets.get_mut(set) {
            set.executions = set.executions.saturating_add(executions);
            set.elapsed_us = set.elapsed_us.saturating_add(us);
            set.rows = set.rows.saturating_add(rows);
        }
    }

    /// Hands on all of them by statement.
    pub(super) fn finish(self, mut take: impl FnMut(u64, BindSet)) {
        for (statement, set) in self.sets {
            if set.executions > 0 {
                take(statement, set);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of a section, and the lines that were none of it.
    fn values(text: &str) -> (Vec<String>, Vec<&str>) {
        let mut binds = Binds::new(1, true);
        let others = text.lines().filter(|line| !binds.line(line.as_bytes())).collect();
        (binds.finish(), others)
    }

    #[test]
    fn values_of_several_lines_are_values_whatever_they_look_like() {
        let wait = "WAIT #1: nam='db file sequential read' ela= 9 file#=1 block#=2 blocks=1 obj#=3 tim=5";
        let exec = "EXEC #1:c=0,e=1,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=6";
        let inner = format!("a\n{wait}\nsay \"b\"\nc");
        let section = format!(
            " Bind#0\n  oacdty=01 mxl=32(02)\n  bln=22  avl={:02}  flg=05\n  value=\"{inner}\"\n \
             Bind#1\n  bln=22  avl=02  flg=05\n  value=7\n{exec}",
            inner.len()
        );
        assert_eq!(values(&section), (vec![inner, "7".to_string()], vec![exec]));
    }

    #[test]
    fn a_text_that_was_written_shorter_than_it_is_ends_at_the_next_record() {
        let exec = "EXEC #1:c=0,e=1,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=6";
        let section = format!(" Bind#0\n  bln=22  avl=4000  flg=05\n  value=\"short\"\n{exec}");
        assert_eq!(values(&section), (vec!["short".to_string()], vec![exec]));
    }

    #[test]
    fn a_text_without_its_end_does_not_swallow_the_trace() {
        let exec = "EXEC #1:c=0,e=1,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=6";
        let section = format!(" Bind#0\n  bln=22  avl=05  flg=05\n  value=\"hello and more\n{exec}");
        assert_eq!(values(&section).1, [exec]);
    }
}
