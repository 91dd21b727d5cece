//! `dbtime store`: recordings of many hosts in one place.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use dbtime_model::recording::Recording;
use dbtime_report::shell_word;
use dbtime_store::{Address, Listing, Outcome, Put, PutOptions, RecordingListing, Store};
use serde::Serialize;

use crate::exit_code::{FAILED, NOTHING_RECORDED, WRONG_USAGE};
use crate::memory;
use crate::options::time::parse_age;
use crate::options::{AnswerFormat, TableFormat};
use crate::output::{self, say, say_lines};
use crate::reading::of_store;

/// `dbtime store`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dbtime store put slow.dbt /srv/fleet\n  dbtime store put *.dbt s3://bucket/fleet\n  dbtime store list s3://bucket/fleet\n  \
    dbtime report s3://bucket/fleet --host db1 --from 2026-10-10T12:00:00Z --to 2026-10-10T13:00:00Z\n  \
    dbtime diff '/srv/fleet?host=db1&from=2026-10-09&to=2026-10-10' '/srv/fleet?host=db1&from=2026-10-10'"
)]
pub struct StoreArguments {
    /// What to do with it
    #[command(subcommand)]
    command: StoreCommand,
}

/// The subcommands of `dbtime store`.
#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Put recordings into a store; one that it already has, in this or an earlier state, is not duplicated
    Put(StorePutArguments),
    /// Show what is in a store: hosts, recordings, periods, sizes, gaps
    List(StoreListArguments),
    /// Remove old recordings of a host
    Prune(StorePruneArguments),
    /// Make recordings that an older dbtime has put visible to ready queries; existing files are not changed
    Upgrade(StoreUpgradeArguments),
}

/// `dbtime store put`
#[derive(Debug, Args)]
#[command(after_help = "Example: dbtime store put slow.dbt s3://bucket/fleet\n\n\
    The credentials of S3 come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY …) or from ~/.aws/credentials.")]
struct StorePutArguments {
    /// Recordings, followed by the store: a directory, file:///PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; created if it does not exist
    #[arg(value_names = ["RECORDING", "STORE"], num_args = 2.., required = true)]
    paths: Vec<PathBuf>,
    /// Name of the host in the store [default: as the recording says]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Put what can be read of damaged recordings; reports from the store say what is missing
    #[arg(long)]
    damaged: bool,
}

/// `dbtime store prune`
#[derive(Debug, Args)]
#[command(after_help = "Example: dbtime store prune s3://bucket/fleet --host db1 --older-than 30d")]
struct StorePruneArguments {
    /// The store
    #[arg(value_name = "STORE")]
    store: PathBuf,
    /// Host whose recordings are removed; the newest one is kept
    #[arg(long, value_name = "NAME")]
    host: String,
    /// Remove those that ended longer ago than this: 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    older_than: Duration,
}

/// `dbtime store upgrade`
#[derive(Debug, Args)]
#[command(after_help = "Example: dbtime store upgrade s3://bucket/fleet")]
struct StoreUpgradeArguments {
    /// The store
    #[arg(value_name = "STORE")]
    store: PathBuf,
}

/// `dbtime store list`
#[derive(Debug, Args)]
#[command(after_help = "Example: dbtime store list s3://bucket/fleet")]
struct StoreListArguments {
    /// The store, or a part of it: STORE?host=db1&from=2026-10-10
    #[arg(value_name = "STORE")]
    store: PathBuf,
    /// For whom
    #[command(flatten)]
    answer: AnswerFormat,
}

/// Runs the subcommand.
///
/// # Errors
/// The store cannot be read or written.
pub(super) fn run(arguments: &StoreArguments) -> anyhow::Result<ExitCode> {
    memory::bound(None);
    match &arguments.command {
        StoreCommand::Put(arguments) => put(arguments),
        StoreCommand::List(arguments) => list(arguments),
        StoreCommand::Prune(arguments) => prune(arguments),
        StoreCommand::Upgrade(arguments) => upgrade(arguments),
    }
}

fn put(arguments: &StorePutArguments) -> anyhow::Result<ExitCode> {
    let Some((store, recordings)) = arguments.paths.split_last() else {
        return Ok(ExitCode::from(WRONG_USAGE));
    };
    let address = Address::to_put(store.as_os_str()).map_err(of_store)?;
    let options = PutOptions {
        host: arguments.host.clone(),
        damaged: arguments.damaged,
    };
    let mut code = ExitCode::SUCCESS;
    // One that cannot be put does not prevent the others.
    let mut failed = |e: &dyn std::fmt::Display| {
        say_lines(format_args!("dbtime: {e}"));
        code = ExitCode::from(FAILED);
    };
    // What cannot be read is reported before a store is created for it.
    let mut opened = Vec::with_capacity(recordings.len());
    for path in recordings {
        match Recording::open(path) {
            Ok(recording) => opened.push((path.display().to_string(), recording)),
            Err(e) => failed(&e),
        }
    }
    if opened.is_empty() {
        return Ok(code);
    }
    let store = Store::open_or_make(&address).map_err(of_store)?;
    for (path, recording) in &opened {
        match store.put(recording, path, &options) {
            Ok(put) => tell(path, &address, &put),
            Err(e) => failed(&e),
        }
    }
    Ok(code)
}

fn tell(path: &str, store: &Address, put: &Put) {
    let mb = put.bytes as f64 / 1e6;
    match put.outcome {
        Outcome::Stored => say(format_args!(
            "put {path} into {store}: {} files of {mb:.1} MB; see it with 'dbtime report {} --host {}'",
            put.files,
            shell_word(&store.to_string()),
            shell_word(&put.host)
        )),
        Outcome::WasThere => say(format_args!("{path} is already in {store}, unchanged")),
        Outcome::LaterIsThere => say(format_args!(
            "{path}: {store} already has a later state of this recording, which is kept"
        )),
    }
    if !put.complete {
        say(format_args!(
            "note: {path} has not ended, or its recorder was killed: when it has grown, put it again to replace this state"
        ));
    }
    for what in &put.damaged {
        say(format_args!("note: missing in {store}: {what}"));
    }
}

fn list(arguments: &StoreListArguments) -> anyhow::Result<ExitCode> {
    let address = Address::to_list(arguments.store.as_os_str()).map_err(of_store)?;
    let store = Store::open(&address).map_err(of_store)?;
    let listing = store.list(&address.choice).map_err(of_store)?;
    output::print(&match arguments.answer.format {
        TableFormat::Text => text(&listing, &address),
        TableFormat::Json => json(&listing)?,
    })?;
    for what in &listing.broken {
        say(format_args!("dbtime: {what}"));
    }
    if !listing.broken.is_empty() {
        return Ok(ExitCode::from(FAILED));
    }
    if listing.hosts.is_empty() {
        say(format_args!("dbtime: {address}: no recordings in it"));
        return Ok(ExitCode::from(NOTHING_RECORDED));
    }
    Ok(ExitCode::SUCCESS)
}

fn prune(arguments: &StorePruneArguments) -> anyhow::Result<ExitCode> {
    let address = Address::to_put(arguments.store.as_os_str()).map_err(of_store)?;
    let store = Store::open(&address).map_err(of_store)?;
    let before = jiff::Timestamp::now()
        .checked_sub(arguments.older_than)
        .unwrap_or(jiff::Timestamp::MIN);
    let pruned = store
        .prune(&arguments.host, before.as_second())
        .map_err(of_store)?;
    for what in &pruned.kept {
        say(format_args!("dbtime: {what}"));
    }
    if pruned.recordings > 0 {
        say(format_args!(
            "removed {} recording{} of {} that ended before {}: {:.1} MB",
            pruned.recordings,
            if pruned.recordings == 1 { "" } else { "s" },
            arguments.host,
            moment(before.as_microsecond()),
            pruned.bytes as f64 / 1e6
        ));
    }
    Ok(match pruned.kept.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    })
}

fn upgrade(arguments: &StoreUpgradeArguments) -> anyhow::Result<ExitCode> {
    let address = Address::to_put(arguments.store.as_os_str()).map_err(of_store)?;
    let store = Store::open(&address).map_err(of_store)?;
    let upgraded = store.upgrade().map_err(of_store)?;
    for what in &upgraded.kept {
        say(format_args!("dbtime: {what}"));
    }
    say(format_args!(
        "{address}: {} recording{} made visible to ready queries",
        upgraded.recordings,
        if upgraded.recordings == 1 { "" } else { "s" }
    ));
    Ok(match upgraded.kept.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    })
}

fn moment(us: i64) -> String {
    jiff::Timestamp::from_microsecond(us).map_or_else(
        |_| "?".to_string(),
        |moment| moment.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
    )
}

fn text(listing: &Listing, store: &Address) -> String {
    let mut text = String::new();
    for host in &listing.hosts {
        let bytes: u64 = host.recordings.iter().map(|recording| recording.bytes).sum();
        let count = host.recordings.len();
        text += &format!(
            "{}: {count} recording{}, {:.1} MB\n",
            host.host,
            if count == 1 { "" } else { "s" },
            bytes as f64 / 1e6
        );
        let servers: BTreeSet<&str> = host.recordings.iter().map(|of| of.server.as_str()).collect();
        let named = |server: &str| match servers.len() > 1 {
            true => format!("  {server}"),
            false => String::new(),
        };
        let mut gaps = host.gaps.iter().peekable();
        for recording in &host.recordings {
            while let Some(gap) = gaps.next_if(|gap| gap.from_us < recording.start_us) {
                text += &format!(
                    "  {}  {}  nothing for {} s{}\n",
                    moment(gap.from_us),
                    moment(gap.to_us),
                    gap.to_us.saturating_sub(gap.from_us) / 1_000_000,
                    named(&gap.server)
                );
            }
            text += &line(recording, &named(&recording.server));
        }
    }
    if let (files @ 1.., bytes) = listing.left {
        text += &format!(
            "{files} files of {:.1} MB belong to no recording: a put is in progress, or was killed (put its recording again)\n",
            bytes as f64 / 1e6
        );
    }
    if listing.without_row > 0 {
        text += &format!(
            "ready queries do not see {} of these recordings: run 'dbtime store upgrade {}'\n",
            listing.without_row,
            shell_word(&store.to_string())
        );
    }
    text
}

/// `server`: text about the server after its version.
fn line(recording: &RecordingListing, server: &str) -> String {
    let mut line = format!(
        "  {}  {}  {:>8.1} MB  {:>10} rows  {}  {}{server}",
        moment(recording.start_us),
        moment(recording.end_us),
        recording.bytes as f64 / 1e6,
        recording.rows,
        recording.recording,
        recording.database
    );
    line.truncate(line.trim_end().len());
    if !recording.complete {
        line += "  (not ended, or killed)";
    }
    line.push('\n');
    if !recording.flight.is_empty() {
        line += &format!("    exact, triggered by {}\n", recording.flight);
    }
    for what in &recording.damaged {
        line += &format!("    missing since it was put: {what}\n");
    }
    for path in &recording.missing {
        line += &format!("    missing or damaged: {path}; put the recording again\n");
    }
    line
}

#[derive(Serialize)]
struct ListingJson<'a> {
    hosts: Vec<HostJson<'a>>,
    left_files: u64,
    left_bytes: u64,
    without_row: usize,
    broken: &'a [String],
}

#[derive(Serialize)]
struct HostJson<'a> {
    host: &'a str,
    recordings: Vec<RecordingJson<'a>>,
    gaps: Vec<GapJson<'a>>,
}

#[derive(Serialize)]
struct GapJson<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    server: &'a str,
    from: String,
    to: String,
}

#[derive(Serialize)]
struct RecordingJson<'a> {
    recording: &'a str,
    start: String,
    end: String,
    complete: bool,
    database: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    server: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    flight: &'a str,
    rows: u64,
    files: usize,
    bytes: u64,
    damaged: &'a [String],
    missing: &'a [String],
}

fn json(listing: &Listing) -> anyhow::Result<String> {
    let moment = |us| jiff::Timestamp::from_microsecond(us).map_or_else(|_| String::new(), |t| t.to_string());
    let hosts = listing.hosts.iter().map(|host| HostJson {
        host: &host.host,
        recordings: host
            .recordings
            .iter()
            .map(|recording| RecordingJson {
                recording: &recording.recording,
                start: moment(recording.start_us),
                end: moment(recording.end_us),
                complete: recording.complete,
                database: &recording.database,
                server: &recording.server,
                flight: &recording.flight,
                rows: recording.rows,
                files: recording.files,
                bytes: recording.bytes,
                damaged: &recording.damaged,
                missing: &recording.missing,
            })
            .collect(),
        gaps: host
            .gaps
            .iter()
            .map(|gap| GapJson {
                server: &gap.server,
                from: moment(gap.from_us),
                to: moment(gap.to_us),
            })
            .collect(),
    });
    let document = ListingJson {
        hosts: hosts.collect(),
        left_files: listing.left.0,
        left_bytes: listing.left.1,
        without_row: listing.without_row,
        broken: &listing.broken,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
