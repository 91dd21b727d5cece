//! A recorder for every server that runs on this host.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dbtime_collect::{RunningServer, running_servers};

use super::backoff::Backoff;
use super::child::Child;
use super::config::{Config, Flight};
use super::spool::Spool;
use crate::exit_code::NOTHING_RECORDED;
use crate::output::say;
use crate::record::Watched;

/// Most servers that are recorded: anybody on the host may start some.
const MOST_SERVERS: usize = 32;
/// How often servers are looked for.
const LOOK: Duration = Duration::from_secs(5);
/// A recorder that lived this long did not fail at once.
const LIVED: Duration = Duration::from_secs(60);
/// How long recorders may take to end: they may be merging an hour's segments.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module.
pub(super) struct Recorders {
    /// As arguments of `dbtime record`.
    how: Vec<String>,
    /// Data directories; none: of all servers.
    only: Option<Vec<PathBuf>>,
    /// By the directories that servers run on: a restarted server is the same, and so is one that appears on another directory of the same
    /// name.
    servers: HashMap<(u64, u64), Recorder>,
    next_look: Instant,
    told_of_too_many: bool,
    /// Servers of `only` that are not running have been named.
    told_of_missing: bool,
}

/// A server that is recorded.
pub(super) struct Recorded<'a> {
    /// See [`RunningServer::directory_id`].
    pub(super) id: (u64, u64),
    /// Its name in messages.
    pub(super) name: &'a str,
    /// Where its recordings are.
    pub(super) folder: &'a Path,
}

#[derive(Default)]
struct Recorder {
    name: String,
    /// See [`RunningServer::name_here`].
    name_here: Option<PathBuf>,
    folder: PathBuf,
    child: Option<Child>,
    backoff: Backoff,
}

impl Recorders {
    pub(super) fn new(config: &Config) -> Recorders {
        Recorders {
            how: options(config),
            only: config.servers.clone(),
            told_of_missing: false,
            servers: HashMap::new(),
            next_look: Instant::now(),
            told_of_too_many: false,
        }
    }

    /// Starts recorders for servers that have none.
    pub(super) fn look(&mut self, spool: &Spool) {
        for recorder in self.servers.values_mut() {
            recorder.look();
        }
        if Instant::now() < self.next_look {
            return;
        }
        self.next_look = Instant::now() + LOOK;
        let is_on = |server: &RunningServer, directory: &Path| {
            // It may be configured as a symbolic link.
            let id = || std::fs::metadata(directory).map(|of| (of.dev(), of.ino()));
            server.data_directory == directory || id().is_ok_and(|id| id == server.directory_id)
        };
        let mut running = running_servers();
        if let Some(only) = &self.only {
            if !std::mem::replace(&mut self.told_of_missing, true) {
                for directory in only {
                    if !running.iter().any(|server| is_on(server, directory)) {
                        say(format_args!(
                            "servers: no server is running on {}; it will be recorded once it starts",
                            directory.display()
                        ));
                    }
                }
            }
            running.retain(|server| only.iter().any(|directory| is_on(server, directory)));
        }
        let is_there = |id: &(u64, u64)| running.iter().any(|server| server.directory_id == *id);
        for server in &running {
            self.keep(server, is_there);
        }
        self.servers
            .retain(|id, recorder| recorder.child.is_some() || is_there(id));
        for server in running {
            if !self.servers.contains_key(&server.directory_id) && self.servers.len() >= MOST_SERVERS {
                if !std::mem::replace(&mut self.told_of_too_many, true) {
                    say(format_args!(
                        "{}: not recorded: the maximum is {MOST_SERVERS} servers; choose some with 'servers'",
                        server.data_directory.display()
                    ));
                }
                continue;
            }
            let recorder = self.servers.entry(server.directory_id).or_default();
            recorder.start(&server, &self.how, spool);
        }
    }

    /// A directory may have been replaced by another: the recorder of the server on the old one records the one that is there now.
    fn keep(&mut self, server: &RunningServer, is_there: impl Fn(&(u64, u64)) -> bool) {
        if server.name_here.is_none() || self.servers.contains_key(&server.directory_id) {
            return;
        }
        let follows = |id: &(u64, u64), recorder: &Recorder| {
            recorder.child.is_some() && recorder.name_here == server.name_here && !is_there(id)
        };
        let mut all = self.servers.iter();
        let earlier = all.find_map(|(id, recorder)| follows(id, recorder).then_some(*id));
        if let Some(recorder) = earlier.and_then(|id| self.servers.remove(&id)) {
            self.servers.insert(server.directory_id, recorder);
        }
    }

    /// Folders into which recorders write now.
    pub(super) fn folders(&self) -> HashSet<PathBuf> {
        let recorders = self.servers.values().filter(|recorder| recorder.child.is_some());
        recorders.map(|recorder| recorder.folder.clone()).collect()
    }

    /// Whether a server is recorded, or will be again in a moment.
    pub(super) fn has(&self, server: (u64, u64)) -> bool {
        self.servers.contains_key(&server)
    }

    /// Passes on the seconds measured since the last call.
    pub(super) fn take_seconds(&mut self, mut each: impl FnMut(&Recorded<'_>, Watched)) {
        for (
            id,
            Recorder {
                child, folder, name, ..
            },
        ) in &mut self.servers
        {
            let server = Recorded {
                id: *id,
                name,
                folder,
            };
            if let Some(child) = child {
                child.take_output(|line| {
                    if let Ok(second) = serde_json::from_slice(line) {
                        each(&server, second);
                    }
                });
            }
        }
    }

    /// Ends all of them in good order.
    pub(super) fn end(self) {
        let children: Vec<Child> = self
            .servers
            .into_values()
            .filter_map(|recorder| recorder.child)
            .collect();
        for child in &children {
            child.ask_to_end();
        }
        let until = Instant::now() + PATIENCE;
        for child in children {
            child.wait(until);
        }
    }
}

impl Recorder {
    fn look(&mut self) {
        let Some(child) = &mut self.child else {
            return;
        };
        let how = match child.ended() {
            Ok(None) => return,
            Ok(Some(status)) if status.success() || status.code() == Some(NOTHING_RECORDED.into()) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(e) => Some(e.to_string()),
        };
        if child.age() >= LIVED || how.is_none() {
            self.backoff.worked();
        }
        self.child = None;
        if let Some(how) = how {
            let pause = self.backoff.failed();
            say(format_args!(
                "{}: the recorder exited ({how}), the next one starts in {} s",
                self.name,
                pause.as_secs()
            ));
        }
    }

    fn start(&mut self, server: &RunningServer, how: &[String], spool: &Spool) {
        if self.child.is_some() || !self.backoff.is_over() {
            return;
        }
        self.name = server.data_directory.display().to_string();
        self.name_here.clone_from(&server.name_here);
        self.folder = match spool.folder_of(server) {
            Ok(folder) => folder,
            Err(e) => return self.failed(&format!("{e:#}")),
        };
        let pid = server.pid.to_string();
        let mut arguments = vec!["record", "--pid", &pid];
        arguments.extend(how.iter().map(String::as_str));
        let mut arguments: Vec<&OsStr> = arguments.into_iter().map(OsStr::new).collect();
        arguments.extend([OsStr::new("--output"), self.folder.as_os_str()]);
        match Child::start_to_read(&self.name, &arguments) {
            Ok(child) => {
                say(format_args!(
                    "{}: recorder started (pid {})",
                    self.name,
                    child.pid()
                ));
                self.child = Some(child);
            }
            Err(e) => self.failed(&e.to_string()),
        }
    }

    fn failed(&mut self, why: &str) {
        self.backoff.failed();
        say(format_args!("{}: cannot start a recorder: {why}", self.name));
    }
}

fn options(config: &Config) -> Vec<String> {
    let record = &config.record;
    let mut options = vec![
        "--rotate".to_string(),
        format!("{}s", record.rotate.as_secs()),
        "--frequency".to_string(),
        record.frequency.to_string(),
        "--resolution".to_string(),
        format!("{}s", record.resolution),
    ];
    if let Some(text) = record.text_option() {
        options.extend(["--text".to_string(), text]);
    }
    for measure in config.flight.iter().flat_map(Flight::measures) {
        options.extend(["--watch".to_string(), measure.to_string()]);
    }
    options
}
