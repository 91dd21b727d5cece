//! What the files of other tools leave out, and how they are read.

use std::path::PathBuf;

use clap::Args;
use dbtime_import::{CallOptions, EventNames, EventNamesError, parse_interval};

/// What the files of other tools do not say.
#[derive(Debug, Default, Args)]
pub struct FileOptions {
    /// Time that one sample stands for, if the file does not say: 10ms, 1us … [default: amounts are samples]
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    pub interval: Option<u64>,
    /// Names of Oracle's wait events: V$EVENT_NAME as CSV (event#, name, wait_class), or as a sed script
    #[arg(long, value_name = "FILE")]
    pub event_names: Option<PathBuf>,
    /// Event to read from perf script output [default: the first]
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,
    /// Keep and show the values of bind variables of SQL traces: they are application data
    #[arg(long)]
    pub binds: bool,
    /// Maximum memory to use: 500M, 8G … [default: 4G, or half of the host's if that is less]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub max_memory: Option<u64>,
    /// Which calls of a kernel trace to import: those that `dbtime dive` asked for.
    #[arg(skip)]
    pub calls: CallOptions,
}

impl FileOptions {
    /// Options for the importers; reads the file of event names.
    ///
    /// # Errors
    /// The file of event names cannot be read.
    pub fn options(&self) -> Result<dbtime_import::Options, EventNamesError> {
        Ok(dbtime_import::Options {
            interval_ns: self.interval,
            event_names: match &self.event_names {
                Some(path) => EventNames::read(path)?,
                None => EventNames::default(),
            },
            event: self.event.clone(),
            calls: self.calls.clone(),
            binds: self.binds,
            ..dbtime_import::Options::default()
        })
    }

    /// True if something was given that the files leave out.
    pub fn is_some(&self) -> bool {
        self.interval.is_some()
            || self.event_names.is_some()
            || self.event.is_some()
            || self.calls != CallOptions::default()
    }
}

/// Bytes: a number with K, M, G or T (powers of 1024).
fn parse_bytes(text: &str) -> Result<u64, String> {
    let usage = || format!("'{text}' is not a size, such as 500M or 8G");
    let (number, power) = match text.char_indices().last() {
        Some((end, unit)) if unit.is_ascii_alphabetic() => {
            let unit = unit.to_ascii_uppercase();
            (&text[..end], "KMGT".find(unit).ok_or_else(usage)? as u32 + 1)
        }
        _ => (text, 0),
    };
    let number: u64 = number.parse().map_err(|_| usage())?;
    let bytes = number.checked_mul(1024u64.pow(power)).ok_or_else(usage)?;
    if bytes < LEAST_MEMORY {
        return Err(format!("'{text}' is too small: at least 64M is needed"));
    }
    Ok(bytes)
}

/// Less is not enough for the smallest report.
const LEAST_MEMORY: u64 = 64 << 20;
