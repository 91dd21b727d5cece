//! A throw-away PostgreSQL server for the demo, the tests and the benchmark.
//!
//! It has its own temporary directory, listens on a Unix socket only, never runs as root, and does not outlive its owner: dropping the
//! [`Cluster`] stops the server and removes the directory, and a server whose owner is killed gets a shutdown signal from the kernel. To
//! clean up on Ctrl-C, catch the signal and drop the cluster; the server is in its own process group and does not see the terminal's
//! signal.

mod account;
mod clients;
pub mod page_cache;
mod postmaster;
mod programs;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use account::Account;
use postmaster::Postmaster;
pub use postmaster::{Shutdown, Usage};
pub use programs::Programs;

/// Database superuser of the cluster; connects without a password.
pub const SUPERUSER: &str = "postgres";
/// Names the socket file; nothing listens on the network.
pub const PORT: u16 = 5432;

/// Length of `sockaddr_un.sun_path` without its final NUL.
const SOCKET_PATH_MAX: usize = 107;
const START_LIMIT: Duration = Duration::from_secs(30);
const LOG_LINES_SHOWN: usize = 15;

/// How the server is set up.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where `postgres` and `initdb` are; searched for if not given.
    pub bin_dir: Option<PathBuf>,
    /// Where the cluster's directory is made; the system's temporary directory when not given.
    pub parent_dir: Option<PathBuf>,
    /// Server settings, later ones win. `fsync` is off unless set here.
    pub settings: Vec<(String, String)>,
    /// Starts from a copy of this data directory, whose server must be stopped, instead of an empty cluster.
    pub copy_of: Option<PathBuf>,
    /// Replays the WAL of the server that was copied.
    pub is_standby: bool,
    /// Data checksums (the default of `initdb` depends on the version; here it does not).
    pub checksums: bool,
}

impl Options {
    /// Adds a server setting.
    pub fn set(mut self, name: &str, value: &str) -> Options {
        self.settings.push((name.to_string(), value.to_string()));
        self
    }

    /// Starts from a copy of this data directory, whose server must be stopped.
    pub fn copy_of(mut self, data_dir: &Path) -> Options {
        self.copy_of = Some(data_dir.to_path_buf());
        self
    }

    /// Makes it a standby of the server with this data directory, which must be stopped now; `connection` is the connection string to that
    /// server once it runs again.
    pub fn standby_of(mut self, data_dir: &Path, connection: &str) -> Options {
        self.is_standby = true;
        self.copy_of(data_dir).set("primary_conninfo", connection)
    }

    /// Uses the server programs in this directory.
    pub fn bin_dir(mut self, directory: &Path) -> Options {
        self.bin_dir = Some(directory.to_path_buf());
        self
    }
}

/// A running (or stopped) throw-away server. Keep it on the thread that started it: the kernel shuts the
/// server down when that thread ends.
#[derive(Debug)]
pub struct Cluster {
    programs: Programs,
    account: Option<Account>,
    settings: Vec<(String, String)>,
    postmaster: Option<Postmaster>,
    data_dir: PathBuf,
    socket_dir: PathBuf,
    log: PathBuf,
    /// Set when the path of the socket would not fit below the cluster's own directory.
    _socket_home: Option<TempDir>,
    /// Declared last: directories go after everything that lives in them.
    home: TempDir,
}

impl Cluster {
    /// Makes a cluster and starts its server; returns when it accepts connections.
    ///
    /// # Errors
    /// As for [`Cluster::make`]; or the server does not start, with the last lines of its log.
    pub fn start(options: &Options) -> Result<Cluster> {
        let mut cluster = Cluster::make(options)?;
        cluster.launch()?;
        Ok(cluster)
    }

    /// Makes a cluster without starting its server.
    ///
    /// # Errors
    /// No PostgreSQL found, or `initdb` failed, with the last lines of its output; or the data directory cannot be copied.
    pub fn make(options: &Options) -> Result<Cluster> {
        let programs = Programs::find(options.bin_dir.as_deref())?;
        let account = Account::for_server()?;
        let home = private_dir(options.parent_dir.as_deref(), account.as_ref())?;
        let socket_home = match home.path().join("s") {
            short if socket_file(&short).as_os_str().len() <= SOCKET_PATH_MAX => None,
            _ => Some(private_dir(Some(Path::new("/tmp")), account.as_ref())?),
        };
        let socket_dir = socket_home.as_ref().unwrap_or(&home).path().join("s");
        fs::DirBuilder::new().mode(0o700).create(&socket_dir)?;
        account::give(account.as_ref(), &socket_dir)?;

        let cluster = Cluster {
            programs,
            account,
            settings: options.settings.clone(),
            postmaster: None,
            data_dir: home.path().join("data"),
            socket_dir,
            log: home.path().join("server.log"),
            _socket_home: socket_home,
            home,
        };
        match &options.copy_of {
            Some(data_dir) => cluster.copy(data_dir)?,
            None => cluster.initialise(options.checksums)?,
        }
        if options.is_standby {
            let signal = cluster.data_dir.join("standby.signal");
            File::create(&signal).with_context(|| signal.display().to_string())?;
            account::give(cluster.account.as_ref(), &signal)?;
        }
        Ok(cluster)
    }

    fn initialise(&self, checksums: bool) -> Result<()> {
        let mut initdb = self.server_command("initdb");
        initdb
            .args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"])
            .arg(format!("--username={SUPERUSER}"))
            .arg("--pgdata")
            .arg(&self.data_dir);
        if checksums {
            initdb.arg("--data-checksums");
        } else if self.programs.major() >= 18 {
            initdb.arg("--no-data-checksums");
        }
        let output = initdb
            .stdin(Stdio::null())
            .output()
            .with_context(|| self.cannot_execute("initdb"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("initdb failed ({}):\n{}", output.status, last_lines(&said));
        }
        Ok(())
    }

    /// Keeps the owner of each file, which is the account that the server runs as.
    fn copy(&self, data_dir: &Path) -> Result<()> {
        // Not every build has pg_basebackup.
        let mut copy = Command::new("cp");
        let copied = copy
            .arg("-a")
            .arg(data_dir)
            .arg(&self.data_dir)
            .status()
            .context("cp")?;
        if !copied.success() {
            bail!("{} cannot be copied ({copied})", data_dir.display());
        }
        Ok(())
    }

    /// Starts the server of a cluster that was stopped or killed; returns when it accepts connections.
    ///
    /// # Errors
    /// The server is already running, or does not start, with the last lines of its log.
    pub fn launch(&mut self) -> Result<()> {
        if self.postmaster.is_some() {
            bail!("the server in {} is already running", self.data_dir.display());
        }
        let log = self.open_log()?;
        let mut server = self.server_command("postgres");
        server
            .arg("-D")
            .arg(&self.data_dir)
            .args(["-p", &PORT.to_string()])
            .args(["-c", "listen_addresses="])
            .arg("-c")
            .arg(format!("unix_socket_directories={}", self.socket_dir.display()))
            .args(["-c", "fsync=off"]);
        for (name, value) in &self.settings {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        server.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut postmaster =
            Postmaster::spawn(&mut server).with_context(|| self.cannot_execute("postgres"))?;
        let give_up = Instant::now() + START_LIMIT;
        loop {
            if let Some(ended) = postmaster.try_wait()? {
                bail!(
                    "the server did not start ({}):\n{}",
                    ended.status,
                    self.log_tail()
                );
            }
            if postmaster::status(&self.data_dir, postmaster.pid()).as_deref() == Some("ready") {
                break;
            }
            if Instant::now() > give_up {
                // Dropping the postmaster stops it.
                bail!(
                    "the server is not ready after {START_LIMIT:?}:\n{}",
                    self.log_tail()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.postmaster = Some(postmaster);
        Ok(())
    }

    /// Stops the server, escalating if it does not react, and returns the CPU time that it and all its processes used. The directory stays
    /// until the cluster is dropped, so that it can be launched again.
    ///
    /// # Errors
    /// The server is not running.
    pub fn stop(&mut self, how: Shutdown) -> Result<Usage> {
        let Some(postmaster) = self.postmaster.take() else {
            bail!("the server in {} is not running", self.data_dir.display());
        };
        let usage = postmaster.stop(how);
        postmaster::clear_away(&self.data_dir);
        usage
    }

    /// Replaces this server by another, as an upgrade does; both must be stopped. The other's data directory takes the name of this one's,
    /// which is moved aside, and the next launch uses the other's programs with the settings and the socket of this one.
    ///
    /// # Errors
    /// One of them is running, or a directory cannot be renamed: both have to be on the same file system.
    pub fn take_in(&mut self, other: Cluster) -> Result<()> {
        if self.postmaster.is_some() || other.postmaster.is_some() {
            bail!("a running server cannot be replaced, nor replace another one");
        }
        fs::rename(&self.data_dir, self.home.path().join("data.old"))?;
        fs::rename(&other.data_dir, &self.data_dir)
            .with_context(|| format!("{} cannot be moved", other.data_dir.display()))?;
        self.programs = other.programs.clone();
        Ok(())
    }

    /// Process id of the postmaster.
    ///
    /// # Panics
    /// When the server was stopped.
    pub fn postmaster_pid(&self) -> u32 {
        self.postmaster.as_ref().expect("the server was stopped").pid()
    }

    /// Directory that holds everything of the cluster; removed on drop.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Directory of the socket: what clients call the host.
    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The programs it runs from.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Last lines of the server's log.
    pub fn log_tail(&self) -> String {
        match fs::read(&self.log) {
            Ok(text) => last_lines(&String::from_utf8_lossy(&text)),
            Err(e) => format!("{}: {e}", self.log.display()),
        }
    }

    fn server_command(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.server(name));
        // SIGQUIT: the server ends at once and removes its shared memory.
        account::prepare(&mut command, self.account.as_ref(), libc::SIGQUIT);
        command.current_dir(self.home.path());
        command
    }

    fn open_log(&self) -> Result<File> {
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.log)
            .with_context(|| self.log.display().to_string())
    }

    fn cannot_execute(&self, name: &str) -> String {
        let program = self.programs.server(name);
        match &self.account {
            Some(account) => format!(
                "cannot run {} as user {} (a server must not run as root; every directory above it must be open \
                 to that user)",
                program.display(),
                account.name
            ),
            None => format!("cannot run {}", program.display()),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(postmaster) = self.postmaster.take() {
            drop(postmaster);
            postmaster::clear_away(&self.data_dir);
        }
    }
}

/// A new directory that only the server's account (and root) can enter.
fn private_dir(parent: Option<&Path>, account: Option<&Account>) -> Result<TempDir> {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
    // The server is found by its directory, and /proc shows real paths.
    let parent = fs::canonicalize(&parent).with_context(|| parent.display().to_string())?;
    let directory = tempfile::Builder::new()
        .prefix("dbtime-")
        .tempdir_in(&parent)
        .with_context(|| format!("cannot make a directory in {}", parent.display()))?;
    account::give(account, directory.path())?;
    Ok(directory)
}

fn socket_file(directory: &Path) -> PathBuf {
    directory.join(format!(".s.PGSQL.{PORT}"))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}
