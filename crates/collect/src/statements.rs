//! The statements of a recording: each is described once, with its text if a session that executes it could be asked in time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use dbtime_model::{Rows, StatementRow};

use crate::allowance::Allowance;
use crate::bpf::{dbt_statement_mark, thread_cpu_ns};

/// Statements that are described; further ones have their id only.
const MOST: usize = 100_000;
/// Bytes of their texts.
const MOST_TEXT: usize = 64 << 20;
/// Stands for statements when there are more at a time than can be told apart: `STATEMENT_POOLED` of bpf/dbtime.h.
pub(crate) const POOLED: u64 = dbt_statement_mark::STATEMENT_POOLED.0 as u64;
const POOLED_TEXT: &str = "[statements not told apart]";
/// Precedes the text of several statements of which this is one.
const ONE_OF_THESE: &str = "[one of these] ";
/// What to say when there are more.
const TOO_MANY: &str = "more than 100000 statements: further ones are recorded by their ids, without text";
const TOO_MANY_AT_A_TIME: &str = "at times there was no room to tell all statements apart: the remaining ones are shown as one, [statements not told apart]";
/// CPU time for getting texts, in seconds: at once, and in every second after that.
const CPU_S: f64 = 1.0;
const CPU_S_A_SECOND: f64 = 0.1;
/// A session may be in another statement by the time it is asked. Many events of one moment arrive together: a text is asked for again
/// after this, and after this many tries after twice as long each time, up to the longest pause.
const RETRY: Duration = Duration::from_millis(2);
const QUICK_TRIES: u32 = 50;
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// For this long after a session was seen in a statement whose text could not be had, sessions are asked what they are in now.
const LOOKED_FOR: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Statements {
    known: HashMap<u64, Known>,
    /// By the fingerprint of its text: a statement with an id. None = several have that text (in several databases or schemas).
    parsed: HashMap<u64, Option<u64>>,
    text_bytes: usize,
    cpu_s: Allowance,
    /// When a session was last seen in a statement that has no text yet.
    missed: Option<Instant>,
    /// There was no room for a text.
    has_no_room: bool,
    is_full: bool,
    /// What has not been said yet.
    to_say: Vec<&'static str>,
}

/// The text of a statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StatementText {
    pub(crate) text: String,
    /// The id is its fingerprint.
    pub(crate) is_fingerprint: bool,
    /// It is the text of several statements, which were sent at once. Which of them it is may become known later.
    pub(crate) is_one_of_several: bool,
    /// The fingerprint of the text, which the statement has instead of its id while it waits and is not yet parsed; 0 = none, or not
    /// known.
    pub(crate) until_parsed: u64,
}

/// What is known about a statement.
#[derive(Debug)]
enum Known {
    Text,
    /// The text was asked for this often, and may be again from then on.
    Id {
        tries: u32,
        next: Instant,
        /// It is known to be one of several.
        is_one_of_several: bool,
    },
}

impl Statements {
    pub(crate) fn new(now: Instant) -> Statements {
        Statements {
            known: HashMap::new(),
            parsed: HashMap::new(),
            text_bytes: 0,
            cpu_s: Allowance::new(CPU_S, CPU_S_A_SECOND, now),
            missed: None,
            has_no_room: false,
            is_full: false,
            to_say: Vec::new(),
        }
    }

    /// A session has been seen in a statement at this moment. `text` asks it for the text, and may fail.
    pub(crate) fn see(
        &mut self,
        id: u64,
        now: Instant,
        rows: &mut Rows,
        text: impl FnOnce() -> Option<StatementText>,
    ) {
        if id == 0 || self.parsed(id) != id {
            return;
        }
        let is_new = !self.known.contains_key(&id);
        if is_new && self.known.len() >= MOST {
            if !std::mem::replace(&mut self.is_full, true) {
                self.to_say.push(TOO_MANY);
            }
            return;
        }
        if is_new && id == POOLED {
            self.to_say.push(TOO_MANY_AT_A_TIME);
        }
        let known = self.known.entry(id).or_insert(Known::Id {
            tries: 0,
            next: now,
            is_one_of_several: false,
        });
        let Known::Id {
            tries,
            next,
            is_one_of_several,
        } = known
        else {
            return;
        };
        let mut found = None;
        if now >= *next && !self.has_no_room && self.cpu_s.left(now) > 0.0 {
            *tries += 1;
            *next = now + pause(*tries);
            let begin_ns = thread_cpu_ns();
            let text = match id {
                POOLED => Some(StatementText {
                    text: POOLED_TEXT.to_string(),
                    ..StatementText::default()
                }),
                _ => text(),
            };
            self.cpu_s
                .use_up(thread_cpu_ns().saturating_sub(begin_ns) as f64 / 1e9);
            found = match text {
                Some(text) if !text.is_one_of_several => {
                    *known = Known::Text;
                    if text.until_parsed != 0 {
                        let of_text = self.parsed.entry(text.until_parsed).or_insert(Some(id));
                        *of_text = of_text.filter(|parsed| *parsed == id);
                    }
                    Some(text)
                }
                Some(text) if !*is_one_of_several => {
                    *is_one_of_several = true;
                    Some(StatementText {
                        text: format!("{ONE_OF_THESE}{}", text.text),
                        ..text
                    })
                }
                // Already known.
                Some(_) | None => None,
            };
        }
        if matches!(known, Known::Id { .. }) {
            self.missed = Some(now);
        }
        let fits = |found: &StatementText| self.text_bytes + found.text.len() <= MOST_TEXT;
        self.has_no_room |= found.as_ref().is_some_and(|found| !fits(found));
        let text = found.filter(fits);
        if is_new || text.is_some() {
            let StatementText {
                text, is_fingerprint, ..
            } = text.unwrap_or_default();
            self.text_bytes += text.len();
            rows.statements.push(StatementRow {
                id,
                text,
                is_fingerprint,
                ..StatementRow::default()
            });
        }
    }

    /// The id of a statement: the one that it has once it is parsed, if that is known. It may be known later than its first rows.
    pub(crate) fn parsed(&self, id: u64) -> u64 {
        self.parsed.get(&id).copied().flatten().unwrap_or(id)
    }

    /// A session is working, and the statement it was seen in may be over. Statements shorter than it takes to ask for their text are
    /// met by chance: `executing` asks the session what it is in now. Returns that if its text is missing and worth asking for at once.
    pub(crate) fn meet(&mut self, now: Instant, executing: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let is_looked_for = |missed| now.saturating_duration_since(missed) < LOOKED_FOR;
        if !self.missed.is_some_and(is_looked_for) || self.has_no_room || self.cpu_s.left(now) <= 0.0 {
            return None;
        }
        let begin_ns = thread_cpu_ns();
        let met = executing();
        self.cpu_s
            .use_up(thread_cpu_ns().saturating_sub(begin_ns) as f64 / 1e9);
        match self.known.get_mut(&met?)? {
            Known::Id { next, .. } => *next = now,
            Known::Text => return None,
        }
        met
    }

    /// Messages about statements for which there is no room, each once.
    pub(crate) fn say_once(&mut self) -> Option<&'static str> {
        self.to_say.pop()
    }
}

/// The pause after this many tries.
fn pause(tries: u32) -> Duration {
    let doublings = tries.saturating_sub(QUICK_TRIES).min(16);
    (RETRY * 2_u32.pow(doublings)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<StatementText> {
        Some(StatementText {
            text: text.to_string(),
            ..StatementText::default()
        })
    }

    #[test]
    fn a_statement_is_described_at_once_and_again_with_its_text() {
        let now = Instant::now();
        let (mut statements, mut rows) = (Statements::new(now), Rows::default());
        statements.see(0, now, &mut rows, || panic!("it is none"));
        statements.see(7, now, &mut rows, || None);
        // Another event of the same moment.
        statements.see(7, now + RETRY / 2, &mut rows, || panic!("it is asked too soon"));
        statements.see(7, now + RETRY, &mut rows, || None);
        statements.see(7, now + 2 * RETRY, &mut rows, || text("select ?"));
        statements.see(7, now + 9 * RETRY, &mut rows, || panic!("it is known"));
        let texts: Vec<(u64, &str)> = rows.statements.iter().map(|row| (row.id, &*row.text)).collect();
        assert_eq!(texts, [(7, ""), (7, "select ?")]);
    }

    #[test]
    fn one_that_is_over_too_soon_is_met_by_chance() {
        let now = Instant::now();
        let (mut statements, mut rows) = (Statements::new(now), Rows::default());
        assert_eq!(statements.meet(now, || panic!("no text is missing")), None);
        // Asked for in vain, until attempts are rare.
        for ms in 0..1000 {
            statements.see(7, now + Duration::from_millis(ms), &mut rows, || None);
        }
        let later = now + Duration::from_millis(1001);
        statements.see(7, later, &mut rows, || panic!("it is asked too soon"));
        assert_eq!(statements.meet(later, || Some(8)), None, "nobody was seen in it");
        assert_eq!(statements.meet(later, || None), None);
        assert_eq!(statements.meet(later, || Some(7)), Some(7));
        statements.see(7, later, &mut rows, || text("begin"));
        assert_eq!(statements.meet(later, || Some(7)), None, "its text is known");
        assert_eq!(rows.statements.last().expect("it is described").text, "begin");
        // Nobody has been seen in it for a while.
        let at_last = later + LOOKED_FOR;
        assert_eq!(statements.meet(at_last, || panic!("no text is missing")), None);
    }

    #[test]
    fn one_of_several_is_described_again_once_it_is_known_which_it_is() {
        let now = Instant::now();
        let (mut statements, mut rows) = (Statements::new(now), Rows::default());
        let several = || {
            Some(StatementText {
                is_one_of_several: true,
                ..text("select ?; commit").expect("a text")
            })
        };
        statements.see(7, now, &mut rows, several);
        statements.see(7, now + RETRY, &mut rows, several);
        statements.see(7, now + 2 * RETRY, &mut rows, || None);
        statements.see(7, now + 3 * RETRY, &mut rows, || text("commit"));
        statements.see(7, now + 9 * RETRY, &mut rows, || panic!("it is known"));
        let texts: Vec<&str> = rows.statements.iter().map(|row| &*row.text).collect();
        assert_eq!(texts, ["[one of these] select ?; commit", "commit"]);
    }

    #[test]
    fn a_statement_that_waits_before_it_is_parsed_is_the_one_with_its_text_if_there_is_only_one() {
        let now = Instant::now();
        let (mut statements, mut rows) = (Statements::new(now), Rows::default());
        let of = |until_parsed| {
            Some(StatementText {
                until_parsed,
                ..text("select ?").expect("a text")
            })
        };
        assert_eq!(statements.parsed(77), 77);
        statements.see(7, now, &mut rows, || of(77));
        assert_eq!(statements.parsed(77), 7);
        statements.see(77, now, &mut rows, || panic!("it is known"));
        statements.see(8, now, &mut rows, || of(77));
        statements.see(9, now, &mut rows, || of(0));
        assert_eq!(statements.parsed(77), 77, "7 or 8");
        assert_eq!(statements.parsed(0), 0);
        assert_eq!(rows.statements.len(), 3);
    }

    #[test]
    fn who_cannot_be_asked_is_asked_ever_more_rarely_and_too_many_are_not_kept() {
        let now = Instant::now();
        let (mut statements, mut rows) = (Statements::new(now), Rows::default());
        let mut asked = 0;
        // For a minute, every millisecond.
        for ms in 0..60_000 {
            statements.see(7, now + Duration::from_millis(ms), &mut rows, || {
                asked += 1;
                None
            });
        }
        // The quick ones take a tenth of a second, the next twelve eight seconds, and then there is one every ten seconds.
        assert!((QUICK_TRIES + 12..QUICK_TRIES + 20).contains(&asked), "{asked}");
        // The mark of many has a text of its own.
        for id in POOLED + 1..=MOST as u64 + 2 {
            statements.see(id, now, &mut rows, || None);
        }
        assert_eq!(statements.say_once(), Some(TOO_MANY));
        assert_eq!(statements.say_once(), None);
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
                text("select ?")
            });
            asked
        };
        for id in POOLED + 1..=POOLED + 100 {
            assert!(ask(&mut statements, id, now) <= 10);
        }
        // One for which there was no time is asked for later.
        let later = now + Duration::from_secs(3);
        let before = ask(&mut statements, POOLED + 1, later);
        assert!(ask(&mut statements, POOLED + 100, later) > before);
    }

    #[test]
    fn texts_beyond_their_room_are_not_asked_for() {
        let now = Instant::now();
        let (mut statements, mut rows) = (Statements::new(now), Rows::default());
        let mut asked = 0;
        for id in POOLED + 1..=POOLED + 200 {
            statements.see(id, now, &mut rows, || {
                asked += 1;
                text(&"x".repeat(1 << 20))
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
