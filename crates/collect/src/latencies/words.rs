//! Names that a second's events need, each once: rows hold numbers of words until they are written.

use std::collections::HashMap;

use arcstr::ArcStr;
use dbtime_model::{Wait, WaitKind};
use foldhash::fast::RandomState;
use syscalls::Sysno;

use crate::database::WaitNames;

/// Number of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Word(u32);

impl Word {
    /// No name.
    pub(super) const EMPTY: Word = Word(0);
}

/// See the module.
pub(super) struct Words<'a> {
    names: &'a dyn WaitNames,
    texts: Vec<ArcStr>,
    known: HashMap<ArcStr, Word, RandomState>,
    /// By the database's number of the wait event.
    waits: HashMap<u32, Word, RandomState>,
    /// By their numbers.
    calls: HashMap<u32, Word, RandomState>,
}

impl<'a> Words<'a> {
    pub(super) fn new(names: &'a dyn WaitNames) -> Words<'a> {
        let mut words = Words {
            names,
            texts: Vec::new(),
            known: HashMap::default(),
            waits: HashMap::default(),
            calls: HashMap::default(),
        };
        let empty = words.of("");
        debug_assert_eq!(empty, Word::EMPTY);
        words
    }

    pub(super) fn of(&mut self, text: &str) -> Word {
        if let Some(&word) = self.known.get(text) {
            return word;
        }
        // A second has fewer events than this has numbers.
        let word = Word(self.texts.len() as u32);
        let text: ArcStr = text.into();
        self.texts.push(ArcStr::clone(&text));
        self.known.insert(text, word);
        word
    }

    pub(super) fn text(&self, word: Word) -> ArcStr {
        ArcStr::clone(&self.texts[word.0 as usize])
    }

    /// `class:event` of a wait by the database's number for it.
    pub(super) fn wait(&mut self, info: u32) -> Word {
        if let Some(&word) = self.waits.get(&info) {
            return word;
        }
        let word = self.of(&wait_name(self.names, info));
        self.waits.insert(info, word);
        word
    }

    /// Name of a system call by its number.
    pub(super) fn call(&mut self, number: u32) -> Word {
        if let Some(&word) = self.calls.get(&number) {
            return word;
        }
        let word = match Sysno::new(number as usize) {
            Some(call) => self.of(call.name()),
            None => self.of(&format!("#{number}")),
        };
        self.calls.insert(number, word);
        word
    }
}

fn wait_name(names: &dyn WaitNames, info: u32) -> String {
    if info == u32::MAX {
        let wait = Wait::not_read();
        return format!("{}:{}", wait.class, wait.event);
    }
    let wait = names.decode(info, true);
    match wait.kind() {
        WaitKind::None => Wait::NONE.to_string(),
        _ => format!("{}:{}", wait.class, wait.event),
    }
}
