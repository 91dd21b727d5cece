//! Whether the entries of sessions have the assumed layout: each has to agree with what is known of its process from elsewhere. A layout
//! that is off by a few bytes would give numbers that look like ids.

use super::backend_status::{BackendStatus, MOST_NAME};
use super::status_layout::StatusLayout;
use crate::executable::Executable;
use crate::{memory, process};

/// `BackendState` in src/include/utils/backend_status.h has no more states in any version.
const STATES: u32 = 8;

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said {
    process: u32,
    database: u32,
    state: u32,
    /// Addresses of the text and of the application name, in two arrays that all sessions share.
    text: u64,
    application: u64,
}

/// What is known of it from elsewhere.
#[derive(Debug, Clone, Copy)]
struct Known {
    process: u32,
    /// Its own variable; none if that is not exported.
    database: Option<u32>,
}

/// Checks the entries of these processes. `text_bytes`: size of a text's slot. Returns how many of them agree: a process that has just
/// started has not filled in its entry.
///
/// # Errors
/// What does not agree.
pub(super) fn check(
    status: BackendStatus,
    executable: &Executable,
    processes: &[u32],
    text_bytes: Option<u32>,
) -> Result<u32, &'static str> {
    let [database] = executable.symbols(["MyDatabaseId"]).unwrap_or_default();
    let mut agreeing = 0;
    let mut first = None;
    for &pid in processes {
        let said = status.read(pid, |entry| read(pid, entry, &status.layout));
        let (Some(said), Some(process)) = (said, process::innermost_pid(pid)) else {
            continue;
        };
        let known = Known {
            process,
            database: database.and_then(|symbol| memory::read_u32(pid, symbol.address).ok()),
        };
        agrees(said, known, *first.get_or_insert(said), text_bytes)?;
        agreeing += 1;
    }
    Ok(agreeing)
}

fn agrees(said: Said, known: Known, first: Said, text_bytes: Option<u32>) -> Result<(), &'static str> {
    let steps = |one: u64, other: u64, step: u64| one.abs_diff(other).is_multiple_of(step.max(1));
    if said.process != known.process {
        return Err("the server's entries name other processes");
    }
    // 18 sets the database a moment after the pid.
    if said.database != 0 && known.database.is_some_and(|database| database != said.database) {
        return Err("the server's entries name databases other than those of its sessions");
    }
    if said.state >= STATES {
        return Err("the server's entries contain states that do not exist");
    }
    let is_text = text_bytes.is_none_or(|bytes| steps(said.text, first.text, bytes.into()));
    if !is_text || !steps(said.application, first.application, MOST_NAME as u64) {
        return Err("the server's entries keep their texts in another place");
    }
    Ok(())
}

/// None until it is filled in.
fn read(pid: u32, entry: u64, layout: &StatusLayout) -> Option<Said> {
    let (mut process, mut database, mut state) = ([0; 4], [0; 4], [0; 4]);
    let (mut text, mut application) = ([0; 8], [0; 8]);
    memory::read(
        pid,
        &mut [
            (entry + layout.process, &mut process),
            (entry + layout.whose, &mut database),
            (entry + layout.state, &mut state),
            (entry + layout.activity, &mut text),
            (entry + layout.application, &mut application),
        ],
    )
    .ok()?;
    let said = Said {
        process: u32::from_ne_bytes(process),
        database: u32::from_ne_bytes(database),
        state: u32::from_ne_bytes(state),
        text: u64::from_ne_bytes(text),
        application: u64::from_ne_bytes(application),
    };
    (said.process != 0).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: Said = Said {
        process: 4711,
        database: 5,
        state: 2,
        text: 0x7f00_0000_0400,
        application: 0x7f00_0001_0040,
    };
    const KNOWN: Known = Known {
        process: 4711,
        database: Some(5),
    };

    #[test]
    fn each_number_that_is_of_another_place_is_found() {
        let first = Said {
            text: SAID.text + 3 * 1024,
            application: SAID.application + 5 * 64,
            ..SAID
        };
        let check = |said| agrees(said, KNOWN, first, Some(1024));
        assert_eq!(check(SAID), Ok(()));
        // In no database: a background process, or one that has just started.
        assert_eq!(check(Said { database: 0, ..SAID }), Ok(()));
        for wrong in [
            Said {
                process: 4712,
                ..SAID
            },
            Said { database: 1, ..SAID },
            Said {
                state: 0x7f00,
                ..SAID
            },
            Said {
                text: SAID.text + 8,
                ..SAID
            },
            Said {
                application: SAID.application - 8,
                ..SAID
            },
        ] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }
}
