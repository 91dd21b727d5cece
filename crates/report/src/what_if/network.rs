//! Replays a closed load: a fixed number of clients, each of which thinks, works, waits for others and starts over.
//!
//! Three things make a client wait for others. **CPUs** are shared evenly among those that want one, with a constant number of strangers
//! among them. A **lock** is held by one at a time, the others queue. A **flush of the log** serves all who had come when it began;
//! latecomers wait for the next one (PostgreSQL: `XLogFlush` writes all that is there).
//!
//! Times are in seconds. The seed is fixed: equal input gives equal answers.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

const SEED: u64 = 0x6462_7469_6d65;
/// Percentage of the replayed transactions that is warm-up and does not count.
const WARM_UP_PERCENT: usize = 20;
/// The standard deviation of a normal distribution, in median absolute deviations.
const DEVIATION: f64 = 1.482_6;
/// Most intervals in which transactions are counted; later ones are ignored.
const MOST_STRETCHES: usize = 10_000;

/// A step of a client's transaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stage {
    /// Time that does not depend on others. As the first stage: think time.
    Delay(f64),
    /// CPU work.
    Cpu(f64),
    /// Waits for this lock, and takes it.
    Acquire(usize),
    /// Releases it.
    Release(usize),
    /// Waits until the log is flushed.
    Flush,
}

/// Clients and resources.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Network {
    /// The stages of each client's transaction; the first one is its think time.
    pub(super) clients: Vec<Vec<Stage>>,
    pub(super) locks: usize,
    pub(super) cpus: f64,
    /// Mean number of others that want a CPU all the time.
    pub(super) strangers: f64,
    /// Length of one flush of the log.
    pub(super) flush: f64,
    /// Length of the intervals in which transactions are counted.
    pub(super) window: f64,
}

/// How much individual durations vary around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    /// Hardly.
    Even,
    /// Like those of independent events (exponential).
    Random,
}

impl Spread {
    pub(super) const ALL: [Spread; 2] = [Spread::Even, Spread::Random];

    fn draw(self, mean: f64, random: &mut fastrand::Rng) -> f64 {
        match self {
            // A little, so that clients do not run in lockstep.
            Spread::Even => mean * (0.9 + 0.2 * random.f64()),
            Spread::Random => -mean * (1.0 - random.f64()).ln(),
        }
    }
}

/// The result, per transaction, in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Played {
    /// Transactions per second, of all clients.
    pub(super) throughput: f64,
    /// From the end of thinking to the end of the transaction.
    pub(super) response: f64,
    /// Waiting for a CPU.
    pub(super) run_queue: f64,
    /// Waiting for a flush of the log and taking part in it.
    pub(super) flush: f64,
    /// Part of the time in which the log was being flushed.
    pub(super) flush_busy: f64,
    /// Flushes of the log per second.
    pub(super) flushes: f64,
    /// Waiting for each lock.
    pub(super) waited: Vec<f64>,
    /// How much the number of transactions varies between intervals: [`dispersion`].
    pub(super) dispersion: f64,
}

/// Index of dispersion of counts: their variance divided by what is expected, which is 0 for evenly spaced events and 1 for independent
/// ones (Cox and Lewis, The Statistical Analysis of Series of Events, 1966). By the median deviation: a count that was made late says
/// little about the load. `counts`: each with what is expected.
pub(super) fn dispersion(counts: impl Iterator<Item = (f64, f64)>) -> f64 {
    let counts: Vec<(f64, f64)> = counts.filter(|(_, expected)| *expected > 0.0).collect();
    let mut off: Vec<f64> = counts
        .iter()
        .map(|(count, expected)| (count - expected).abs())
        .collect();
    off.sort_by(f64::total_cmp);
    let Some(median) = off.get(off.len() / 2) else {
        return 0.0;
    };
    let expected = counts.iter().map(|(_, expected)| expected).sum::<f64>() / counts.len() as f64;
    (DEVIATION * median).powi(2) / expected
}

/// When a client finishes something that it does on its own.
#[derive(Debug, PartialEq)]
struct Due(f64, usize);

impl Eq for Due {}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug, Clone)]
struct Client {
    stage: usize,
    /// When the current stage began.
    since: f64,
    /// When it finished thinking.
    began: f64,
    work: f64,
}

#[derive(Debug, Default)]
struct Lock {
    is_held: bool,
    line: VecDeque<usize>,
}

struct Play<'a> {
    network: &'a Network,
    spread: Spread,
    random: fastrand::Rng,
    now: f64,
    clients: Vec<Client>,
    due: BinaryHeap<Due>,
    /// With the remaining work.
    running: Vec<(usize, f64)>,
    locks: Vec<Lock>,
    flush_ends: Option<f64>,
    flushed: Vec<usize>,
    to_flush: Vec<usize>,
    /// Sums since the warm-up.
    sums: Played,
    /// End of the warm-up.
    counted_from: f64,
    /// Transactions by interval since then.
    counts: Vec<u32>,
    ended: usize,
}

/// Replays this many transactions.
pub(super) fn play(network: &Network, spread: Spread, transactions: usize) -> Played {
    let clients = network.clients.len();
    let mut play = Play {
        network,
        spread,
        random: fastrand::Rng::with_seed(SEED),
        now: 0.0,
        clients: vec![
            Client {
                stage: 0,
                since: 0.0,
                began: 0.0,
                work: 0.0
            };
            clients
        ],
        due: BinaryHeap::new(),
        running: Vec::new(),
        locks: (0..network.locks).map(|_| Lock::default()).collect(),
        flush_ends: None,
        flushed: Vec::new(),
        to_flush: Vec::new(),
        sums: Played {
            waited: vec![0.0; network.locks],
            ..Played::default()
        },
        counted_from: 0.0,
        counts: Vec::new(),
        ended: 0,
    };
    for client in 0..clients {
        play.begin(client);
    }
    let warm_up = transactions * WARM_UP_PERCENT / 100;
    let mut is_warm = false;
    while play.ended < transactions && play.step() {
        if !is_warm && play.ended >= warm_up {
            is_warm = true;
            play.counted_from = play.now;
            play.counts.clear();
            play.sums = Played {
                waited: vec![0.0; network.locks],
                ..Played::default()
            };
        }
    }
    let length = play.now - play.counted_from;
    let counted = play.ended.saturating_sub(warm_up).max(1) as f64;
    let throughput = if length > 0.0 { counted / length } else { 0.0 };
    // The last interval is not complete.
    play.counts.pop();
    let expected = throughput * network.window;
    let counts = play.counts.iter().map(|count| (f64::from(*count), expected));
    let dispersion = dispersion(counts);
    let sums = play.sums;
    Played {
        throughput,
        dispersion,
        response: sums.response / counted,
        run_queue: sums.run_queue / counted,
        flush: sums.flush / counted,
        flush_busy: if length > 0.0 {
            sums.flush_busy / length
        } else {
            0.0
        },
        flushes: if length > 0.0 { sums.flushes / length } else { 0.0 },
        waited: sums.waited.iter().map(|seconds| seconds / counted).collect(),
    }
}

impl Play<'_> {
    /// Speed of each client that has CPU work.
    fn rate(&self) -> f64 {
        let wanted = self.running.len() as f64 + self.network.strangers;
        (self.network.cpus / wanted).min(1.0)
    }

    /// Advances to the next moment at which something ends; false when there is none.
    fn step(&mut self) -> bool {
        let rate = self.rate();
        let least = self.running.iter().map(|(_, left)| *left).min_by(f64::total_cmp);
        let moments = [
            self.due.peek().map(|due| due.0),
            least.map(|left| self.now + left / rate),
            self.flush_ends,
        ];
        let Some(next) = moments.into_iter().flatten().min_by(f64::total_cmp) else {
            return false;
        };
        let work = (next - self.now) * rate;
        self.now = next;
        for (_, left) in &mut self.running {
            *left -= work;
        }
        if self.flush_ends.is_some_and(|end| end <= next) {
            self.end_of_flush();
        }
        // Rounding must not keep a client from finishing.
        let epsilon = 1e-12 + next * 1e-15;
        let mut place = 0;
        while place < self.running.len() {
            if self.running[place].1 <= epsilon {
                let (client, _) = self.running.swap_remove(place);
                let one = &self.clients[client];
                self.sums.run_queue += (self.now - one.since - one.work).max(0.0);
                self.advance(client);
            } else {
                place += 1;
            }
        }
        while self.due.peek().is_some_and(|due| due.0 <= next) {
            if let Some(Due(_, client)) = self.due.pop() {
                self.advance(client);
            }
        }
        true
    }

    /// A client has finished its stage.
    fn advance(&mut self, client: usize) {
        let stages = self.network.clients[client].len();
        let one = &mut self.clients[client];
        if one.stage == 0 {
            one.began = self.now;
        }
        one.stage += 1;
        if one.stage == stages {
            one.stage = 0;
            self.sums.response += self.now - one.began;
            self.ended += 1;
            self.count();
        }
        self.begin(client);
    }

    /// Counts a transaction that ends now.
    fn count(&mut self) {
        let stretch = ((self.now - self.counted_from) / self.network.window) as usize;
        if stretch < MOST_STRETCHES {
            if self.counts.len() <= stretch {
                self.counts.resize(stretch + 1, 0);
            }
            self.counts[stretch] += 1;
        }
    }

    /// Starts the current stage.
    fn begin(&mut self, client: usize) {
        self.clients[client].since = self.now;
        match self.network.clients[client][self.clients[client].stage] {
            Stage::Delay(mean) => {
                let length = self.spread.draw(mean, &mut self.random);
                self.due.push(Due(self.now + length, client));
            }
            Stage::Cpu(mean) => {
                let work = self.spread.draw(mean, &mut self.random);
                self.clients[client].work = work;
                self.running.push((client, work));
            }
            Stage::Acquire(lock) => {
                let lock = &mut self.locks[lock];
                if lock.is_held {
                    lock.line.push_back(client);
                } else {
                    lock.is_held = true;
                    self.due.push(Due(self.now, client));
                }
            }
            Stage::Release(lock) => {
                match self.locks[lock].line.pop_front() {
                    None => self.locks[lock].is_held = false,
                    Some(next) => {
                        self.sums.waited[lock] += self.now - self.clients[next].since;
                        self.due.push(Due(self.now, next));
                    }
                }
                self.due.push(Due(self.now, client));
            }
            Stage::Flush => {
                self.to_flush.push(client);
                if self.flush_ends.is_none() {
                    self.begin_flush();
                }
            }
        }
    }

    fn begin_flush(&mut self) {
        let length = self.spread.draw(self.network.flush, &mut self.random);
        self.sums.flush_busy += length;
        self.sums.flushes += 1.0;
        self.flush_ends = Some(self.now + length);
        std::mem::swap(&mut self.flushed, &mut self.to_flush);
    }

    fn end_of_flush(&mut self) {
        self.flush_ends = None;
        let done = std::mem::take(&mut self.flushed);
        if !self.to_flush.is_empty() {
            self.begin_flush();
        }
        for client in done {
            self.sums.flush += self.now - self.clients[client].since;
            self.advance(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: usize = 40_000;

    fn network(clients: usize, stages: &[Stage]) -> Network {
        Network {
            clients: vec![stages.to_vec(); clients],
            locks: 1,
            cpus: 2.0,
            strangers: 0.0,
            flush: 0.0,
            window: 1.0,
        }
    }

    fn close(found: f64, truth: f64, part: f64) {
        assert!((found / truth - 1.0).abs() < part, "{found} is not {truth}");
    }

    /// The machine repairman: N machines run for a mean time Z and are repaired by one man in a mean time S. Its throughput by mean
    /// value analysis, exact for exponential times: R(n) = S (1 + Q(n-1)), X(n) = n / (Z + R(n)), Q(n) = X(n) R(n).
    fn repairman(clients: u32, think: f64, service: f64) -> f64 {
        let (mut throughput, mut queue) = (0.0, 0.0);
        for n in 1..=clients {
            let response = service * (1.0 + queue);
            throughput = f64::from(n) / (think + response);
            queue = throughput * response;
        }
        throughput
    }

    #[test]
    fn a_lock_that_is_held_for_a_random_time_is_the_machine_repairman() {
        for (clients, think, service) in [
            (1, 0.05, 0.01),
            (4, 0.05, 0.01),
            (8, 0.05, 0.01),
            (20, 0.05, 0.01),
            (6, 0.002, 0.01),
        ] {
            let stages = [
                Stage::Delay(think),
                Stage::Acquire(0),
                Stage::Delay(service),
                Stage::Release(0),
            ];
            let played = play(&network(clients as usize, &stages), Spread::Random, ENOUGH);
            let throughput = repairman(clients, think, service);
            close(played.throughput, throughput, 0.02);
            // Little's law: every client is somewhere.
            close(
                (think + played.response) * played.throughput,
                f64::from(clients),
                0.02,
            );
            let waited = f64::from(clients) / throughput - think - service;
            assert!(
                (played.waited[0] - waited).abs() < 0.03 * (waited + service),
                "{played:?}"
            );
        }
    }

    #[test]
    fn who_never_thinks_waits_for_all_others_whatever_the_spread() {
        for spread in Spread::ALL {
            let stages = [
                Stage::Delay(0.0),
                Stage::Acquire(0),
                Stage::Delay(0.01),
                Stage::Release(0),
            ];
            let played = play(&network(5, &stages), spread, ENOUGH);
            close(played.throughput, 100.0, 0.02);
            close(played.response, 0.05, 0.02);
            close(played.waited[0], 0.04, 0.02);
        }
    }

    #[test]
    fn cpus_give_what_they_have() {
        let stages = [Stage::Delay(0.0), Stage::Cpu(0.01)];
        // Fewer clients than CPUs: no queue. More: two hundred a second.
        close(
            play(&network(1, &stages), Spread::Random, ENOUGH).throughput,
            100.0,
            0.02,
        );
        let full = play(&network(6, &stages), Spread::Random, ENOUGH);
        close(full.throughput, 200.0, 0.02);
        close(full.run_queue, 0.02, 0.03);
        // Two clients with two strangers get half of the CPUs.
        let mut shared = network(2, &stages);
        shared.strangers = 2.0;
        close(play(&shared, Spread::Even, ENOUGH).throughput, 100.0, 0.02);
    }

    #[test]
    fn random_thinking_and_one_cpu_are_the_repairman_too() {
        let mut one = network(7, &[Stage::Delay(0.04), Stage::Cpu(0.01)]);
        one.cpus = 1.0;
        // Processor sharing and a queue have the same throughput if times are exponential.
        close(
            play(&one, Spread::Random, ENOUGH).throughput,
            repairman(7, 0.04, 0.01),
            0.02,
        );
    }

    #[test]
    fn transactions_come_as_evenly_as_what_they_wait_for() {
        let stages = [
            Stage::Delay(0.02),
            Stage::Acquire(0),
            Stage::Delay(0.01),
            Stage::Release(0),
        ];
        let of = |spread| play(&network(5, &stages), spread, ENOUGH).dispersion;
        let (even, random) = (of(Spread::Even), of(Spread::Random));
        // With hardly any idle time, transactions end one after the other: as a Poisson process if each takes a random time.
        assert!(even < 0.1, "{even}");
        assert!((0.5..1.5).contains(&random), "{random}");
        // One count in ten is off, like one that was made a second late.
        let late = [100.0, 100.0, 20.0, 180.0].into_iter().chain([100.0; 16]);
        assert!(dispersion(late.map(|count| (count, 100.0))) < 0.01);
        let poisson = [90.0, 110.0].into_iter().cycle().take(20);
        assert!((1.0..3.0).contains(&dispersion(poisson.map(|count| (count, 100.0)))));
        assert!(dispersion(std::iter::empty()) < 0.01);
    }

    #[test]
    fn a_flush_serves_all_who_came_before_it() {
        let stages = [Stage::Delay(0.0), Stage::Flush];
        let mut log = network(1, &stages);
        log.flush = 0.01;
        close(play(&log, Spread::Even, ENOUGH).throughput, 100.0, 0.02);
        // Clients that return at once miss at most the flush that starts as theirs ends: two flushes a commit for all but the first.
        log.clients = vec![vec![Stage::Delay(0.000_1), Stage::Flush]; 10];
        let played = play(&log, Spread::Even, ENOUGH);
        assert!(played.flush_busy > 0.97, "{played:?}");
        close(played.flushes, 100.0, 0.05);
        close(played.flush, 0.02, 0.06);
        close(played.throughput, 500.0, 0.06);
    }
}
