//! The standby of a recorded server, on the same host: its processes that receive and replay WAL.
//!
//! Sessions of the standby are not recorded: their time is not time of the recorded server.

use std::path::{Path, PathBuf};

use dbtime_model::BackendType;

use super::Server;
use super::backend_status::BackendStatus;
use super::titles::Titles;
use crate::executable::Executable;
use crate::process;
use crate::{CollectError, database::WaitSource};

/// A server that replays the WAL of the recorded one.
pub(super) struct Standby {
    server: Server,
    status: Option<BackendStatus>,
    titles: Titles,
    /// The process that receives: `backend_type` `walreceiver`.
    pub(super) receiver: Option<u32>,
    /// The process that replays: `startup`.
    pub(super) startup: Option<u32>,
}

impl Standby {
    /// The one on this data directory.
    ///
    /// # Errors
    /// No server runs there, or it is the recorded one itself, or one of another major version, which cannot replay its WAL.
    pub(super) fn on(directory: &Path, of: &Server) -> Result<Standby, CollectError> {
        let mut standby = Standby {
            server: Server::on(directory)?,
            status: None,
            titles: Titles::default(),
            receiver: None,
            startup: None,
        };
        if !standby.is_like(of) || standby.server.postmaster == of.postmaster {
            return Err(CollectError::NoStandby(PathBuf::from(directory)));
        }
        standby.look_where();
        standby.look();
        Ok(standby)
    }

    /// Whether it has the major version of the server whose WAL it replays. They are upgraded one after the other.
    pub(super) fn is_like(&self, of: &Server) -> bool {
        self.server.major == of.major
    }

    /// Its data directory, as it names it itself.
    pub(super) fn data_directory(&self) -> &Path {
        &self.server.data_directory
    }

    /// Looks for its processes; true if they differ from before. A standby that was restarted is found again.
    pub(super) fn look(&mut self) -> bool {
        if process::parent(self.server.postmaster).is_none()
            && let Some(server) = self.server.successor()
        {
            self.server = server;
            self.look_where();
        }
        let before = (self.receiver, self.startup);
        // Those that still exist stay known.
        let lives = |pid: &u32| process::parent(*pid) == Some(self.server.postmaster);
        self.receiver = self.receiver.filter(lives);
        self.startup = self.startup.filter(lives);
        if self.receiver.is_none() || self.startup.is_none() {
            for child in process::children(self.server.postmaster) {
                let Some((_, Some(title))) = self.titles.of(child) else {
                    continue;
                };
                match title.backend_type.0.as_str() {
                    BackendType::WAL_RECEIVER => self.receiver = Some(child),
                    BackendType::STARTUP => self.startup = Some(child),
                    _ => {}
                }
            }
        }
        before != (self.receiver, self.startup)
    }

    fn look_where(&mut self) {
        let executable = Executable::of(self.server.postmaster).ok();
        self.status = executable.and_then(|executable| {
            BackendStatus::of(&self.server, &executable, &self.server.children()).ok()
        });
    }

    /// Its processes that are recorded.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> {
        self.receiver.into_iter().chain(self.startup)
    }

    /// Where they report what they do.
    pub(super) fn source(&self) -> WaitSource {
        WaitSource::Pointer {
            event: self.server.wait_address,
            status: self.status.map(BackendStatus::record),
            // Their locks are those of another server than the recorded one.
            locks: None,
            routines: None,
        }
    }
}
