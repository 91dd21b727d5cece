//! What V$SESSION says of a session, as a row.

use dbtime_model::{BackendType, SessionRow};

use crate::oracle_trace::backend_type;

/// A session of this number (`sid.serial#`).
pub(crate) fn described(sid: &str, is_background: bool, user: &str, program: &str) -> SessionRow {
    let by_program = backend_type(program);
    let kind = match is_background {
        true if by_program == BackendType::CLIENT => "background",
        true => &by_program,
        // An application may use the name of a background process.
        false if program.starts_with("oracle@") && by_program == BackendType::PARALLEL_WORKER => &by_program,
        false => BackendType::CLIENT,
    };
    SessionRow {
        backend_type: kind.into(),
        user: user.to_string(),
        title: [sid, user, program]
            .map(str::trim)
            .join(" ")
            .trim_end()
            .to_string(),
        sid: sid.to_string(),
        ..SessionRow::default()
    }
}
