//! One run of LatchProfX: how many samples it took and how long that was, which it does not print.
//!
//! Held % is Held as a share of all samples, and Held ms the same share of the elapsed time, which the script has in hundredths of a
//! second. So the numbers of a row leave few possible pairs of samples and elapsed time; all rows together, or the command, usually leave
//! one.

use super::columns::Row;

/// The script prints 30 at most.
const MAX_ROWS: usize = 100;

/// Elapsed time is a multiple of this, in microseconds (V$TIMER).
const TICK_US: u128 = 10_000;

/// Most ticks of elapsed time that are tried: 1,000 s.
const MOST_TICKS: u128 = 100_000;

/// More than any run takes.
const MOST_SAMPLES: u128 = 1 << 40;

/// Rows of a run.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) rows: Vec<Row>,
    pub(super) without_room: u64,
    /// Samples by the command, if it is above the table.
    pub(super) of_command: Option<u64>,
}

/// How long it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Length {
    pub(super) samples: u128,
    pub(super) us: u128,
    /// The fewest and the most samples by which the rows could have been printed.
    pub(super) range: (u128, u128),
}

impl Run {
    /// Adds a row; false if there is no room for it.
    pub(super) fn add(&mut self, row: Row) -> bool {
        let has_room = self.rows.len() < MAX_ROWS;
        match has_room {
            true => self.rows.push(row),
            false => self.without_room += 1,
        }
        has_room
    }

    /// Removes rows that do not fit the rest; returns their line numbers, and the length of the run, if one fits.
    pub(super) fn solve(&mut self) -> (Vec<u64>, Option<Length>) {
        let mut wrong: Vec<u64> = Vec::new();
        if Bounds::of(self.rows.iter()).is_none() {
            let without = |at: usize| {
                let rows = self.rows.iter().enumerate();
                Bounds::of(rows.filter(|(n, _)| *n != at).map(|(_, row)| row)).is_some()
            };
            let odd: Vec<usize> = (0..self.rows.len()).filter(|at| without(*at)).collect();
            // If two rows do not fit each other, there is no telling which one is wrong.
            match odd.as_slice() {
                [at] if self.rows.len() > 2 => wrong.push(self.rows.remove(*at).line),
                _ => return (self.rows.drain(..).map(|row| row.line).collect(), None),
            }
        }
        let length =
            Bounds::of(self.rows.iter()).and_then(|bounds| bounds.length(self.of_command.map(u128::from)));
        if let Some(Length { samples, us, range }) = length {
            // Half a printed unit, and one unit more if samples and time are not unique.
            let slack = if range.0 == range.1 { 1 } else { 3 };
            // An average that does not follow from the rest of its row is damage as well.
            let fits = |row: &Row| match (row.average_us, row.gets) {
                (Some(average), Some(gets)) => {
                    let by = u128::from(gets) * samples;
                    (2 * us * u128::from(row.held)).abs_diff(2 * u128::from(average) * by) <= slack * by
                }
                _ => true,
            };
            wrong.extend(self.rows.iter().filter(|row| !fits(row)).map(|row| row.line));
            self.rows.retain(fits);
        }
        (wrong, length)
    }
}

/// Bounds of samples, and of microseconds per sample, with which rows could have been printed.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    samples: (u128, u128),
    /// Fractions.
    least: (u128, u128),
    most: (u128, u128),
}

impl Bounds {
    /// None if there are none.
    fn of<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Bounds> {
        let mut bounds: Option<Bounds> = None;
        for row in rows {
            let (held, us, hundredths) = (
                u128::from(row.held),
                u128::from(row.us),
                u128::from(row.hundredths),
            );
            let of_row = Bounds {
                samples: (
                    (20_000 * held).div_ceil(2 * hundredths + 1).max(held),
                    match hundredths {
                        0 => MOST_SAMPLES,
                        _ => 20_000 * held / (2 * hundredths - 1),
                    },
                ),
                least: ((2 * us).saturating_sub(1), 2 * held),
                most: (2 * us + 1, 2 * held),
            };
            let is_less = |(a, b): (u128, u128), (c, d): (u128, u128)| a * d < c * b;
            bounds = Some(match bounds {
                None => of_row,
                Some(all) => Bounds {
                    samples: (
                        all.samples.0.max(of_row.samples.0),
                        all.samples.1.min(of_row.samples.1),
                    ),
                    least: match is_less(all.least, of_row.least) {
                        true => of_row.least,
                        false => all.least,
                    },
                    most: match is_less(of_row.most, all.most) {
                        true => of_row.most,
                        false => all.most,
                    },
                },
            });
            let all = bounds?;
            if all.samples.0 > all.samples.1 || is_less(all.most, all.least) {
                return None;
            }
        }
        bounds
    }

    fn length(mut self, of_command: Option<u128>) -> Option<Length> {
        if let Some(samples) = of_command.filter(|of| (self.samples.0..=self.samples.1).contains(of)) {
            self.samples = (samples, samples);
        }
        let (least, most) = self.samples;
        let first = (least * self.least.0).div_ceil(self.least.1 * TICK_US).max(1);
        let last = most.checked_mul(self.most.0)? / (self.most.1 * TICK_US);
        if last.saturating_sub(first) > MOST_TICKS {
            return None;
        }
        let mut best: Option<Length> = None;
        for us in (first..=last).map(|ticks| ticks * TICK_US) {
            // Numbers of samples for which the time per sample is within the bounds.
            let from = (us * self.most.1).div_ceil(self.most.0).max(least);
            let to = match self.least.0 {
                0 => most,
                by => (us * self.least.1 / by).min(most),
            };
            if from > to {
                continue;
            }
            let samples = roundest(from, to);
            let is_better = best.is_none_or(|best| zeros(samples) > zeros(best.samples));
            let (range, known) = match best {
                None => ((from, to), None),
                Some(best) => ((best.range.0.min(from), best.range.1.max(to)), Some(best)),
            };
            best = Some(match (is_better, known) {
                (false, Some(known)) => Length { range, ..known },
                _ => Length { samples, us, range },
            });
        }
        best
    }
}

/// The number in this range with the most trailing zeros: people type those.
fn roundest(from: u128, to: u128) -> u128 {
    let powers = (0..=15).rev().map(|zeros| 10u128.pow(zeros));
    let mut numbers = powers.map(|power| from.div_ceil(power) * power);
    numbers.find(|number| *number <= to).unwrap_or(from)
}

fn zeros(mut number: u128) -> u32 {
    let mut zeros = 0;
    while number > 0 && number.is_multiple_of(10) {
        number /= 10;
        zeros += 1;
    }
    zeros
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the script prints it.
    fn row(held: u64, gets: u64, samples: u64, hsecs: u64) -> Row {
        let [held_, gets_, samples_, us] = [held, gets, samples, hsecs * 10_000].map(u128::from);
        let rounded = |a: u128, b: u128| u64::try_from((2 * a + b) / (2 * b)).expect("small");
        Row {
            held,
            gets: Some(gets),
            hundredths: rounded(held_ * 10_000, samples_),
            us: rounded(us * held_, samples_),
            average_us: Some(rounded(us * held_, samples_ * gets_)),
            line: held,
            ..Row::default()
        }
    }

    fn run(rows: &[Row]) -> Run {
        let mut run = Run::default();
        for row in rows {
            assert!(run.add(row.clone()));
        }
        run
    }

    #[test]
    fn samples_and_time_are_found_by_what_is_printed() {
        for (samples, hsecs) in [(100_000, 317), (1_000_000, 2_841), (10_000, 33), (123_457, 999)] {
            let rows = [
                row(samples / 3, 17, samples, hsecs),
                row(samples / 11, 400, samples, hsecs),
                row(5, 5, samples, hsecs),
            ];
            let mut run = run(&rows);
            let (wrong, length) = run.solve();
            let length = length.expect("some fit");
            assert!(wrong.is_empty() && run.rows == rows, "{wrong:?}");
            assert!(
                length.range.0 <= u128::from(samples) && u128::from(samples) <= length.range.1,
                "{length:?}"
            );
            // Whatever was found prints the same.
            for printed in &rows {
                let gets = printed.gets.expect("gets");
                let [samples, hsecs] =
                    [length.samples, length.us / TICK_US].map(|n| u64::try_from(n).expect("small"));
                assert_eq!(row(printed.held, gets, samples, hsecs), *printed, "{length:?}");
            }
            run.of_command = Some(samples);
            let (_, length) = run.solve();
            let found = length.map(|of| (of.samples, of.us, of.range));
            let all = u128::from(samples);
            assert_eq!(found, Some((all, u128::from(hsecs) * TICK_US, (all, all))));
        }
    }

    #[test]
    fn a_row_that_does_not_fit_is_taken_out_and_of_two_both() {
        let mut rows = vec![
            row(30_000, 10, 100_000, 300),
            row(20_000, 10, 100_000, 300),
            row(10_000, 10, 100_000, 300),
        ];
        rows[1].us += 100;
        let (wrong, length) = run(&rows).solve();
        assert_eq!(wrong, [20_000]);
        assert!(length.is_some());
        let mut two = run(&rows[..2]);
        assert_eq!(two.solve(), (vec![30_000, 20_000], None));
        rows[1].us -= 100;
        rows[1].average_us = Some(7);
        assert_eq!(run(&rows).solve().0, [20_000]);
    }

    #[test]
    fn what_is_too_small_to_tell_is_not_guessed() {
        let mut few = run(&[Row {
            held: 1,
            us: 0,
            ..Row::default()
        }]);
        assert_eq!(few.solve().1, None);
        for (held, hundredths, us) in [
            (1 << 40, 1 << 40, 1 << 40),
            (1, 1 << 40, 0),
            (1 << 40, 0, 1 << 40),
            (1, 1, 1 << 40),
        ] {
            let _ = run(&[Row {
                held,
                hundredths,
                us,
                ..Row::default()
            }])
            .solve();
        }
    }
}
