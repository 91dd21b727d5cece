//! The truth about reads.

use std::collections::BTreeMap;

use serde::Serialize;

use super::MetaJson;
use crate::fields::{ns_as_us as us, timestamp};
use crate::io::{Guess, Guessed, IoReport, ReadCpu, ReadGroups, ReadParts, ReadSource, ReadSums, Reads};
use crate::sums::{FidelityMix, percent};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    meta: MetaJson<'a>,
    from: Option<String>,
    to: Option<String>,
    elapsed_ns: u128,
    io: IoJson<'a>,
    latencies_lost: u64,
    problems: &'a [String],
}

#[derive(Serialize)]
struct IoJson<'a> {
    fidelity: &'static str,
    total: ReadsJson,
    by_event: GroupsJson<EventJson<'a>>,
    waits: WaitsJson,
    by_file_kind: GroupsJson<FileKindJson>,
    by_file: GroupsJson<FileJson<'a>>,
    by_size: GroupsJson<SizeJson>,
    device: DeviceJson<'a>,
    guess: GuessJson,
    cpu: CpuJson<'a>,
}

#[derive(Serialize)]
struct ReadsJson {
    #[serde(flatten)]
    all: ReadSumsJson,
    by_source: Vec<SourceJson>,
}

#[derive(Serialize)]
struct SourceJson {
    source: &'static str,
    #[serde(flatten)]
    sums: ReadSumsJson,
}

#[derive(Serialize)]
struct ReadSumsJson {
    reads: u128,
    bytes: u128,
    sum_us: f64,
    mean_us: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    max_us: Option<f64>,
    percent_of_reads: Option<f64>,
    percent_of_time: Option<f64>,
}

#[derive(Serialize)]
struct GroupsJson<K> {
    groups: Vec<GroupJson<K>>,
    groups_not_shown: usize,
    not_shown: ReadsJson,
}

#[derive(Serialize)]
struct GroupJson<K> {
    #[serde(flatten)]
    key: K,
    #[serde(flatten)]
    reads: ReadsJson,
}

#[derive(Serialize)]
struct EventJson<'a> {
    event: &'a str,
}

/// What the ledger has for these events, including the time before and after the calls.
#[derive(Serialize)]
struct WaitsJson {
    db_time_us: f64,
    run_queue_us: f64,
    reads_us: f64,
}

#[derive(Serialize)]
struct FileKindJson {
    file_kind: &'static str,
}

#[derive(Serialize)]
struct FileJson<'a> {
    file: &'a str,
    file_kind: &'static str,
    relation: Option<&'a str>,
    segments: usize,
}

#[derive(Serialize)]
struct SizeJson {
    size_bytes: u64,
}

#[derive(Serialize)]
struct DeviceJson<'a> {
    #[serde(flatten)]
    total: PartsJson,
    by_device: Vec<DevicePartsJson<'a>>,
    by_size: Vec<SizePartsJson>,
    sizes_not_shown: usize,
}

#[derive(Serialize)]
struct DevicePartsJson<'a> {
    device: &'a str,
    #[serde(flatten)]
    parts: PartsJson,
}

#[derive(Serialize)]
struct SizePartsJson {
    size_bytes: u64,
    #[serde(flatten)]
    parts: PartsJson,
}

#[derive(Serialize)]
struct PartsJson {
    reads: u128,
    total_us: f64,
    queue_us: f64,
    device_us: f64,
    kernel_cpu_us: f64,
    rest_us: f64,
}

#[derive(Serialize)]
struct GuessJson {
    thresholds_us: [u64; 2],
    counts: Vec<GuessedJson>,
    known: u128,
    wrong: u128,
    wrong_percent: Option<f64>,
}

#[derive(Serialize)]
struct GuessedJson {
    guess: &'static str,
    truth: BTreeMap<&'static str, u128>,
}

#[derive(Serialize)]
struct CpuJson<'a> {
    kernel_per_call: Vec<CallJson>,
    calls_not_shown: usize,
    sessions: usize,
    session_reads: u128,
    user_us: f64,
    user_fidelity: Option<&'static str>,
    user_us_per_read: Option<f64>,
    kernel_layers: Vec<LayerJson<'a>>,
    kernel_layers_fidelity: &'static str,
    kernel_layers_us: f64,
    kernel_layers_samples: u128,
    kernel_without_stack_us: f64,
}

#[derive(Serialize)]
struct CallJson {
    size_bytes: u64,
    source: &'static str,
    reads: u128,
    sum_us: f64,
    mean_us: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

#[derive(Serialize)]
struct LayerJson<'a> {
    layer: &'static str,
    us: f64,
    percent: Option<f64>,
    us_per_read: Option<f64>,
    samples: u128,
    functions: Vec<FunctionJson<'a>>,
}

#[derive(Serialize)]
struct FunctionJson<'a> {
    function: &'a str,
    us: f64,
}

impl<'a> From<&'a IoReport> for Document<'a> {
    fn from(report: &'a IoReport) -> Document<'a> {
        let total = &report.total.all;
        let (mut segments, mut relations) = (report.segments.iter(), report.relations.iter());
        Document {
            meta: (&report.meta).into(),
            from: timestamp(report.period.from_us),
            to: timestamp(report.period.to_us),
            elapsed_ns: report.period.elapsed_ns(),
            io: IoJson {
                fidelity: FidelityMix::Exact.as_str(),
                total: reads(&report.total, total),
                by_event: groups(&report.by_event, total, |event| EventJson { event }),
                waits: WaitsJson {
                    db_time_us: us(report.waits.db_time_ns),
                    run_queue_us: us(report.waits.run_queue_ns),
                    reads_us: us(report.waits.reads_ns),
                },
                by_file_kind: groups(&report.by_file_kind, total, |kind| FileKindJson {
                    file_kind: kind.as_str(),
                }),
                by_file: groups(&report.by_file, total, |file| FileJson {
                    file: &file.path,
                    file_kind: file.kind.as_str(),
                    relation: relations.next().and_then(Option::as_deref),
                    segments: segments.next().copied().unwrap_or(0),
                }),
                by_size: groups(&report.by_size, total, |bytes| SizeJson { size_bytes: *bytes }),
                device: device(report),
                guess: guess(&report.guess),
                cpu: cpu(&report.cpu),
            },
            latencies_lost: report.meta.quality.latencies_lost,
            problems: &report.problems,
        }
    }
}

fn reads(reads: &Reads, total: &ReadSums) -> ReadsJson {
    ReadsJson {
        all: sums(&reads.all, total),
        by_source: reads
            .by_source
            .iter()
            .map(|(source, of_source)| SourceJson {
                source: source.as_str(),
                sums: sums(of_source, total),
            })
            .collect(),
    }
}

fn sums(sums: &ReadSums, total: &ReadSums) -> ReadSumsJson {
    let latency = &sums.latency;
    ReadSumsJson {
        reads: latency.count(),
        bytes: sums.bytes,
        sum_us: us(latency.sum_ns()),
        mean_us: latency.mean_us(),
        p50_us: latency.quantile_us(0.5),
        p99_us: latency.quantile_us(0.99),
        max_us: latency.longest_us(),
        percent_of_reads: percent(latency.count(), total.latency.count()),
        percent_of_time: percent(latency.sum_ns(), total.latency.sum_ns()),
    }
}

fn groups<'a, K, J>(
    groups: &'a ReadGroups<K>,
    total: &ReadSums,
    mut key: impl FnMut(&'a K) -> J,
) -> GroupsJson<J> {
    GroupsJson {
        groups: groups
            .top
            .iter()
            .map(|group| GroupJson {
                key: key(&group.key),
                reads: reads(&group.reads, total),
            })
            .collect(),
        groups_not_shown: groups.others,
        not_shown: reads(&groups.others_reads, total),
    }
}

fn device(report: &IoReport) -> DeviceJson<'_> {
    let device = &report.device;
    DeviceJson {
        total: parts(&device.total),
        by_device: device
            .by_device
            .iter()
            .map(|(device, of_device)| DevicePartsJson {
                device,
                parts: parts(of_device),
            })
            .collect(),
        by_size: device
            .by_size
            .iter()
            .map(|(bytes, of_size)| SizePartsJson {
                size_bytes: *bytes,
                parts: parts(of_size),
            })
            .collect(),
        sizes_not_shown: device.sizes_not_shown,
    }
}

fn parts(parts: &ReadParts) -> PartsJson {
    PartsJson {
        reads: parts.reads,
        total_us: us(parts.total_ns),
        queue_us: us(parts.queue_ns),
        device_us: us(parts.device_ns),
        kernel_cpu_us: us(parts.cpu_ns),
        rest_us: parts.rest_ns() as f64 / 1e3,
    }
}

fn guess(guess: &Guess) -> GuessJson {
    let counts = Guessed::ALL.map(|guessed| GuessedJson {
        guess: guessed.as_str(),
        truth: ReadSource::ALL
            .into_iter()
            .map(|source| (source.as_str(), guess.count(guessed, source)))
            .collect(),
    });
    GuessJson {
        thresholds_us: guess.thresholds_us,
        counts: counts.into(),
        known: guess.known(),
        wrong: guess.wrong(),
        wrong_percent: percent(guess.wrong(), guess.known()),
    }
}

fn cpu(cpu: &ReadCpu) -> CpuJson<'_> {
    CpuJson {
        kernel_per_call: cpu
            .calls
            .iter()
            .map(|call| CallJson {
                size_bytes: call.bytes,
                source: call.source.as_str(),
                reads: call.cpu.count(),
                sum_us: us(call.cpu.sum_ns()),
                mean_us: call.cpu.mean_us(),
                p50_us: call.cpu.quantile_us(0.5),
                p99_us: call.cpu.quantile_us(0.99),
            })
            .collect(),
        calls_not_shown: cpu.calls_not_shown,
        sessions: cpu.sessions,
        session_reads: cpu.reads,
        user_us: us(cpu.user_ns),
        user_fidelity: cpu.user_fidelity.map(FidelityMix::as_str),
        user_us_per_read: cpu.per_read(cpu.user_ns).map(us),
        kernel_layers: cpu
            .layers
            .iter()
            .map(|layer| LayerJson {
                layer: layer.layer.as_str(),
                us: us(layer.ns),
                percent: percent(layer.ns, cpu.layers_ns),
                us_per_read: cpu.per_read(layer.ns).map(us),
                samples: layer.samples,
                functions: layer
                    .functions
                    .iter()
                    .map(|(function, ns)| FunctionJson {
                        function,
                        us: us(*ns),
                    })
                    .collect(),
            })
            .collect(),
        kernel_layers_fidelity: FidelityMix::Sampled.as_str(),
        kernel_layers_us: us(cpu.layers_ns),
        kernel_layers_samples: cpu.samples,
        kernel_without_stack_us: us(cpu.without_stack_ns),
    }
}
