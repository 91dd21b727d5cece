//! Runs the command that is tested.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// How a run of the command ended.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code; -1 when it was killed.
    pub code: i32,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Outcome {
    /// Asserts the exit code; on a mismatch, shows everything that the command printed.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Outcome {
        assert_eq!(self.code, code, "exit code of {self:#?}");
        self
    }

    /// Asserts that standard error has these words, in upper or lower case.
    #[track_caller]
    pub fn expect_stderr(self, words: &[&str]) -> Outcome {
        let said = self.stderr.to_lowercase();
        for word in words {
            assert!(
                said.contains(&word.to_lowercase()),
                "'{word}' is missing in {self:#?}"
            );
        }
        self
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Outcome {
        Outcome {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs the command, which must end by itself; returns its peak resident set, too, in bytes.
///
/// # Panics
/// When it cannot be run.
pub fn dbtime_with_memory(arguments: &[&str]) -> (Outcome, u64) {
    let output = Command::new("/usr/bin/time")
        .args(["-q", "-f", "memory %M", "timeout", "120"])
        .arg(dbtime_binary())
        .args(arguments)
        .output()
        .expect("time can be run; scripts/deps.sh test installs it");
    let mut outcome = Outcome::from(output);
    let (said, kilobytes) = outcome.stderr.rsplit_once("memory ").expect("time tells it");
    let bytes = kilobytes.trim().parse::<u64>().expect("a number") << 10;
    outcome.stderr = said.to_string();
    (outcome, bytes)
}

/// The command under test: `DBTIME_BIN`, or the one built beside this test.
///
/// # Panics
/// When it was not built.
pub fn dbtime_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("DBTIME_BIN") {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().expect("a test knows its own path");
    // target/PROFILE/deps/TEST
    let path = test
        .ancestors()
        .nth(2)
        .expect("a test is two folders deep")
        .join("dbtime");
    assert!(
        path.is_file(),
        "{} is not built: run cargo build first, or set DBTIME_BIN",
        path.display()
    );
    path
}

/// Runs the command to its end.
pub fn dbtime<A: AsRef<OsStr>>(arguments: &[A]) -> Outcome {
    Command::new(dbtime_binary())
        .args(arguments)
        .output()
        .expect("the command can be run")
        .into()
}

/// Runs the command as user `nobody`, without any capability.
pub fn dbtime_as_nobody<A: AsRef<OsStr>>(arguments: &[A]) -> Outcome {
    // A copy, because the user nobody may not be able to enter the build directory.
    let open = open_directory();
    let copy = copy_of_command(open.path());
    Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args(arguments)
        .current_dir(open.path())
        .output()
        .expect("setpriv can be run")
        .into()
}

/// Copies the command into a folder, in another process: a file that is open for writing cannot be executed, and a child that another test
/// starts during the copy would inherit it open for a moment.
///
/// # Panics
/// When it cannot be copied.
#[track_caller]
pub fn copy_of_command(folder: &Path) -> PathBuf {
    let copy = folder.join("dbtime");
    let copied = Command::new("cp").arg(dbtime_binary()).arg(&copy).status();
    assert!(
        copied.expect("cp can be run").success(),
        "the command can be copied"
    );
    copy
}

/// A temporary directory that everyone may read.
pub(crate) fn open_directory() -> TempDir {
    let directory = tempfile::Builder::new()
        .prefix("dbtime-test-")
        .tempdir()
        .expect("a temporary directory");
    open_to_all(directory.path());
    directory
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions of an own directory");
}
