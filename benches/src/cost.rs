//! What the recorder itself uses: CPU, memory and disk of recordings of some length.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dbtime_model::recording::{Meta, Recording};

use crate::load::{IdleSessions, Load};
use crate::observer::{Observer, Tier};
use crate::processor;
use crate::program::Usage;
use crate::server::Server;
use crate::setup::Setup;

/// Name of the recorder's thread that samples the sessions that are not running.
const SAMPLER_THREAD: &str = "dbtime-sampler";

/// A recording and what it used.
#[derive(Debug)]
pub(crate) struct Cost {
    /// Client sessions of the server, of which [`crate::arguments::Arguments::clients`] were active.
    pub(crate) sessions: u32,
    /// Sampling rate.
    pub(crate) rate_hz: u32,
    /// From the moment it recorded until it was told to end.
    pub(crate) elapsed: Duration,
    /// In that time, from /proc/PID/stat: without start-up and end.
    pub(crate) process_cpu: Duration,
    /// In that time, by the sampler thread, from the scheduler.
    pub(crate) sampler_cpu: Option<Duration>,
    /// From start to end of the process, from wait4.
    pub(crate) usage: Usage,
    /// From the start of the process until it recorded.
    pub(crate) ready_after: Duration,
    /// Size of the recording.
    pub(crate) bytes: u64,
    /// What the recording says about itself.
    pub(crate) meta: Meta,
}

impl Cost {
    /// CPU while recording, as a share of one core.
    pub(crate) fn core_share(&self) -> f64 {
        self.process_cpu.as_secs_f64() / self.elapsed.as_secs_f64()
    }
}

/// Measures each rate with only the active sessions, and the first rate also with many idle ones.
///
/// # Errors
/// A program failed; or a signal came.
pub(crate) fn measure(server: &Server, setup: &Setup, tell: &mut dyn FnMut(String)) -> Result<Vec<Cost>> {
    let arguments = &setup.arguments;
    let _load = Load::start(&server.cluster, setup)?;
    let mut costs = Vec::new();
    for &rate_hz in &arguments.rate {
        costs.push(record(server, arguments.clients, rate_hz, setup, tell)?);
    }
    let idle = arguments.sessions.saturating_sub(arguments.clients);
    if let (Some(&rate_hz), 1..) = (arguments.rate.first(), idle) {
        let _idle = IdleSessions::open(&server.cluster, idle, setup)?;
        costs.push(record(server, arguments.sessions, rate_hz, setup, tell)?);
    }
    Ok(costs)
}

fn record(
    server: &Server,
    sessions: u32,
    rate_hz: u32,
    setup: &Setup,
    tell: &mut dyn FnMut(String),
) -> Result<Cost> {
    tell(format!("recording {sessions} sessions at {rate_hz} Hz"));
    let observer = Observer::Dbtime {
        rate_hz,
        tier: Tier::Sampled,
    };
    let attached = observer.attach(&server.cluster, setup)?;
    let pid = attached.pid().context("dbtime runs")?;
    let ready_after = attached.ready_after;
    let cpu = || -> Result<(Duration, Option<Duration>)> {
        let process = processor::of_process(pid).context("dbtime has ended")?;
        Ok((process, processor::of_threads(pid, SAMPLER_THREAD)))
    };
    let start = Instant::now();
    let (process_before, sampler_before) = cpu()?;
    setup.stop.sleep(setup.arguments.recording)?;
    let (process_after, sampler_after) = cpu()?;
    let elapsed = start.elapsed();
    let (usage, files) = attached.detach()?;
    Ok(Cost {
        sessions,
        rate_hz,
        elapsed,
        process_cpu: process_after - process_before,
        sampler_cpu: sampler_after
            .zip(sampler_before)
            .map(|(after, before)| after - before),
        usage: usage.context("dbtime ran")?,
        ready_after,
        bytes: files.bytes()?,
        meta: Recording::open(&files.output())?.meta().clone(),
    })
}
