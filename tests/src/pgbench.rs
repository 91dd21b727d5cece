//! Load on a throw-away server.

use std::process::{Child, Stdio};

use dbtime::throwaway::Cluster;

/// Beginnings of the texts of its statements, in the words of pgbench and of the server.
pub const STATEMENTS: [&str; 7] = [
    "BEGIN",
    "UPDATE pgbench_accounts",
    "SELECT abalance",
    "UPDATE pgbench_tellers",
    "UPDATE pgbench_branches",
    "INSERT INTO pgbench_history",
    "END",
];

/// Makes the tables of pgbench.
///
/// # Panics
/// When pgbench is missing or fails.
pub fn initialise(cluster: &Cluster, scale: u32) {
    run(
        cluster,
        &["--initialize", "--quiet", "--scale", &scale.to_string()],
    );
    cluster.psql("CHECKPOINT").expect("it works");
}

/// Runs pgbench to its end; returns what it printed.
///
/// # Panics
/// When pgbench is missing or fails.
#[track_caller]
pub fn run(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = cluster
        .client_program("pgbench")
        .expect("pgbench is installed")
        .args(arguments)
        .arg("postgres")
        .output()
        .expect("pgbench runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A number that it printed, such as `number of transactions actually processed`.
///
/// # Panics
/// When it did not.
#[track_caller]
pub fn printed(output: &str, what: &str) -> f64 {
    let line = output.lines().find_map(|line| line.strip_prefix(what));
    let number = line.and_then(|rest| rest.trim_start_matches([' ', '=', ':']).split([' ', '/']).next());
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no '{what}' in\n{output}"))
}

/// How many transactions it says that it made.
///
/// # Panics
/// When it did not.
#[track_caller]
pub fn transactions(output: &str) -> f64 {
    printed(output, "number of transactions actually processed")
}

/// pgbench in the background; killed when dropped.
#[derive(Debug)]
pub struct Load(Child);

impl Load {
    /// Random single-row reads by two clients, until it is dropped.
    ///
    /// # Panics
    /// When pgbench is missing.
    pub fn of_reads(cluster: &Cluster) -> Load {
        Load::start(
            cluster,
            &[
                "--select-only",
                "--no-vacuum",
                "--client=2",
                "--jobs=1",
                "--time=600",
            ],
        )
    }

    /// Starts pgbench with these arguments.
    ///
    /// # Panics
    /// When pgbench is missing.
    pub fn start(cluster: &Cluster, arguments: &[&str]) -> Load {
        let child = cluster
            .client_program("pgbench")
            .expect("pgbench is installed")
            .args(arguments)
            .arg("postgres")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pgbench runs");
        Load(child)
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn finish(mut self) {
        let status = self.0.wait().expect("pgbench is our child");
        assert!(status.success(), "pgbench: {status}");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Both do nothing when it has ended, as it has when its server was stopped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
