//! The exact tier's single events: fetches the kernel's histograms once a second and turns them into rows.
//!
//! The kernel counts a system call once, with the wait event it was made in; here it becomes a row for the system call,
//! one for its part of a wait and, if it read from a file, one for the read.

mod files;
mod wakers;
mod words;

use std::collections::HashMap;

use dbtime_model::latency::{bounds_of, broad_bounds_of, kind, source};
use dbtime_model::{LatencyRow, Rows, SessionId};
use foldhash::fast::RandomState;

use crate::block::operation_of;
use crate::bpf::{
    CommandKey, CommandSums, ExactState, Latency, LatencyKey, OracleProbes, Programs, latency_kind,
    read_source, wait_for_programs,
};
use crate::clock::Clock;
use crate::database::WaitNames;
use crate::{CollectError, devices};
use files::Files;
pub(crate) use wakers::Wakers;
use words::{Word, Words};

/// Events of a session may be fetched from the kernel this long after its end.
const REMEMBER_NS: u64 = 5_000_000_000;

/// See the module.
pub(crate) struct Latencies {
    epoch: u64,
    /// Start of the epoch, CLOCK_MONOTONIC.
    since: u64,
    /// Sessions by pid and start of their task, with the moment from which they may be forgotten.
    sessions: HashMap<(u32, u64), (SessionId, u64)>,
    /// Tasks that have ended since their histograms were last taken.
    ended: Vec<(u32, u64)>,
    files: Files,
    devices: HashMap<u32, String>,
    wakers: Wakers,
}

/// What the events of some rows have in common, apart from how long they took.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RowKey {
    session: SessionId,
    statement: u64,
    plan: i64,
    kind: Word,
    name: Word,
    device: Word,
    source: Word,
    file: Word,
    bytes: u32,
}

/// How long they took, by bucket, in order of the buckets. With many busy sessions all of them together have some hundred thousand.
#[derive(Debug, Default)]
struct Buckets(Vec<(u16, Latency)>);

impl Buckets {
    fn add(&mut self, bucket: u16, latency: &Latency) {
        match self.0.binary_search_by_key(&bucket, |&(bucket, _)| bucket) {
            Ok(at) => {
                let sum = &mut self.0[at].1;
                sum.count += latency.count;
                sum.sum_ns += latency.sum_ns;
                sum.max_ns = sum.max_ns.max(latency.max_ns);
            }
            Err(at) => self.0.insert(at, (bucket, *latency)),
        }
    }
}

impl Latencies {
    /// `server`: the process whose working directory has the files.
    pub(crate) fn new(server: Option<u32>, now: u64) -> Latencies {
        Latencies {
            epoch: 0,
            since: now,
            sessions: HashMap::new(),
            ended: Vec::new(),
            files: Files::new(server),
            devices: HashMap::new(),
            wakers: Wakers::default(),
        }
    }

    /// The server has started again, perhaps on other files.
    pub(crate) fn set_server(&mut self, server: Option<u32>, has_other_files: bool) {
        self.files.set_server(server, has_other_files);
    }

    /// Files for which there was no room among the names.
    pub(crate) fn files_left_out(&self) -> usize {
        self.files.left_out()
    }

    /// Events of this task belong to the session.
    pub(crate) fn know(&mut self, pid: u32, start_ns: u64, session: SessionId) {
        let known = self
            .sessions
            .entry((pid, start_ns))
            .or_insert((session, u64::MAX));
        // A process can become another session.
        if known.0 != session {
            *known = (session, u64::MAX);
        }
    }

    /// The task has ended.
    pub(crate) fn forget(&mut self, pid: u32, start_ns: u64, now: u64) {
        self.ended.push((pid, start_ns));
        if let Some((_, until)) = self.sessions.get_mut(&(pid, start_ns)) {
            *until = now + REMEMBER_NS;
        }
    }

    /// True when a second has passed since the last [`Latencies::take`].
    pub(crate) fn is_due(&self, clock: Clock, now: u64) -> bool {
        now >= clock.next_second(self.since)
    }

    /// Fetches what has arrived since the last call.
    ///
    /// # Errors
    /// A kernel map could not be read or written.
    pub(crate) fn take(
        &mut self,
        programs: &mut Programs,
        probes: Option<&mut OracleProbes>,
        names: &dyn WaitNames,
        clock: Clock,
        now: u64,
        rows: &mut Rows,
    ) -> Result<(), CollectError> {
        let epoch = self.epoch;
        self.epoch += 1;
        programs.set_latency_epoch(self.epoch)?;
        if let Some(probes) = &probes {
            probes.set_latency_epoch(self.epoch)?;
        }
        wait_for_programs();
        let time = clock.second_us(self.since + (now - self.since) / 2);
        self.since = now;
        self.sessions.retain(|_, (_, until)| *until > now);
        let mut sums: HashMap<RowKey, Buckets, RandomState> = HashMap::default();
        let mut words = Words::new(names);
        let plans = &mut programs.plans;
        let mut taken = programs.commands.take(epoch, |key, sums| {
            let executed = plans.of(key.statement);
            add_command(&key, executed, &sums, &mut words, time, rows);
        });
        let mut add = |key: &LatencyKey, latencies: &[(u16, Latency)]| {
            let executed = plans.of(key.statement);
            for row in self.rows_of(key, executed, &mut words) {
                let buckets = sums.entry(row).or_default();
                for (bucket, latency) in latencies {
                    buckets.add(*bucket, latency);
                }
            }
        };
        programs.histograms.take(|growth| {
            add(&growth.key, &split(&growth.buckets, growth.sum_ns, growth.max_ns));
        });
        let mut add_one = |key: LatencyKey, latency| add(&key, &[(key.bucket, latency)]);
        taken = taken.and(programs.latencies.take(epoch, &mut add_one));
        if let Some(probes) = probes {
            taken = taken.and(probes.take(epoch, &mut add_one));
        }
        for &(pid, start_ns) in &self.ended {
            programs
                .histograms
                .release(pid, start_ns)
                .map_err(|e| CollectError::Kernel(format!("BPF map of free histograms: {e}")))?;
        }
        self.ended.clear();
        let more = sums.values().map(|buckets| buckets.0.len()).sum();
        rows.latency.reserve_exact(more);
        for (key, buckets) in sums {
            let row = LatencyRow {
                time,
                session: key.session,
                kind: words.text(key.kind),
                statement: key.statement,
                plan: key.plan,
                name: words.text(key.name),
                device: words.text(key.device),
                bytes: key.bytes.into(),
                source: words.text(key.source),
                file: words.text(key.file),
                ..LatencyRow::default()
            };
            rows.latency.extend(buckets.0.into_iter().map(|(bucket, sum)| {
                let (from_ns, to_ns) = bounds_of(bucket);
                LatencyRow {
                    from_ns,
                    to_ns,
                    count: sum.count,
                    sum_ns: sum.sum_ns,
                    // Two CPUs that add at the same moment may leave the smaller maximum.
                    max_ns: sum.max_ns.clamp(from_ns, to_ns - 1),
                    ..row.clone()
                }
            }));
        }
        taken.map_err(|e| CollectError::Kernel(format!("BPF map of latencies: {e}")))
    }

    /// The rows that an event counts in. `executed`: statement and plan.
    fn rows_of(&mut self, key: &LatencyKey, executed: (u64, i64), words: &mut Words) -> Vec<RowKey> {
        let (statement, plan) = executed;
        let session = self
            .sessions
            .get(&(key.pid, key.start_ns))
            .map_or(SessionId(0), |&(id, _)| id);
        let row = |kind, name| RowKey {
            session,
            statement,
            plan,
            kind,
            name,
            device: Word::EMPTY,
            source: Word::EMPTY,
            file: Word::EMPTY,
            bytes: 0,
        };
        let wait = |words: &mut Words, kind| row(words.of(kind), words.wait(key.name));
        match key.kind {
            latency_kind::WAIT => vec![wait(words, kind::WAIT)],
            latency_kind::SCHED => vec![wait(words, kind::SCHED)],
            latency_kind::ORACLE_WAIT => vec![wait(words, kind::ORACLE_WAIT)],
            latency_kind::ORACLE_WAIT_DB => vec![wait(words, kind::ORACLE_WAIT_DB)],
            latency_kind::WAKER => vec![row(
                words.of(kind::WAKER),
                words.of(&self.wakers.name_of(key.name, "")),
            )],
            latency_kind::BLOCK | latency_kind::BLOCK_QUEUE => {
                let kind = match key.kind {
                    latency_kind::BLOCK => kind::BLOCK,
                    _ => kind::BLOCK_QUEUE,
                };
                vec![RowKey {
                    device: words.of(self.device(key.device)),
                    bytes: key.bytes,
                    ..row(words.of(kind), words.of(operation_of(key.name).as_str()))
                }]
            }
            latency_kind::CALL | latency_kind::READ | latency_kind::READ_ON_CPU => {
                let mut rows = vec![row(words.of(kind::SYSCALL), words.call(key.call))];
                if key.name != 0 {
                    rows.push(wait(words, kind::WAIT_CALL));
                }
                if key.kind != latency_kind::CALL {
                    rows.push(self.read(key, wait(words, kind::READ), words));
                }
                if key.kind == latency_kind::READ_ON_CPU {
                    rows.push(self.read(key, wait(words, kind::READ_CPU), words));
                }
                rows
            }
            latency_kind::COMMAND => vec![row(words.of(kind::COMMAND), Word::EMPTY)],
            latency_kind::READ_CPU => vec![self.read(key, wait(words, kind::READ_CPU), words)],
            latency_kind::READ_QUEUE => vec![self.read(key, wait(words, kind::READ_QUEUE), words)],
            latency_kind::READ_DEVICE => vec![self.read(key, wait(words, kind::READ_DEVICE), words)],
            _ => Vec::new(),
        }
    }

    /// Name of a device, empty for none.
    fn device(&mut self, device: u32) -> &str {
        if device == 0 {
            return "";
        }
        let name = self.devices.entry(device);
        name.or_insert_with(|| devices::name(device))
    }

    fn read(&mut self, key: &LatencyKey, row: RowKey, words: &mut Words) -> RowKey {
        RowKey {
            device: words.of(self.device(key.device)),
            bytes: key.bytes,
            source: words.of(source_name(key.source)),
            file: words.of(self.files.name(key.file_system, key.inode)),
            ..row
        }
    }
}

/// Splits a histogram's sum among its buckets, of which only the counts are known, in proportion to the middle of their
/// bounds: accurate to 0.8 %. The maximum is in the last bucket; if not known, that bucket's bound is used.
fn split(buckets: &[(u16, u64)], sum_ns: u64, max_ns: Option<u64>) -> Vec<(u16, Latency)> {
    let middles = |&(bucket, count): &(u16, u64)| {
        let (from, to) = bounds_of(bucket);
        u128::from(from + (to - 1 - from) / 2) * u128::from(count)
    };
    let all: u128 = buckets.iter().map(middles).sum();
    let last = buckets.last().map(|&(bucket, _)| bucket);
    let (mut before, mut given) = (0, 0);
    let split = buckets.iter().map(|of_bucket| {
        before += middles(of_bucket);
        let until = (u128::from(sum_ns) * before).checked_div(all).unwrap_or(0) as u64;
        let sum_ns = until - given;
        given = until;
        let (bucket, count) = *of_bucket;
        let (from, to) = bounds_of(bucket);
        let latency = Latency {
            count,
            sum_ns,
            max_ns: match max_ns {
                Some(max_ns) if Some(bucket) == last => max_ns.clamp(from, to - 1),
                _ => to - 1,
            },
        };
        (bucket, latency)
    });
    split.collect()
}

/// Adds rows for commands of a statement that took about as long: the total, and where the time went.
fn add_command(
    key: &CommandKey,
    (statement, plan): (u64, i64),
    sums: &CommandSums,
    words: &mut Words,
    time: i64,
    rows: &mut Rows,
) {
    let (from_ns, to_ns) = broad_bounds_of(key.bucket as u16);
    let row = |kind, count, sum_ns| LatencyRow {
        time,
        kind,
        statement,
        plan,
        from_ns,
        to_ns,
        count,
        sum_ns,
        ..LatencyRow::default()
    };
    let whole = words.of(kind::COMMAND_WHOLE);
    rows.latency.push(row(words.text(whole), sums.count, sums.sum_ns));
    let of_part = words.of(kind::COMMAND_PART);
    for part in sums.parts.iter().filter(|part| part.wait != 0) {
        let name = words.wait((part.wait - 1) as u32);
        for (state, &ns) in ExactState::ALL.iter().zip(&part.ns).filter(|(_, ns)| **ns > 0) {
            let state = words.of(state.of_time().as_str());
            rows.latency.push(LatencyRow {
                name: words.text(name),
                source: words.text(state),
                ..row(words.text(of_part), 0, ns)
            });
        }
    }
}

fn source_name(number: u8) -> &'static str {
    match number {
        read_source::PAGE_CACHE => source::PAGE_CACHE,
        read_source::DEVICE => source::DEVICE,
        read_source::AHEAD => source::READAHEAD,
        read_source::OTHER_TASK => source::OTHER_TASK,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use dbtime_model::latency::bucket_of;

    use super::*;

    #[test]
    fn a_sum_is_split_without_remainder_and_each_part_fits_its_bucket() {
        let events = [70u64, 71, 1_000, 1_003, 5_000_000, 0];
        let mut buckets = std::collections::BTreeMap::<u16, (u64, u64)>::new();
        for ns in events {
            let (count, sum) = buckets.entry(bucket_of(ns)).or_default();
            *count += 1;
            *sum += ns;
        }
        let counts: Vec<(u16, u64)> = buckets
            .iter()
            .map(|(&bucket, &(count, _))| (bucket, count))
            .collect();
        let sum = events.iter().sum();
        let parts = split(&counts, sum, Some(5_000_000));
        assert_eq!(parts.iter().map(|(_, l)| l.sum_ns).sum::<u64>(), sum);
        assert_eq!(parts.last().unwrap().1.max_ns, 5_000_000);
        for (bucket, latency) in parts {
            let truth = buckets[&bucket].1;
            assert!(
                latency.sum_ns.abs_diff(truth) <= truth / 60 + 2,
                "{bucket} {latency:?} {truth}"
            );
        }
    }
}
