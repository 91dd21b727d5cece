//! Small programs that are compiled for a test, and run while it lasts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Programs in a folder of their own.
#[derive(Debug)]
pub struct Programs(TempDir);

impl Default for Programs {
    fn default() -> Programs {
        Programs(TempDir::with_prefix("dbtime-program-").expect("a temporary directory"))
    }
}

impl Programs {
    /// Compiles a file of tests/programs with these arguments, without frame pointers and optimised.
    ///
    /// # Panics
    /// When the compiler refuses it.
    #[track_caller]
    pub fn compile(&self, compiler: &str, source: &str, name: &str, arguments: &[&str]) -> PathBuf {
        let program = self.0.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("programs")
            .join(source);
        run(Command::new(compiler)
            .args(["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"])
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .args(arguments));
        program
    }

    /// Compiles a Rust file of tests/programs, optimised.
    ///
    /// # Panics
    /// When the compiler refuses it.
    #[track_caller]
    pub fn compile_rust(&self, source: &str, name: &str) -> PathBuf {
        let program = self.0.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("programs")
            .join(source);
        run(Command::new("rustc")
            .args(["-O", "--edition=2024", "-o"])
            .arg(&program)
            .arg(&source));
        program
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Moves what a debugger needs out of a program, into the file that its build id names.
    ///
    /// # Panics
    /// When binutils are missing, or the folder of debug files cannot be written.
    #[track_caller]
    pub fn move_debug_file(&self, program: &Path) -> DebugFile {
        let build_id = build_id(program);
        let folder = Path::new("/usr/lib/debug/.build-id").join(&build_id[..2]);
        fs::create_dir_all(&folder).expect("root may write there");
        let file = folder.join(format!("{}.debug", &build_id[2..]));
        self.cut_debug_file(program, &file);
        DebugFile(file)
    }

    /// Moves what a debugger needs out of a program into this file. Returns the build id of both.
    ///
    /// # Panics
    /// When binutils are missing.
    #[track_caller]
    pub fn cut_debug_file(&self, program: &Path, file: &Path) -> String {
        run(Command::new("objcopy")
            .arg("--only-keep-debug")
            .arg(program)
            .arg(file));
        run(Command::new("strip").arg("--strip-all").arg(program));
        build_id(program)
    }
}

/// The build id of a program, in hex.
#[track_caller]
pub(crate) fn build_id(program: &Path) -> String {
    let notes = run(Command::new("readelf").arg("-n").arg(program));
    let build_id = notes
        .split_once("Build ID: ")
        .and_then(|(_, rest)| rest.split_whitespace().next());
    build_id.expect("the program has a build id").to_string()
}

/// Runs a tool; returns what it prints.
///
/// # Panics
/// When it fails.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A debug file where the system keeps those of its packages; removed when dropped.
#[derive(Debug)]
pub struct DebugFile(PathBuf);

impl Drop for DebugFile {
    fn drop(&mut self) {
        // It does no harm there.
        let _ = fs::remove_file(&self.0);
    }
}

/// A running program; killed when dropped.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(program: &Path, arguments: &[&str]) -> Running {
        let child = Command::new(program).args(arguments).stdin(Stdio::null()).spawn();
        Running(child.unwrap_or_else(|e| panic!("{}: {e}", program.display())))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Lets it go on after it has stopped itself.
    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: kill has no memory effects; the process is a child of this one that is not yet reaped.
        unsafe { libc::kill(self.0.id().cast_signed(), signal) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is to end whatever it does.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
