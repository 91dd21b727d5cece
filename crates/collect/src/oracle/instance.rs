//! An Oracle instance as the collector records it: the sessions of a MAP, which is read again when it changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use dbtime_model::BackendType;
use dbtime_model::recording::DatabaseMeta;

use super::event_names::EventNames;
use super::map::{Map, MapSession};
use super::name_table;
use crate::database::{Change, Database, Member, WaitNames, WaitSource};
use crate::session::{Description, Role};
use crate::{CollectError, memory, process};

/// How often the file is checked.
const LOOK: Duration = Duration::from_secs(1);
/// A process that started later than this after the MAP was made is not the one it means: file times are whole seconds on some file
/// systems, and those of processes hundredths.
const YOUNGER: Duration = Duration::from_secs(2);
/// Sessions that are reported one by one.
const TOLD: usize = 5;

/// See the module.
pub(crate) struct Instance {
    path: PathBuf,
    version: FileVersion,
    looked: Instant,
    name: String,
    release: String,
    members: Vec<Member>,
    names: Rc<EventNames>,
    reasons: Vec<String>,
    /// Why the file could not be used last time; reported once.
    failed: Option<String>,
}

/// What changes when a file is written or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileVersion {
    fn of(path: &Path) -> Option<FileVersion> {
        let metadata = fs::metadata(path).ok()?;
        Some(FileVersion {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }

    fn made(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.modified.0.try_into().unwrap_or(0))
    }
}

impl Instance {
    /// Reads the MAP.
    ///
    /// # Errors
    /// It cannot be read, is not a MAP, or none of its sessions is alive.
    pub(crate) fn read(path: &Path) -> Result<Instance, CollectError> {
        let version = FileVersion::of(path)
            .ok_or_else(|| CollectError::io(path, std::io::Error::from_raw_os_error(libc::ENOENT)))?;
        let map = Map::read(path)?;
        let mut instance = Instance {
            path: path.to_path_buf(),
            version,
            looked: Instant::now(),
            name: String::new(),
            release: String::new(),
            members: Vec::new(),
            names: Rc::default(),
            reasons: Vec::new(),
            failed: None,
        };
        instance.take(map);
        if instance.members.is_empty() {
            return Err(CollectError::Map {
                path: path.to_path_buf(),
                problems: instance
                    .reasons
                    .iter()
                    .map(|reason| format!("\n  {reason}"))
                    .collect(),
            });
        }
        Ok(instance)
    }

    fn take(&mut self, map: Map) {
        self.reasons = map.problems.clone();
        self.members.clear();
        let mut skipped = Vec::new();
        let mut untrusted = Vec::new();
        let mut others = 0;
        for session in &map.sessions {
            if let Err(why) = check_process(session.pid, self.version.made()) {
                skipped.push(format!("{}: process {} {why}", called(session), session.pid));
                continue;
            }
            others += usize::from(!is_named_like_oracle(session.pid));
            let source = match check_addresses(session) {
                Ok(source) => source,
                Err(why) => {
                    untrusted.push(format!("{}: {why}", called(session)));
                    WaitSource::UNREADABLE
                }
            };
            self.members.push(Member {
                pid: session.pid,
                source,
                role: Role::Known(Rc::new(description(session, &map.instance))),
                is_of_parent: true,
            });
        }
        self.tell("not recorded", skipped);
        self.tell("the wait event cannot be read", untrusted);
        if others > 0 {
            self.reasons.push(format!(
                "{others} of {} processes do not have names of Oracle's (ora_…, oracle…): is the MAP from this host, \
                and up to date?",
                self.members.len()
            ));
        }
        let mut names = map.names;
        if let Some(member) = self.members.first() {
            match name_table::complete(&mut names, member.pid) {
                Ok(Some(0) | None) => {}
                Ok(Some(added)) => self.reasons.push(format!(
                    "event names missing from the MAP were taken from the executable's table, without a class: {added}"
                )),
                // The names of the MAP are enough.
                Err(_) => {}
            }
        }
        self.name = map.instance;
        self.release = map.version;
        self.names = Rc::new(names);
    }

    fn tell(&mut self, what: &str, of: Vec<String>) {
        let all = of.len();
        for one in of.into_iter().take(TOLD) {
            self.reasons.push(format!("{what}: {one}"));
        }
        if all > TOLD {
            self.reasons
                .push(format!("{what}: {} more sessions of the MAP", all - TOLD));
        }
    }
}

fn called(session: &MapSession) -> String {
    format!(
        "session {},{} (line {})",
        session.sid, session.serial, session.line
    )
}

/// Whether the process can be the one that the MAP means.
fn check_process(pid: u32, made: SystemTime) -> Result<(), String> {
    let started = process::started(pid).ok_or("is gone")?;
    if started > made + YOUNGER {
        return Err("started after the MAP was made, so it is a different process".to_string());
    }
    Ok(())
}

/// Whether the addresses are those of the session: its number must be where the MAP says, the others must be readable.
fn check_addresses(session: &MapSession) -> Result<WaitSource, String> {
    let read = |address, what: &str| {
        memory::read_u32(session.pid, address).map_err(|e| format!("{what} at {address:#x}: {e}"))
    };
    if session.number != 0 {
        let number = read(session.number, "KSUSENUM")?;
        // Some releases keep it in 16 bits.
        if number != session.sid && number & 0xFFFF != session.sid {
            return Err(format!(
                "KSUSENUM at {:#x} is {number}, not {}: the addresses are not this session's",
                session.number, session.sid
            ));
        }
    }
    read(session.event, "KSUSEOPC")?;
    read(session.on_cpu, "KSUSETIM")?;
    let has_statement = session.statement != 0 && read(session.statement, "KSUSESQH").is_ok();
    Ok(WaitSource::Numbers {
        event: session.event,
        on_cpu: session.on_cpu,
        statement: if has_statement { session.statement } else { 0 },
    })
}

fn description(session: &MapSession, instance: &str) -> Description {
    let kind = if session.kind.eq_ignore_ascii_case("BACKGROUND") {
        "background"
    } else {
        BackendType::CLIENT
    };
    let words = [session.program.as_str(), session.module.as_str()];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    Description {
        backend_type: BackendType(kind.into()),
        user: session.user.clone(),
        database: instance.to_string(),
        client: session.program.clone(),
        module: session.module.clone(),
        title: format!("sid {},{} {}", session.sid, session.serial, words.join(" / "))
            .trim_end()
            .to_string(),
    }
}

fn is_named_like_oracle(pid: u32) -> bool {
    process::title(pid).is_some_and(|title| title.starts_with("ora_") || title.starts_with("oracle"))
}

impl Database for Instance {
    fn describe(&self) -> DatabaseMeta {
        let executable = self
            .members
            .first()
            .and_then(|member| process::executable(member.pid));
        DatabaseMeta {
            product: "Oracle".to_string(),
            version: self.release.clone(),
            data_directory: String::new(),
            executable: executable.unwrap_or_default().to_string_lossy().into_owned(),
            target: format!("{} by {}", self.name, self.path.display()),
            statement_ids: String::new(),
            held_locks: false,
            locks: false,
            ..DatabaseMeta::default()
        }
    }

    fn names(&self) -> Rc<dyn WaitNames> {
        self.names.clone()
    }

    fn reasons(&self) -> Vec<String> {
        self.reasons.clone()
    }

    fn members(&self) -> Vec<Member> {
        self.members.clone()
    }

    fn parent(&self) -> Option<u32> {
        None
    }

    fn role_of_children(&self) -> Role {
        Role::Process
    }

    fn at_files(&self) -> Option<u32> {
        None
    }

    fn outlives_its_sessions(&self) -> bool {
        true
    }

    fn gone_with(&self, _pid: u32) -> Option<String> {
        None
    }

    fn look(&mut self, _gone: bool) -> Option<Change> {
        if self.looked.elapsed() < LOOK {
            return None;
        }
        self.looked = Instant::now();
        // While it is being replaced there may be no file.
        let version = FileVersion::of(&self.path)?;
        if version == self.version {
            return None;
        }
        let map = match Map::read(&self.path) {
            Ok(map) if map.complete => map,
            // Being written: the next check finds it complete, or changed again.
            Ok(_) => return self.tell_once(format!("{} is not complete yet", self.path.display())),
            Err(e) => return self.tell_once(e.to_string()),
        };
        self.version = version;
        self.failed = None;
        self.take(map);
        let mut notes = vec![format!(
            "{} has changed: {} of its sessions are alive",
            self.path.display(),
            self.members.len()
        )];
        notes.extend(self.reasons.clone());
        Some(Change::Sessions(notes))
    }
}

impl Instance {
    /// Reports once that a file cannot be used; what was read before stays valid.
    fn tell_once(&mut self, what: String) -> Option<Change> {
        if self.failed.as_ref() == Some(&what) {
            return None;
        }
        self.failed = Some(what.clone());
        Some(Change::Sessions(vec![format!(
            "the sessions are still those of the previous MAP: {what}"
        )]))
    }
}
