//! Colours of the values of a dimension: one for each state and each wait class, the same in every picture.

use dbtime_model::{State, Wait};

use crate::causes::RootActivity;
use crate::timeline::MarkKind;

/// The line of the CPUs.
pub(crate) const CPUS: &str = "#b00020";
/// All other values.
pub(crate) const OTHER: &str = "#c9c9c9";
/// What is not known.
pub(crate) const NOT_KNOWN: &str = "#9a9a9a";

/// Colours with the same meaning in several pictures: on a CPU, waiting for one, reading and writing, and so on.
const ON_CPU: &str = "#62a773";
const RUN_QUEUE: &str = "#ffc835";
const IO: &str = "#057ce6";
const LOCK: &str = "#c41b14";
const LATCH: &str = "#8a3050";
const CLIENT: &str = "#9d8240";
const PROCESSES: &str = "#8564a4";
const TIMER: &str = "#c8b9a3";

/// As in flame graphs: green for code, orange for the kernel; waits in the colours that most tools use in charts of active
/// sessions, adjusted until people who see no red or no green can tell them apart (see the test).
pub(crate) const BY_STATE: [(State, &str); 8] = [
    (State::User, "#94c16b"),
    (State::Kernel, "#ea7919"),
    (State::Cpu, ON_CPU),
    (State::Runnable, RUN_QUEUE),
    (State::Disk, IO),
    (State::Sleep, "#a9a3d1"),
    (State::Stopped, "#7a5c58"),
    (State::Unknown, NOT_KNOWN),
];
/// By wait class, of several databases.
pub(crate) const BY_CLASS: [(&str, &str); 19] = [
    (Wait::NONE, ON_CPU),
    (Wait::NO_CPU, RUN_QUEUE),
    ("IO", IO),
    ("User I/O", IO),
    ("System I/O", "#7fb8e0"),
    ("Lock", LOCK),
    ("Application", LOCK),
    ("LWLock", LATCH),
    ("Concurrency", LATCH),
    ("Commit", "#ed8d25"),
    ("Client", CLIENT),
    ("Network", CLIENT),
    ("IPC", PROCESSES),
    ("Cluster", PROCESSES),
    ("Timeout", TIMER),
    ("BufferPin", "#d673b5"),
    ("Extension", "#681a8c"),
    ("Configuration", "#7a5f44"),
    (Wait::UNKNOWN, NOT_KNOWN),
];
/// For values that have no colour of their own: users, statements, applications.
pub(crate) const OTHERS: [&str; 10] = [
    "#1a98f8", "#f25614", "#3ea46e", "#803eb6", "#c8e014", "#80d4f2", "#bc141a", "#9e7498", "#266e5c",
    "#b0e0aa",
];

/// The colour of a wait class, or of a wait event by its class, as it is labelled; none if it has none of its own.
pub(crate) fn of_wait(label: &str) -> Option<&'static str> {
    let class = match label.split(':').next().unwrap_or_default() {
        _ if label.ends_with(Wait::NO_CPU) => Wait::NO_CPU,
        // `[not sampled]` and the like.
        unknown if unknown.starts_with('[') => Wait::UNKNOWN,
        class => class,
    };
    BY_CLASS
        .into_iter()
        .find_map(|(name, colour)| (name == class).then_some(colour))
}

/// The colour of a state, by its name.
pub(crate) fn of_state(name: &str) -> Option<&'static str> {
    BY_STATE
        .into_iter()
        .find_map(|(state, colour)| (state.as_str() == name).then_some(colour))
}

/// The colour of a mark on a timeline: it is above the sessions, and between their colours only as a thin line.
pub(crate) fn of_mark(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Checkpoint => "#2b5d8c",
        MarkKind::Autovacuum => "#c27c0e",
        MarkKind::Note => "#6b1fa0",
    }
}

/// The colour of what the one who was waited for did: as for states and wait classes.
pub(crate) fn of_root(activity: RootActivity) -> &'static str {
    match activity {
        RootActivity::OnCpu => ON_CPU,
        RootActivity::RunQueue => RUN_QUEUE,
        RootActivity::IdleInTransaction => LOCK,
        RootActivity::Client => CLIENT,
        RootActivity::Device => IO,
        RootActivity::Timer => TIMER,
        RootActivity::Process => PROCESSES,
        RootActivity::Prepared => LATCH,
        RootActivity::Stopped => "#2b2b2b",
        RootActivity::Network => "#1f8c76",
        RootActivity::OtherHost => "#90a900",
        RootActivity::Unknown => NOT_KNOWN,
    }
}

/// Red, green and blue of a colour that is written `#rrggbb`; 0 for what is not.
pub(crate) fn rgb(hex: &str) -> [u8; 3] {
    [1, 3, 5].map(|at| u8::from_str_radix(hex.get(at..at + 2).unwrap_or_default(), 16).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour_vision::{Seen, farness};

    /// CIEDE2000: from 10 on, two colours differ at a glance, even if they do not touch.
    const LEAST: f64 = 10.0;
    /// Backgrounds: of pictures, and of the page in dark mode.
    const PAPER: &str = "#ffffff";
    const DARK_PAPER: &str = "#16171a";

    #[track_caller]
    fn assert_are_apart(what: &str, colours: &[(&str, &str)], papers: &[&str]) {
        for (at, (name, colour)) in colours.iter().enumerate() {
            let others = colours[..at].iter().copied();
            for (other, its) in others.chain(papers.iter().map(|paper| ("paper", *paper))) {
                for seen in Seen::ALL {
                    let far = farness(rgb(colour), rgb(its), seen);
                    assert!(
                        far >= LEAST,
                        "{what}: {name} {colour} and {other} {its} are {far:.1} apart, {seen:?}"
                    );
                }
            }
        }
    }

    /// Colours that appear beside each other in one picture.
    #[test]
    fn everybody_can_tell_the_colours_of_a_picture_apart() {
        let classes = |names: &[&'static str]| -> Vec<(&'static str, &'static str)> {
            names
                .iter()
                .map(|name| (*name, of_wait(name).expect("it has a colour")))
                .chain([("others", OTHER)])
                .collect()
        };
        let postgresql = [
            Wait::NONE,
            Wait::NO_CPU,
            "IO",
            "Lock",
            "LWLock",
            "Client",
            "IPC",
            "Timeout",
            "BufferPin",
            "Extension",
            Wait::UNKNOWN,
        ];
        let oracle = [
            Wait::NONE,
            Wait::NO_CPU,
            "User I/O",
            "System I/O",
            "Application",
            "Concurrency",
            "Commit",
            "Network",
            "Cluster",
            "Configuration",
            Wait::UNKNOWN,
        ];
        let all: Vec<&str> = postgresql.into_iter().chain(oracle).collect();
        assert!(
            BY_CLASS.iter().all(|(name, _)| all.contains(name)),
            "none is forgotten"
        );
        assert_are_apart("PostgreSQL", &classes(&postgresql), &[PAPER, DARK_PAPER]);
        assert_are_apart("Oracle", &classes(&oracle), &[PAPER, DARK_PAPER]);
        assert_are_apart(
            "states",
            &BY_STATE.map(|(state, colour)| (state.as_str(), colour)),
            &[PAPER, DARK_PAPER],
        );
        let roots = [
            RootActivity::OnCpu,
            RootActivity::RunQueue,
            RootActivity::IdleInTransaction,
            RootActivity::Client,
            RootActivity::Device,
            RootActivity::Timer,
            RootActivity::Process,
            RootActivity::Prepared,
            RootActivity::Stopped,
            RootActivity::Network,
            RootActivity::OtherHost,
            RootActivity::Unknown,
        ];
        let free: Vec<(&str, &str)> = OTHERS.map(|colour| ("free", colour)).to_vec();
        let beside = [("others", OTHER), ("not known", NOT_KNOWN)];
        assert_are_apart(
            "users, statements",
            &[&free[..], &beside].concat(),
            &[PAPER, DARK_PAPER],
        );
        assert_are_apart(
            "who was waited for",
            &roots.map(|root| (root.as_str(), of_root(root))),
            &[PAPER],
        );
    }
}
