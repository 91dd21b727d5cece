//! The names that extensions gave to the LWLocks that they requested when the server started (`RequestNamedLWLockTranche`):
//! pg_stat_activity shows waits for them by these. They are in the server's shared memory, after the locks (`CreateLWLocks` in
//! src/backend/storage/lmgr/lwlock.c). Names that a process registers on its own (`LWLockRegisterTranche`) are only in its own memory,
//! where no exported symbol points: those locks are shown by number.

use super::Server;
use crate::executable::Executable;
use crate::memory;

/// Versions with this layout.
const MAJORS: std::ops::RangeInclusive<u32> = 14..=18;
/// No server has more.
const MOST: u32 = 256;
/// Bytes of a name: NAMEDATALEN.
const LONGEST: usize = 64;
/// Bytes of a `NamedLWLockTranche`: `trancheId`, and the address of the name.
const STEP: usize = 16;

/// Numbers and names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tranches(Vec<(u16, String)>);

impl Tranches {
    /// Those of a server with this executable; none if they cannot be read. `is_extensions`: whether the server itself has no lock with
    /// this number.
    pub(super) fn of(
        server: &Server,
        executable: &Executable,
        is_extensions: impl Fn(u16) -> bool,
    ) -> Tranches {
        let postmaster = server.postmaster;
        let symbols = executable.symbols(["NamedLWLockTrancheRequests", "NamedLWLockTrancheArray"]);
        let Ok([Some(count), Some(array)]) = symbols else {
            return Tranches::default();
        };
        let places = (
            memory::read_u32(postmaster, count.address),
            memory::read_u64(postmaster, array.address),
        );
        match places {
            (Ok(count), Ok(array)) if array != 0 && count <= MOST && MAJORS.contains(&server.major) => {
                let Tranches(mut named) = Tranches::read(postmaster, array, count);
                named.retain(|(id, _)| is_extensions(*id));
                Tranches(named)
            }
            _ => Tranches::default(),
        }
    }

    fn read(pid: u32, array: u64, count: u32) -> Tranches {
        let mut entries = vec![0; count as usize * STEP];
        if memory::read(pid, &mut [(array, &mut entries)]).is_err() {
            return Tranches::default();
        }
        let named = entries.chunks_exact(STEP).filter_map(|entry| {
            let (id, name) = entry.split_at(8);
            let id = u32::from_ne_bytes(id[..4].try_into().ok()?);
            let address = u64::from_ne_bytes(name.try_into().ok()?);
            let name = memory::read_text(pid, address, LONGEST).ok()?;
            let name = String::from_utf8(name).ok()?;
            // Names are shown in lines of text.
            let is_name = !name.is_empty() && !name.chars().any(char::is_control);
            is_name.then_some((u16::try_from(id).ok()?, name))
        });
        Tranches(named.collect())
    }

    /// The name of this one.
    pub(super) fn name(&self, id: u16) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == id);
        found.map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_the_server_lays_them_out() {
        let names = [&b"pg_stat_statements\0"[..], b"my locks\0", b"\0"];
        let mut array = Vec::new();
        for (id, name) in [95u32, 96, 97].into_iter().zip(names) {
            array.extend_from_slice(&id.to_ne_bytes());
            array.extend_from_slice(&[0; 4]);
            array.extend_from_slice(&(name.as_ptr() as u64).to_ne_bytes());
        }
        let me = std::process::id();
        let tranches = Tranches::read(me, array.as_ptr() as u64, 3);
        assert_eq!(tranches.name(95), Some("pg_stat_statements"));
        assert_eq!(tranches.name(96), Some("my locks"));
        assert_eq!((tranches.name(97), tranches.name(94)), (None, None));
        // Nothing is mapped there.
        assert_eq!(Tranches::read(me, 8, 3), Tranches::default());
    }
}
