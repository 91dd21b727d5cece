//! What a recording says about itself: its description, losses, remarkable events.

use dbtime_model::recording::{CollectorMeta, Cost, DatabaseMeta, Meta, Note, Quality, SCHEMA_VERSION};

use super::{Collector, NoRoomFor};
use crate::bpf::OracleProbes;
use crate::clock::monotonic_ns;
use crate::host;
use crate::lock_requests::LockWatch;
use crate::unwind::Unwinding;

/// Remarkable events that are kept.
const MOST_NOTES: usize = 1_000;

impl Collector {
    /// Description of the recording so far.
    pub fn meta(&mut self) -> Meta {
        self.count_losses();
        let statistics = self.engine.statistics();
        let (frames, unresolved_frames) = self.symbolizer.frame_counts();
        let (names_cpu_ns, names_rss_bytes) = self.symbolizer.cost();
        let unwinding = self
            .unwinding
            .as_ref()
            .map(Unwinding::statistics)
            .unwrap_or_default();
        let described = self.versions.add_to(self.database.describe());
        Meta {
            schema: SCHEMA_VERSION.to_string(),
            dbtime: env!("CARGO_PKG_VERSION").to_string(),
            start_us: self.clock.wall_us(self.start_ns),
            end_us: self.clock.wall_us(self.end_ns.unwrap_or_else(monotonic_ns)),
            complete: false,
            host: host::description(),
            database: DatabaseMeta {
                held_locks: self.lists_locks,
                locks: self.locks.as_ref().is_some_and(LockWatch::has_looked),
                ..described
            },
            collector: CollectorMeta {
                tier: self.options.tier.name().to_string(),
                rate_hz: self.options.rate_hz,
                engine: self.engine.describe().to_string(),
                reasons: self.reasons.clone(),
                resolution_s: self.options.resolution_s,
                task_counts: self.options.task_counts,
                ..CollectorMeta::default()
            },
            segments: Default::default(),
            quality: Quality {
                passes: statistics.passes,
                late_passes: statistics.late,
                frames,
                unresolved_frames,
                unwind_without_room: unwinding.without_room,
                stacks_without_room: self.symbolizer.stacks_without_room(),
                ..self.quality.clone()
            },
            cost: Cost {
                cpu_ns: host::process_cpu_ns().saturating_sub(self.cpu_at_start_ns) + names_cpu_ns,
                sampler_cpu_ns: statistics.cpu_ns,
                max_rss_bytes: host::max_rss_bytes() + names_rss_bytes,
                bytes_written: 0,
                programs: self.engine.costs(),
                unwind_table_bytes: unwinding.table_bytes,
                unwind_build_ns: unwinding.build_ns,
            },
            notes: self.notes.clone(),
            ..Meta::default()
        }
    }

    pub(super) fn count_losses(&mut self) {
        let losses = self.engine.losses();
        let not_recorded = losses.sessions + self.left_out.count();
        if not_recorded > 0 && self.quality.sessions_not_recorded == 0 {
            self.note(format!(
                "more than {} sessions: the others are not recorded",
                self.engine.capacity()
            ));
        }
        if losses.plans > 0 && self.noted.insert(NoRoomFor::Plans) {
            self.note(
                "there are more plans than dbtime can tell apart: those of further statements are not known"
                    .to_string(),
            );
        }
        self.quality.lost = losses.events;
        let (of_probes, without_begin) = self.probes.as_ref().map_or((0, 0), OracleProbes::losses);
        self.quality.latencies_lost = losses.latencies + of_probes + without_begin;
        self.quality.sessions_not_recorded = not_recorded;
        self.quality.failed_passes = self.engine.statistics().failed;
    }

    pub(super) fn note(&mut self, mut text: String) {
        if self.notes.len() >= MOST_NOTES {
            return;
        }
        if self.notes.len() + 1 == MOST_NOTES {
            text.push_str(" (further notes are left out)");
        }
        self.notes.push(Note {
            time_us: self.clock.wall_us(monotonic_ns()),
            text,
        });
    }

    /// Notes when the sampler has not run: what happened in which of these seconds is not known.
    pub(super) fn note_standstill(&mut self) {
        let Some((length, until)) = self.engine.statistics().standstill else {
            return;
        };
        if until != self.stood_still_until {
            self.stood_still_until = until;
            self.note(format!(
                "dbtime did not run for {:.1} s (it was stopped, or the host was): the sessions' times are complete, \
                but spread evenly over these seconds, and samples are missing",
                length as f64 / 1e9
            ));
        }
    }

    /// The scheduler subtracts interrupts (if the kernel accounts for them) and time stolen by a hypervisor from the run time of the task
    /// they hit. Neither is in its run-queue time: it would be mistaken for time blocked.
    pub(super) fn note_time_that_is_not_the_sessions(&mut self) {
        let times = self.host_cpu.since_start();
        let (stolen, all) = (times.interrupts_ns + times.stolen_ns, times.all_ns);
        if all > 0 && stolen * 100 > all {
            self.note(format!(
                "{:.1} % of this host's CPU time went to interrupts or was stolen by the hypervisor: the kernel subtracts it from the run time of the sessions it hit, and it is counted as blocked",
                stolen as f64 * 100.0 / all as f64
            ));
        }
    }
}
