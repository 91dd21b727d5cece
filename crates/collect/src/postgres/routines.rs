//! Functions of PL/pgSQL that a session executes: where its executable keeps the list of them, what of their descriptions is where, and
//! their names.

use crate::database::{RawRoutine, RoutineList};
use crate::executable::Executable;
use crate::memory;

/// Bytes of a name that are read: of a name as `regprocedure` has it, two identifiers of 63 bytes and its arguments.
const MOST_NAME: usize = 512;

/// The functions of PL/pgSQL of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Routines {
    /// Where each session has the list of those that it is in.
    pub(super) list: RoutineList,
    /// In a function, of the address of its name.
    name: u64,
}

impl Routines {
    /// Of a server with this executable. None: its version is not known, or the executable does not name the list.
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

    /// What the server calls such a function in errors. None: the session has ended, or has forgotten the function.
    pub(super) fn name(&self, pid: u32, routine: RawRoutine) -> Option<String> {
        let at = |offset: u64| routine.function.checked_add(offset);
        let name = memory::read_u64(pid, at(self.name)?).ok()?;
        let name = memory::read_text(pid, name, MOST_NAME).ok()?;
        // When the name was read it may have been another one by now.
        let id = memory::read_u32(pid, at(self.list.id.into())?).ok()?;
        (id == routine.id && !name.is_empty()).then(|| String::from_utf8_lossy(&name).into_owned())
    }
}

/// In `PLpgSQL_function`: `fn_signature` and `fn_oid`, behind a `CachedFunction` from 18 on; in `PLpgSQL_execstate`: `err_stmt`
/// (src/pl/plpgsql/src/plpgsql.h; `cast_hash` went in 16). Read off servers of each version.
fn places(major: u32) -> Option<(u64, u16, u16)> {
    match major {
        14 | 15 => Some((0, 8, 216)),
        16 | 17 => Some((0, 8, 208)),
        18 => Some((40, 48, 208)),
        _ => None,
    }
}
