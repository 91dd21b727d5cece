//! Database sessions whose truth is known from the outside.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, PORT, SUPERUSER};
use postgres::error::DbError;
use postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::process::schedstat;

/// A connection. The server reports its own `getrusage` with every statement.
pub struct Session {
    client: Client,
    pid: u32,
    connected: Instant,
    rusage: Arc<Mutex<Option<Duration>>>,
}

/// What is known about a session that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    /// Process id.
    pub pid: u32,
    /// From before it connected until its process was gone.
    pub elapsed: Duration,
    /// User and system time by the process's own `getrusage`, after its last statement.
    pub cpu: Duration,
    /// Time in the run queue, as the kernel's accounting said after its last statement.
    pub run_delay: Duration,
}

impl Session {
    /// Connects to the database `postgres`.
    ///
    /// # Panics
    /// When the server does not let it.
    #[track_caller]
    pub fn connect(cluster: &Cluster) -> Session {
        let connected = Instant::now();
        let rusage = Arc::new(Mutex::new(None));
        let heard = Arc::clone(&rusage);
        let mut config = config(cluster.socket_dir());
        config
            .options("-c log_statement_stats=on -c client_min_messages=log")
            .notice_callback(move |notice| {
                if let Some(cpu) = rusage_total(&notice) {
                    *heard.lock().expect("no holder panics") = Some(cpu);
                }
            });
        let mut client = config
            .connect(NoTls)
            .unwrap_or_else(|e| panic!("{e}\n{}", cluster.log_tail()));
        let pid = client
            .simple_query("SELECT pg_backend_pid()")
            .expect("a new session can be asked")
            .iter()
            .find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
                _ => None,
            })
            .expect("a backend has a pid");
        Session {
            client,
            pid,
            connected,
            rusage,
        }
    }

    /// Process id of its backend.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Runs statements.
    ///
    /// # Errors
    /// What the server said.
    pub fn try_run(&mut self, sql: &str) -> Result<(), postgres::Error> {
        self.client.batch_execute(sql)
    }

    /// Runs statements that must work.
    #[track_caller]
    pub fn run(&mut self, sql: &str) {
        self.try_run(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// Burns CPU in user code for this long: no table, no system call but the clock's, which is none.
    #[track_caller]
    pub fn burn(&mut self, time: Duration) {
        self.run(&format!(
            "DO $$
             DECLARE
                 until_then timestamptz := clock_timestamp() + interval '{} ms';
                 x float8 := 0;
             BEGIN
                 WHILE clock_timestamp() < until_then LOOP
                     FOR i IN 1..10000 LOOP x := x + sqrt(i); END LOOP;
                 END LOOP;
             END $$",
            time.as_millis()
        ));
    }

    /// Ends the session, and waits until its process is gone.
    #[track_caller]
    pub fn end(mut self) -> Truth {
        self.run("SELECT 1");
        let cpu = self
            .rusage
            .lock()
            .expect("no holder panics")
            .expect("the server reports its rusage");
        let run_delay = schedstat(self.pid).expect("the backend lives").run_delay;
        drop(self.client);
        let process = format!("/proc/{}", self.pid);
        while Path::new(&process).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Truth {
            pid: self.pid,
            elapsed: self.connected.elapsed(),
            cpu,
            run_delay,
        }
    }
}

fn config(socket_dir: &Path) -> Config {
    let mut config = Config::new();
    config
        .host_path(socket_dir)
        .port(PORT)
        .user(SUPERUSER)
        .dbname("postgres");
    config
}

/// The total of `! [1.234567 s user, 0.012345 s system total]` in what `log_statement_stats` writes.
fn rusage_total(notice: &DbError) -> Option<Duration> {
    let total = notice.detail()?.lines().find_map(|line| {
        let (_, line) = line.split_once('[')?;
        line.strip_suffix(" s system total]")
    })?;
    let (user, system) = total.split_once(" s user, ")?;
    let seconds = user.parse::<f64>().ok()? + system.parse::<f64>().ok()?;
    Some(Duration::from_secs_f64(seconds))
}
