//! Recordings on this host: those in progress, and those that have ended and wait for the store.
//!
//! ```text
//! SPOOL/recordings/SERVER/NAME.dbt            one folder for each server
//! SPOOL/recordings/SERVER/NAME.dbt.removed    being removed: left behind if the remover is killed
//! SPOOL/recordings/SERVER-flights/NAME.dbt    exact ones
//! SPOOL/*.json                                what the next agent has to know
//! ```

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use dbtime_collect::RunningServer;
use dbtime_model::output::{Directory, Lock};
use dbtime_model::recording::{Meta, Recording};

use crate::output::say;
use crate::record::plain_words;

const RECORDINGS: &str = "recordings";
const REMOVED: &str = "removed";

/// See the module.
pub(super) struct Spool {
    home: Directory,
    recordings: Directory,
    /// One agent at a time.
    _lock: Lock,
}

/// A recording that nobody writes any more.
#[derive(Debug)]
pub(super) struct Ended {
    folder: OsString,
    name: OsString,
    /// Where it is.
    pub(super) path: PathBuf,
    /// Of all its files.
    pub(super) bytes: u64,
    /// Microseconds since the Unix epoch.
    pub(super) end_us: i64,
    /// Its recorder was killed before it had written anything.
    pub(super) is_empty: bool,
    /// The current recording may look up in it what it does not describe itself.
    pub(super) is_needed: bool,
}

impl Ended {
    /// Identifies it while it exists.
    pub(super) fn id(&self) -> String {
        format!(
            "{}/{}",
            self.folder.to_string_lossy(),
            self.name.to_string_lossy()
        )
    }
}

/// Contents of the spool.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// In the order of the ends that they state.
    pub(super) ended: Vec<Ended>,
    /// Of all recordings.
    pub(super) bytes: u64,
}

/// Bytes on the file system of the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// Usable by anybody: without what the file system reserves for root.
    pub(super) free: u64,
    /// All of them.
    pub(super) all: u64,
}

impl Spool {
    /// Opens it; creates it if it does not exist.
    ///
    /// # Errors
    /// It cannot be created, others can write to it, or another agent has it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Spool> {
        let spool = Directory::open_or_make(path).with_context(|| path.display().to_string())?;
        check_is_ours(&spool)?;
        let recordings = spool
            .open_or_create_directory(OsStr::new(RECORDINGS))
            .with_context(|| path.display().to_string())?;
        check_is_ours(&recordings)?;
        let home = spool;
        let Some(lock) = recordings.lock().with_context(|| path.display().to_string())? else {
            bail!("{}: in use by another dbtime agent", path.display());
        };
        Ok(Spool {
            home,
            recordings,
            _lock: lock,
        })
    }

    /// Where the recordings of a server are. Two servers never have the same folder.
    ///
    /// # Errors
    /// It cannot be created, or others can write to it.
    pub(super) fn folder_of(&self, server: &RunningServer) -> anyhow::Result<PathBuf> {
        self.folder(&name_of(server))
    }

    /// Where its exact recordings are.
    ///
    /// # Errors
    /// As for [`Spool::folder_of`].
    pub(super) fn flights_of(&self, server: &RunningServer) -> anyhow::Result<PathBuf> {
        self.folder(&format!("{}-flights", name_of(server)))
    }

    /// Where the agent keeps what it has to remember.
    ///
    /// # Errors
    /// There are too many open files.
    pub(super) fn home(&self) -> anyhow::Result<Directory> {
        Ok(self.home.try_clone()?)
    }

    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.recordings.path().join(name);
        let folder = self
            .recordings
            .open_or_create_directory(OsStr::new(name))
            .with_context(|| path.display().to_string())?;
        check_is_ours(&folder)?;
        Ok(path)
    }

    /// Lists what there is, and completes interrupted removals. `recorded`: folders that a recorder is writing to.
    pub(super) fn look(&self, recorded: &HashSet<PathBuf>) -> Contents {
        let mut contents = Contents::default();
        for folder in self.recordings.names().unwrap_or_default() {
            if let Ok(server) = self.recordings.open_directory(&folder) {
                let is_recorded = recorded.contains(server.path());
                contents.bytes += look_into(&server, &folder, is_recorded, &mut contents.ended);
            }
        }
        contents.ended.sort_by_key(|ended| ended.end_us);
        contents
    }

    /// How much room there is; none: the file system does not say.
    pub(super) fn room(&self) -> Option<Room> {
        let stat = rustix::fs::fstatvfs(&self.recordings).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        (stat.f_blocks > 0).then(|| Room {
            free: bytes(stat.f_bavail),
            all: bytes(stat.f_blocks),
        })
    }

    /// Removes a recording. If killed on the way, it leaves nothing that looks like one.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn remove(&self, ended: &Ended) -> std::io::Result<()> {
        let server = self.recordings.open_directory(&ended.folder)?;
        let mut removed = ended.name.clone();
        removed.push(".");
        removed.push(REMOVED);
        server.rename(&ended.name, &removed)?;
        server.remove_directory(&removed)
    }
}

fn name_of(server: &RunningServer) -> String {
    let words = plain_words(&server.data_directory);
    let (device, inode) = server.directory_id;
    match words.is_empty() {
        true => format!("{device:x}-{inode:x}"),
        false => format!("{words}-{device:x}-{inode:x}"),
    }
}

/// Nobody else must be able to put something there that root would write, upload or remove.
fn check_is_ours(directory: &Directory) -> anyhow::Result<()> {
    let name = || directory.path().display().to_string();
    let owner = directory.owner().with_context(name)?;
    if owner != rustix::process::geteuid().as_raw() {
        bail!("{}: belongs to another user (uid {owner})", name());
    }
    if directory.is_writable_by_others().with_context(name)? {
        bail!("{}: writable by group or others", name());
    }
    Ok(())
}

/// A recording, whether it is being written or not.
struct Found {
    name: OsString,
    bytes: u64,
    meta: Meta,
    /// Its lock is held.
    is_written: bool,
}

impl Found {
    /// What all recordings of one recorder have in common.
    fn recorder(&self) -> String {
        self.meta.collector.series.clone()
    }
}

/// Bytes of the recordings in a server's folder. Other files, and what links point to, do not count.
fn look_into(server: &Directory, folder: &OsStr, is_recorded: bool, ended: &mut Vec<Ended>) -> u64 {
    let mut found = Vec::new();
    for name in server.names().unwrap_or_default() {
        let Ok(directory) = server.open_directory(&name) else {
            continue;
        };
        if Path::new(&name).extension() == Some(OsStr::new(REMOVED)) {
            if let Err(e) = server.remove_directory(&name) {
                say(format_args!(
                    "{}: cannot be removed: {e}",
                    server.path().join(&name).display()
                ));
            }
            continue;
        }
        let bytes = bytes_below(&directory);
        let Ok(probe) = directory.try_clone() else {
            continue;
        };
        if !is_recorded && is_bare(&directory) {
            // Its recorder was killed right after beginning it. If it cannot be removed, it takes no space.
            let _ = server.remove_directory(&name);
            continue;
        }
        if let Ok(recording) = Recording::inside(directory) {
            let meta = recording.meta().clone();
            // Whoever writes a recording holds its lock as long as it lives.
            let is_written = !meta.complete && !matches!(probe.lock(), Ok(Some(_)));
            found.push(Found {
                name,
                bytes,
                meta,
                is_written,
            });
        }
    }
    let newest = found.iter().max_by_key(|one| one.meta.start_us);
    let newest_us = newest.map(|newest| newest.meta.start_us);
    // Only recordings of the same recorder refer to an earlier one. If the clock was set back, its last one need not be the newest.
    let written = found.iter().filter(|one| one.is_written);
    let mut recorders: HashSet<String> = written.map(Found::recorder).collect();
    let nobody_writes = recorders.is_empty();
    if nobody_writes {
        recorders.extend(newest.map(Found::recorder));
    }
    let last_ended_us = found
        .iter()
        .filter(|one| one.meta.complete && recorders.contains(&one.recorder()))
        .map(|one| one.meta.start_us)
        .max();
    let all = found.iter().map(|one| one.bytes).sum();
    for one in found {
        // Without the lock, the recorder was killed. If a recorder is alive and none is locked, the newest one is left alone: it may be
        // about to be locked.
        let may_be_begun_now = is_recorded && nobody_writes && Some(one.meta.start_us) == newest_us;
        let has_ended = one.meta.complete || !may_be_begun_now && !one.is_written;
        if has_ended {
            let is_of_recorder = is_recorded && recorders.contains(&one.recorder());
            ended.push(Ended {
                folder: folder.to_os_string(),
                path: server.path().join(&one.name),
                bytes: one.bytes,
                end_us: one.meta.end_us,
                is_empty: !one.meta.complete && one.meta.segments.last == 0,
                is_needed: is_of_recorder && Some(one.meta.start_us) >= last_ended_us,
                name: one.name,
            });
        }
    }
    all
}

/// It contains nothing but unfinished files, and nobody writes it.
fn is_bare(directory: &Directory) -> bool {
    let is_hidden = |name: &OsString| name.as_encoded_bytes().starts_with(b".");
    let has_nothing = directory.names().is_ok_and(|names| names.iter().all(is_hidden));
    has_nothing && matches!(directory.lock(), Ok(Some(_)))
}

/// Of all files below a directory; what vanishes meanwhile does not count.
fn bytes_below(directory: &Directory) -> u64 {
    let bytes =
        directory
            .names()
            .unwrap_or_default()
            .into_iter()
            .map(|name| match directory.open_directory(&name) {
                Ok(below) => bytes_below(&below),
                Err(_) => directory
                    .open_file(&name)
                    .and_then(|file| file.metadata())
                    .map_or(0, |metadata| metadata.len()),
            });
    bytes.sum()
}

#[cfg(test)]
impl Ended {
    /// One that does not exist.
    pub(super) fn made_up(name: &str, bytes: u64, end_us: i64) -> Ended {
        Ended {
            folder: "server".into(),
            name: name.into(),
            path: name.into(),
            bytes,
            end_us,
            is_empty: false,
            is_needed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use dbtime_model::recording::{RecordingWriter, SCHEMA_VERSION};
    use dbtime_model::{CounterRow, Rows};

    use super::*;

    /// Writes a recording of one second, at this second; its writer still holds it.
    fn begin(folder: &Path, second: i64) -> RecordingWriter {
        begin_of("a recorder", folder, second)
    }

    fn begin_of(recorder: &str, folder: &Path, second: i64) -> RecordingWriter {
        let mut meta = Meta {
            schema: SCHEMA_VERSION.to_string(),
            start_us: second * 1_000_000,
            end_us: (second + 1) * 1_000_000,
            ..Meta::default()
        };
        meta.collector.series = recorder.to_string();
        let path = folder.join(format!("{second}.dbt"));
        let mut writer = RecordingWriter::create(&path, meta).expect("a new recording");
        let rows = Rows {
            counters: vec![CounterRow {
                time: second * 1_000_000,
                ..CounterRow::default()
            }],
            ..Rows::default()
        };
        writer.write(&rows).expect("it can be written");
        writer
    }

    fn end(writer: RecordingWriter) {
        writer.finish().expect("it can be written");
    }

    /// Names of what has ended, the oldest first.
    fn ended(spool: &Spool, recorded: &[&Path]) -> Vec<String> {
        let recorded = recorded.iter().map(|path| path.to_path_buf()).collect();
        let ended = spool.look(&recorded).ended;
        ended
            .iter()
            .map(|ended| ended.name.to_string_lossy().into_owned())
            .collect()
    }

    /// A spool, and the folder of a server in it.
    fn spool(home: &Path) -> (Spool, PathBuf) {
        let spool = Spool::open(&home.join("spool")).expect("a spool");
        let folder = spool.folder("server").expect("a folder");
        (spool, folder)
    }

    #[test]
    fn killed_at_any_step_of_a_removal_the_rest_goes_next_time_and_is_never_taken_for_a_recording() {
        let home = tempfile::tempdir().expect("a folder");
        let (spool, folder) = spool(home.path());
        end(begin(&folder, 2));
        let left = spool.look(&HashSet::new()).bytes;
        for files in 0.. {
            end(begin(&folder, 1));
            assert_eq!(ended(&spool, &[]), ["1.dbt", "2.dbt"]);
            // Like `Spool::remove`.
            let going = folder.join("1.dbt.removed");
            fs::rename(folder.join("1.dbt"), &going).expect("our own");
            let all = [going.join("meta.json"), going.join("counters/000001.parquet")];
            for file in all.iter().take(files) {
                fs::remove_file(file).expect("our own");
            }
            let contents = spool.look(&HashSet::new());
            assert_eq!(contents.bytes, left, "{files} files were removed");
            assert_eq!(contents.ended.len(), 1);
            assert!(!going.exists());
            if files == all.len() {
                break;
            }
        }
    }

    #[test]
    fn what_is_put_and_not_yet_removed_is_removed_whole() {
        let home = tempfile::tempdir().expect("a folder");
        let (spool, folder) = spool(home.path());
        end(begin(&folder, 1));
        let contents = spool.look(&HashSet::new());
        spool.remove(&contents.ended[0]).expect("our own");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
        assert_eq!(spool.look(&HashSet::new()).bytes, 0);
    }

    #[test]
    fn what_a_killed_recorder_has_left_has_ended_and_what_a_living_one_writes_has_not() {
        let home = tempfile::tempdir().expect("a folder");
        let (spool, folder) = spool(home.path());
        end(begin(&folder, 1));
        let writer = begin(&folder, 2);
        assert_eq!(ended(&spool, &[&folder]), ["1.dbt"]);
        // Even if no recorder is reported: it has the lock.
        assert_eq!(ended(&spool, &[]), ["1.dbt"]);
        drop(writer);
        // Another recorder is about to begin, or this one is: the newest is left alone.
        assert_eq!(ended(&spool, &[&folder]), ["1.dbt"]);
        assert_eq!(ended(&spool, &[]), ["1.dbt", "2.dbt"]);
        let next = begin(&folder, 3);
        assert_eq!(ended(&spool, &[&folder]), ["1.dbt", "2.dbt"]);
        end(next);
    }

    #[test]
    fn what_was_killed_before_it_said_what_it_is_goes_once_nobody_records() {
        let home = tempfile::tempdir().expect("a folder");
        let (spool, folder) = spool(home.path());
        let (bare, other) = (folder.join("1.dbt"), folder.join("notes"));
        for path in [&bare, &other] {
            fs::create_dir(path).expect("a new folder");
        }
        fs::write(bare.join(".dbtime-0000000000000000.tmp"), "{").expect("it is ours");
        fs::write(other.join("notes.txt"), "of somebody").expect("it is ours");
        assert!(ended(&spool, &[&folder]).is_empty());
        assert!(bare.exists(), "a recorder may be about to say what it is");
        assert!(ended(&spool, &[]).is_empty());
        assert!(!bare.exists() && other.exists());
    }

    #[test]
    fn the_last_one_of_the_recorder_that_lives_is_needed_also_when_the_clock_was_set_back() {
        let home = tempfile::tempdir().expect("a folder");
        let (spool, folder) = spool(home.path());
        end(begin_of("before", &folder, 1_000));
        drop(begin_of("before", &folder, 2_000));
        for second in [1, 2] {
            end(begin_of("after", &folder, second));
        }
        let current = begin_of("after", &folder, 3);
        let needed = |recorded: HashSet<PathBuf>| -> Vec<String> {
            let ended = spool.look(&recorded).ended.into_iter();
            ended
                .filter(|ended| ended.is_needed)
                .map(|ended| ended.name.to_string_lossy().into_owned())
                .collect()
        };
        assert_eq!(
            ended(&spool, &[&folder]),
            ["1.dbt", "2.dbt", "1000.dbt", "2000.dbt"]
        );
        assert_eq!(needed(HashSet::from([folder.clone()])), ["2.dbt"]);
        assert_eq!(needed(HashSet::new()), Vec::<String>::new());
        end(current);
    }

    /// `df` is the independent truth.
    #[test]
    fn room_is_that_of_the_file_system() {
        let home = tempfile::tempdir().expect("a folder");
        let (spool, _) = spool(home.path());
        let df = |column: &str| -> u64 {
            let output = std::process::Command::new("df")
                .args(["--block-size=1", &format!("--output={column}")])
                .arg(home.path())
                .output()
                .expect("df can be run");
            let text = String::from_utf8(output.stdout).expect("text");
            let number = text.lines().nth(1).expect("a number").trim();
            number.parse().expect("a number")
        };
        let room = spool.room().expect("it says so");
        assert_eq!(room.all, df("size"));
        // Others write there, too.
        let free = df("avail");
        assert!(room.free.abs_diff(free) < room.all / 10, "{room:?}, df: {free}");
    }

    #[test]
    fn a_spool_has_one_agent() {
        let home = tempfile::tempdir().expect("a folder");
        let (_spool, _) = spool(home.path());
        let error = Spool::open(&home.path().join("spool")).map(drop);
        let error = error.expect_err("it is in use").to_string();
        assert!(error.contains("in use by another dbtime agent"), "{error}");
    }
}
