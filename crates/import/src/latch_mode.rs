//! What all files about Oracle's latches say about a held latch: how it is held, and where in the code it was taken.

use dbtime_model::{Frame, NO_STACK, StackId};

use crate::Import;

/// How a latch is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LatchMode {
    Exclusive,
    Shared,
    NotKnown,
}

impl LatchMode {
    /// What KSUPRLMD of X$KSUPRLAT says. It also has `MAYBE-SHARED`, which says nothing.
    pub(crate) fn of(text: &[u8]) -> LatchMode {
        if text.eq_ignore_ascii_case(b"EXCLUSIVE") {
            LatchMode::Exclusive
        } else if text.eq_ignore_ascii_case(b"SHARED") {
            LatchMode::Shared
        } else {
            LatchMode::NotKnown
        }
    }
}

/// The place in the code (KSLLWNAM) as a stack of one frame; in brackets, what it holds the latch for (KSLLWLBL), if given.
pub(crate) fn place(code: &str, label: &str, into: &mut Import) -> StackId {
    let (code, label) = (code.trim(), label.trim());
    let symbol = match (code, label) {
        ("", _) => return NO_STACK,
        (code, "") => code.to_string(),
        (code, label) => format!("{code} [{label}]"),
    };
    into.stack(vec![Frame {
        symbol,
        module: "oracle".to_string(),
        build_id: String::new(),
        offset: 0,
    }])
}
