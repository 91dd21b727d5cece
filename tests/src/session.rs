//! Database sessions whose truth is known from the outside.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, PORT, SUPERUSER};
use postgres::error::DbError;
use postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::process::{SchedStat, schedstat, wait_for_state};

/// A connection. The server reports its own `getrusage` with every statement.
pub struct Session {
    client: Client,
    pid: u32,
    connected: Instant,
    /// When the backend was known to be there.
    answered: Instant,
    rusage: Arc<Mutex<Option<Duration>>>,
    durations: Arc<Mutex<Vec<Duration>>>,
}

/// What is known of a session from its first to its last moment, as bounds that hold however busy the machine is.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    /// Process id.
    pub pid: u32,
    /// It lived at least so long: from its first answer until it was told to end.
    pub shortest: Duration,
    /// It lived at most so long: from before it was asked for until it was seen dead.
    pub longest: Duration,
    /// After its last statement.
    pub before_end: SchedStat,
    /// When it was dead: with all that its exit took.
    pub after_end: SchedStat,
}

/// What is known about a session that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    /// Process id.
    pub pid: u32,
    /// From the answer to its connecting until it was told to end.
    pub shortest: Duration,
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
    /// When the server refuses.
    #[track_caller]
    pub fn connect(cluster: &Cluster) -> Session {
        Session::connect_with(cluster, "")
    }

    /// Connects with more options of the server (`-c name=value`).
    ///
    /// # Panics
    /// When the server refuses.
    #[track_caller]
    pub fn connect_with(cluster: &Cluster, options: &str) -> Session {
        Session::connect_by(cluster, config(cluster.socket_dir()), options)
    }

    /// Connects as this user to this database.
    ///
    /// # Panics
    /// When the server refuses.
    #[track_caller]
    pub fn connect_as(cluster: &Cluster, user: &str, database: &str) -> Session {
        let mut config = config(cluster.socket_dir());
        config.user(user).dbname(database);
        Session::connect_by(cluster, config, "")
    }

    /// The same, over TCP to this address.
    ///
    /// # Panics
    /// When the server refuses.
    #[track_caller]
    pub fn connect_to(cluster: &Cluster, address: &str, user: &str, database: &str) -> Session {
        let mut config = Config::new();
        config.host(address).port(PORT).user(user).dbname(database);
        Session::connect_by(cluster, config, "")
    }

    #[track_caller]
    fn connect_by(cluster: &Cluster, mut config: Config, options: &str) -> Session {
        let connected = Instant::now();
        let rusage = Arc::new(Mutex::new(None));
        let heard = Arc::clone(&rusage);
        let durations = Arc::new(Mutex::new(Vec::new()));
        let lasted = Arc::clone(&durations);
        config
            .options(&format!(
                "-c log_statement_stats=on -c client_min_messages=log {options}"
            ))
            .notice_callback(move |notice| {
                if let Some(cpu) = rusage_total(&notice) {
                    *heard.lock().expect("no holder panics") = Some(cpu);
                }
                if let Some(duration) = statement_duration(&notice) {
                    lasted.lock().expect("no holder panics").push(duration);
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
            answered: Instant::now(),
            rusage,
            durations,
        }
    }

    /// Process id of its backend.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What the kernel's accounting says of its backend.
    ///
    /// # Panics
    /// When it has ended.
    #[track_caller]
    pub fn schedstat(&self) -> SchedStat {
        schedstat(self.pid).expect("the backend lives")
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

    /// Asks for one value.
    ///
    /// # Panics
    /// When the server returns an error, or no value.
    #[track_caller]
    pub fn ask(&mut self, sql: &str) -> String {
        let answer = self.client.simple_query(sql);
        let messages = answer.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let value = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0)?.to_string()),
            _ => None,
        });
        value.unwrap_or_else(|| panic!("{sql}: no value"))
    }

    /// How long the statements since the last call took according to the server, with parsing and commit. Only with
    /// `-c log_duration=on`.
    ///
    /// # Panics
    /// When the thread that listens has panicked.
    pub fn take_durations(&mut self) -> Vec<Duration> {
        std::mem::take(&mut *self.durations.lock().expect("no holder panics"))
    }

    /// Waits until its backend sleeps for lack of work: by then all that it did is in the kernel's accounting.
    #[track_caller]
    pub fn wait_until_idle(&self) {
        wait_for_state(self.pid, 'S');
    }

    /// Burns CPU in user code for this long: no table, and no system call (reading the clock needs none).
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

    /// Ends the session while the postmaster is kept from reaping it ([`crate::Unreaped`]).
    ///
    /// # Panics
    /// When it does not end.
    #[track_caller]
    pub fn end_unreaped(self) -> Life {
        let before_end = schedstat(self.pid).expect("the backend lives");
        let shortest = self.answered.elapsed();
        drop(self.client);
        wait_for_state(self.pid, 'Z');
        Life {
            pid: self.pid,
            shortest,
            longest: self.connected.elapsed(),
            before_end,
            after_end: schedstat(self.pid).expect("it is not reaped"),
        }
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
        let shortest = self.answered.elapsed();
        drop(self.client);
        let process = format!("/proc/{}", self.pid);
        while Path::new(&process).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Truth {
            pid: self.pid,
            shortest,
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

/// `duration: 1.234 ms`, what `log_duration` writes.
fn statement_duration(notice: &DbError) -> Option<Duration> {
    let ms = notice.message().strip_prefix("duration: ")?.strip_suffix(" ms")?;
    Some(Duration::from_secs_f64(ms.parse::<f64>().ok()? / 1e3))
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
