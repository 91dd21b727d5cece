//! Debug files from debuginfod servers, for stripped files: only if `DEBUGINFOD_URLS` names servers.
//!
//! They are fetched by elfutils' client, `debuginfod-find`. It is given a build id and nothing else, runs without any
//! privilege, as user nobody if this process is root's, may write a file of limited size into a folder of its own, and is
//! killed if that takes too long. What it fetches is read by the process that reads the files of recorded processes
//! ([`super::namer`]), and counts only if it has the build id that was asked for.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::ending::Ending;
use crate::priority;
use crate::scratch::Scratch;
use crate::target_file::TargetFile;

/// Names the servers; the client interprets it.
const SERVERS: &str = "DEBUGINFOD_URLS";
/// What else of the environment the client gets: how to reach the servers.
const WAYS: [&str; 7] = [
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
/// Where distributions install it. PATH is not searched: root must not run whatever it leads to.
const CLIENT: &str = "/usr/bin/debuginfod-find";
/// User that owns nothing.
const NOBODY: u32 = 65_534;

/// Maximum bytes of a file: PostgreSQL's have about 20 MB, those of large programs 500.
const MAX_BYTES: u64 = 512 << 20;
/// Time for all files.
const MAX_TIME: Duration = Duration::from_secs(60);
/// Memory of the client.
const MAX_MEMORY: u64 = 1 << 30;
/// How often to check whether the client has ended.
const LOOK: Duration = Duration::from_millis(10);
/// What the client prints is a path.
const LONGEST_PATH: u64 = 4_096;

/// Fetches debug files.
#[derive(Debug)]
pub(super) struct Debuginfod {
    servers: OsString,
    until: Instant,
    ending: Ending,
}

impl Debuginfod {
    /// None if the environment does not ask for it.
    pub(super) fn from_environment(ending: &Ending) -> Option<Debuginfod> {
        let servers = std::env::var_os(SERVERS)?;
        let is_said = servers
            .as_encoded_bytes()
            .iter()
            .any(|byte| !byte.is_ascii_whitespace());
        is_said.then(|| Debuginfod {
            servers,
            until: Instant::now() + MAX_TIME,
            ending: ending.clone(),
        })
    }

    /// The debug file of a build id.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(super) fn debug_file(&self, build_id: &str) -> Result<TargetFile, String> {
        if !Path::new(CLIENT).is_file() {
            return Err(format!(
                "{CLIENT} is not installed: it is in the package debuginfod on Debian and Ubuntu, \
                elfutils-debuginfod-client on Fedora"
            ));
        }
        if build_id.is_empty() || !build_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("it has no build id to look up".to_string());
        }
        let failed = |e: io::Error| format!("{CLIENT}: {e}");
        let folder = Folder::new().map_err(failed)?;
        let mut client = folder.client(build_id, &self.servers).spawn().map_err(failed)?;
        let answer = self.answer(&mut client);
        if answer.is_err() {
            // It is a child that nobody else waits for.
            let _ = client.kill();
            let _ = client.wait();
        }
        let answer = answer.map_err(failed)?;
        let path = PathBuf::from(answer.trim_end());
        let name = path.strip_prefix(folder.path()).map_err(|_| {
            "the servers have no debug file for this build id, or cannot be reached".to_string()
        })?;
        // It stays open when its folder is gone.
        let file = TargetFile::below(folder.path(), name).map_err(failed)?;
        match file.metadata().len() {
            ..=MAX_BYTES => Ok(file),
            _ => Err(format!("its debug file has more than {} MB", MAX_BYTES >> 20)),
        }
    }

    /// What the client prints, as soon as it has ended.
    fn answer(&self, client: &mut Child) -> io::Result<String> {
        while client.try_wait()?.is_none() {
            if Instant::now() > self.until {
                return Err(io::Error::other(format!(
                    "it has taken more than {} s",
                    MAX_TIME.as_secs()
                )));
            }
            if self.ending.is_over() {
                return Err(io::Error::other("the recording has ended"));
            }
            std::thread::sleep(LOOK);
        }
        let mut text = String::new();
        if let Some(out) = client.stdout.take() {
            out.take(LONGEST_PATH).read_to_string(&mut text)?;
        }
        Ok(text)
    }
}

/// Where the client writes; removed when dropped.
struct Folder {
    path: PathBuf,
    /// The folder around it is this process's own: the next start can tell that it was left behind.
    _scratch: Scratch,
}

impl Folder {
    fn new() -> io::Result<Folder> {
        let scratch = Scratch::new(Scratch::DEBUGINFOD)?;
        let path = scratch.path().join("cache");
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(scratch.path(), Permissions::from_mode(0o711))?;
            chown(&path, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(Folder {
            path,
            _scratch: scratch,
        })
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn client(&self, build_id: &str, servers: &OsString) -> Command {
        let mut command = Command::new(CLIENT);
        command
            .args(["debuginfo", build_id])
            .current_dir("/")
            .env_clear()
            .env(SERVERS, servers)
            .env("HOME", self.path())
            .env("DEBUGINFOD_CACHE_PATH", self.path())
            .env("DEBUGINFOD_MAXSIZE", MAX_BYTES.to_string())
            .env("DEBUGINFOD_MAXTIME", MAX_TIME.as_secs().to_string())
            .envs(WAYS.iter().filter_map(|way| Some((way, std::env::var_os(way)?))))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        // SAFETY: before exec, the child makes only plain system calls.
        unsafe { command.pre_exec(confine) };
        command
    }
}

/// Takes from this process all that it does not need to fetch a file.
fn confine() -> io::Result<()> {
    priority::give_up()?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    for (what, most) in [
        (Resource::Fsize, MAX_BYTES),
        (Resource::As, MAX_MEMORY),
        (Resource::Core, 0),
    ] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        rustix::process::setrlimit(what, limit)?;
    }
    rustix::thread::set_no_new_privs(true)?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, none)?)
}
