//! What transactions may need less of when a load becomes denser: an allowance in the interval, not part of the prediction.
//!
//! Three things make a transaction of a sparse load longer than one of a dense load, and a recording does not show any of them as such.
//! **Sleepers have to be woken**: the time in run queues and the CPU time in a wait event go with the waits; if one event woke several
//! sessions together (a flush of the log, all that waited for it) most of it is the run queue. The recording has it by wait event. **CPUs
//! that do something else meanwhile are cold**: caches, TLBs and branch predictors, and CPUs that had gone to sleep. No recording says how
//! much of the CPU time that is. The less of the time a session runs the more it may be, and it is no more than would keep the CPU time per
//! second unchanged. **The run queue** shrinks as much as the work does.

use std::collections::BTreeMap;

use arcstr::ArcStr;

use super::super::network::{Network, Stage, play};
use super::super::recorded::{Kind, Part, is_called};
use super::super::spec::{Changed, WhatIf};
use super::{Demand, Facts, Fitted, FittedModel, Model, TRANSACTIONS, is_in_event, search};

/// Most CPU time of a transaction that may be due to cold CPUs, seconds: the indirect cost of a context switch is from some microseconds to
/// more than one thousand (Li, Ding and Shen, Quantifying the cost of context switch, 2007).
const MOST_COLD: f64 = 0.001;

/// See the module. Seconds per transaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Denser {
    /// In run queues, from waits that are gone.
    pub(in super::super) run_queue: f64,
    /// CPU time in such waits that the prediction still has.
    pub(in super::super) cpu_of_waits: f64,
    /// By what factor more CPU time per second is wanted than was recorded.
    pub(in super::super) density: f64,
    /// Other CPU time: as predicted, and at least.
    pub(in super::super) cpu: [f64; 2],
    /// Throughput with all of that, relative to that without.
    pub(in super::super) throughput: f64,
    /// The same for the DB time of a transaction.
    pub(in super::super) response: f64,
}

/// The part of a transaction's CPU time that is left.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Eased {
    /// Of all of it.
    warm: f64,
    gone: Gone,
}

impl Eased {
    /// The part that is left of time spent like this.
    pub(super) fn left(&self, part: &Part) -> f64 {
        match part.kind {
            Kind::Cpu => self.warm * (1.0 - self.gone.share(part)),
            _ => 1.0,
        }
    }
}

/// The part of the blocked time in a wait event that is gone, by class and event.
#[derive(Debug, Clone, Default, PartialEq)]
struct Gone(BTreeMap<(ArcStr, ArcStr), f64>);

impl Gone {
    fn of(demands: &[Demand], changes: &[WhatIf]) -> Gone {
        let mut sums: BTreeMap<(&ArcStr, &ArcStr), [f64; 2]> = BTreeMap::new();
        for demand in demands {
            let waits = demand.parts.iter();
            for (part, time) in waits.filter(|(part, _)| matches!(part.kind, Kind::Blocked | Kind::InLine)) {
                let [gone, all] = sums.entry((&part.class, &part.event)).or_default();
                *all += time * demand.transactions;
                if is_gone(part, changes) {
                    *gone += time * demand.transactions;
                }
            }
        }
        let shares = sums.into_iter().filter(|(_, [gone, _])| *gone > 0.0);
        Gone(
            shares
                .map(|((class, event), [gone, all])| ((class.clone(), event.clone()), gone / all))
                .collect(),
        )
    }

    fn share(&self, part: &Part) -> f64 {
        let key = (part.class.clone(), part.event.clone());
        self.0.get(&key).copied().unwrap_or(0.0)
    }

    /// Run-queue time, seconds per transaction, that goes with these waits. Within a flush of the log it is part of the flush.
    fn run_queue(&self, demands: &[Demand]) -> f64 {
        let all: f64 = demands.iter().map(|demand| demand.transactions).sum();
        let of = |demand: &Demand| {
            let parts = demand.parts.iter();
            let queued = parts.filter(|(part, _)| part.kind == Kind::RunQueue && !part.is_flush());
            let time: f64 = queued.map(|(part, time)| time * self.share(part)).sum();
            time * demand.transactions / all
        };
        demands.iter().map(of).sum()
    }
}

/// Whether nobody would wait like this: in an event that is gone, for somebody in such an event, or for a lock that is held for no time.
fn is_gone(part: &Part, changes: &[WhatIf]) -> bool {
    let mut gone = changes.iter().filter(|change| change.factor <= 0.0);
    gone.any(|change| match &change.what {
        Changed::Event(name) => is_in_event(part, name),
        Changed::Hold(name) => part.lock().is_some_and(|lock| is_called(&part.class, lock, name)),
        Changed::Query(_) => false,
    })
}

/// The part that is left, at a density, of this many seconds of CPU per transaction.
fn warm(density: f64, cpu: f64) -> f64 {
    if density <= 1.0 || cpu <= 0.0 {
        return 1.0;
    }
    (1.0 / density).max(1.0 - MOST_COLD / cpu)
}

/// CPU time, seconds per transaction, without flushes of the log.
fn cpu(network: &Network, demands: &[Demand]) -> f64 {
    let all: f64 = demands.iter().map(|demand| demand.transactions).sum();
    let of_client = |stages: &Vec<Stage>| -> f64 {
        let of_stage = |stage: &Stage| match stage {
            Stage::Cpu(seconds) => *seconds,
            _ => 0.0,
        };
        stages.iter().map(of_stage).sum()
    };
    let weights = demands.iter().map(|demand| demand.transactions / all);
    let clients = network.clients.iter().map(of_client);
    clients
        .zip(weights)
        .map(|(seconds, weight)| seconds * weight)
        .sum()
}

impl Model<'_> {
    /// What transactions may need less of if this many times as many are predicted. None: nothing.
    pub(in super::super) fn denser(
        &self,
        of: &FittedModel,
        changes: &[WhatIf],
        times_as_many: f64,
    ) -> Option<Denser> {
        let blocks = self.all_blocks();
        let demands = self.demands(&blocks);
        let facts = self.facts(&blocks);
        let gone = Gone::of(&demands, changes);
        let run_queue = gone.run_queue(&demands);
        let mut eased = Eased { warm: 1.0, gone };
        let network = |fitted: &Fitted, changes: &[WhatIf], eased: Option<&Eased>| {
            self.network(&demands, &facts, fitted, changes, eased)
        };
        let recorded = cpu(&network(&of.fitted, &[], None).0, &demands);
        let (as_predicted, idle) = network(&of.fitted, changes, None);
        let predicted = cpu(&as_predicted, &demands);
        let left = cpu(&network(&of.fitted, changes, Some(&eased)).0, &demands);
        let density = times_as_many * left / recorded.max(1e-12);
        eased.warm = warm(density, left);
        if run_queue <= 0.0 && predicted - left <= 0.0 && eased.warm >= 1.0 {
            return None;
        }
        let fitted = Fitted {
            strangers: self.strangers_without(of, &demands, &facts, run_queue),
            ..of.fitted.clone()
        };
        let plain = play(&as_predicted, of.spread, TRANSACTIONS);
        let (network, idle_then) = network(&fitted, changes, Some(&eased));
        let played = play(&network, of.spread, TRANSACTIONS);
        let response = (played.response - idle_then).max(0.0) / (plain.response - idle).max(1e-12);
        Some(Denser {
            run_queue,
            cpu_of_waits: predicted - left,
            density,
            cpu: [left, left * eased.warm],
            throughput: (played.throughput / plain.throughput.max(1e-12)).max(1.0),
            response: response.min(1.0),
        })
    }

    /// The number of strangers that explains the run queue without what goes with waits that are gone, seconds per transaction.
    fn strangers_without(&self, of: &FittedModel, demands: &[Demand], facts: &Facts, gone: f64) -> f64 {
        if gone <= 0.0 {
            return of.fitted.strangers;
        }
        search([0.0, of.fitted.strangers], facts.run_queue - gone, |strangers| {
            let fitted = Fitted {
                strangers,
                ..of.fitted.clone()
            };
            let (network, _) = self.network(demands, facts, &fitted, &[], None);
            play(&network, of.spread, TRANSACTIONS).run_queue
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: Kind, class: &str, event: &str, root: Option<(&str, &str)>) -> Part {
        Part {
            kind,
            class: class.into(),
            event: event.into(),
            statement: 0,
            root: root.map(|(class, event)| (class.into(), event.into(), 0)),
        }
    }

    /// Two clients, one with twice as many transactions as the other: each waits for its own flush or that of others (three quarters) or
    /// for one that holds the lock and runs (a quarter).
    fn demands() -> Vec<Demand> {
        let of = |transactions: f64, queued: f64| {
            let in_line = |root| part(Kind::InLine, "LWLock", "WALWrite", Some(root));
            let parts = [
                (part(Kind::Blocked, "IO", "WALSync", None), 0.010),
                (part(Kind::RunQueue, "IO", "WALSync", None), 0.000_7),
                (in_line(("IO", "WALSync")), 0.003),
                (in_line(("CPU", "CPU")), 0.001),
                (part(Kind::RunQueue, "LWLock", "WALWrite", None), queued),
                (part(Kind::RunQueue, "CPU", "CPU", None), 0.002),
                (part(Kind::Cpu, "LWLock", "WALWrite", None), 0.000_1),
            ];
            Demand {
                transactions,
                parts: BTreeMap::from(parts),
                ..Demand::default()
            }
        };
        vec![of(20.0, 0.000_4), of(10.0, 0.001)]
    }

    fn changes(text: &str) -> Vec<WhatIf> {
        vec![text.parse().expect("it is right")]
    }

    fn close(found: f64, truth: f64) {
        assert!((found - truth).abs() < 1e-12, "{found} is not {truth}");
    }

    #[test]
    fn what_goes_with_waits_that_are_gone_is_told_by_who_was_waited_for() {
        let demands = demands();
        for change in ["event:IO:WALSync=0", "event:WALSync=0"] {
            let gone = Gone::of(&demands, &changes(change));
            close(gone.share(&part(Kind::Cpu, "IO", "WALSync", None)), 1.0);
            close(gone.share(&part(Kind::Cpu, "LWLock", "WALWrite", None)), 0.75);
            close(gone.share(&part(Kind::Cpu, "CPU", "CPU", None)), 0.0);
            // (2 × 0.4 + 1 × 1) / 3 = 0.6 ms in line, three quarters of it; that of the flush itself is in the flush.
            close(gone.run_queue(&demands), 0.000_45);
        }
        let gone = Gone::of(&demands, &changes("hold:WALWrite=0"));
        close(gone.share(&part(Kind::Cpu, "LWLock", "WALWrite", None)), 1.0);
        close(gone.run_queue(&demands), 0.000_6);
        // A shorter wait needs as many wakeups; and what a removed statement did, others do.
        for change in ["event:IO:WALSync=0.01", "hold:WALWrite=0.5", "query:0=0"] {
            let gone = Gone::of(&demands, &changes(change));
            assert_eq!(gone, Gone::default(), "{change}");
        }
    }

    #[test]
    fn the_denser_the_warmer_but_not_without_end() {
        // As dense, or less.
        close(warm(1.0, 0.000_5), 1.0);
        close(warm(0.4, 0.000_5), 1.0);
        close(warm(4.0, 0.0), 1.0);
        // CPU per second stays the same.
        close(warm(4.0, 0.000_8), 0.25);
        // Of 10 ms no more than one may be due to cold CPUs.
        close(warm(4.0, 0.010), 0.9);
    }

    #[test]
    fn only_cpu_is_left_out_and_by_both() {
        let eased = Eased {
            warm: 0.5,
            gone: Gone::of(&demands(), &changes("event:IO:WALSync=0")),
        };
        close(eased.left(&part(Kind::Cpu, "LWLock", "WALWrite", None)), 0.125);
        close(eased.left(&part(Kind::Cpu, "CPU", "CPU", None)), 0.5);
        close(eased.left(&part(Kind::Blocked, "Timeout", "PgSleep", None)), 1.0);
    }
}
