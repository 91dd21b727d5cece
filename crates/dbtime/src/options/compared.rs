//! How two recordings are compared.

use clap::Args;
use dbtime_report::WorkUnit;

/// How two recordings are compared.
#[derive(Debug, Args)]
pub struct ComparedOptions {
    /// Compare per transaction, execution, request, call, second, sample or run [default: per request, call or execution in files that count them; else second or sample]
    #[arg(long, value_name = "UNIT")]
    pub per: Option<WorkUnit>,
    /// Transactions of each side, if the recordings do not count them (as pgbench prints them)
    #[arg(long, value_name = "GOOD,BAD", value_parser = parse_transactions)]
    pub transactions: Option<[f64; 2]>,
    /// Compare even where a comparison may mislead
    #[arg(long)]
    pub force: bool,
}

/// Counts of transactions, or rates: only their ratio to the recorded time matters.
fn parse_transactions(text: &str) -> Result<[f64; 2], String> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|number| number.trim().parse()).collect();
    let is_amount = |number: &f64| number.is_finite() && *number > 0.0;
    match numbers.as_deref() {
        Ok([good, bad]) if is_amount(good) && is_amount(bad) => Ok([*good, *bad]),
        _ => Err("must be two numbers above 0, as in 12000,9000".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_two_numbers_above_zero() {
        assert_eq!(parse_transactions("12000, 9000"), Ok([12_000.0, 9_000.0]));
        assert_eq!(parse_transactions("5.76,4.3"), Ok([5.76, 4.3]));
        for wrong in ["", "1", "1,0", "0,1", "1,2,3", "a,b", "-1,5", "nan,1", "inf,1"] {
            assert!(parse_transactions(wrong).is_err(), "{wrong}");
        }
    }
}
