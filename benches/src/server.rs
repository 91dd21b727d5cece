//! The server under load: a throw-away PostgreSQL whose reads go to the page cache.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use dbtime::throwaway::page_cache::{residency, warm};
use dbtime::throwaway::{Cluster, Options};

use crate::program::Program;
use crate::setup::{Setup, version};

/// Connections in addition to the sessions of the benchmark.
const SPARE_CONNECTIONS: u32 = 30;
/// What pgbench -S reads.
const RELATIONS: [&str; 2] = ["pgbench_accounts", "pgbench_accounts_pkey"];

/// A server with pgbench's tables.
#[derive(Debug)]
pub(crate) struct Server {
    /// The server itself.
    pub(crate) cluster: Cluster,
    /// What `postgres --version` says, and the directory when it is not the installed one.
    pub(crate) name: String,
    /// What differs from its defaults.
    pub(crate) settings: Vec<(String, String)>,
    /// Size of what pgbench -S reads.
    pub(crate) data_bytes: u64,
    files: Vec<PathBuf>,
}

impl Server {
    /// Starts the installed server, or the one in a directory, and fills it.
    ///
    /// # Errors
    /// What [`Cluster::start`] or pgbench say; or a signal came.
    pub(crate) fn start(setup: &Setup, bin_dir: Option<&Path>) -> Result<Server> {
        let arguments = &setup.arguments;
        let connections = arguments.sessions.max(arguments.clients + arguments.idle) + SPARE_CONNECTIONS;
        let mut options = Options::default()
            .set("shared_buffers", &arguments.shared_buffers)
            .set("max_connections", &connections.to_string())
            // Nothing in the background that does not come from the load.
            .set("autovacuum", "off")
            .set("checkpoint_timeout", "1h")
            .set("max_wal_size", "4GB");
        let settings = options.settings.clone();
        options.bin_dir = match bin_dir {
            // An absolute path: the server works in its own directory.
            Some(given) => Some(
                given
                    .canonicalize()
                    .with_context(|| given.display().to_string())?,
            ),
            None => None,
        };
        let cluster = Cluster::start(&options)?;
        let mut name = version(&cluster.programs().server_dir().join("postgres"))?;
        if let Some(given) = bin_dir {
            name = format!("{name} in {}", given.display());
        }

        let mut initialise = cluster.client_program("pgbench")?;
        initialise
            .args(["--initialize", "--quiet", "--scale"])
            .arg(arguments.scale.to_string())
            .arg("postgres");
        Program::start(initialise)?.finish(&setup.stop)?;
        cluster.psql("CHECKPOINT")?;
        let mut files = Vec::new();
        for relation in RELATIONS {
            files.extend(cluster.relation_files(relation)?);
        }
        let mut data_bytes = 0;
        for path in &files {
            // Written now, not in the middle of the measurement.
            let file = File::open(path).with_context(|| path.display().to_string())?;
            file.sync_all()?;
            data_bytes += file.metadata()?.len();
        }
        warm(&files)?;
        Ok(Server {
            cluster,
            name,
            settings,
            data_bytes,
            files,
        })
    }

    /// Share of what pgbench -S reads that is in the page cache, 0 to 1.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn cached_share(&self) -> Result<f64> {
        Ok(residency(&self.files)?.share())
    }
}
