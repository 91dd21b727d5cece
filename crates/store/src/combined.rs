//! The metadata of several recordings, as if they were one.

use std::collections::BTreeMap;

use dbtime_model::recording::{
    Clock, Cost, CoveredPeriod, Gap, Meta, Note, ProgramCost, Quality, SCHEMA_VERSION,
};

use crate::address::Choice;
use crate::manifest::Manifest;
use crate::seams;

/// Metadata of several recordings, which are sorted by start; what differs between them is left empty.
///
/// # Errors
/// They cannot be read as one; says why, and what to do.
pub(crate) fn combined(manifests: &[Manifest], choice: &Choice) -> Result<Meta, String> {
    let Some((first, others)) = manifests.split_first() else {
        return Ok(Meta::default());
    };
    if others.is_empty() {
        return Ok(with_marks(first));
    }
    let unit = first.meta.collector.unit;
    let choose = "choose one of them with recording=";
    for Manifest { meta, .. } in manifests {
        if meta.collector.unit != unit {
            return Err(format!("some count time, others samples; {choose}"));
        }
        if meta.collector.clock != Clock::Utc {
            return Err(format!("some have no time of day; {choose}"));
        }
        if meta.scheduling.is_some() || meta.files.iter().any(|file| file.kernel_trace.is_some()) {
            return Err(format!("some hold single switches or calls; {choose}"));
        }
    }
    let metas: Vec<Meta> = manifests.iter().map(with_marks).collect();
    let metas = metas.as_slice();
    let mut all = metas[0].clone();
    all.schema = SCHEMA_VERSION.to_string();
    all.dbtime = alike(metas, |meta| &meta.dbtime);
    all.start_us = metas.iter().map(|meta| meta.start_us).min().unwrap_or(0);
    all.end_us = metas.iter().map(|meta| meta.end_us).max().unwrap_or(0);
    all.complete = metas.iter().all(|meta| meta.complete);
    let mut cpus: BTreeMap<&str, u32> = BTreeMap::new();
    for Manifest { name, meta, .. } in manifests {
        let most = cpus.entry(name.host.name()).or_default();
        *most = meta.host.cpus.max(*most);
    }
    all.host.name = match cpus.len() {
        1..=4 => cpus.keys().copied().collect::<Vec<&str>>().join(", "),
        hosts => format!("{hosts} hosts"),
    };
    all.host.cpus = cpus.values().copied().fold(0, u32::saturating_add);
    all.host.kernel = alike(metas, |meta| &meta.host.kernel);
    all.host.arch = alike(metas, |meta| &meta.host.arch);
    all.database.product = alike(metas, |meta| &meta.database.product);
    let later = &metas[0].database.later_versions;
    match metas.iter().all(|meta| meta.database.later_versions == *later) {
        true => all.database.version = alike(metas, |meta| &meta.database.version),
        false => all.database.version.clear(),
    }
    if all.database.version.is_empty() {
        all.database.later_versions.clear();
    }
    all.database.data_directory = alike(metas, |meta| &meta.database.data_directory);
    all.database.executable = alike(metas, |meta| &meta.database.executable);
    all.database.target = format!("{} recordings", metas.len());
    all.database.statement_ids = alike(metas, |meta| &meta.database.statement_ids);
    all.database.held_locks = metas.iter().any(|meta| meta.database.held_locks);
    all.database.locks = metas.iter().any(|meta| meta.database.locks);
    all.collector.tier = match alike(metas, |meta| &meta.collector.tier) {
        tier if tier.is_empty() => "mixed".to_string(),
        tier => tier,
    };
    let rate = all.collector.rate_hz;
    if metas.iter().any(|meta| meta.collector.rate_hz != rate) {
        all.collector.rate_hz = 0;
    }
    all.collector.engine = alike(metas, |meta| &meta.collector.engine);
    all.collector.reasons = distinct(metas.iter().flat_map(|meta| &meta.collector.reasons));
    all.collector.resolution_s = most(metas, |meta| meta.collector.resolution_s);
    all.collector.task_counts = metas.iter().any(|meta| meta.collector.task_counts);
    all.collector.flight = alike(metas, |meta| &meta.collector.flight);
    all.quality = quality(metas);
    all.cost = cost(metas);
    all.files = metas.iter().flat_map(|meta| meta.files.clone()).collect();
    // A recording without periods covers all of its time: the periods of the others are not all there is.
    all.periods = match metas.iter().all(|meta| !meta.periods.is_empty()) {
        true => CoveredPeriod::of_several(metas.iter().map(|meta| meta.periods.clone())),
        false => Vec::new(),
    };
    let gaps = seams::gaps(manifests.iter().map(seams::period), 0);
    all.gaps = gaps
        .into_iter()
        .map(|(from_us, to_us)| Gap { from_us, to_us })
        .collect();
    all.notes = metas.iter().flat_map(|meta| meta.notes.clone()).collect();
    let [empty, twice] = seams::notes(manifests, choice);
    all.counted_twice = twice.iter().map(|note| note.text.clone()).collect();
    all.notes.extend(empty.into_iter().chain(twice));
    all.notes.sort_by_key(|note| note.time_us);
    Ok(all)
}

/// The metadata of a recording, with notes of what could not be read when it was put.
fn with_marks(manifest: &Manifest) -> Meta {
    let mut meta = manifest.meta.clone();
    meta.notes.extend(manifest.damaged.iter().map(|what| Note {
        time_us: meta.start_us,
        text: format!("missing in the store, because it could not be read: {what}"),
    }));
    meta
}

/// The text that all have; empty if they differ.
fn alike(metas: &[Meta], text: impl Fn(&Meta) -> &String) -> String {
    let first = text(&metas[0]);
    match metas.iter().all(|meta| text(meta) == first) {
        true => first.clone(),
        false => String::new(),
    }
}

fn distinct<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        if !found.contains(text) {
            found.push(text.clone());
        }
    }
    found
}

fn most<N: Ord + Default>(metas: &[Meta], number: impl Fn(&Meta) -> N) -> N {
    metas.iter().map(number).max().unwrap_or_default()
}

fn quality(metas: &[Meta]) -> Quality {
    metas.iter().fold(Quality::default(), |sum, meta| {
        sum.with(&meta.quality, u64::saturating_add)
    })
}

fn cost(metas: &[Meta]) -> Cost {
    let sum = |number: fn(&Cost) -> u64| {
        let numbers = metas.iter().map(|meta| number(&meta.cost));
        numbers.fold(0, u64::saturating_add)
    };
    let mut programs: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for program in metas.iter().flat_map(|meta| &meta.cost.programs) {
        let (runs, ns) = programs.entry(&program.name).or_default();
        *runs = runs.saturating_add(program.runs);
        *ns = ns.saturating_add(program.ns);
    }
    Cost {
        cpu_ns: sum(|c| c.cpu_ns),
        sampler_cpu_ns: sum(|c| c.sampler_cpu_ns),
        max_rss_bytes: most(metas, |meta| meta.cost.max_rss_bytes),
        bytes_written: sum(|c| c.bytes_written),
        unwind_table_bytes: sum(|c| c.unwind_table_bytes),
        unwind_build_ns: sum(|c| c.unwind_build_ns),
        programs: programs
            .into_iter()
            .map(|(name, (runs, ns))| ProgramCost {
                name: name.to_string(),
                runs,
                ns,
            })
            .collect(),
    }
}
