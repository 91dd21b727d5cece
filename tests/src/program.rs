//! Small programs that are compiled for a test, and run while it lasts.

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
        let output = Command::new(compiler)
            .args(["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"])
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .args(arguments)
            .output()
            .unwrap_or_else(|e| panic!("{compiler}: {e}"));
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        program
    }
}

/// A program that runs; killed when dropped.
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
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is to end whatever it does.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
