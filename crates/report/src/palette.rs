//! Colours of what time is told apart by: one for each state and each wait class, the same in every picture.

use dbtime_model::{State, Wait};

use crate::causes::RootActivity;
use crate::timeline::MarkKind;

/// The line of the CPUs.
pub(crate) const CPUS: &str = "#b00020";
/// What is left out.
pub(crate) const OTHER: &str = "#c9c9c9";
/// What is not known.
pub(crate) const NOT_KNOWN: &str = "#9a9a9a";

/// As flame graphs have them: green for code, orange for the kernel; waits by the colours that charts of active sessions have
/// in most tools.
pub(crate) const BY_STATE: [(State, &str); 8] = [
    (State::User, "#8fbf4d"),
    (State::Kernel, "#e8843c"),
    (State::Cpu, "#5fae57"),
    (State::Runnable, "#f2c14e"),
    (State::Disk, "#3f7fbf"),
    (State::Sleep, "#a9a3cf"),
    (State::Stopped, "#7a5c58"),
    (State::Unknown, NOT_KNOWN),
];
/// By wait class, of several databases.
pub(crate) const BY_CLASS: [(&str, &str); 18] = [
    (Wait::NONE, "#5fae57"),
    (Wait::NO_CPU, "#f2c14e"),
    ("IO", "#3f7fbf"),
    ("User I/O", "#3f7fbf"),
    ("System I/O", "#7fb8e0"),
    ("Lock", "#c0392b"),
    ("Application", "#c0392b"),
    ("LWLock", "#8e2f4f"),
    ("Concurrency", "#8e2f4f"),
    ("Commit", "#e58b2f"),
    ("Client", "#a08a5b"),
    ("Network", "#a08a5b"),
    ("IPC", "#8a6fb3"),
    ("Cluster", "#8a6fb3"),
    ("Timeout", "#c9b8a0"),
    ("BufferPin", "#d4679a"),
    ("Configuration", "#7a5c3c"),
    (Wait::UNKNOWN, NOT_KNOWN),
];
/// Of values that have no colour of their own.
pub(crate) const OTHERS: [&str; 10] = [
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f", "#ff9da7",
    "#86bcb6",
];

/// The colour of a wait class, or of a wait event by its class, as it is labelled; none where it has none of its own.
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

/// The colour of a mark on a time line: it stands above the sessions, and between their colours only as a thin line.
pub(crate) fn of_mark(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Checkpoint => "#2b5d8c",
        MarkKind::Autovacuum => "#c27c0e",
        MarkKind::Note => "#6b1fa0",
    }
}

/// The colour of what somebody did who was waited for: as states and wait classes have them.
pub(crate) fn of_root(activity: RootActivity) -> &'static str {
    match activity {
        RootActivity::OnCpu => "#5fae57",
        RootActivity::RunQueue => "#f2c14e",
        RootActivity::IdleInTransaction => "#c0392b",
        RootActivity::Client => "#a08a5b",
        RootActivity::Device => "#3f7fbf",
        RootActivity::Timer => "#c9b8a0",
        RootActivity::Process => "#8a6fb3",
        RootActivity::Prepared => "#8e2f4f",
        RootActivity::Stopped => "#4a4a4a",
        RootActivity::Network => "#2f9c95",
        RootActivity::OtherHost => "#7a8f3c",
        RootActivity::Unknown => NOT_KNOWN,
    }
}

/// Red, green and blue of a colour that is written `#rrggbb`; 0 for what is not.
pub(crate) fn rgb(hex: &str) -> [u8; 3] {
    [1, 3, 5].map(|at| u8::from_str_radix(hex.get(at..at + 2).unwrap_or_default(), 16).unwrap_or(0))
}
