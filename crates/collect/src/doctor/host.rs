//! The kernel, privileges, and other tracers.

use std::fs;

use super::{Finding, RATE_HZ, Verdict};
use crate::dive::tracer_in_use;
use crate::privilege::{self, TYPE_INFORMATION};
use crate::{CollectError, host, process};

/// Programs that observe others, by the beginnings of their names. Recording works alongside them; their cost is not dbtime's.
const OBSERVERS: [&str; 10] = [
    "perf",
    "bpftrace",
    "trace-cmd",
    "strace",
    "ltrace",
    "gdb",
    "stapio",
    "sysdig",
    "offcputime",
    "dbtime",
];
/// The oldest kernel that has what the BPF programs need.
const OLDEST: (u32, u32) = (5, 18);

pub(super) fn findings() -> Vec<Finding> {
    vec![
        kernel(),
        checked(
            "type information",
            privilege::check_type_information(),
            format!("{TYPE_INFORMATION} exists"),
        ),
        checked(
            "capabilities",
            privilege::check_recording(),
            "all that recording needs".to_string(),
        ),
        checked(
            "process ids",
            privilege::check_pid_namespace(),
            "those of the host".to_string(),
        ),
        lockdown(),
        perf_events(),
        observers(),
    ]
}

/// The result of one of the recorder's checks.
fn checked(about: &'static str, check: Result<(), CollectError>, good: String) -> Finding {
    match check {
        Ok(()) => Finding::good(about, good),
        Err(e) => Finding::new(about, Verdict::Missing, e.to_string()),
    }
}

fn kernel() -> Finding {
    let host = host::description();
    let found = format!("Linux {} {}", host.kernel, host.arch);
    match version(&host.kernel) {
        Some(version) if version < OLDEST => Finding::new("kernel", Verdict::Missing, found).with_remedy(&format!(
            "Linux {}.{} or newer is needed; '--collector proc' records on older ones (sampled, with less detail)",
            OLDEST.0, OLDEST.1
        )),
        _ => Finding::good("kernel", found),
    }
}

/// `6.1.0-18-amd64`: (6, 1).
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn lockdown() -> Finding {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(chosen, _)| chosen);
    match chosen {
        Some("confidentiality") => Finding::new(
            "lockdown",
            Verdict::Missing,
            "confidentiality: the kernel lets no program read its memory",
        )
        .with_remedy("boot with lockdown=integrity or without lockdown"),
        Some(other) => Finding::good("lockdown", other),
        None => Finding::good("lockdown", "none"),
    }
}

fn perf_events() -> Finding {
    const ABOUT: &str = "perf events";
    let Ok(paranoid) = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid") else {
        return Finding::new(
            ABOUT,
            Verdict::Missing,
            "the kernel has none (CONFIG_PERF_EVENTS)",
        );
    };
    let found = format!(
        "kernel.perf_event_paranoid = {}, which does not restrict holders of CAP_PERFMON",
        paranoid.trim()
    );
    match host::too_few_samples(RATE_HZ) {
        Some(less) => Finding::new(ABOUT, Verdict::Less, less)
            .with_remedy("sysctl kernel.perf_event_max_sample_rate=100000"),
        None => Finding::good(ABOUT, found),
    }
}

/// Other tracers: their cost is part of the sessions' times.
fn observers() -> Finding {
    let own = std::process::id();
    let mut found: Vec<String> = process::all()
        .into_iter()
        .filter(|&pid| pid != own && process::parent(pid) != Some(own))
        .filter_map(|pid| Some((pid, process::name(pid)?)))
        .filter(|(_, name)| OBSERVERS.iter().any(|observer| name.starts_with(observer)))
        .map(|(pid, name)| format!("{name} (pid {pid})"))
        .collect();
    found.extend(tracer_in_use().map(|tracer| format!("the top-level trace instance ({tracer})")));
    match found.is_empty() {
        true => Finding::good("other tracers", "none"),
        false => Finding::good("other tracers", found.join(", "))
            .with_remedy("recording works alongside them; their cost is part of the sessions' times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kernels_are_numbers() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.18"), Some((5, 18)));
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert_eq!(version("unknown"), None);
    }
}
