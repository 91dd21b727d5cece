//! Titles of live server processes, each read with the cluster name of its own server and, for recorded ones, with the names that they have
//! in their memory.
//!
//! A colon in a title may end the cluster name, or be part of the name of a user who wants to be taken for a background process: the
//! server's own processes tell which.

use std::cell::RefCell;
use std::collections::HashMap;

use super::client_names::{ClientNames, Told};
use super::title::{self, Title};
use crate::executable::Executable;
use crate::process;

/// What is known of a server stays when it is gone; everything is dropped once there are this many.
const MOST_SERVERS: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Titles {
    cluster_names: PerServer<String>,
    /// None = it is not known where they are.
    client_names: PerServer<Option<ClientNames>>,
}

/// What all processes of a server have in common, by its postmaster: pid and start time.
#[derive(Debug, Default)]
struct PerServer<T>(RefCell<HashMap<(u32, u64), T>>);

impl Titles {
    /// Title of any process, and what it says on its own: nothing until the process, or its server, has set its title.
    pub(crate) fn of(&self, pid: u32) -> Option<(String, Option<Title>)> {
        self.read(pid, || Told::Nothing)
    }

    /// The same for a process of a recorded server, whose memory is read for its client's names if the title is ambiguous. For others it is
    /// not: where to read is looked up in their executables, which may be anybody's.
    pub(crate) fn of_recorded(&self, pid: u32) -> Option<(String, Option<Title>)> {
        self.read(pid, || {
            let find = |postmaster| {
                let executable = Executable::of(postmaster).ok();
                Some(executable.and_then(|executable| ClientNames::of(&executable)))
            };
            let names = self.client_names.of(pid, find).flatten();
            names.map_or(Told::Nothing, |names| names.told(pid))
        })
    }

    fn read(&self, pid: u32, told: impl FnOnce() -> Told) -> Option<(String, Option<Title>)> {
        let text = process::title(pid)?;
        let cluster_name = match title::needs_cluster_name(&text) {
            true => self.cluster_names.of(pid, cluster_name),
            false => Some(String::new()),
        };
        let title = cluster_name.and_then(|name| title::parse(&text, &name, told));
        Some((text, title))
    }
}

impl<T: Clone> PerServer<T> {
    /// The value for the server that a process belongs to; if not known yet, `find` gets it, given the postmaster.
    fn of(&self, pid: u32, find: impl FnOnce(u32) -> Option<T>) -> Option<T> {
        let postmaster = process::parent(pid)?;
        let server = (postmaster, process::start_ticks(postmaster)?);
        if let Some(known) = self.0.borrow().get(&server) {
            return Some(known.clone());
        }
        let found = find(postmaster)?;
        let mut all = self.0.borrow_mut();
        if all.len() >= MOST_SERVERS {
            all.clear();
        }
        all.insert(server, found.clone());
        Some(found)
    }
}

fn cluster_name(postmaster: u32) -> Option<String> {
    let mut siblings = process::children(postmaster).into_iter();
    siblings.find_map(|sibling| title::cluster_name(&process::title(sibling)?).map(str::to_string))
}
