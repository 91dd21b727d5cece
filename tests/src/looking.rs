//! `dbtime latch --exact` running beside a test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dbtime::throwaway::Cluster;
use serde_json::Value;

use crate::dbtime_binary;

/// `dbtime latch --exact` of a server in the background. Killed when dropped before its end.
pub struct Looking {
    child: Child,
    stderr: BufReader<ChildStderr>,
    said: String,
}

impl Looking {
    /// Returns once its period has begun: two seconds later, a period of six is not over.
    ///
    /// # Panics
    /// When it ends before that.
    pub fn begin(cluster: &Cluster, arguments: &[&str]) -> Looking {
        let mut looking = Looking::start(cluster, arguments);
        looking.wait_until_attached();
        // It begins at a whole second, which may be the one after the next.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
        let wait = Duration::from_millis(2_100) - Duration::from_nanos(now.subsec_nanos().into());
        std::thread::sleep(wait);
        looking
    }

    /// Returns at once.
    ///
    /// # Panics
    /// When it cannot be run.
    pub fn start(cluster: &Cluster, arguments: &[&str]) -> Looking {
        let directory = cluster.data_dir().to_str().expect("a plain path");
        let mut child = Command::new(dbtime_binary())
            .args(["latch", "--exact", "--postgres", directory])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Looking {
            child,
            stderr,
            said: String::new(),
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns once all probes are in.
    ///
    /// # Panics
    /// When it ends before that.
    #[track_caller]
    pub fn wait_until_attached(&mut self) {
        while !self.said.contains("sampled") {
            let bytes = self.stderr.read_line(&mut self.said).expect("a pipe");
            assert!(bytes > 0, "it ended: {}", self.said);
        }
    }

    /// What it printed, once it has ended well.
    ///
    /// # Panics
    /// When it failed.
    #[track_caller]
    pub fn finish(mut self) -> String {
        let mut shown = String::new();
        let mut stdout = self.child.stdout.take().expect("a pipe");
        stdout.read_to_string(&mut shown).expect("text");
        self.stderr.read_to_string(&mut self.said).expect("text");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {}", self.said);
        shown
    }

    /// The same, with `--format json`.
    ///
    /// # Panics
    /// When it failed, or its output is not JSON.
    #[track_caller]
    pub fn finish_json(self) -> Value {
        serde_json::from_str(&self.finish()).expect("JSON")
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        // It has ended, or the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
