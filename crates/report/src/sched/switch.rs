//! One switch, as `perf sched timehist` shows it, with what else dbtime knows.

use dbtime_model::{Session, SessionId, State, SwitchRow, Wait};
use serde::{Serialize, Serializer};

use super::priority_words;
use super::task::name_of;
use crate::fields;

/// A turn of a task that ended with this switch. Times in nanoseconds; none = not known, where perf shows 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwitchLine {
    /// Identity of the task in the recording.
    #[serde(skip)]
    pub id: SessionId,
    /// See [`SwitchRow::time_ns`].
    pub time_ns: i64,
    /// CPU that it left.
    pub cpu: u32,
    /// Name of the task.
    pub name: String,
    /// Its thread id.
    pub tid: u32,
    /// Its process, if it is a thread of another one.
    #[serde(rename = "pid")]
    pub process: Option<u32>,
    /// Off CPU before, scheduling delay included: perf's wait time.
    #[serde(rename = "wait_ns")]
    pub off_cpu_ns: Option<u64>,
    /// Of that, ready to run.
    pub delay_ns: Option<u64>,
    /// On the CPU.
    pub run_ns: Option<u64>,
    /// The state in which it left its CPU.
    pub state: State,
    /// The state it was in before.
    pub wait_state: State,
    /// Wait event in which it had left its CPU before.
    #[serde(flatten, serialize_with = "fields::wait")]
    pub wait: Wait,
    /// What the session executed when it left its CPU; 0 = not known, or nothing.
    #[serde(rename = "query", serialize_with = "fields::query_id")]
    pub statement: u64,
    /// What it executed when it had left its CPU before; 0 = not known, or nothing.
    #[serde(rename = "wait_query", serialize_with = "fields::query_id")]
    pub wait_statement: u64,
    /// Who ended its sleep; empty = nobody, or not known.
    #[serde(serialize_with = "fields::known")]
    pub waker: String,
    /// It came back on a CPU other than the one it had left.
    pub migrated: bool,
    /// See [`SwitchRow::priority`].
    #[serde(flatten, serialize_with = "priority_number_and_words")]
    pub priority: Option<i32>,
}

fn priority_number_and_words<S: Serializer>(number: &Option<i32>, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Priority {
        priority_number: Option<i32>,
        priority: Option<String>,
    }
    let priority = Priority {
        priority_number: *number,
        priority: number.map(priority_words),
    };
    priority.serialize(to)
}

impl SwitchLine {
    /// The line of a switch of this task.
    pub fn of(row: &SwitchRow, session: &Session) -> SwitchLine {
        let (name, process) = name_of(session);
        SwitchLine {
            id: row.session,
            time_ns: row.time_ns,
            cpu: row.cpu,
            name: name.to_string(),
            tid: session.pid,
            process,
            off_cpu_ns: row
                .wait_ns
                .map(|wait| wait.saturating_add(row.delay_ns.unwrap_or(0))),
            delay_ns: row.delay_ns,
            run_ns: row.run_ns,
            state: row.state,
            wait_state: row.wait_state,
            wait: Wait::event(&row.wait_class, &row.wait_event, false),
            statement: row.statement,
            wait_statement: row.wait_statement,
            waker: row.waker.clone(),
            migrated: row.migrated,
            priority: row.priority,
        }
    }

    /// The task as perf writes it: `name[tid]`, `name[tid/pid]`.
    pub fn task(&self) -> String {
        task(&self.name, self.tid, self.process)
    }
}

/// A task as perf writes it.
pub(crate) fn task(name: &str, tid: u32, process: Option<u32>) -> String {
    match process {
        Some(process) => format!("{name}[{tid}/{process}]"),
        None => format!("{name}[{tid}]"),
    }
}

/// A priority in the words of `nice` and `chrt`: `nice 0`, `rt 99`, `deadline`.
pub(crate) fn priority(kernel: i32) -> String {
    match kernel {
        ..0 => "deadline".to_string(),
        0..100 => format!("rt {}", 99 - kernel),
        _ => format!("nice {}", kernel - 120),
    }
}
