//! A database server, and what limits a recording of it.

use std::fs;

use super::{Finding, ServerFindings, Verdict, trial};
use crate::executable::Executable;
use crate::postgres::{NO_QUERY_IDS, Server, gives_query_ids};
use crate::small_code::keeps_frame_pointer;
use crate::{Target, process};

/// Functions that every server exports and that call others: their beginnings show whether code keeps frame pointers.
const FUNCTIONS: [&str; 3] = ["PostgresMain", "standard_ExecutorRun", "exec_replication_command"];
/// Bytes of code in which a function sets up its frame.
const BEGINNING: usize = 16;

/// `is_allowed`: whether this host lets anyone record.
pub(super) fn findings(pid: u32, is_allowed: bool) -> ServerFindings {
    let data_directory = Server::data_directory(pid);
    let server = Server::of_backend(pid);
    let mut findings = Vec::new();
    match &server {
        Err(e) => findings.push(Finding::new("server", Verdict::Missing, e.to_string())),
        Ok(_) => {
            if is_allowed {
                findings.extend(trial(Target::Process(pid)));
            }
            let query_ids = query_ids(pid);
            // `query_ids` says it along with the remedy.
            findings.retain(|finding| query_ids.is_none() || finding.found != NO_QUERY_IDS);
            findings.extend(query_ids);
            findings.extend(frame_pointers(pid));
            findings.extend(tracer(pid));
        }
    }
    ServerFindings {
        name: server.map_or_else(
            |_| "PostgreSQL".to_string(),
            |server| format!("PostgreSQL {}", server.version),
        ),
        data_directory: data_directory.to_string_lossy().into_owned(),
        pid,
        findings,
    }
}

/// Whether the server computes query ids; None if that cannot be read.
fn query_ids(pid: u32) -> Option<Finding> {
    let executable = Executable::of(pid).ok()?;
    Some(match gives_query_ids(pid, &executable)? {
        true => Finding::good(
            "query ids",
            "the server computes query ids: time is recorded by query id",
        ),
        false => Finding::new(
            "query ids",
            Verdict::Less,
            "the server computes no query ids: statements are told apart by dbtime's fingerprint of their text",
        )
        .with_remedy("compute_query_id = on (a reload is enough), or pg_stat_statements"),
    })
}

/// Stacks do not need them: this says how they are unwound.
fn frame_pointers(pid: u32) -> Option<Finding> {
    let executable = Executable::of(pid).ok()?;
    let functions = executable.symbols(FUNCTIONS).ok()?;
    let mut beginnings = functions
        .into_iter()
        .flatten()
        .filter_map(|function| executable.bytes(function.offset, BEGINNING).ok())
        .peekable();
    beginnings.peek()?;
    let found = match beginnings.all(|code| keeps_frame_pointer(&code)) {
        true => "the server was built with them",
        false => {
            "the server was built without them, and none are needed: stacks are unwound by tables (.eh_frame)"
        }
    };
    Some(Finding::good("frame pointers", found))
}

/// A traced process (strace, gdb) stops at every system call or signal: its times are the tracer's.
fn tracer(pid: u32) -> Option<Finding> {
    let traced = [pid].into_iter().chain(process::children(pid)).find_map(|pid| {
        let status = fs::read_to_string(process::path(pid, "status")).ok()?;
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
        let tracer: u32 = tracer.trim().parse().ok()?;
        (tracer != 0).then_some((pid, tracer))
    });
    let (pid, tracer) = traced?;
    let name = process::name(tracer).unwrap_or_default();
    Some(
        Finding::new(
            "traced",
            Verdict::Less,
            format!("process {pid} is traced by {name} (pid {tracer}), which keeps stopping it"),
        )
        .with_remedy("end the tracer, or record other sessions"),
    )
}
