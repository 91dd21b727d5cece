//! Throughput with and without observers, in short phases of one run of pgbench.
//!
//! A pair is off – on – off: the observer is attached between two halves of a phase without it, so that a host that
//! becomes slower or faster at a steady rate does so on both sides of the ratio. In each round every observer has one
//! pair, in random order. What attaching and detaching cost falls between the phases.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::host::cpus;
use crate::load::{IdleSessions, Load, Measured, now_s};
use crate::observer::{Observer, Tier};
use crate::processor;
use crate::server::Server;
use crate::setup::Setup;

/// Share of all CPUs, used by others or stolen, that a quiet host stays below.
const SHARED_ABOVE: f64 = 0.03;

/// One attachment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    /// Who observed.
    pub(crate) observer: Observer,
    /// Throughput without it, before and after.
    pub(crate) off_per_s: f64,
    /// Throughput with it.
    pub(crate) on_per_s: f64,
    /// From its start until it recorded.
    pub(crate) ready_after: Duration,
}

impl Pair {
    /// What is left of the throughput.
    pub(crate) fn ratio(&self) -> f64 {
        self.on_per_s / self.off_per_s
    }
}

/// All that was measured on one server.
#[derive(Debug)]
pub(crate) struct Throughput {
    /// In order of time.
    pub(crate) pairs: Vec<Pair>,
    /// Share of the data in the page cache, before and after.
    pub(crate) cached_share: (f64, f64),
    /// CPU of programs that are not ours, as a share of the host.
    pub(crate) others_share: f64,
    /// CPU taken by the hypervisor, as a share of the host.
    pub(crate) stolen_share: f64,
    /// How long it took.
    pub(crate) elapsed: Duration,
}

impl Throughput {
    /// Whether others took so much of the host that they may explain the ratios.
    pub(crate) fn was_shared(&self) -> bool {
        self.others_share.max(self.stolen_share) > SHARED_ABOVE
    }
}

/// Who is measured, the control first.
pub(crate) fn observers(setup: &Setup) -> Vec<Observer> {
    let mut observers = vec![Observer::Nobody];
    let rates = &setup.arguments.rate;
    for &tier in &setup.arguments.tier {
        // The exact tier's cost is that of its probes: one rate shows it.
        let rates = if tier == Tier::Sampled {
            &rates[..]
        } else {
            &rates[..1]
        };
        observers.extend(rates.iter().map(|&rate_hz| Observer::Dbtime { rate_hz, tier }));
    }
    let has = |tier| setup.arguments.tier.contains(&tier);
    if setup.perf_version.is_some() && has(Tier::Sampled) {
        observers.push(Observer::Perf {
            rate_hz: setup.arguments.perf_rate,
        });
    }
    if setup.has_offcputime && has(Tier::Switch) {
        observers.push(Observer::OffCpuTime);
    }
    if setup.perf_version.is_some() && has(Tier::Calls) {
        observers.push(Observer::PerfTrace);
    }
    observers
}

/// Measures one server.
///
/// # Errors
/// A program failed; or a signal came.
pub(crate) fn measure(server: &Server, setup: &Setup, tell: &mut dyn FnMut(String)) -> Result<Throughput> {
    let arguments = &setup.arguments;
    let settle_s = arguments.settle.as_secs_f64();
    let half_phase = arguments.phase.div_ceil(2);
    let mut random = fastrand::Rng::with_seed(setup.seed);
    let mut observers = observers(setup);

    let _idle = (arguments.idle > 0)
        .then(|| IdleSessions::open(&server.cluster, arguments.idle, setup))
        .transpose()?;
    let cached_before = server.cached_share()?;
    let mut load = Load::start(&server.cluster, setup)?;
    // The sessions' plans and catalogue caches are filled in the first second.
    let mut measured_until_s = now_s() + settle_s;
    let (start, host, ours) = (Instant::now(), processor::host()?, processor::of_ours()?);
    let mut pairs = Vec::new();
    for round in 1..=arguments.pairs {
        random.shuffle(&mut observers);
        for &observer in &observers {
            tell(format!(
                "{}: pair {round} of {}, {observer}",
                server.name, arguments.pairs
            ));
            let before = load.measure(measured_until_s, half_phase, setup)?;
            let attached = observer.attach(&server.cluster, setup)?;
            let ready_after = attached.ready_after;
            let on = load.measure(now_s() + settle_s, arguments.phase, setup)?;
            // The files go at once: removing them later could fall into a phase.
            drop(attached.detach()?);
            let after: Measured = load.measure(now_s() + settle_s, half_phase, setup)?;
            measured_until_s = after.end_s;
            pairs.push(Pair {
                observer,
                off_per_s: before.and(after).transactions_per_s(),
                on_per_s: on.transactions_per_s(),
                ready_after,
            });
        }
    }
    let elapsed = start.elapsed();
    let capacity_s = elapsed.as_secs_f64() * cpus() as f64;
    let host_now = processor::host()?;
    let busy = (host_now.busy - host.busy).as_secs_f64();
    let ours = processor::of_ours()?.saturating_sub(ours).as_secs_f64();
    Ok(Throughput {
        pairs,
        cached_share: (cached_before, server.cached_share()?),
        others_share: (busy - ours).max(0.0) / capacity_s,
        stolen_share: (host_now.stolen - host.stolen).as_secs_f64() / capacity_s,
        elapsed,
    })
}
