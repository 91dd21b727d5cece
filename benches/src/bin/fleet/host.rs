//! A host of the fleet: its name, its days, and the identities of its sessions, statements and stacks.

use std::collections::HashMap;

use dbtime_model::{Frame, SessionId, StackId, StackRow, StatementRow, stack_id};
use xxhash_rust::xxh3::xxh3_64;

use crate::shape::Shape;

/// Releases of the server, each built once: hosts of one release have the same stacks.
pub(crate) const RELEASES: [&str; 4] = ["15.14", "16.10", "17.6", "18.1"];
/// Hosts of an application: they have statements of the same text.
const HOSTS_OF_AN_APPLICATION: u32 = 10;
/// One host in this many does something else in the second half of its days.
const CHANGED: u64 = 20;
/// A host has at least this share of a recording's client sessions.
const SMALLEST: f64 = 0.25;

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    /// Its number in the fleet.
    number: u32,
    /// For everything that is random about it.
    seed: u64,
    /// Its name.
    pub(crate) name: String,
    /// Which of [`RELEASES`].
    pub(crate) release: usize,
    /// Statements contain the names of its tables.
    application: u32,
    /// Share of the client sessions that it has.
    share: f64,
    /// Shape of each hour of a day.
    hours: [usize; 24],
    /// From this day on, its days have this shape.
    change: Option<(u32, usize)>,
    /// Where in the recordings it begins, in windows.
    pub(crate) offset: u64,
}

impl Host {
    /// Host `number` of a fleet that lasts this many days.
    pub(crate) fn new(seed: u64, number: u32, shapes: usize, days: u32) -> Host {
        let seed = hash(&[seed, u64::from(number)]);
        let mut random = fastrand::Rng::with_seed(seed);
        let [day, night, batch, changed] = [(); 4].map(|()| random.usize(0..shapes));
        let mut hours = [night; 24];
        hours[8..20].fill(day);
        hours[random.usize(0..24)] = batch;
        Host {
            number,
            seed,
            name: format!("db{number:04}.fleet"),
            release: random.usize(0..RELEASES.len()),
            application: number / HOSTS_OF_AN_APPLICATION,
            share: SMALLEST + (1.0 - SMALLEST) * random.f64(),
            hours,
            change: (random.u64(0..CHANGED) == 0).then_some((days / 2, changed)),
            offset: random.u64(0..1 << 20),
        }
    }

    /// Shape of an hour.
    pub(crate) fn shape(&self, day: u32, hour: u32) -> usize {
        match self.change {
            Some((since, shape)) if day >= since && (8..20).contains(&hour) => shape,
            _ => self.hours[hour as usize % 24],
        }
    }

    /// Whether it has this session of a recording. It has all that are not clients.
    pub(crate) fn has(&self, shape: usize, source: &Shape, session: SessionId) -> bool {
        let Some(row) = source.sessions.get(&session) else {
            return true;
        };
        // A worker is there if its leader is.
        let pid = if row.leader_pid == 0 {
            row.pid
        } else {
            row.leader_pid
        };
        let of_a_client =
            ["client backend", "parallel worker", "unknown"].contains(&row.backend_type.as_str());
        let drawn = hash(&[self.seed, shape as u64, u64::from(pid)]) as f64 / u64::MAX as f64;
        !of_a_client || drawn < self.share
    }

    /// The identity of a session here, in this pass through a recording.
    pub(crate) fn session(&self, shape: usize, source: &Shape, pass: u64, session: SessionId) -> SessionId {
        if session == SessionId::RECORDER {
            return session;
        }
        let pass = if source.begun.contains(&session) { pass } else { 0 };
        SessionId(hash(&[self.seed, shape as u64, pass, session.0]).max(1))
    }

    /// Process id in place of this one.
    pub(crate) fn pid(&self, pid: u32) -> u32 {
        match pid {
            0 => 0,
            pid => 1_000 + (pid + self.number * 7_919) % 4_000_000,
        }
    }

    /// Number of a statement: before PostgreSQL 18 each server has its own.
    pub(crate) fn statement(&self, id: u64) -> u64 {
        let whose = match RELEASES[self.release].starts_with("18") {
            true => u64::from(self.application),
            false => self.seed,
        };
        if id == 0 { 0 } else { hash(&[whose, id]).max(1) }
    }

    /// The statement, with the names of this application.
    pub(crate) fn described(&self, row: &StatementRow) -> StatementRow {
        StatementRow {
            id: self.statement(row.id),
            text: row.text.replace("pgbench_", &format!("app{}_", self.application)),
            ..row.clone()
        }
    }

    /// A random number for a moment, always the same.
    pub(crate) fn drawn(&self, moment: i64) -> f64 {
        hash(&[self.seed, moment.cast_unsigned(), 1]) as f64 / u64::MAX as f64
    }
}

/// Stacks of a shape as a build of the server has them.
#[derive(Debug, Default)]
pub(crate) struct Build {
    /// By their ids in the recording.
    pub(crate) stacks: HashMap<StackId, StackRow>,
}

impl Build {
    /// For one of [`RELEASES`]: functions of programs and libraries are elsewhere.
    pub(crate) fn new(source: &Shape, release: usize) -> Build {
        let moved = |frame: &Frame| {
            let mut frame = frame.clone();
            if !frame.build_id.is_empty() {
                let other = hash(&[xxh3_64(frame.build_id.as_bytes()), release as u64]);
                frame.build_id = format!("{other:016x}{:016x}{:08x}", hash(&[other]), other as u32);
                frame.offset += release as u64 * 4_096;
            }
            frame
        };
        let stacks = source.stacks.iter().map(|(id, row)| {
            let frames: Vec<Frame> = row.frames.iter().map(moved).collect();
            let id_here = stack_id(&frames);
            (*id, StackRow { id: id_here, frames })
        });
        Build {
            stacks: stacks.collect(),
        }
    }

    /// The stack in place of this one.
    pub(crate) fn stack(&self, id: StackId) -> StackId {
        self.stacks.get(&id).map_or(id, |row| row.id)
    }
}

fn hash(of: &[u64]) -> u64 {
    let bytes: Vec<u8> = of.iter().flat_map(|number| number.to_le_bytes()).collect();
    xxh3_64(&bytes)
}
