//! What others plant where dbtime writes: links, FIFOs, directories that take the place of ours. Nothing is ever written through it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use dbtime::throwaway::Options;
use dbtime_tests::{Outcome, Recorder, SmallDisk, dbtime, dbtime_binary, distribution, needs_recording};
use tempfile::TempDir;

/// `nobody`: the user who plants things.
const MALLORY: u32 = 65534;
const SAMPLE: &str = "blkdev_aio_read+0x51/0x80\nsys_io_submit+0x10/0x20\n0xffffffffffffffff\nio_submit\nmain\n\
                      State:\tR (running)\n\nevent#=158 (Oracle state)\n1\n\n";

/// A directory that everybody may write to, as /tmp is but without what the kernel forbids there; beside it a file that
/// must stay as it is.
struct Scene {
    home: TempDir,
    open: PathBuf,
    victim: PathBuf,
    recording: PathBuf,
    file: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        let path = |name: &str| home.path().join(name);
        let (open, victim) = (path("open"), path("victim"));
        fs::create_dir(&open).expect("room");
        fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("ours");
        fs::write(&victim, "precious").expect("room");
        let (file, recording) = (path("classic.txt"), path("x.dbt"));
        fs::write(&file, SAMPLE.repeat(30)).expect("room");
        dbtime(&["import", plain(&file), "-o", plain(&recording)]).expect_code(0);
        Scene {
            home,
            open,
            victim,
            recording,
            file,
        }
    }

    /// Every command that writes a file, for this name.
    fn writers<'a>(&'a self, output: &'a str) -> Vec<Vec<&'a str>> {
        let recording = plain(&self.recording);
        let mut writers = vec![
            vec!["report", recording, "--format", "json", "-o", output],
            vec!["report", recording, "--format", "text", "-o", output],
            vec!["report", recording, "--format", "text", "--stacks", "-o", output],
            vec!["diff", recording, recording, "-o", output],
        ];
        if [".svg", ".folded"].iter().any(|ending| output.ends_with(ending)) {
            writers.push(vec!["flame", recording, "-o", output]);
        }
        writers
    }

    fn victim_is_untouched(&self, what: &str) {
        let text = fs::read_to_string(&self.victim).expect("it is there");
        assert_eq!(text, "precious", "{what}");
    }
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn mallorys(path: &Path) {
    lchown(path, Some(MALLORY), Some(MALLORY)).expect("tests run as root");
}

/// The command, which must not wait for somebody to open the other end of a FIFO.
fn without_waiting(arguments: &[&str]) -> Outcome {
    Command::new("timeout")
        .arg("20")
        .arg(dbtime_binary())
        .args(arguments)
        .output()
        .expect("timeout can be run")
        .into()
}

#[test]
fn no_report_is_written_through_a_link_or_a_fifo_of_another() {
    needs_recording!();
    let scene = Scene::new();
    for ending in ["svg", "folded", "json", "txt"] {
        let output = scene.open.join(format!("out.{ending}"));
        let output_text = plain(&output).to_string();
        for arguments in scene.writers(&output_text) {
            symlink(&scene.victim, &output).expect("room");
            mallorys(&output);
            without_waiting(&arguments)
                .expect_code(1)
                .expect_stderr(&[&output_text, "symbolic link"]);
            scene.victim_is_untouched(&arguments.join(" "));
            fs::remove_file(&output).expect("ours to remove");

            let made = Command::new("mkfifo")
                .arg(&output)
                .status()
                .expect("mkfifo can be run");
            assert!(made.success());
            chown(&output, Some(MALLORY), None).expect("tests run as root");
            without_waiting(&arguments)
                .expect_code(1)
                .expect_stderr(&[&output_text, "FIFO of another user"]);
            fs::remove_file(&output).expect("ours to remove");

            // The directory itself is a link of hers.
            let way = scene.home.path().join("way");
            symlink(&scene.open, &way).expect("room");
            mallorys(&way);
            let through = way.join(output.file_name().expect("a name"));
            let arguments: Vec<&str> = arguments
                .iter()
                .map(|&word| {
                    if word == output_text {
                        plain(&through)
                    } else {
                        word
                    }
                })
                .collect();
            without_waiting(&arguments)
                .expect_code(1)
                .expect_stderr(&["link of another user"]);
            assert!(!output.exists());
            fs::remove_file(&way).expect("ours to remove");
        }
    }
}

#[test]
fn a_file_that_is_there_is_replaced_and_not_written_to() {
    needs_recording!();
    let scene = Scene::new();
    let output = scene.open.join("x.svg");
    // Hers, open for everybody, with another name that leads to it.
    fs::write(&output, "hers").expect("room");
    fs::set_permissions(&output, Permissions::from_mode(0o666)).expect("ours");
    chown(&output, Some(MALLORY), None).expect("tests run as root");
    let also = scene.open.join("also");
    fs::hard_link(&output, &also).expect("room");
    let run = format!(
        "umask 000; exec '{}' flame '{}' -o '{}'",
        dbtime_binary().display(),
        scene.recording.display(),
        output.display()
    );
    let outcome: Outcome = Command::new("sh")
        .arg("-c")
        .arg(run)
        .output()
        .expect("a shell")
        .into();
    outcome.expect_code(0);
    let metadata = fs::metadata(&output).expect("it is there");
    assert_eq!((metadata.mode() & 0o7777, metadata.uid()), (0o600, 0));
    assert!(fs::read_to_string(&output).expect("it is there").contains("<svg"));
    assert_eq!(fs::read_to_string(&also).expect("it is there"), "hers");
}

#[test]
fn what_a_person_means_by_it_is_written_in_place() {
    needs_recording!();
    let scene = Scene::new();
    let recording = plain(&scene.recording);
    let usual = dbtime(&["report", recording]).expect_code(0).stdout;
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        assert_eq!(
            dbtime(&["report", recording, "-o", name]).expect_code(0).stdout,
            usual,
            "{name}"
        );
    }
    let other: Outcome = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "'{}' report '{recording}' -o /dev/fd/3 3>&1 >/dev/null; mkfifo '{1}/f'; cat '{1}/f' & '{0}' report '{recording}' -o '{1}/f'; wait",
            dbtime_binary().display(),
            scene.home.path().display()
        ))
        .output()
        .expect("a shell")
        .into();
    assert_eq!(other.stdout, usual.repeat(2));
    dbtime(&["report", recording, "-o", "/dev/null"]).expect_code(0);
}

/// The owner of the directory renames the recording away as soon as it is there, and puts in its place a directory in which
/// every name that could be written next is a link.
#[test]
fn a_recording_that_is_renamed_away_is_written_where_it_is_now() {
    needs_recording!();
    let scene = Scene::new();
    let cluster = distribution().start(Options::default());
    chown(&scene.open, Some(MALLORY), Some(MALLORY)).expect("tests run as root");
    let output = scene.open.join("x.dbt");
    let recorder = Recorder::start_at(&output, &["--postgres", plain(cluster.data_dir()), "-d", "12"]);
    let away = scene.open.join("away");
    fs::rename(&output, &away).expect("the owner may");
    let tables: Vec<PathBuf> = fs::read_dir(&away)
        .expect("a recording")
        .map(|entry| output.join(entry.expect("an entry").file_name()))
        .filter(|path| path.extension().is_none())
        .collect();
    assert!(tables.len() > 5, "{tables:?}");
    let folders = tables.iter().chain([&output]);
    for folder in folders {
        fs::create_dir_all(folder).expect("room");
        for name in [
            "meta.json",
            "meta.tmp",
            "000001.parquet",
            "000001.tmp",
            "000002.parquet",
            "000002.tmp",
        ] {
            let link = folder.join(name);
            symlink(&scene.victim, &link).expect("room");
            mallorys(&link);
        }
        mallorys(folder);
    }
    let now = away.canonicalize().expect("it is there");
    let outcome = recorder.outcome().expect_code(0).expect_stderr(&[
        "was moved to",
        plain(&now),
        "while it was being recorded",
    ]);
    scene.victim_is_untouched(&outcome.stderr);
    assert_eq!(
        fs::read_link(output.join("meta.json")).expect("a link"),
        scene.victim
    );
    let report = dbtime(&["report", plain(&away)]).expect_code(0);
    assert!(report.stdout.contains("DB time"), "{report:#?}");
}

#[test]
fn the_text_of_a_dive_is_not_written_through_links() {
    needs_recording!();
    let scene = Scene::new();
    let raw = scene.open.join("calls");
    let new = scene.open.join("calls.new");
    symlink(&scene.victim, &new).expect("room");
    mallorys(&new);
    let mut sleeper = Command::new("sh")
        .args(["-c", "while :; do sleep 0.01; done"])
        .spawn()
        .expect("a shell");
    let pid = sleeper.id().to_string();
    let arguments = [
        "dive",
        "-p",
        &pid,
        "--call",
        "wait4",
        "--engine",
        "tracepoints",
        "-n",
        "3",
        "--raw",
        plain(&raw),
    ];
    let outcome = without_waiting(&arguments);
    symlink(&scene.victim, scene.open.join("link")).expect("room");
    let link = scene.open.join("link");
    let mut through = arguments;
    through[10] = plain(&link);
    let refused = without_waiting(&through);
    sleeper.kill().expect("it is ours");
    sleeper.wait().expect("it is ours");
    outcome.expect_code(0);
    refused.expect_code(1).expect_stderr(&["symbolic link"]);
    scene.victim_is_untouched("dive --raw");
    assert_eq!(fs::metadata(&raw).expect("it was written").mode() & 0o7777, 0o600);
    assert_eq!(fs::read_link(&new).expect("still hers"), scene.victim);
}

/// `nothing was recorded` leaves nothing behind, so that the name can be used again.
#[test]
fn what_failed_does_not_block_the_name() {
    needs_recording!();
    let scene = Scene::new();
    let nothing = scene.home.path().join("nothing.txt");
    fs::write(&nothing, "").expect("room");
    let output = scene.open.join("y.dbt");
    dbtime(&["import", plain(&nothing), "-o", plain(&output)]).expect_code(3);
    assert!(!output.exists());
    dbtime(&["import", plain(&scene.file), "-o", plain(&output)]).expect_code(0);
    // On a disk that has no room for anything.
    let disk = SmallDisk::mount(4);
    let output = disk.join("z.dbt");
    dbtime(&["import", plain(&scene.file), "-o", plain(&output)])
        .expect_code(1)
        .expect_stderr(&["space"]);
    assert!(!output.exists());
}

#[test]
fn a_full_disk_does_not_cost_the_old_picture() {
    needs_recording!();
    let scene = Scene::new();
    let disk = SmallDisk::mount(8);
    let output = disk.join("x.svg");
    fs::write(&output, "good and old").expect("room");
    dbtime(&["flame", plain(&scene.recording), "-o", plain(&output)])
        .expect_code(1)
        .expect_stderr(&[plain(&output), "space"]);
    assert_eq!(fs::read_to_string(&output).expect("it is there"), "good and old");
    assert_eq!(fs::read_dir(disk.join("")).expect("it is there").count(), 1);
}
