//! Wait events: names stored once, with the class Oracle gives them.
//!
//! Traces have no classes. Source of the table: `V$EVENT_NAME` (NAME, WAIT_CLASS) of 12c to 19c, as listed in the appendix "Oracle Wait
//! Events" of the Oracle Database Reference. It only has events whose class did not change over those releases; every other event is
//! [`UNCLASSIFIED`], which claims nothing.

use crate::samples::Table;
use std::collections::HashMap;

use dbtime_model::Wait;

/// Class of an event that the table below does not name.
pub(super) const UNCLASSIFIED: &str = "unclassified";

/// The event that parsetrc.pl calls idle.
pub(super) const FROM_CLIENT: &str = "SQL*Net message from client";

const IDLE: &str = "Idle";

/// Most events kept apart: a release has two thousand, so more are damage.
const MAX_EVENTS: usize = 10_000;

#[rustfmt::skip]
const CLASSES: [(&str, &[&str]); 10] = [
    (IDLE, &[
        FROM_CLIENT, "pmon timer", "smon timer", "rdbms ipc message", "pipe get", "PL/SQL lock timer",
        "jobq slave wait", "dispatcher timer", "single-task message", "class slave wait", "i/o slave wait",
        "wait for unread message on broadcast channel", "Streams AQ: waiting for messages in the queue",
        "DIAG idle wait", "Space Manager: slave idle wait", "VKTM Logical Idle Wait", "VKRM Idle",
        "PX Idle Wait", "PX Deq: Execute Reply", "PX Deq: Execution Msg", "PX Deq: Parse Reply",
        "PX Deq: Join ACK", "PX Deq: Table Q Normal", "gcs remote message", "ges remote message",
        "ASM background timer", "LNS ASYNC end of log", "SGA: MMAN sleep for component shrink",
    ]),
    ("User I/O", &[
        "db file sequential read", "db file scattered read", "db file parallel read", "db file single write",
        "direct path read", "direct path read temp", "direct path write", "direct path write temp",
        "read by other session", "local write wait", "BFILE read", "Disk file operations I/O", "utl_file I/O",
        "db flash cache single block physical read", "db flash cache multiblock physical read",
        "cell single block physical read", "cell multiblock physical read",
        "cell list of blocks physical read", "cell smart table scan", "cell smart index scan",
        "securefile direct-read completion", "securefile direct-write completion",
    ]),
    ("System I/O", &[
        "db file parallel write", "db file async I/O submit", "log file parallel write",
        "log file sequential read", "log file single write", "control file sequential read",
        "control file parallel write", "control file single write",
    ]),
    ("Commit", &["log file sync"]),
    ("Concurrency", &[
        "buffer busy waits", "cursor: mutex S", "cursor: mutex X", "cursor: pin S", "cursor: pin X",
        "cursor: pin S wait on X", "enq: TX - index contention", "latch: cache buffers chains",
        "latch: In memory undo latch", "latch: row cache objects", "latch: shared pool",
        "library cache load lock", "library cache lock", "library cache pin", "library cache: mutex S",
        "library cache: mutex X", "row cache lock", "os thread startup",
    ]),
    ("Application", &[
        "enq: TX - row lock contention", "enq: TM - contention", "enq: UL - contention",
        "enq: RO - fast object reuse", "enq: KO - fast object checkpoint", "SQL*Net break/reset to client",
        "SQL*Net break/reset to dblink",
    ]),
    ("Configuration", &[
        "log buffer space", "log file switch (archiving needed)", "log file switch (checkpoint incomplete)",
        "log file switch (private strand flush incomplete)", "log file switch completion",
        "free buffer waits", "write complete waits", "enq: HW - contention", "enq: SQ - contention",
        "enq: SS - contention", "enq: ST - contention", "enq: TX - allocate ITL entry",
    ]),
    ("Network", &[
        "SQL*Net message to client", "SQL*Net message to dblink", "SQL*Net message from dblink",
        "SQL*Net more data to client", "SQL*Net more data from client", "SQL*Net more data to dblink",
        "SQL*Net more data from dblink",
    ]),
    ("Scheduler", &["resmgr:cpu quantum", "resmgr:become active"]),
    ("Cluster", &[
        "gc buffer busy", "gc buffer busy acquire", "gc buffer busy release", "gc cr request",
        "gc current request", "gc cr block 2-way", "gc cr block 3-way", "gc cr block busy",
        "gc cr block congested", "gc cr block lost", "gc cr grant 2-way", "gc cr grant congested",
        "gc cr multi block request", "gc cr disk read", "gc current block 2-way", "gc current block 3-way",
        "gc current block busy", "gc current block congested", "gc current block lost",
        "gc current grant 2-way", "gc current grant busy", "gc current grant congested",
    ]),
];

/// Events between database calls, for releases that do not say when a wait ended. Source: C. Millsap, J. Holt,
/// "Optimizing Oracle Performance" (O'Reilly 2003), chapter 5.
const BETWEEN_CALLS: [&str; 7] = [
    FROM_CLIENT,
    "SQL*Net message to client",
    "pipe get",
    "pmon timer",
    "rdbms ipc message",
    "smon timer",
    "single-task message",
];

/// What a wait for I/O moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A wait for I/O on data files or temporary files that says how many blocks it was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockIo {
    pub direction: Direction,
    /// Name of the parameter with the blocks in releases without names for them.
    pub place: &'static [u8],
}

/// Events with blocks. Source: `V$EVENT_NAME` (PARAMETER1 to 3). The blocks of direct and multi-block I/O are the third
/// parameter, those of a parallel read the second.
const BLOCK_IO: [(&str, BlockIo); 8] = {
    const fn io(direction: Direction, place: &'static [u8]) -> BlockIo {
        BlockIo { direction, place }
    }
    [
        ("db file sequential read", io(Direction::Read, b" p3")),
        ("db file scattered read", io(Direction::Read, b" p3")),
        ("db file parallel read", io(Direction::Read, b" p2")),
        ("db file single write", io(Direction::Write, b" p3")),
        ("direct path read", io(Direction::Read, b" p3")),
        ("direct path read temp", io(Direction::Read, b" p3")),
        ("direct path write", io(Direction::Write, b" p3")),
        ("direct path write temp", io(Direction::Write, b" p3")),
    ]
};

/// Classes whose events are about a block. `obj#` of any other wait is that of the block the session worked on last.
const OBJECT_CLASSES: [&str; 2] = ["User I/O", "Cluster"];

/// Further events that are about a block or a row. Source: Oracle Database Reference, `V$SESSION` (ROW_WAIT_OBJ#).
const OBJECT_EVENTS: [&str; 5] = [
    "buffer busy waits",
    "write complete waits",
    "enq: TX - row lock contention",
    "enq: TX - index contention",
    "enq: TX - allocate ITL entry",
];

/// An event, in the order in which the events of an import were met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EventId(u32);

impl EventId {
    /// In the order in which events were met.
    #[inline]
    pub(crate) fn number(self) -> usize {
        self.0 as usize
    }
}

/// What is known of an event.
#[derive(Debug)]
pub(crate) struct Event {
    pub wait: Wait,
    /// Idle by the rule of parsetrc.pl.
    pub from_client: bool,
    /// See [`BETWEEN_CALLS`].
    pub between_calls: bool,
    /// See [`BLOCK_IO`].
    pub block_io: Option<BlockIo>,
    /// Its `obj#` is that of the wait: see [`OBJECT_CLASSES`] and [`OBJECT_EVENTS`].
    pub has_object: bool,
    /// In releases without names for parameters, the first one is a file.
    pub p1_is_file: bool,
}

/// All events met.
#[derive(Debug)]
pub(crate) struct Events {
    all: Vec<Event>,
    by_name: Table<Box<[u8]>, EventId>,
    names: Vec<Box<[u8]>>,
    /// The event that was last asked for.
    last: EventId,
    /// By event, the one that was asked for after it: lines often come in the same order.
    next: Vec<EventId>,
    classes: HashMap<&'static str, &'static str>,
}

impl Events {
    /// In no wait event.
    pub(crate) const CPU: EventId = EventId(0);
    /// Elapsed, but neither CPU nor wait.
    pub(super) const UNACCOUNTED: EventId = EventId(1);
    /// Events beyond those that are kept apart.
    pub(super) const OTHER: EventId = EventId(2);

    pub(crate) fn new() -> Events {
        let classes = CLASSES
            .iter()
            .flat_map(|(class, events)| events.iter().map(|event| (*event, *class)))
            .collect();
        let own = |wait| Event {
            wait,
            from_client: false,
            between_calls: false,
            block_io: None,
            has_object: false,
            p1_is_file: false,
        };
        Events {
            all: vec![
                own(Wait::none()),
                own(Wait::event(Wait::UNKNOWN, "unaccounted", false)),
                own(Wait::event(UNCLASSIFIED, "further events", false)),
            ],
            by_name: Table::default(),
            names: vec![Box::default(); 3],
            last: Events::CPU,
            next: vec![Events::CPU; 3],
            classes,
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: EventId) -> &Event {
        &self.all[id.0 as usize]
    }

    /// The event of this name; allocates only for a name that is new.
    #[inline]
    pub(crate) fn id(&mut self, name: &[u8]) -> EventId {
        let last = self.last.0 as usize;
        if *self.names[self.next[last].0 as usize] != *name {
            self.next[last] = self.other_id(name);
        }
        self.last = self.next[last];
        self.last
    }

    /// The event that is likely to come next, and its name.
    #[inline]
    pub(crate) fn expected(&self) -> (EventId, &[u8]) {
        let next = self.next[self.last.0 as usize];
        (next, &self.names[next.0 as usize])
    }

    /// The expected event came.
    #[inline]
    pub(crate) fn came(&mut self, expected: EventId) {
        self.last = expected;
    }

    /// The event of this name, if it was met and is kept apart.
    pub(super) fn known(&self, name: &[u8]) -> Option<EventId> {
        self.by_name.get(name).copied()
    }

    fn other_id(&mut self, name: &[u8]) -> EventId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        if self.all.len() >= MAX_EVENTS {
            return Events::OTHER;
        }
        let text = String::from_utf8_lossy(name);
        let class = self.classes.get(&*text).copied().unwrap_or(UNCLASSIFIED);
        let id = EventId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        let block_io = BLOCK_IO.iter().find(|(name, _)| *name == text).map(|(_, io)| *io);
        self.all.push(Event {
            has_object: OBJECT_CLASSES.contains(&class) || OBJECT_EVENTS.contains(&&*text),
            p1_is_file: class == "Cluster" || block_io.is_some_and(|io| io.place == b" p3"),
            wait: Wait::event(class, &*text, class == IDLE),
            from_client: text == FROM_CLIENT,
            between_calls: BETWEEN_CALLS.contains(&&*text),
            block_io,
        });
        self.names.push(name.into());
        self.next.push(id);
        self.by_name.insert(name.into(), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_event_has_two_classes() {
        let listed: usize = CLASSES.iter().map(|(_, events)| events.len()).sum();
        assert_eq!(Events::new().classes.len(), listed);
    }

    #[test]
    fn an_event_that_is_not_in_the_table_has_no_class_made_up_for_it() {
        let mut events = Events::new();
        let id = events.id(b"some event of release 30");
        assert_eq!(&*events.get(id).wait.class, UNCLASSIFIED);
        assert!(!events.get(id).wait.idle);
        assert_eq!(events.id(b"some event of release 30"), id);
    }
}
