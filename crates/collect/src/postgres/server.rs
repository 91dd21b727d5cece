//! Finds running PostgreSQL servers and what is needed to read their sessions.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::wait_symbol;
use crate::target_file::TargetFile;
use crate::{CollectError, process};

/// Oldest major version whose wait event can be read.
const OLDEST: u32 = 14;

/// A running server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// Pid of the postmaster on this host.
    pub(crate) postmaster: u32,
    /// Data directory, as the server's own mount namespace names it.
    pub(crate) data_directory: PathBuf,
    /// Executable.
    pub(crate) executable: PathBuf,
    /// Major version, from PG_VERSION in the data directory.
    pub(crate) major: u32,
    /// Full version from the executable, or the major version if it is not found there.
    pub(crate) version: String,
    /// Address of `my_wait_event_info`, the same in all processes of the server; 0 = none: it is not a server.
    pub(crate) wait_address: u64,
    /// Device and inode of the data directory: it may have other names in other mount namespaces.
    directory_id: Option<(u64, u64)>,
    /// The path by which the data directory was found from here, whatever is there later. None = there is none: in a container.
    name_here: Option<PathBuf>,
    /// It is in a pid namespace of its own, where its processes have other pids than on this host.
    has_own_pids: bool,
}

/// A server on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningServer {
    /// Its first process.
    pub pid: u32,
    /// Its data directory, as the server itself names it: in a container, a path inside the container.
    pub data_directory: PathBuf,
    /// Device and inode of that directory: the same after a restart.
    pub directory_id: (u64, u64),
    /// The path that leads there from here; none in a container. A recording of the server follows it: also to another directory, if this
    /// one has been replaced.
    pub name_here: Option<PathBuf>,
}

/// The PostgreSQL servers that run on this host, including in containers, as far as they can be seen.
pub fn running_servers() -> Vec<RunningServer> {
    let servers = Server::postmasters().into_iter().filter_map(|pid| {
        let data_directory = Server::data_directory(pid);
        let directory_id = directory_id(pid)?;
        Some(RunningServer {
            pid,
            name_here: leads_to(&data_directory, directory_id).then(|| data_directory.clone()),
            data_directory,
            directory_id,
        })
    });
    servers.collect()
}

/// The postmaster of the server that this process belongs to; none if it belongs to none.
pub fn postmaster_of(pid: u32) -> Option<u32> {
    match process::parent(pid) {
        _ if is_postmaster(pid) => Some(pid),
        Some(parent) if is_postmaster(parent) => Some(parent),
        _ => None,
    }
}

impl Server {
    /// The only server on this host.
    ///
    /// # Errors
    /// None, or several: the message lists them.
    pub(crate) fn only() -> Result<Server, CollectError> {
        let postmasters = Server::postmasters();
        match postmasters[..] {
            [] => Err(CollectError::NoServer),
            [pid] => Server::of_postmaster(pid),
            _ => Err(CollectError::SeveralServers(listed(&postmasters))),
        }
    }

    /// Postmasters of the servers on this host.
    pub(crate) fn postmasters() -> Vec<u32> {
        let mut postmasters: Vec<u32> = process::all()
            .into_iter()
            .filter(|&pid| is_postmaster(pid))
            .collect();
        // Anybody can give a program that name and write that file. If there is a choice, the executables decide.
        if postmasters.len() > 1 {
            let (servers, others): (Vec<u32>, Vec<u32>) = postmasters
                .iter()
                .partition(|&&pid| wait_symbol::read_executable(pid).is_ok_and(|e| e.is_postgres()));
            postmasters = if servers.is_empty() { others } else { servers };
        }
        postmasters
    }

    /// The server that runs on this data directory.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn on(directory: &Path) -> Result<Server, CollectError> {
        let id = match id_of(directory) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(CollectError::io(directory, e)),
            id => id.ok(),
        };
        let pid = id.and_then(find_on).ok_or_else(|| CollectError::NoServerOn {
            directory: directory.to_path_buf(),
            running: listed(&Server::postmasters()),
        })?;
        Ok(Server {
            // It may be a link, which is followed if it leads elsewhere later.
            name_here: Some(directory.to_path_buf()),
            ..Server::of_postmaster(pid)?
        })
    }

    /// The server that now runs in place of this one, which has ended: on the directory that now has the name of this one's, or else on
    /// this one's own, whatever its name is now.
    pub(crate) fn successor(&self) -> Option<Server> {
        let by_name = self.name_here.as_deref().and_then(|name| id_of(name).ok());
        let own = self.directory_id.filter(|_| by_name != self.directory_id);
        let pid = [by_name, own]
            .into_iter()
            .flatten()
            .find_map(find_on)
            .filter(|pid| *pid != self.postmaster)?;
        Some(Server {
            name_here: self.name_here.clone(),
            ..Server::of_postmaster(pid).ok()?
        })
    }

    /// Whether it is on the same data directory as another one.
    pub(crate) fn is_on_directory_of(&self, other: &Server) -> bool {
        self.directory_id == other.directory_id
    }

    /// The server that process `pid` belongs to.
    ///
    /// # Errors
    /// There is no such process, or it does not belong to a PostgreSQL server.
    pub(crate) fn of_backend(pid: u32) -> Result<Server, CollectError> {
        if !process::path(pid, "stat").exists() {
            return Err(CollectError::NoProcess(pid));
        }
        match postmaster_of(pid) {
            Some(postmaster) => Server::of_postmaster(postmaster),
            None => Err(CollectError::NotBackend {
                pid,
                why: match process::executable(pid) {
                    Some(path) => format!("not a PostgreSQL server process ({})", path.display()),
                    None => "not a PostgreSQL server process".to_string(),
                },
            }),
        }
    }

    /// Any process and its children, as if it were a server without wait events.
    ///
    /// # Errors
    /// There is no such process.
    pub(crate) fn of_any_process(pid: u32) -> Result<Server, CollectError> {
        let executable = process::executable(pid).ok_or(CollectError::NoProcess(pid))?;
        Ok(Server {
            postmaster: pid,
            data_directory: Server::data_directory(pid),
            executable,
            major: 0,
            version: String::new(),
            wait_address: 0,
            directory_id: None,
            name_here: None,
            has_own_pids: false,
        })
    }

    /// Name of the product, or of the program if it is not a database.
    pub(crate) fn product(&self) -> String {
        let program = self.executable.file_name();
        match program {
            Some(name) if !self.has_waits() => name.to_string_lossy().into_owned(),
            _ => "PostgreSQL".to_string(),
        }
    }

    /// True for a database server; false for [`Server::of_any_process`].
    pub(crate) fn has_waits(&self) -> bool {
        self.wait_address != 0
    }

    /// Working directory of a server process, as its own mount namespace names it.
    pub(crate) fn data_directory(pid: u32) -> PathBuf {
        fs::read_link(process::path(pid, "cwd")).unwrap_or_default()
    }

    fn of_postmaster(pid: u32) -> Result<Server, CollectError> {
        let text = TargetFile::in_working_directory(pid, "PG_VERSION")
            .and_then(|file| file.small_text())
            .map_err(|e| CollectError::io(&process::path(pid, "cwd/PG_VERSION"), e))?;
        // "9.6" in the releases of that time: not an integer, and far too old.
        let major = text.trim().parse::<u32>().unwrap_or(9);
        let executable = wait_symbol::read_executable(pid)?;
        let version = if executable.version.is_empty() {
            text.trim().to_string()
        } else {
            executable.version
        };
        if major < OLDEST {
            return Err(CollectError::TooOld { pid, version });
        }
        let wait_address = executable.wait_address.ok_or_else(|| CollectError::Executable {
            executable: wait_symbol::executable_name(pid),
            what: "does not export my_wait_event_info, so its wait events cannot be read".to_string(),
        })?;
        let data_directory = Server::data_directory(pid);
        let directory_id = directory_id(pid);
        let is_name = directory_id.is_some_and(|id| leads_to(&data_directory, id));
        Ok(Server {
            postmaster: pid,
            executable: wait_symbol::executable_name(pid),
            major,
            version,
            wait_address,
            directory_id,
            name_here: is_name.then(|| data_directory.clone()),
            data_directory,
            has_own_pids: process::innermost_pid(pid) != Some(pid),
        })
    }

    /// Pids of the processes that exist now, without the postmaster.
    pub(crate) fn children(&self) -> Vec<u32> {
        process::all()
            .into_iter()
            .filter(|&pid| process::parent(pid) == Some(self.postmaster))
            .collect()
    }

    /// The pids of its processes on this host, by the pids that the server knows. None: they are the same.
    pub(crate) fn host_pids(&self) -> Option<HashMap<u32, u32>> {
        let named = |pid| Some((process::innermost_pid(pid)?, pid));
        self.has_own_pids
            .then(|| self.children().into_iter().filter_map(named).collect())
    }
}

/// How to name them on the command line.
fn listed(postmasters: &[u32]) -> Vec<String> {
    let named = |&pid: &u32| format!("  --postgres {:?}    (pid {pid})", Server::data_directory(pid));
    postmasters.iter().map(named).collect()
}

/// A postmaster is a `postgres` whose working directory is a data directory with its own pid in postmaster.pid.
fn is_postmaster(pid: u32) -> bool {
    let named_postgres = process::executable(pid).is_some_and(|path| {
        path.file_name()
            .is_some_and(|name| name == "postgres" || name == "postmaster")
    });
    named_postgres
        && TargetFile::in_working_directory(pid, "postmaster.pid")
            .and_then(|file| file.small_text())
            .ok()
            .is_some_and(|text| {
                // A stand-alone backend writes its pid negated.
                let written = text
                    .lines()
                    .next()
                    .and_then(|line| line.trim().parse::<u32>().ok());
                written.is_some() && written == process::innermost_pid(pid)
            })
}

fn directory_id(pid: u32) -> Option<(u64, u64)> {
    id_of(&process::path(pid, "cwd")).ok()
}

fn id_of(directory: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(directory).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Whether a server's own name for its directory leads there from here, too.
fn leads_to(name: &Path, directory: (u64, u64)) -> bool {
    id_of(name).is_ok_and(|id| id == directory)
}

fn find_on(directory: (u64, u64)) -> Option<u32> {
    process::all()
        .into_iter()
        .find(|&pid| directory_id(pid) == Some(directory) && is_postmaster(pid))
}
