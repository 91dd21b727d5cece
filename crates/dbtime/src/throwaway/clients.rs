//! Client programs that talk to the cluster, and the questions asked through them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{Cluster, PORT, SUPERUSER, account};

impl Cluster {
    /// A client program (`psql`, `pgbench`, …) set up to connect to this server as the superuser; the kernel kills it
    /// when the calling thread ends. The caller adds arguments and the database.
    ///
    /// # Errors
    /// The program is not installed.
    pub fn client_program(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(self.programs.client(name)?);
        account::prepare(&mut command, None, libc::SIGKILL);
        command
            .env("PGHOST", &self.socket_dir)
            .env("PGPORT", PORT.to_string())
            .env("PGUSER", SUPERUSER)
            .stdin(Stdio::null());
        Ok(command)
    }

    /// Runs SQL in the database `postgres`; returns the rows as lines of tab-separated values.
    ///
    /// # Errors
    /// psql is missing, or the statement failed, with what the server said.
    pub fn psql(&self, sql: &str) -> Result<String> {
        let output = self
            .client_program("psql")?
            .args([
                "--no-psqlrc",
                "--quiet",
                "--no-align",
                "--tuples-only",
                "--field-separator=\t",
                "--set=ON_ERROR_STOP=1",
                "--dbname=postgres",
                "--command",
                sql,
            ])
            .output()
            .context("cannot run psql")?;
        if !output.status.success() {
            bail!("{sql}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_string())
    }

    /// Files of a table or index in the database `postgres`: its main fork, all segments.
    ///
    /// # Errors
    /// There is no such relation.
    pub fn relation_files(&self, relation: &str) -> Result<Vec<PathBuf>> {
        let literal = relation.replace('\'', "''");
        let path = self.psql(&format!("SELECT pg_relation_filepath('{literal}')"))?;
        let first = self.data_dir.join(&path);
        if path.is_empty() || !first.is_file() {
            bail!("the relation {relation} has no file");
        }
        let later = (1..).map(|n| self.data_dir.join(format!("{path}.{n}")));
        Ok(std::iter::once(first)
            .chain(later.take_while(|file| file.is_file()))
            .collect())
    }
}
