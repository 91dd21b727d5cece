//! What the numbers of both runs mean, in one sentence each.

use std::collections::HashMap;

use dbtime_model::{State, WaitKind};
use dbtime_report::{Folded, LedgerRow, Section, percent};

use super::comparison::Run;
use super::data::ReadFrom;

/// Less than this, in percent, is not worth mentioning.
const WORTH_MENTIONING: f64 = 5.0;
/// A function is named if it has at least this part of the CPU, in percent.
const WORTH_NAMING: f64 = 20.0;

pub(super) fn sentence(run: &Run) -> String {
    let view = &run.report.database_view;
    let of_db_time = |ns: u128| percent(ns, view.db_time_ns).unwrap_or(0.0);
    let sum = view.percent_of_db_time.unwrap_or(0.0);
    let begin = match run.from {
        ReadFrom::PageCache => {
            format!("With reads from the page cache, CPU and waits add up to {sum:.0} % of DB time: ")
        }
        ReadFrom::Device => format!("With reads from the device, they add up to {sum:.0} %: "),
    };
    let Some(event) = largest_wait(run) else {
        return format!("{begin}no wait event was seen.");
    };
    let twice = of_db_time(view.double_counted_ns);
    let counted = if twice >= WORTH_MENTIONING {
        format!("so {twice:.0} % of DB time is counted twice, as CPU and as wait")
    } else {
        "so hardly any time is counted twice, as CPU and as wait".to_string()
    };
    let run_queue = of_db_time(view.run_queue_outside_waits_ns);
    let missed = if run_queue >= WORTH_MENTIONING {
        format!(", and {run_queue:.0} %, waiting for a CPU outside of wait events, not at all")
    } else {
        String::new()
    };
    format!("{begin}{}, {counted}{missed}.", inside(event, &run.flame))
}

fn largest_wait(run: &Run) -> Option<&LedgerRow> {
    run.report
        .ledger
        .section(Section::DbTime)
        .filter(|row| {
            row.wait
                .as_ref()
                .is_some_and(|wait| wait.kind() == WaitKind::Event)
        })
        .max_by_key(|row| row.sums.total_ns())
}

/// What sessions did inside a wait event, the largest part first.
fn inside(event: &LedgerRow, flame: &Folded) -> String {
    let sums = &event.sums;
    let name = event.labels.join(" ");
    let mut parts = [
        (
            sums.on_cpu_ns(),
            format!("CPU{}", busiest_function(&name, sums.on_cpu_ns(), flame)),
        ),
        (sums.state_ns(State::Disk), "blocked on I/O".to_string()),
        (sums.run_queue_ns(), "waiting for a CPU".to_string()),
        (sums.state_ns(State::Sleep), "asleep".to_string()),
        (
            sums.state_ns(State::Stopped) + sums.unknown_ns(),
            "stopped or not known".to_string(),
        ),
    ];
    parts.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(ns, what)| Some((percent(ns, sums.total_ns())?, what)))
        .filter(|(share, _)| *share >= WORTH_MENTIONING)
        .enumerate()
        .map(|(number, (share, what))| match number {
            0 => format!("{share:.0} % of the time inside {name} is {what}"),
            _ => format!("{share:.0} % {what}"),
        })
        .collect();
    parts.join(", ")
}

/// The kernel function in which most of the CPU inside a wait event went, if one stands out.
fn busiest_function(event: &str, on_cpu_ns: u128, flame: &Folded) -> String {
    let mut functions: HashMap<&str, u128> = HashMap::new();
    for stack in &flame.stacks {
        let is_kernel_in_event = stack.levels.iter().eq([event, State::Kernel.as_str()]);
        // Names in brackets could not be resolved.
        if let (true, Some(function)) = (is_kernel_in_event, stack.kernel.last())
            && !function.starts_with('[')
        {
            *functions.entry(function).or_default() += stack.ns;
        }
    }
    functions
        .into_iter()
        .max_by_key(|(name, ns)| (*ns, *name))
        .and_then(|(name, ns)| Some((name, percent(ns, on_cpu_ns)?)))
        .filter(|(_, share)| *share >= WORTH_NAMING)
        .map_or_else(String::new, |(name, share)| {
            format!(" ({share:.0} % of that in the kernel's {name})")
        })
}

#[cfg(test)]
mod tests {
    use dbtime_model::recording::{Meta, SCHEMA_VERSION};
    use dbtime_model::{
        ActivityRow, Fidelity, Frame, NO_STACK, Rows, SessionId, SessionRow, StackRow, Wait, stack_id,
    };
    use dbtime_report::{FlameOptions, Options, Source};

    use super::*;

    /// A run of one session: wait event or none, state, kernel function, milliseconds.
    fn run(from: ReadFrom, time: &[(Option<&str>, State, &str, u64)]) -> Run {
        let mut rows = Rows::default();
        rows.sessions.push(SessionRow {
            id: SessionId(1),
            pid: 1,
            started: 0,
            backend_type: "client backend".into(),
            user: String::new(),
            database: String::new(),
            client: String::new(),
            leader_pid: 0,
            title: String::new(),
            ..SessionRow::default()
        });
        for (event, state, function, ms) in time {
            let wait = event.map_or_else(Wait::none, |event| Wait::event("IO", event, false));
            let frames = vec![Frame {
                symbol: function.to_string(),
                module: "[kernel]".to_string(),
                build_id: String::new(),
                offset: 0,
            }];
            let id = if function.is_empty() {
                NO_STACK
            } else {
                stack_id(&frames)
            };
            if id != NO_STACK {
                rows.stacks.push(StackRow { id, frames });
            }
            rows.activity.push(ActivityRow {
                time: 0,
                session: SessionId(1),
                statement: 0,
                plan: 0,
                wait_class: wait.class.clone(),
                wait_event: wait.event.clone(),
                idle: false,
                state: *state,
                kernel_stack: id,
                user_stack: NO_STACK,
                comment: 0,
                ns: ms * 1_000_000,
                count: 0,
                samples: 1,
                fidelity: Fidelity::Sampled,
                pooled: false,
                session_state: dbtime_model::SessionState::None,
            });
        }
        let meta = Meta {
            schema: SCHEMA_VERSION.to_string(),
            end_us: 1_000_000,
            complete: true,
            ..Meta::default()
        };
        let source = Source::memory(meta, rows);
        Run {
            from,
            transactions_per_second: 1.0,
            residency: Default::default(),
            report: dbtime_report::report(&source, &Options::default()).expect("no filter"),
            flame: dbtime_report::flame(&source, &FlameOptions::default()).expect("no filter"),
        }
    }

    const READ: Option<&str> = Some("DataFileRead");

    #[test]
    fn copying_is_named_as_what_is_counted_twice() {
        let run = run(
            ReadFrom::PageCache,
            &[
                (READ, State::Kernel, "copy", 400),
                (READ, State::Kernel, "lookup", 180),
                (READ, State::Runnable, "", 20),
                (None, State::User, "", 400),
            ],
        );
        assert_eq!(
            sentence(&run),
            "With reads from the page cache, CPU and waits add up to 158 % of DB time: 97 % of the time inside \
             IO:DataFileRead is CPU (69 % of that in the kernel's copy), so 58 % of DB time is counted twice, as CPU \
             and as wait."
        );
    }

    #[test]
    fn nothing_is_claimed_that_the_numbers_do_not_show() {
        let blocked = run(
            ReadFrom::Device,
            &[
                (READ, State::Disk, "", 970),
                (READ, State::Kernel, "submit", 20),
                (None, State::User, "", 10),
            ],
        );
        assert_eq!(
            sentence(&blocked),
            "With reads from the device, they add up to 102 %: 98 % of the time inside IO:DataFileRead is blocked on \
             I/O, so hardly any time is counted twice, as CPU and as wait."
        );
        let busy_host = run(
            ReadFrom::PageCache,
            &[
                (READ, State::Kernel, "", 200),
                (READ, State::Runnable, "", 300),
                (None, State::User, "", 200),
                (None, State::Runnable, "", 300),
            ],
        );
        assert_eq!(
            sentence(&busy_host),
            "With reads from the page cache, CPU and waits add up to 90 % of DB time: 60 % of the time inside \
             IO:DataFileRead is waiting for a CPU, 40 % CPU, so 20 % of DB time is counted twice, as CPU and as wait, \
             and 30 %, waiting for a CPU outside of wait events, not at all."
        );
        let no_wait = run(ReadFrom::Device, &[(None, State::User, "", 10)]);
        assert_eq!(
            sentence(&no_wait),
            "With reads from the device, they add up to 100 %: no wait event was seen."
        );
    }
}
