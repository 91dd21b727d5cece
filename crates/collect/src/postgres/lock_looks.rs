//! Reads the lock table of a server; its layout is found out once, on the first read.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use super::all_locks;
use super::backend_status::BackendStatus;
use super::proc_array::ProcArray;
use super::proc_entries::ProcEntries;
use super::status_entries::StatusEntries;
use super::wait_events::WaitEventNames;
use crate::database::WaitNames;
use crate::lock_requests::{LockLook, LockRequest, Whose};

/// Why the table could not be read although its layout is known.
const NOT_READ: &str = "the list of the server's processes cannot be read";

/// The lock table of one server.
#[derive(Debug, Default)]
pub(super) struct LockLooks {
    /// Found on the first read: by then there are processes to examine.
    array: OnceCell<ProcArray>,
    entries: RefCell<StatusEntries>,
    processes: RefCell<ProcEntries>,
}

impl LockLooks {
    /// Why fast-path locks, which are kept with the session, are not seen; none: they are, or it is not known yet.
    pub(super) fn without_fast_path(&self) -> Option<&'static str> {
        self.array.get()?.fast_path.err()
    }

    /// `processes`: the server's, to find out the layout; `hosts`: the pids of its processes on this host, by the pids that the server
    /// knows, if they differ; `newcomers`: as for [`ProcEntries::read`].
    ///
    /// # Errors
    /// Why nothing is seen.
    pub(super) fn look(
        &self,
        server: (u32, u32),
        newcomers: &[u32],
        processes: impl FnOnce() -> Vec<u32>,
        hosts: Option<&HashMap<u32, u32>>,
        status: Option<BackendStatus>,
        names: &'static WaitEventNames,
    ) -> Result<LockLook, &'static str> {
        let array = match self.array.get() {
            Some(array) => array,
            // A server that has just started may still show it later.
            None => {
                let array = ProcArray::of(server, &processes(), status)?;
                self.array.get_or_init(|| array)
            }
        };
        let found = all_locks::look(array, &mut self.processes.borrow_mut(), newcomers).ok_or(NOT_READ)?;
        let mut look = LockLook {
            torn: found.torn,
            without_room: found.without_room,
            ..LockLook::default()
        };
        let mut pids: HashMap<u32, u32> = HashMap::new();
        for request in found.requests {
            let whose = match request.whose {
                Whose::Prepared(transaction) => Whose::Prepared(transaction),
                Whose::Process(named) => {
                    let host = match hosts {
                        None => Some(named),
                        Some(hosts) => hosts.get(&named).copied(),
                    };
                    // It has ended since.
                    let Some(host) = host else {
                        look.torn += 1;
                        continue;
                    };
                    pids.insert(host, named);
                    Whose::Process(host)
                }
            };
            look.requests.push(LockRequest { whose, ..request });
        }
        if let Some(status) = status {
            let state = |number| names.session_state(number);
            look.executed = self.entries.borrow_mut().read(server.0, status, &pids, state);
        }
        Ok(look)
    }
}
