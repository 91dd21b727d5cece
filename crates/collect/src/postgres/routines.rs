//! PL/pgSQL functions that a session is executing: where its executable keeps the list of them, the layout of their descriptions, and their
//! names.

use crate::database::{RawRoutine, RoutineList};
use crate::executable::Executable;
use crate::memory;

/// Bytes read of a name at most: as `regprocedure` has it, with two identifiers of 63 bytes and the arguments.
const MOST_NAME: usize = 512;

/// The PL/pgSQL functions of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Routines {
    /// Where each session has the list of the functions that it is in.
    pub(super) list: RoutineList,
    /// Offset in a function of the address of its name.
    name: u64,
}

impl Routines {
    /// For a server with this executable. None: its version is not known, or the executable has no symbol for the list.
    pub(super) fn of(executable: &Executable, major: u32) -> Option<Routines> {
        let [contexts] = executable.symbols(["error_context_stack"]).ok()?;
        let (name, id, statement) = places(major)?;
        Some(Routines {
            list: RoutineList {
                contexts: contexts?.address,
                id,
                statement,
            },
            name,
        })
    }

    /// What the server calls such a function in errors. None: the session has ended, or no longer has the function.
    pub(super) fn name(&self, pid: u32, routine: RawRoutine) -> Option<String> {
        let at = |offset: u64| routine.function.checked_add(offset);
        let name = memory::read_u64(pid, at(self.name)?).ok()?;
        let name = memory::read_text(pid, name, MOST_NAME).ok()?;
        // Another function may have taken its place before the name was read.
        let id = memory::read_u32(pid, at(self.list.id.into())?).ok()?;
        (id == routine.id && !name.is_empty()).then(|| String::from_utf8_lossy(&name).into_owned())
    }
}

/// Offsets in `PLpgSQL_function` of `fn_signature` and `fn_oid`, which are in a `CachedFunction` from 18 on; in `PLpgSQL_execstate` of
/// `err_stmt` (src/pl/plpgsql/src/plpgsql.h; `cast_hash` was removed in 16). Measured on servers of each version.
fn places(major: u32) -> Option<(u64, u16, u16)> {
    match major {
        14 | 15 => Some((0, 8, 216)),
        16 | 17 => Some((0, 8, 208)),
        18 => Some((40, 48, 208)),
        _ => None,
    }
}
