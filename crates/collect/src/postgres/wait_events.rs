//! The names of PostgreSQL's wait events, and which of them mean that a process has nothing to do.
//!
//! A backend keeps its current wait event as one 32-bit number in shared memory (`*my_wait_event_info`): the class in
//! the top byte, the event within the class in the low 16 bits (`src/include/utils/wait_event.h`). The numbers differ
//! between major versions; minor releases only append to a class. One table per major version, made from the server
//! itself by `scripts/wait-events.sh`, gives them the names that `pg_stat_activity` shows.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// The tables, in ascending order of the major version.
const TABLES: [(u32, &str); 5] = [
    (14, include_str!("wait_events/14.tsv")),
    (15, include_str!("wait_events/15.tsv")),
    (16, include_str!("wait_events/16.tsv")),
    (17, include_str!("wait_events/17.tsv")),
    (18, include_str!("wait_events/18.tsv")),
];

const CLASS_MASK: u32 = 0xFF00_0000;
const ID_MASK: u32 = 0x0000_FFFF;

/// The wait events of one major version of PostgreSQL.
#[derive(Debug)]
pub(crate) struct WaitEventNames {
    major: u32,
    /// In ascending order of `info`.
    events: Vec<NamedEvent>,
}

#[derive(Debug)]
struct NamedEvent {
    info: u32,
    class: &'static str,
    /// Ends in `#` if names are assigned at run time: the row then covers its number and all higher ones in its class.
    name: &'static str,
}

/// The classes of wait events that PostgreSQL has in any of its versions.
pub fn wait_classes() -> BTreeSet<&'static str> {
    WaitEventNames::all()
        .iter()
        .flat_map(WaitEventNames::classes)
        .collect()
}

impl WaitEventNames {
    fn all() -> &'static [WaitEventNames] {
        static PARSED: OnceLock<Vec<WaitEventNames>> = OnceLock::new();
        PARSED.get_or_init(|| TABLES.iter().map(|&(major, table)| parse(major, table)).collect())
    }

    /// The names for a major version, and whether they are those of exactly this version. If not, they are those of the nearest older
    /// version known (of the oldest, if there is no older one), and an event that the versions number differently gets a wrong name: tell
    /// the user.
    pub(crate) fn for_major(major: u32) -> (&'static WaitEventNames, bool) {
        let all = WaitEventNames::all();
        let newer = all.partition_point(|names| names.major <= major);
        let names = &all[newer.saturating_sub(1)];
        (names, names.major == major)
    }

    /// The major version that these names belong to.
    pub(crate) fn major(&self) -> u32 {
        self.major
    }

    /// The names of its classes.
    pub(crate) fn classes(&self) -> BTreeSet<&'static str> {
        self.events.iter().map(|event| event.class).collect()
    }

    /// Class and event of a `my_wait_event_info`; `None` for zero: the process is not waiting, as far as the database knows.
    ///
    /// Names assigned at run time are in the server's memory, not in its binary: they are shown as `extension#95` (an LWLock tranche of an
    /// extension, by tranche id; [`super::tranches`] knows most of these names) and `custom#3` (a custom event of class Extension or
    /// InjectionPoint, since version 17). A number without a name is shown as it is, `#0x0A0000FF`, in class `unknown` if the class has no
    /// name either.
    pub(crate) fn decode(&self, info: u32) -> Option<(Cow<'static, str>, Cow<'static, str>)> {
        if info == 0 {
            return None;
        }
        let same_class = |event: &&NamedEvent| event.info & CLASS_MASK == info & CLASS_MASK;
        let above = self.events.partition_point(|event| event.info <= info);
        let at_or_below = self.events[..above].last().filter(same_class);
        if let Some(event) = at_or_below {
            if let Some(prefix) = event.name.strip_suffix('#')
                && info & !(CLASS_MASK | ID_MASK) == 0
            {
                return Some((event.class.into(), format!("{prefix}#{}", info & ID_MASK).into()));
            }
            if event.info == info {
                return Some((event.class.into(), event.name.into()));
            }
        }
        let class = at_or_below
            .or_else(|| self.events.get(above).filter(same_class))
            .map_or("unknown", |event| event.class);
        Some((class.into(), format!("#{info:#010X}").replace("0X", "0x").into()))
    }
}

/// Panics on a malformed table: they are compiled in, and a unit test parses every one.
fn parse(major: u32, table: &'static str) -> WaitEventNames {
    let row = |line: &'static str| {
        let mut columns = line.split('\t');
        let info = u32::from_str_radix(columns.next()?.strip_prefix("0x")?, 16).ok()?;
        let event = NamedEvent {
            info,
            class: columns.next()?,
            name: columns.next()?,
        };
        columns.next().is_none().then_some(event)
    };
    let events = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            row(line).unwrap_or_else(|| panic!("wait events of PostgreSQL {major}: bad line {line:?}"))
        })
        .collect();
    WaitEventNames { major, events }
}

/// Whether a wait event means that the process has no work, so that the time is part of nobody's response time.
///
/// - Class Activity: "The server process is idle. This event type indicates a process waiting for activity in its main
///   processing loop" (documentation, "The Cumulative Statistics System", table "Wait Event Types").
/// - `Client:ClientRead` of a client backend: it waits for its client's next command. In every other process it is not idle. It is also the
///   event in which `COPY FROM STDIN` waits for its data (`src/backend/libpq/be-secure.c` has no other): a caller that knows that a
///   statement is running should not call it idle.
/// - `Client:WalSenderWaitForWAL` (from 17 on `WalSenderWaitForWal`): a logical WAL sender that has sent everything
///   waits for new WAL (`WalSndWaitForWal` in `src/backend/replication/walsender.c`); it is the logical counterpart of
///   `Activity:WalSenderMain`.
///
/// All other events are time in which somebody waits for something, even if the wait is deliberate (`Timeout:PgSleep`,
/// `Timeout:CheckpointWriteDelay`), and in class Extension, where only the extension knows.
pub(crate) fn is_idle(class: &str, event: &str, client_backend: bool) -> bool {
    match (class, event) {
        ("Activity", _) => true,
        ("Client", "ClientRead") => client_backend,
        ("Client", "WalSenderWaitForWAL" | "WalSenderWaitForWal") => true,
        _ => false,
    }
}

/// Idle waits of client backends as numbers: classes that are idle as a whole (their top byte), and single events.
pub(crate) fn idle_codes(names: &WaitEventNames) -> (Vec<u8>, Vec<u32>) {
    let idle = |event: &NamedEvent| is_idle(event.class, event.name, true);
    let (mut classes, mut single) = (Vec::new(), Vec::new());
    for class in names
        .events
        .chunk_by(|a, b| a.info & CLASS_MASK == b.info & CLASS_MASK)
    {
        if class.iter().all(idle) {
            classes.extend(class.first().map(|event| (event.info >> 24) as u8));
        } else {
            single.extend(class.iter().filter(|event| idle(event)).map(|event| event.info));
        }
    }
    (classes, single)
}

/// Top bytes of the class with this name.
pub(crate) fn class_codes(names: &WaitEventNames, class: &str) -> Vec<u8> {
    let of_class = names.events.iter().filter(|event| event.class == class);
    let mut codes: Vec<u8> = of_class.map(|event| (event.info >> 24) as u8).collect();
    codes.dedup();
    codes
}

/// Numbers of the events with these names, which may be those of any version.
pub(crate) fn event_codes(names: &WaitEventNames, events: &[&str]) -> Vec<u32> {
    let wanted = names.events.iter().filter(|event| events.contains(&event.name));
    wanted.map(|event| event.info).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn decoded(major: u32, info: u32) -> String {
        let (names, exact) = WaitEventNames::for_major(major);
        assert!(exact, "no table for {major}");
        let (class, event) = names.decode(info).expect("not zero");
        format!("{class}:{event}")
    }

    #[test]
    fn locks_and_waits_of_several_calls_are_known_in_every_version() {
        for (major, _) in TABLES {
            let (names, _) = WaitEventNames::for_major(major);
            assert_eq!(class_codes(names, "Lock"), [0x03], "{major}");
            let events = event_codes(names, &["WALInitWrite", "WalInitWrite"]);
            assert_eq!(events.len(), 1, "{major}");
        }
    }

    #[test]
    fn every_table_is_sorted_and_has_no_duplicates() {
        for (major, _) in TABLES {
            let (names, _) = WaitEventNames::for_major(major);
            assert_eq!(names.major(), major);
            assert!(
                names.events.len() > 200,
                "{major}: only {} events",
                names.events.len()
            );
            assert!(
                names.events.is_sorted_by(|a, b| a.info < b.info),
                "{major}: ids out of order or repeated"
            );
            let pairs: HashSet<_> = names
                .events
                .iter()
                .map(|event| (event.class, event.name))
                .collect();
            assert_eq!(pairs.len(), names.events.len(), "{major}: a name is repeated");
            let classes: HashSet<_> = names
                .events
                .iter()
                .map(|event| (event.info & CLASS_MASK, event.class))
                .collect();
            let class_ids: HashSet<_> = classes.iter().map(|(id, _)| id).collect();
            let class_names: HashSet<_> = classes.iter().map(|(_, name)| name).collect();
            assert_eq!(
                class_ids.len(),
                classes.len(),
                "{major}: a class id has two names"
            );
            assert_eq!(
                class_names.len(),
                classes.len(),
                "{major}: a class name has two ids"
            );
        }
    }

    #[test]
    fn names_given_at_run_time_end_their_class() {
        for (major, _) in TABLES {
            let (names, _) = WaitEventNames::for_major(major);
            for (row, event) in names
                .events
                .iter()
                .enumerate()
                .filter(|(_, event)| event.name.ends_with('#'))
            {
                let next = names.events.get(row + 1);
                assert!(
                    next.is_none_or(|next| next.class != event.class),
                    "{major}: {event:?} hides names"
                );
            }
        }
    }

    /// Independent of how the tables were made: processes held in these waits, the number read from their memory, the
    /// name from pg_stat_activity.
    #[test]
    fn agrees_with_pg_stat_activity() {
        for (major, _) in TABLES {
            assert_eq!(decoded(major, 0x0600_0000), "Client:ClientRead");
            assert_eq!(decoded(major, 0x0300_000A), "Lock:advisory");
            let sleep = if major == 14 { 0x0900_0001 } else { 0x0900_0002 };
            assert_eq!(decoded(major, sleep), "Timeout:PgSleep");
        }
        assert_eq!(decoded(14, 0x0500_000C), "Activity:WalWriterMain");
        assert_eq!(decoded(15, 0x0500_000B), "Activity:WalWriterMain");
        assert_eq!(decoded(18, 0x0500_0006), "Activity:IoWorkerMain");
    }

    /// Independent of how the tables were made: the argument with which the server's md.c calls its file layer to read
    /// a table, seen by a debugger.
    #[test]
    fn agrees_with_the_servers_own_reads() {
        for (major, info) in [
            (14, 0x0A00_000F),
            (15, 0x0A00_0011),
            (16, 0x0A00_0011),
            (17, 0x0A00_0011),
            (18, 0x0A00_0015),
        ] {
            assert_eq!(decoded(major, info), "IO:DataFileRead");
        }
    }

    #[test]
    fn zero_is_no_wait() {
        assert_eq!(WaitEventNames::for_major(18).0.decode(0), None);
    }

    #[test]
    fn shows_numbers_that_have_no_name() {
        assert_eq!(decoded(18, 0x0A00_00FF), "IO:#0x0A0000FF");
        assert_eq!(decoded(18, 0x0A01_0000), "IO:#0x0A010000");
        assert_eq!(decoded(16, 0x0700_0001), "Extension:#0x07000001");
        // LWLock ids start at 1: a known class, with all its names above the number.
        assert_eq!(decoded(18, 0x0100_0000), "LWLock:#0x01000000");
        assert_eq!(decoded(18, 0x0200_0000), "unknown:#0x02000000");
        assert_eq!(decoded(16, 0x0B00_0001), "unknown:#0x0B000001");
        assert_eq!(decoded(18, u32::MAX), "unknown:#0xFFFFFFFF");
        assert_eq!(decoded(18, 1), "unknown:#0x00000001");
    }

    #[test]
    fn numbers_names_given_at_run_time() {
        assert_eq!(decoded(14, 0x0100_0047), "LWLock:PerXactPredicateList");
        assert_eq!(decoded(14, 0x0100_0048), "LWLock:extension#72");
        assert_eq!(decoded(18, 0x0100_005F), "LWLock:extension#95");
        assert_eq!(decoded(18, 0x0100_FFFF), "LWLock:extension#65535");
        assert_eq!(decoded(18, 0x0101_0000), "LWLock:#0x01010000");
        assert_eq!(decoded(17, 0x0700_0000), "Extension:Extension");
        assert_eq!(decoded(17, 0x0700_0003), "Extension:custom#3");
        assert_eq!(decoded(18, 0x0B00_0001), "InjectionPoint:custom#1");
    }

    #[test]
    fn unknown_versions_get_the_nearest_older_names() {
        let nearest = |major| {
            let (names, exact) = WaitEventNames::for_major(major);
            (names.major(), exact)
        };
        assert_eq!(nearest(13), (14, false));
        assert_eq!(nearest(14), (14, true));
        assert_eq!(nearest(18), (18, true));
        assert_eq!(nearest(19), (18, false));
    }

    #[test]
    fn idle_is_having_no_work() {
        assert!(is_idle("Activity", "CheckpointerMain", false));
        assert!(is_idle("Client", "ClientRead", true));
        assert!(!is_idle("Client", "ClientRead", false));
        assert!(is_idle("Client", "WalSenderWaitForWAL", false));
        assert!(is_idle("Client", "WalSenderWaitForWal", false));
        assert!(!is_idle("Client", "ClientWrite", true));
        assert!(!is_idle("Timeout", "PgSleep", true));
        assert!(!is_idle("Extension", "Extension", false));
        assert!(!is_idle("unknown", "#0xFFFFFFFF", false));
    }

    /// The names in the rule exist: a renamed event would silently stop being idle.
    #[test]
    fn idle_events_exist_in_every_version() {
        for (major, _) in TABLES {
            let (names, _) = WaitEventNames::for_major(major);
            let idle =
                |event: &&NamedEvent| event.class == "Client" && is_idle(event.class, event.name, true);
            assert_eq!(names.events.iter().filter(idle).count(), 2, "{major}");
        }
    }
}
