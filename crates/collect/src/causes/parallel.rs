//! Who is still working while a session waits for others that execute the same query: a leader and its parallel workers.
//!
//! Such a wait is ended by the last of several, or by whoever has the first row. So it is divided by what all of them were doing: each pass
//! of the sampler goes, in turn, to one of those that were not waiting for the others themselves.

use std::collections::HashMap;

use super::Causes;
use super::track::{Doing, Seen, Track};

/// Class of waits for other processes of the server.
const IPC: &str = "IPC";
/// Events in which a leader waits for its workers.
const FOR_WORKERS: [&str; 7] = [
    "ExecuteGather",
    "MessageQueueReceive",
    "MessageQueueInternal",
    "ParallelFinish",
    "ParallelCreateIndexScan",
    "BgWorkerShutdown",
    "BgworkerShutdown",
];
/// Events in which a worker waits until its leader takes what it has.
const FOR_LEADER: [&str; 2] = ["MessageQueueSend", "MessageQueuePutMessage"];
/// Events in which one of them waits until all others have got as far, or until another one has done what they all need. The waits of a
/// hash join have many names.
const FOR_ALL: [&str; 3] = ["AppendReady", "BtreePage", "ParallelBitmapScan"];
const HASH: &str = "Hash";

/// Whom a process waits for among those that execute the same query.
#[derive(PartialEq)]
enum For {
    Workers,
    Leader,
    All,
}

impl Causes {
    fn waits_for(&self, doing: &Doing) -> Option<For> {
        let wait = self.waits.get(doing.wait);
        let event = &*wait.event;
        if &*wait.class != IPC || !self.is_blocked(doing) {
            return None;
        }
        if FOR_WORKERS.contains(&event) {
            Some(For::Workers)
        } else if FOR_LEADER.contains(&event) {
            Some(For::Leader)
        } else {
            (FOR_ALL.contains(&event) || event.starts_with(HASH)).then_some(For::All)
        }
    }

    /// Finds the remembered parallel workers, by leader.
    pub(super) fn find_workers(&mut self) {
        let mut workers: HashMap<u32, Vec<u32>> = HashMap::new();
        for (&pid, track) in &self.tracks {
            if let Some(leader) = track.leader {
                workers.entry(leader).or_default().push(pid);
            }
        }
        // In a fixed order: they take turns.
        workers.values_mut().for_each(|pids| pids.sort_unstable());
        self.workers = workers;
    }

    /// Whether a session waits for several others, of which whoever ends the wait is only one.
    pub(super) fn is_for_others_of_its_query(&self, pid: u32, seen: &Seen) -> bool {
        match self.waits_for(&seen.doing) {
            Some(For::Workers) => self.workers.contains_key(&pid),
            Some(For::All) => self.workers.contains_key(&pid) || self.leader_of(pid).is_some(),
            // Whoever ends it is the only one that can.
            Some(For::Leader) | None => false,
        }
    }

    /// Those that such a session waits for and that were working in a pass.
    pub(super) fn working_for(&self, pid: u32, seen: &Seen, pass: u32) -> Vec<(u32, &Track)> {
        let leader = self.leader_of(pid).unwrap_or(pid);
        let workers = self.workers.get(&leader).into_iter().flatten().copied();
        let with_leader = self.waits_for(&seen.doing) == Some(For::All);
        let all = workers.chain(with_leader.then_some(leader));
        let moment = self.time_of(pass);
        let others = all
            .filter(|&other| other != pid)
            .filter_map(|other| Some((other, self.tracks.get(&other)?)));
        others
            .filter(|(_, track)| {
                let seen = track.seen_at(pass);
                track.lives_at(moment) && seen.is_none_or(|seen| self.waits_for(&seen.doing).is_none())
            })
            .collect()
    }

    fn leader_of(&self, pid: u32) -> Option<u32> {
        self.tracks.get(&pid)?.leader
    }
}
