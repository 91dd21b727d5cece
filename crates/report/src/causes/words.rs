//! Who was waited for and what that session did, in words.

use dbtime_model::{CauseKind, SessionState, State, StateGroup, Wait, WaitKind};

/// Where a wait ended that was not for a session.
pub(crate) fn no_session(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::Device => "a device",
        CauseKind::Timer => "a timer",
        CauseKind::Client => "its own client",
        CauseKind::Process => "a process outside of the database",
        CauseKind::Prepared => "a prepared transaction, which no process has",
        CauseKind::Network => "the network",
        CauseKind::OtherHost => "another host, or the network",
        CauseKind::Session | CauseKind::Unknown => "[not known]",
    }
}

/// What a session did while others waited for it. `end`: what they waited for in the end; none when the session was itself waiting
/// for another one.
pub(crate) fn doing(
    end: Option<CauseKind>,
    session_state: SessionState,
    wait: &Wait,
    state: State,
) -> String {
    match end {
        Some(CauseKind::Client) if session_state.is_idle_in_transaction() => {
            format!("{session_state} (its client)")
        }
        Some(CauseKind::Client) if is_replay_paused(wait) => format!("{wait}, until a client resumes it"),
        Some(CauseKind::Client) => "waiting for its client".to_string(),
        Some(CauseKind::Device) => format!("{wait}, on a device"),
        Some(CauseKind::Timer) => format!("{wait}, on a timer"),
        Some(CauseKind::Process) => format!("{wait}, on a process outside of the database"),
        Some(CauseKind::Prepared) => format!("{wait}, on a prepared transaction"),
        Some(CauseKind::Network) => format!("{wait}, on the network"),
        Some(CauseKind::OtherHost) => format!("{wait}, on another host or the network"),
        Some(CauseKind::Unknown) => format!("{wait}, further on [not known]"),
        None if state.group() == Some(StateGroup::Blocked) => format!("{wait}, behind another session"),
        Some(CauseKind::Session) | None => {
            let how = match state {
                State::Runnable => "waiting for a CPU",
                State::Stopped => "stopped by a signal",
                _ => "on a CPU",
            };
            match wait.kind() {
                WaitKind::None => how.to_string(),
                _ => format!("{wait}, {how}"),
            }
        }
    }
}

/// Whether this is the wait of a standby whose replay was paused: its `client` is whoever has to resume it.
fn is_replay_paused(wait: &Wait) -> bool {
    wait.event == "RecoveryPause"
}
