//! Functions that have been named, by their place in files: each is looked up once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use dbtime_model::Frame;

/// By the number of a module, and offsets in its file.
#[derive(Debug, Default)]
pub(super) struct Functions {
    /// By where they begin.
    known: BTreeMap<(usize, u64), Known>,
}

#[derive(Debug)]
struct Known {
    end: u64,
    /// None: what is there has no name.
    frames: Option<Rc<[Frame]>>,
}

impl Functions {
    /// Frames of the function that contains an offset. `Some(None)`: none does. `None`: not known yet.
    pub(super) fn at(&self, module: usize, offset: u64) -> Option<Option<Rc<[Frame]>>> {
        let mut before = self.known.range((module, 0)..=(module, offset));
        let (_, known) = before.next_back()?;
        (offset < known.end).then(|| known.frames.clone())
    }

    /// These offsets have these frames, or no name. They must not overlap with what is known.
    pub(super) fn insert(&mut self, module: usize, offsets: Range<u64>, frames: Option<Rc<[Frame]>>) {
        let known = Known {
            end: offsets.end,
            frames,
        };
        self.known.insert((module, offsets.start), known);
    }

    /// How many are known.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(symbol: &str) -> Option<Rc<[Frame]>> {
        let frame = Frame {
            symbol: symbol.to_string(),
            module: "postgres".to_string(),
            build_id: String::new(),
            offset: 0,
        };
        Some([frame].into())
    }

    #[test]
    fn an_offset_is_in_the_function_that_holds_it() {
        let mut functions = Functions::default();
        functions.insert(1, 100..110, frames("a"));
        functions.insert(1, 120..130, frames("b"));
        functions.insert(2, 0..u64::MAX, frames("c"));
        functions.insert(1, 110..120, None);
        let at = |module, offset| {
            let known = functions.at(module, offset)?;
            Some(known.map_or(String::new(), |frames| frames[0].symbol.clone()))
        };
        assert_eq!(at(1, 99), None);
        assert_eq!(at(1, 100).as_deref(), Some("a"));
        assert_eq!(at(1, 109).as_deref(), Some("a"));
        assert_eq!(at(1, 110).as_deref(), Some(""));
        assert_eq!(at(1, 130), None);
        assert_eq!(at(1, 129).as_deref(), Some("b"));
        assert_eq!(at(2, 7).as_deref(), Some("c"));
        assert_eq!(at(3, 7), None);
    }
}
