//! What many sessions execute, or executed last: their entries in the server's status array, read together from the postmaster.

use std::collections::HashMap;

use dbtime_model::SessionState;

use super::backend_status::BackendStatus;
use super::status_layout::CHANGE_COUNT;
use crate::fingerprint::fingerprint;
use crate::lock_requests::Executed;
use crate::memory;

/// Parts that an entry is read in, and entries read at a time: `IOV_MAX` is 1024.
const PARTS: usize = 7;
const AT_ONCE: usize = 128;

/// Where sessions have their entries, as far as that is known.
#[derive(Debug, Default)]
pub(super) struct StatusEntries {
    /// By pid on this host.
    entries: HashMap<u32, u64>,
    /// By pid: when the session began with a text, and its fingerprint.
    fingerprints: HashMap<u32, (u64, u64)>,
}

/// An entry, as it was read.
#[derive(Default)]
struct Entry {
    before: [u8; 4],
    process: [u8; 4],
    since: [u8; 8],
    state: [u8; 4],
    text: [u8; 8],
    statement: [u8; 8],
    after: [u8; 4],
}

impl StatusEntries {
    /// Of these processes: pids on this host, with the pids that the server knows. `state`: what the number of a state means. A process
    /// that writes to its entry meanwhile, or has none, is left out.
    pub(super) fn read(
        &mut self,
        postmaster: u32,
        status: BackendStatus,
        pids: &HashMap<u32, u32>,
        state: impl Fn(u32) -> SessionState,
    ) -> HashMap<u32, Executed> {
        self.entries.retain(|pid, _| pids.contains_key(pid));
        self.fingerprints.retain(|pid, _| pids.contains_key(pid));
        for &pid in pids.keys() {
            if !self.entries.contains_key(&pid)
                && let Some(entry) = status.entry(pid)
            {
                self.entries.insert(pid, entry);
            }
        }
        let layout = status.layout;
        let all: Vec<(u32, u64)> = self.entries.iter().map(|(pid, entry)| (*pid, *entry)).collect();
        let mut executed = HashMap::new();
        for some in all.chunks(AT_ONCE) {
            let mut read: Vec<Entry> = some.iter().map(|_| Entry::default()).collect();
            let mut parts: Vec<(u64, &mut [u8])> = Vec::with_capacity(PARTS * some.len());
            for ((_, at), entry) in some.iter().zip(&mut read) {
                parts.push((at + CHANGE_COUNT, &mut entry.before));
                parts.push((at + layout.process, &mut entry.process));
                parts.push((at + layout.since, &mut entry.since));
                parts.push((at + layout.state, &mut entry.state));
                parts.push((at + layout.activity, &mut entry.text));
                parts.push((at + layout.query_id, &mut entry.statement));
                parts.push((at + CHANGE_COUNT, &mut entry.after));
            }
            if memory::read(postmaster, &mut parts).is_err() {
                continue;
            }
            for (&(pid, _), entry) in some.iter().zip(read) {
                if pids.get(&pid) != Some(&u32::from_ne_bytes(entry.process)) {
                    // Another process has that pid now.
                    self.entries.remove(&pid);
                    self.fingerprints.remove(&pid);
                    continue;
                }
                if entry.before != entry.after || u32::from_ne_bytes(entry.before) & 1 != 0 {
                    continue;
                }
                let statement = match u64::from_ne_bytes(entry.statement) {
                    0 => self.id_by_text(postmaster, status, pid, &entry),
                    statement => statement,
                };
                let session_state = state(u32::from_ne_bytes(entry.state));
                executed.insert(
                    pid,
                    Executed {
                        statement,
                        session_state,
                    },
                );
            }
        }
        executed
    }

    /// What replaces the id that an entry lacks; 0 if there is no text.
    fn id_by_text(&mut self, postmaster: u32, status: BackendStatus, pid: u32, entry: &Entry) -> u64 {
        let since = u64::from_ne_bytes(entry.since);
        if let Some(&(known, statement)) = self.fingerprints.get(&pid)
            && known == since
        {
            return statement;
        }
        let at = u64::from_ne_bytes(entry.text);
        let text = memory::read_text(postmaster, at, status.most_shown() as usize).unwrap_or_default();
        let statement = fingerprint(&text);
        self.fingerprints.insert(pid, (since, statement));
        statement
    }
}
