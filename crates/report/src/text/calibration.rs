//! The cost of observation on a host, as a table; and in a recording, as a sentence.

use dbtime_model::calibration::{Calibration, look, workload};

use super::page::{Page, Table};
use crate::cost_of_looking::CostOfLooking;
use crate::group::moment;
use crate::number::{duration, seconds};

/// Shown for what was not measured.
const NOTHING: &str = "-";

pub(super) fn render(calibration: &Calibration, page: &mut Page) {
    let host = &calibration.host;
    page.paragraph(&format!(
        "The cost of observation on {}, {} CPUs, Linux {} {}, {} UTC",
        host.name,
        host.cpus,
        host.kernel,
        host.arch,
        moment(calibration.time_us)
    ));
    page.paragraph(&format!(
        "Nanoseconds per call, lowest median of {} rounds of {} calls; more = than with no observer; p99 \
         likewise. Reading the clock costs {} ns, which is in all of them; its resolution is {} ns; timer \
         slack {} ns.",
        calibration.rounds,
        calibration.calls,
        calibration.clock_ns,
        calibration.clock_resolution_ns,
        calibration.timer_slack_ns
    ));
    for name in workload::ALL {
        page.heading(name);
        let mut table = Table::new(&["observer"], &["median", "more", "spread", "min", "mean", "p99"]);
        for look in &calibration.looks {
            let Some(cell) = look.cells.iter().find(|cell| cell.workload == name) else {
                continue;
            };
            table.row(vec![
                look.name.clone(),
                cell.median_ns.to_string(),
                cell.extra_ns
                    .map_or_else(|| NOTHING.to_string(), |ns| format!("{ns:+}")),
                cell.spread_ns.to_string(),
                cell.min_ns.to_string(),
                cell.mean_ns.to_string(),
                cell.p99_ns.to_string(),
            ]);
        }
        match calibration.control(name) {
            None => page.paragraph("  not measured: it needs CAP_SYS_NICE"),
            Some(control) => {
                page.table(&table);
                page.paragraph(&format!(
                    "  Control: 'nothing', measured twice, differs by {} ns, {} the spread between rounds \
                     ({} ns): costs up to {} ns are noise.",
                    control.difference_ns.unsigned_abs(),
                    if control.is_within_spread {
                        "within"
                    } else {
                        "beyond"
                    },
                    control.spread_ns,
                    control.noise_ns
                ));
            }
        }
    }
    let refused: Vec<_> = calibration
        .looks
        .iter()
        .filter_map(|look| Some((&look.name, look.refused.as_ref()?)))
        .collect();
    if !refused.is_empty() {
        page.heading("Not measured");
        for (name, why) in refused {
            page.paragraph(&format!("  {name}: refused: {why}"));
        }
    }
}

/// How much of a recording is due to the tool itself.
pub(super) fn cost(cost: &CostOfLooking, page: &mut Page) {
    let CostOfLooking { look, calls, .. } = cost;
    let when = moment(cost.calibrated_us);
    let whose = match look.as_str() {
        look::CALLS => "the recorder",
        _ => "strace",
    };
    if !cost.is_measurable {
        page.paragraph(&format!(
            "  {whose} traced {calls} system calls; the cost of that is below the noise of the calibration \
             of {when} UTC ({} per call)",
            duration(cost.noise_ns.into())
        ));
        return;
    }
    let share = cost.percent.map_or_else(String::new, |percent| {
        format!(", {percent:.1} % of the time recorded")
    });
    let host = match cost.is_other_host_possible {
        true => format!(
            ", as it would be on {}: the file does not say where it was recorded",
            cost.host
        ),
        false => String::new(),
    };
    page.paragraph(&format!(
        "  about {} s of this is the tool{share}: {whose} traced {calls} system calls, each of which took \
         about {} longer, according to the calibration of {when} UTC{host}",
        seconds(cost.total_ns),
        duration(cost.extra_ns.into())
    ));
}
