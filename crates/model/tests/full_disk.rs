//! A disk that is full at any write, or read-only: what was written before is unchanged, what fails is reported, and nothing of
//! it takes room. On small in-memory disks, so it needs root.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dbtime_model::output::{Place, Readers};
use dbtime_model::recording::{Meta, Recording, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, CounterRow, Fidelity, Frame, NO_STACK, Rows, SessionId, StackRow, State, Table, stack_id,
};
use tempfile::TempDir;

/// While one test forks to mount, the child holds the open files of the others, and with them their room on the disk.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// An in-memory file system of a few KB. There is one at a time.
struct SmallDisk(
    TempDir,
    #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>,
);

impl SmallDisk {
    /// None, loudly, without root.
    fn mount(kilobytes: u64) -> Option<SmallDisk> {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let home = TempDir::new().expect("a temporary directory");
        let options = format!("size={kilobytes}k,mode=700");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "small"])
            .arg(home.path())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            assert!(std::env::var_os("CI").is_none(), "CI runs this as root");
            let _ = writeln!(std::io::stderr(), "SKIPPED: no file system can be mounted");
            return None;
        }
        Some(SmallDisk(home, alone))
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_path_buf()
    }

    fn remount(&self, option: &str) {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,{option}")])
            .arg(self.0.path())
            .status();
        assert!(status.expect("mount can be run").success());
    }

    /// Bytes in use.
    fn used(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.0.path()).expect("it is mounted");
        (stat.f_blocks - stat.f_bfree) * stat.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// Rows of three tables that hardly compress: some 20 KB.
fn rows(segment: u64) -> Rows {
    let mut noise = segment.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise
    };
    let mut rows = Rows::default();
    for n in 0..300 {
        rows.activity.push(ActivityRow {
            time: segment as i64,
            session: SessionId(n),
            statement: next(),
            plan: 0,
            wait_class: "IO".into(),
            wait_event: "DataFileRead".into(),
            idle: false,
            state: State::Disk,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            comment: 0,
            ns: next(),
            count: 0,
            samples: 1,
            fidelity: Fidelity::Sampled,
            pooled: false,
            session_state: dbtime_model::SessionState::None,
        });
        rows.counters.push(CounterRow {
            time: segment as i64,
            session: SessionId(n),
            source: "kernel".into(),
            name: "on_cpu_ns".into(),
            value: next() as i64,
            statement: 0,
            plan: 0,
        });
    }
    let frames: Vec<Frame> = (0..300)
        .map(|_| Frame {
            symbol: format!("{:x}", next()),
            module: "m".into(),
            build_id: String::new(),
            offset: next(),
        })
        .collect();
    rows.stacks.push(StackRow {
        id: stack_id(&frames),
        frames,
    });
    rows
}

fn count<T: Table>(recording: &Recording) -> usize {
    let mut found = 0;
    let problems = recording.read::<T>(|rows| found += rows.len());
    assert!(problems.is_empty(), "{problems:?}");
    found
}

/// What counts as written is there, all of it, and nothing else takes room.
fn is_whole(path: &Path, written: &Rows, last: u64) {
    let recording = Recording::open(path).expect("it can be read");
    assert_eq!(recording.meta().segments.last, last);
    assert_eq!(count::<ActivityRow>(&recording), written.activity.len());
    assert_eq!(count::<CounterRow>(&recording), written.counters.len());
    assert_eq!(count::<StackRow>(&recording), written.stacks.len());
    for table in fs::read_dir(path)
        .expect("a recording")
        .map(|entry| entry.expect("an entry").path())
    {
        if table.is_dir() {
            let files = fs::read_dir(&table).expect("a table").count() as u64;
            assert!(
                files <= last,
                "{}: {files} files of {last} segments",
                table.display()
            );
        }
    }
}

fn meta() -> Meta {
    Meta {
        schema: SCHEMA_VERSION.into(),
        ..Meta::default()
    }
}

#[test]
fn a_recording_on_a_disk_that_is_full_at_any_write_is_whole_up_to_there() {
    let mut ended_at = std::collections::BTreeSet::new();
    for kilobytes in (4..220).step_by(4) {
        let Some(disk) = SmallDisk::mount(kilobytes) else {
            return;
        };
        let path = disk.path().join("x.dbt");
        let before = disk.used();
        let mut writer = match RecordingWriter::create(&path, meta()) {
            Ok(writer) => writer,
            Err(e) => {
                assert!(e.to_string().contains("space"), "{kilobytes} KB: {e}");
                assert!(!path.exists(), "{kilobytes} KB: it would block the name");
                assert_eq!(disk.used(), before);
                continue;
            }
        };
        let mut written = Rows::default();
        let mut segments = 0;
        let error = loop {
            match writer.write(&rows(segments + 1)) {
                Ok(()) => {
                    segments += 1;
                    written.append(rows(segments));
                }
                Err(e) => break e.to_string(),
            }
            assert!(segments < 100, "the disk is small");
        };
        assert!(error.contains("space"), "{kilobytes} KB: {error}");
        is_whole(&path, &written, segments);
        // Trying again, as a recorder does, gains nothing and loses nothing.
        assert!(writer.write(&rows(segments + 1)).is_err());
        is_whole(&path, &written, segments);
        // Somebody makes room.
        disk.remount("size=1m");
        writer.write(&rows(segments + 1)).expect("there is room again");
        written.append(rows(segments + 1));
        is_whole(&path, &written, segments + 1);
        writer.finish().expect("there is room");
        assert!(Recording::open(&path).expect("it can be read").meta().complete);
        ended_at.insert(segments);
    }
    assert!(ended_at.len() > 3, "full at different segments: {ended_at:?}");
}

#[test]
fn a_disk_that_becomes_read_only_leaves_what_was_written() {
    let Some(disk) = SmallDisk::mount(1024) else {
        return;
    };
    let path = disk.path().join("x.dbt");
    let mut writer = RecordingWriter::create(&path, meta()).expect("there is room");
    writer.write(&rows(1)).expect("there is room");
    disk.remount("ro");
    let error = writer.write(&rows(2)).expect_err("it is read-only").to_string();
    assert!(error.contains("Read-only"), "{error}");
    is_whole(&path, &rows(1), 1);
    let error = RecordingWriter::create(&disk.path().join("y.dbt"), meta()).expect_err("it is read-only");
    assert!(error.to_string().contains("Read-only"), "{error}");
    let error = Place::of(&disk.path().join("x.svg"))
        .expect("it can be looked up")
        .write(Readers::Owner, |out| out.write_all(b"x"))
        .expect_err("it is read-only");
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn a_full_disk_does_not_cost_the_old_file() {
    let Some(disk) = SmallDisk::mount(64) else {
        return;
    };
    let path = disk.path().join("x.svg");
    let put = |bytes: usize| {
        let place = Place::of(&path).expect("it can be looked up");
        place.write(Readers::Owner, |out| out.write_all(&vec![b'n'; bytes]))
    };
    fs::write(&path, "good and old").expect("there is room");
    let used = disk.used();
    for bytes in (0..200_000).step_by(1_000) {
        match put(bytes) {
            Ok(()) => {
                assert_eq!(fs::read(&path).expect("it is there").len(), bytes);
                fs::write(&path, "good and old").expect("there is room");
            }
            Err(e) => {
                assert_eq!(e.kind(), std::io::ErrorKind::StorageFull, "{bytes}: {e}");
                assert_eq!(fs::read_to_string(&path).expect("it is there"), "good and old");
            }
        }
        assert_eq!(disk.used(), used, "{bytes}: something else takes room");
        assert_eq!(fs::read_dir(disk.path()).expect("it is there").count(), 1);
    }
    assert!(put(10_000).is_ok() && put(100_000).is_err(), "both were tried");
}
