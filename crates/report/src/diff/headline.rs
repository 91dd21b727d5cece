//! The beginning of the first line: how much work both sides did, as far as known, and what it took in all.

use super::Per;
use super::conclusion::amount;
use crate::work::WorkUnit;

/// Totals that differ by less than this part are called about the same.
const SAME: f64 = 0.05;

/// Throughput and DB time of both sides. `total`: DB time; `elapsed_s`, `transactions`: of both sides, 0 = not known.
pub(super) fn headline(per: &Per, total: [u128; 2], elapsed_s: [f64; 2], transactions: [f64; 2]) -> String {
    let has_rates = elapsed_s.iter().all(|seconds| *seconds > 0.0);
    let has_transactions = has_rates && transactions.iter().all(|count| *count > 0.0);
    match per.unit {
        WorkUnit::Sample => format!(
            "Samples: 100 % are {:.0} in GOOD, {:.0} in BAD.",
            per.work[0], per.work[1]
        ),
        WorkUnit::Second if has_transactions => {
            let time = [0, 1].map(|side| total[side] as f64 / transactions[side]);
            format!(
                "{} {}; {}.",
                throughput(WorkUnit::Transaction, transactions, elapsed_s),
                db_time(WorkUnit::Transaction, time),
                db_time(WorkUnit::Second, per.per_unit(total))
            )
        }
        WorkUnit::Second => format!(
            "{}; how much work was done is not known, and in a closed loop more of one thing is less of the others \
             (--transactions GOOD,BAD).",
            db_time(per.unit, per.per_unit(total))
        ),
        WorkUnit::Transaction | WorkUnit::Execution | WorkUnit::Request | WorkUnit::Call
            if !per.is_told && has_rates =>
        {
            format!(
                "{} {}.",
                throughput(per.unit, per.work, elapsed_s),
                db_time(per.unit, per.per_unit(total))
            )
        }
        _ => format!("{}.", db_time(per.unit, per.per_unit(total))),
    }
}

fn throughput(unit: WorkUnit, work: [f64; 2], elapsed_s: [f64; 2]) -> String {
    let rates = [0, 1].map(|side| work[side] / elapsed_s[side]);
    let name = unit.as_str();
    format!(
        "{}{}s per second: {} in GOOD, {} in BAD{}.",
        name[..1].to_ascii_uppercase(),
        &name[1..],
        rate(rates[0]),
        rate(rates[1]),
        compared(rates)
    )
}

fn db_time(unit: WorkUnit, per_unit: [f64; 2]) -> String {
    let [good, bad] = per_unit.map(|value| amount(value, unit));
    format!(
        "DB time per {unit}: {good} in GOOD, {bad} in BAD{}",
        compared(per_unit)
    )
}

/// ` (27 times as much)`; empty if one of them is zero.
fn compared([good, bad]: [f64; 2]) -> String {
    if good <= 0.0 || bad <= 0.0 {
        return String::new();
    }
    let ratio = bad / good;
    if (ratio - 1.0).abs() < SAME {
        return " (about the same)".to_string();
    }
    format!(" ({} times)", rate(ratio))
}

/// Three digits, as far as there are any; two for very small ones.
pub(crate) fn rate(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        small if small > 0.0 && small < 0.01 => {
            let zeros = -small.log10().floor();
            format!("{small:.*}", (zeros as usize).saturating_add(1).min(15))
        }
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per(unit: WorkUnit, work: [f64; 2], is_told: bool) -> Per {
        Per {
            unit,
            work,
            slices: [Vec::new(), Vec::new()],
            is_told,
        }
    }

    #[test]
    fn a_loss_of_throughput_stands_in_the_first_words() {
        let per = per(WorkUnit::Transaction, [9_800.0, 361.0], false);
        assert_eq!(
            headline(&per, [19_600_000_000, 19_494_000_000], [10.0, 10.0], [0.0, 0.0]),
            "Transactions per second: 980 in GOOD, 36.1 in BAD (0.037 times). DB time per transaction: 2.00 ms in GOOD, \
             54.0 ms in BAD (27.0 times)."
        );
    }

    #[test]
    fn small_rates_have_digits() {
        for (value, text) in [
            (0.000_328, "0.00033"),
            (0.0051, "0.0051"),
            (0.04567, "0.046"),
            (0.0, "0.000"),
            (1e-30, "0.000000000000000"),
        ] {
            assert_eq!(rate(value), text);
        }
    }

    #[test]
    fn without_counted_work_the_first_words_say_so() {
        let seconds = per(WorkUnit::Second, [10.0, 10.0], false);
        let text = headline(
            &seconds,
            [19_800_000_000, 19_700_000_000],
            [10.0, 10.0],
            [0.0, 0.0],
        );
        assert!(
            text.starts_with(
                "DB time per second: 1.98 s in GOOD, 1.97 s in BAD (about the same); how much work"
            ) && text.contains("closed loop"),
            "{text}"
        );
        // Read from the sessions' memory: not the unit, but what a DBA asks for first.
        let text = headline(
            &seconds,
            [19_600_000_000, 19_494_000_000],
            [10.0, 10.0],
            [9_800.0, 361.0],
        );
        assert_eq!(
            text,
            "Transactions per second: 980 in GOOD, 36.1 in BAD (0.037 times). DB time per transaction: 2.00 ms in GOOD, \
             54.0 ms in BAD (27.0 times); DB time per second: 1.96 s in GOOD, 1.95 s in BAD (about the same)."
        );
        let told = per(WorkUnit::Transaction, [5.76, 4.3], true);
        let text = headline(&told, [5_760_000, 12_900_000], [10.0, 10.0], [0.0, 0.0]);
        assert_eq!(
            text,
            "DB time per transaction: 1.00 ms in GOOD, 3.00 ms in BAD (3.00 times)."
        );
    }
}
