//! `dbtime report --format json`: the fields that users may rely on.

use std::path::Path;

use serde::Deserialize;

use crate::dbtime;

/// The whole answer.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract that docs/ explains")]
pub struct Report {
    pub elapsed_ns: u64,
    pub db_time_ns: u64,
    pub aas: Option<f64>,
    pub ledger: Vec<LedgerRow>,
    pub database_view: DatabaseView,
    pub sessions: Vec<ReportSession>,
    pub quality: Quality,
}

/// One wait event.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract that docs/ explains")]
pub struct LedgerRow {
    pub section: String,
    pub idle: bool,
    pub wait_class: String,
    pub wait_event: String,
    pub user_ns: u64,
    pub kernel_ns: u64,
    pub runnable_ns: u64,
    pub disk_ns: u64,
    pub sleep_ns: u64,
    pub other_ns: u64,
    pub total_ns: u64,
    pub samples: u64,
    pub fidelity: Option<String>,
}

/// What the database says.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract that docs/ explains")]
pub struct DatabaseView {
    pub cpu_ns: u64,
    pub wait_ns: u64,
    pub percent_of_db_time: Option<f64>,
    pub double_counted_ns: u64,
    pub by_event: Vec<serde_json::Value>,
}

/// One session.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract that docs/ explains")]
pub struct ReportSession {
    pub pid: Option<u32>,
    pub backend_type: String,
    pub user: String,
    pub database: String,
    pub elapsed_ns: Option<u64>,
    pub accounted_ns: u64,
    pub torn: u64,
}

/// What is missing or doubtful.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the names are the contract that docs/ explains")]
pub struct Quality {
    pub samples: u64,
    pub torn: u64,
    pub lost: u64,
    pub unsampled_ns: u64,
    pub unresolved_frames: u64,
    pub stacks_complete: u64,
    pub stacks_truncated: u64,
    pub stacks_broken: u64,
    pub stacks_complete_percent: Option<f64>,
    pub complete: bool,
    pub problems: Vec<String>,
}

impl Report {
    /// Runs the report.
    ///
    /// # Panics
    /// When it fails, or is not of the form that is promised.
    #[track_caller]
    pub fn of(recording: &Path, arguments: &[&str]) -> Report {
        let path = recording.to_str().expect("a plain path");
        let outcome = dbtime(&[&["report", path, "--format", "json"], arguments].concat()).expect_code(0);
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e} in {}", outcome.stdout))
    }

    /// The row of one wait event that is part of DB time, when there is one.
    pub fn row(&self, class: &str, event: &str) -> Option<&LedgerRow> {
        let mut rows = self.ledger.iter();
        rows.find(|row| row.section == "db_time" && row.wait_class == class && row.wait_event == event)
    }
}
