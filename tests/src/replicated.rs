//! A primary and a standby that its commits wait for, each at one end of a network of their own.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options, PORT, SUPERUSER, Shutdown};

use crate::servers::Server;
use crate::{Session, Wire};

/// Name of the standby, as `synchronous_standby_names` has it.
const STANDBY: &str = "other";
/// How long the standby may take to connect.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module.
pub struct Replicated {
    /// Stopped first.
    pub standby: Cluster,
    /// Commits of its clients wait for the standby.
    pub primary: Cluster,
    /// Between them.
    pub wire: Wire,
    /// The end at which the standby is.
    standby_end: usize,
}

/// How the standby is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Each server is at its own end of the wire.
    Wire,
    /// By TCP, both at one end.
    Loopback,
    /// By a Unix socket.
    Socket,
}

impl Replicated {
    /// Starts both; `None`, with a loud message, where there is no such network. `of_primary`, `of_standby`: further options.
    ///
    /// # Panics
    /// When one does not start, or the standby does not connect.
    pub fn start(
        server: &Server,
        over: Over,
        of_primary: Options,
        of_standby: Options,
    ) -> Option<Replicated> {
        let wire = Wire::lay()?;
        let end = if over == Over::Wire { 1 } else { 0 };
        let options = of_primary
            .set("listen_addresses", wire.address(0))
            .set("synchronous_standby_names", STANDBY)
            .set("compute_query_id", "on");
        let mut primary = wire.at(0, || server.start(options));
        let mut rules = OpenOptions::new()
            .append(true)
            .open(primary.data_dir().join("pg_hba.conf"))
            .expect("it has rules");
        writeln!(rules, "host replication all {}/32 trust", wire.address(end)).expect("there is room");
        primary.stop(Shutdown::Fast).expect("it runs");
        let host = match over {
            Over::Wire | Over::Loopback => wire.address(0),
            Over::Socket => primary.socket_dir().to_str().expect("a plain path"),
        };
        let connection = format!("host={host} port={PORT} user={SUPERUSER} application_name={STANDBY}");
        let options = of_standby.standby_of(primary.data_dir(), &connection);
        let standby = wire.at(end, || server.start(options));
        wire.at(0, || primary.launch()).expect("it starts again");
        let replicated = Replicated {
            standby,
            primary,
            wire,
            standby_end: end,
        };
        replicated.wait_for("sync");
        Some(replicated)
    }

    /// Stops the standby and starts it again; returns when commits wait for it as before.
    ///
    /// # Panics
    /// When it does not come back.
    pub fn restart_standby(&mut self) {
        self.standby.stop(Shutdown::Fast).expect("it runs");
        let standby = &mut self.standby;
        self.wire
            .at(self.standby_end, || standby.launch())
            .expect("it starts again");
        self.wait_for("sync");
    }

    fn wait_for(&self, state: &str) {
        let mut session = Session::connect(&self.primary);
        let give_up = Instant::now() + PATIENCE;
        let asked = "SELECT coalesce(max(sync_state), '') FROM pg_stat_replication WHERE state = 'streaming'";
        while session.ask(asked) != state {
            assert!(Instant::now() < give_up, "{}", self.standby.log_tail());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Pid of the standby's process of this kind (`walreceiver`, `startup`).
    ///
    /// # Panics
    /// When it has none.
    pub fn process(&self, kind: &str) -> u32 {
        let postmaster = self.standby.postmaster_pid();
        let is_kind = |pid: &u32| {
            let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            title.starts_with(format!("postgres: {kind}").as_bytes())
        };
        crate::children(postmaster)
            .into_iter()
            .find(is_kind)
            .unwrap_or_else(|| panic!("the standby has no {kind}"))
    }
}

/// A process stopped by a signal. It goes on when this is dropped.
pub struct Stopped(u32);

impl Stopped {
    /// Stops it.
    pub fn stop(pid: u32) -> Stopped {
        send(pid, libc::SIGSTOP);
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        send(self.0, libc::SIGCONT);
    }
}

fn send(pid: u32, signal: libc::c_int) {
    // SAFETY: kill has no memory effects.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}
