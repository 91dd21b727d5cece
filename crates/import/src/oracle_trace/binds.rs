//! Values of bind variables: the lines after `BINDS #N:`.
//!
//! A text value is printed between quotes as it is, with line ends and without escaping quotes, so its lines can look like anything,
//! including records. `avl=` says how many bytes it has.

use std::collections::HashMap;

use dbtime_model::{BindSet, BoundExecution, BoundValue};

use super::number::unsigned_prefix;
use super::record::parse;

/// Bytes kept of a value.
const MAX_VALUE: usize = 256;

/// Values kept of an execution.
const MAX_VALUES: usize = 256;

/// Most distinct sets of values, and most single executions, kept of a statement.
pub(crate) const MAX_BOUND_EXECUTIONS: usize = 1_000;

/// Most bytes of values kept of a file, in sets as well as in executions.
const MAX_BYTES: usize = 64 << 20;

/// The section that is being read.
#[derive(Debug, Default)]
pub(super) struct Binds {
    pub(super) cursor: u64,
    /// Values so far; empty if they were not asked for.
    values: Vec<Value>,
    /// Number of the variable whose value comes next.
    position: u32,
    keep: bool,
    /// Bytes of the next value.
    length: Option<usize>,
    open: Option<OpenValue>,
}

/// A value, and how it is printed in the trace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Value {
    position: u32,
    text: String,
    is_quoted: bool,
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

    /// The next line belongs to a text value, whatever it looks like.
    pub(super) fn is_in_value(&self) -> bool {
        self.open.is_some()
    }

    /// Reads a line of the section. False if it is not one.
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
            self.position = position(line).unwrap_or(self.position);
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
            Some(value) => self.value(value, false),
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
        // If it is longer than that, it is damaged.
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
            self.value(&kept[..end], true);
        }
    }

    fn value(&mut self, value: &[u8], is_quoted: bool) {
        let position = self.position;
        self.position = position.saturating_add(1);
        if self.keep && (position as usize) < MAX_VALUES && self.values.len() < MAX_VALUES {
            let cut = &value[..value.len().min(MAX_VALUE)];
            let mut text = String::from_utf8_lossy(cut).into_owned();
            if value.len() > MAX_VALUE {
                text.push_str("...");
            }
            self.values.push(Value {
                position,
                text,
                is_quoted,
            });
        }
    }

    /// The section is over.
    pub(super) fn finish(mut self) -> Vec<Value> {
        self.end_value();
        self.values
    }
}

/// Number of the variable in ` Bind#7` or ` bind 7: dty=2 …`.
fn position(line: &[u8]) -> Option<u32> {
    let (number, _) = unsigned_prefix(line.get(b" Bind#".len()..)?)?;
    u32::try_from(number).ok()
}

/// Executions of the statements of a file with values of bind variables.
#[derive(Debug, Default)]
pub(super) struct BoundExecutions {
    statements: HashMap<u64, OfStatement>,
    /// Place of the set of these values among those of its statement.
    by_values: HashMap<(u64, Vec<Value>), usize>,
    /// Bytes of the values in all of them.
    bytes: usize,
}

/// Executions of a statement.
#[derive(Debug, Default)]
pub(super) struct OfStatement {
    pub sets: Vec<BindSet>,
    /// The first of them.
    pub executions: Vec<BoundExecution>,
    /// All of them.
    pub count: u64,
}

/// A set of values: its statement, and its place among those of it.
pub(super) type SetOf = (u64, usize);

impl BoundExecutions {
    /// A statement was executed with these values: for how long, and when it ended. Returns the set of the values; none if there have been
    /// too many.
    pub(super) fn execution(
        &mut self,
        statement: u64,
        values: Vec<Value>,
        time_us: i64,
        elapsed_us: u64,
    ) -> Option<SetOf> {
        let of = self.statements.entry(statement).or_default();
        of.count += 1;
        if of.executions.len() < MAX_BOUND_EXECUTIONS && has_room(&values, &mut self.bytes) {
            of.executions.push(BoundExecution {
                time_us,
                elapsed_us,
                values: values.iter().map(BoundValue::from).collect(),
            });
        }
        let key = (statement, values);
        if let Some(at) = self.by_values.get(&key) {
            return Some((statement, *at));
        }
        if of.sets.len() >= MAX_BOUND_EXECUTIONS || !has_room(&key.1, &mut self.bytes) {
            return None;
        }
        of.sets.push(BindSet {
            values: in_order(&key.1),
            ..BindSet::default()
        });
        self.by_values.insert(key, of.sets.len() - 1);
        Some((statement, of.sets.len() - 1))
    }

    /// Adds a call made with these values.
    pub(super) fn call(&mut self, (statement, at): SetOf, executions: u64, us: u64, rows: u64) {
        let of = self.statements.get_mut(&statement);
        if let Some(set) = of.and_then(|of| of.sets.get_mut(at)) {
            set.executions = set.executions.saturating_add(executions);
            set.elapsed_us = set.elapsed_us.saturating_add(us);
            set.rows = set.rows.saturating_add(rows);
        }
    }

    /// Hands on all of them by statement.
    pub(super) fn finish(self, mut take: impl FnMut(u64, OfStatement)) {
        for (statement, of) in self.statements {
            take(statement, of);
        }
    }
}

/// True if these values may be kept; then they are counted.
fn has_room(values: &[Value], bytes: &mut usize) -> bool {
    let of_values: usize = values
        .iter()
        .map(|value| value.text.len() + size_of::<Value>())
        .sum();
    let more = size_of::<BoundExecution>() + of_values;
    let fits = *bytes + more <= MAX_BYTES;
    if fits {
        *bytes += more;
    }
    fits
}

/// Texts by their positions; positions without one are empty.
fn in_order(values: &[Value]) -> Vec<String> {
    let mut texts = Vec::new();
    for value in values {
        let position = value.position as usize;
        if texts.len() <= position {
            texts.resize(position + 1, String::new());
        }
        texts[position].clone_from(&value.text);
    }
    texts
}

impl From<&Value> for BoundValue {
    fn from(value: &Value) -> BoundValue {
        let quote = if value.is_quoted { "\"" } else { "" };
        BoundValue {
            position: value.position,
            value: format!("{quote}{}{quote}", value.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of a section, and the lines that do not belong to it.
    fn values(text: &str) -> (Vec<String>, Vec<&str>) {
        let mut binds = Binds::new(1, true);
        let others = text.lines().filter(|line| !binds.line(line.as_bytes())).collect();
        (in_order(&binds.finish()), others)
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
