//! Puts the reconciliation of the database's view with DB time into a few sentences.

use crate::database_view::{DatabaseView, Who};
use crate::sums::percent;

/// Less than this part of DB time, in percent, is not worth a sentence.
pub(crate) const WORTH_MENTIONING: f64 = 5.0;

/// Why there is nothing to compare; none: both sides are known. `knows_states`: the source says what the operating system saw.
pub(crate) fn missing_side(who: Who, knows_states: bool) -> Option<&'static str> {
    match who {
        Who::NoDatabase => Some(
            "No wait events were recorded, so there is no view of a database to compare with what the operating system saw.",
        ),
        Who::Files if !knows_states => Some(
            "The source does not say what the operating system did, so the database's own view cannot be checked against it.",
        ),
        Who::Trace if !knows_states => Some(
            "An SQL trace does not say what the operating system did, so the database's own view cannot be checked against \
             it. The time breakdown of the trace holds CPU and waits against elapsed time.",
        ),
        Who::Dbtime | Who::Files | Who::Trace => None,
    }
}

/// What the numbers of the view mean. Wait events are named as they were recorded: clean them before they
/// reach a terminal.
pub(crate) fn explain(view: &DatabaseView) -> String {
    let of_db_time = |ns: u128| percent(ns, view.db_time_ns).unwrap_or(0.0);
    let Some(sum) = view.percent_of_db_time else {
        return "There is no DB time in this period, so there is nothing to compare.".to_string();
    };
    let unknown = of_db_time(view.state_unknown_ns);
    if unknown > 50.0 {
        return format!(
            "For {unknown:.0} % of DB time the recording does not say what the operating system saw. \
             So what the database counts as CPU cannot be checked against it."
        );
    }
    compare(view, sum)
}

/// CPU and waits against DB time.
fn compare(view: &DatabaseView, sum: f64) -> String {
    let of_db_time = |ns: u128| percent(ns, view.db_time_ns).unwrap_or(0.0);
    let total = format!("CPU and waits add up to {sum:.0} % of DB time");
    let counted_too_much = of_db_time(view.double_counted_ns + view.cpu_inside_idle_waits_ns);
    let (missed, missed_most) = missed(view);
    match (
        counted_too_much >= WORTH_MENTIONING,
        of_db_time(missed) >= WORTH_MENTIONING,
    ) {
        (false, false) => format!(
            "{total}, so the database's own view is close to what the operating system saw. \
             Less than {WORTH_MENTIONING:.0} % was counted twice, and less than {WORTH_MENTIONING:.0} % was missed."
        ),
        (true, false) => format!("{total}: {}.", too_much(view)),
        (false, true) => format!(
            "{total}: {:.0} % of DB time is counted neither as CPU nor as wait; most of that is {missed_most}.{}",
            of_db_time(missed),
            match counted_too_much >= WORTH_A_CLAUSE {
                true => format!(
                    " On the other hand, {counted_too_much:.0} % is counted twice, or is CPU inside idle waits."
                ),
                false => String::new(),
            }
        ),
        (true, true) => format!(
            "{total}: {}. On the other hand, {:.0} % of DB time is counted neither as CPU nor as wait; most of that is \
             {missed_most}.",
            too_much(view),
            of_db_time(missed)
        ),
    }
}

/// A part of the explanation that is less than this, in percent of DB time, is left out.
const WORTH_A_CLAUSE: f64 = 1.0;

/// Why the sum is larger than DB time: CPU inside waits, and the event with the most of it; CPU inside idle waits; the larger one first.
fn too_much(view: &DatabaseView) -> String {
    let of_db_time = |ns: u128| percent(ns, view.db_time_ns).unwrap_or(0.0);
    let twice = of_db_time(view.double_counted_ns);
    let idle = of_db_time(view.cpu_inside_idle_waits_ns);
    match view.by_event.first() {
        Some(event) if twice >= idle => {
            let of_event = percent(event.cpu_inside_ns, event.wait_ns).unwrap_or(0.0);
            let whose = if event.kernel_inside_ns.saturating_mul(2) > event.cpu_inside_ns {
                "CPU, most of it in the kernel"
            } else {
                "CPU"
            };
            let and_idle = if idle >= WORTH_A_CLAUSE {
                format!("; another {idle:.0} % is CPU inside idle waits, which is CPU but not DB time")
            } else {
                String::new()
            };
            format!(
                "{of_event:.0} % of the time inside {} was {whose}, which the database counts both as CPU and as wait (in \
                 all waits {twice:.0} % of DB time){and_idle}",
                event.wait
            )
        }
        _ => {
            let and_twice = if twice >= WORTH_A_CLAUSE {
                format!(
                    "; another {twice:.0} % is CPU inside waits, which the database counts both as CPU and as wait"
                )
            } else {
                String::new()
            };
            format!(
                "{idle:.0} % of it is CPU that sessions used inside idle waits, which is CPU but not DB time{and_twice}"
            )
        }
    }
}

/// Time that the database does not count at all, and where most of it went.
fn missed(view: &DatabaseView) -> (u128, &'static str) {
    let parts = [
        (
            view.run_queue_inside_idle_waits_ns,
            "time in which a command had arrived but no CPU was free to run it, which the database calls \
             idle",
        ),
        (
            view.run_queue_outside_waits_ns,
            "time in the run queue (ready to run, but without a CPU)",
        ),
        (
            view.blocked_outside_waits_ns,
            "time blocked outside of any wait event",
        ),
        (
            view.state_unknown_outside_waits_ns,
            "time in a state that was not recorded, outside of any wait event",
        ),
        (
            view.wait_unknown_off_cpu_ns,
            "time off CPU whose wait event is not known",
        ),
    ];
    let missed = parts.iter().map(|(ns, _)| ns).sum();
    let most = parts
        .into_iter()
        .max_by_key(|(ns, _)| *ns)
        .map_or("", |(_, what)| what);
    (missed, most)
}
