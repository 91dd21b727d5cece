//! The statements of a recording: each is described once, with its text when a session that executes it could be asked in time.

use std::collections::HashMap;
use std::time::Instant;

use dbtime_model::{Rows, StatementRow};

use crate::allowance::Allowance;
use crate::bpf::thread_cpu_ns;

/// Statements that are described; further ones have their id only.
const MOST: usize = 100_000;
/// Bytes of their texts.
const MOST_TEXT: usize = 64 << 20;
/// CPU time of getting them, in seconds: at once, and in every second after that.
const CPU_S: f64 = 1.0;
const CPU_S_A_SECOND: f64 = 0.1;
/// How often it is tried to get a text: a session may be in another statement by then.
const TRIES: u8 = 50;

/// See the module.
#[derive(Debug)]
pub(crate) struct Statements {
    /// How often each may still be asked for; 0 = not again.
    tries_left: HashMap<u64, u8>,
    text_bytes: usize,
    cpu_s: Allowance,
    /// A text did not find room.
    has_no_room: bool,
    is_full: bool,
}

impl Statements {
    pub(crate) fn new(now: Instant) -> Statements {
        Statements {
            tries_left: HashMap::new(),
            text_bytes: 0,
            cpu_s: Allowance::new(CPU_S, CPU_S_A_SECOND, now),
            has_no_room: false,
            is_full: false,
        }
    }

    /// A session has been seen in a statement at this moment. `text` asks it for the text, and may fail.
    pub(crate) fn see(
        &mut self,
        id: u64,
        now: Instant,
        rows: &mut Rows,
        text: impl FnOnce() -> Option<String>,
    ) {
        if id == 0 {
            return;
        }
        let is_new = !self.tries_left.contains_key(&id);
        if is_new && self.tries_left.len() >= MOST {
            self.is_full = true;
            return;
        }
        let tries = self.tries_left.entry(id).or_insert(TRIES);
        if *tries == 0 {
            return;
        }
        let mut found = None;
        if !self.has_no_room && self.cpu_s.left(now) > 0.0 {
            *tries -= 1;
            let begin_ns = thread_cpu_ns();
            found = text();
            self.cpu_s
                .use_up(thread_cpu_ns().saturating_sub(begin_ns) as f64 / 1e9);
            if found.is_some() {
                *tries = 0;
            }
        }
        let fits = |text: &String| self.text_bytes + text.len() <= MOST_TEXT;
        self.has_no_room |= found.as_ref().is_some_and(|text| !fits(text));
        let text = found.filter(fits);
        if is_new || text.is_some() {
            let text = text.unwrap_or_default();
            self.text_bytes += text.len();
            rows.statements.push(StatementRow {
                id,
                text,
                ..StatementRow::default()
            });
        }
    }

    /// True when there were more statements than are described.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_described_at_once_and_again_with_its_text() {
        let now = Instant::now();
        let (mut statements, mut rows) = (Statements::new(now), Rows::default());
        statements.see(0, now, &mut rows, || panic!("it is none"));
        statements.see(7, now, &mut rows, || None);
        statements.see(7, now, &mut rows, || None);
        statements.see(7, now, &mut rows, || Some("select ?".to_string()));
        statements.see(7, now, &mut rows, || panic!("it is known"));
        let texts: Vec<(u64, &str)> = rows.statements.iter().map(|row| (row.id, &*row.text)).collect();
        assert_eq!(texts, [(7, ""), (7, "select ?")]);
    }

    #[test]
    fn who_cannot_be_asked_is_not_asked_for_ever_and_too_many_are_not_kept() {
        let now = Instant::now();
        let (mut statements, mut rows) = (Statements::new(now), Rows::default());
        let mut asked = 0;
        for _ in 0..1_000 {
            statements.see(7, now, &mut rows, || {
                asked += 1;
                None
            });
        }
        assert_eq!(asked, u32::from(TRIES));
        for id in 1..=MOST as u64 + 1 {
            statements.see(id, now, &mut rows, || None);
        }
        assert!(statements.is_full());
        assert_eq!(rows.statements.len(), MOST);
    }

    #[test]
    fn texts_that_take_long_make_no_more_than_a_part_of_a_cpu_busy() {
        let now = Instant::now();
        let (mut statements, mut rows) = (Statements::new(now), Rows::default());
        let mut asked = 0;
        let mut ask = |statements: &mut Statements, id, now| {
            statements.see(id, now, &mut rows, || {
                asked += 1;
                let begin_ns = thread_cpu_ns();
                while thread_cpu_ns() - begin_ns < 100_000_000 {}
                Some("select ?".to_string())
            });
            asked
        };
        for id in 1..=100 {
            assert!(ask(&mut statements, id, now) <= 10);
        }
        // One that found no time is asked later.
        let later = now + std::time::Duration::from_secs(3);
        let before = ask(&mut statements, 1, later);
        assert!(ask(&mut statements, 100, later) > before);
    }

    #[test]
    fn texts_beyond_their_room_are_not_asked_for() {
        let now = Instant::now();
        let (mut statements, mut rows) = (Statements::new(now), Rows::default());
        let mut asked = 0;
        for id in 1..=200 {
            statements.see(id, now, &mut rows, || {
                asked += 1;
                Some("x".repeat(1 << 20))
            });
        }
        assert_eq!(asked, 65);
        assert_eq!(
            rows.statements.iter().filter(|row| !row.text.is_empty()).count(),
            64
        );
        assert_eq!(rows.statements.len(), 200);
    }
}
