//! Titles of live server processes, each read with the cluster name of its own server, and, of recorded ones, with the names that they have
//! in their memory.
//!
//! A colon in a title may end the cluster name, or stand in the name of a user who wants to be taken for a background process:
//! which of the two it is, the server's own processes tell.

use std::cell::RefCell;
use std::collections::HashMap;

use super::client_names::{ClientNames, Told};
use super::title::{self, Title};
use crate::executable::Executable;
use crate::process;

/// A server that is gone leaves what was known of it here; more of them than this are not kept.
const MOST_SERVERS: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Titles {
    cluster_names: PerServer<String>,
    /// None = it is not known where they are.
    client_names: PerServer<Option<ClientNames>>,
}

/// What is the same in all processes of a server, by its postmaster: its pid, and when it began.
#[derive(Debug, Default)]
struct PerServer<T>(RefCell<HashMap<(u32, u64), T>>);

impl Titles {
    /// Title of any process, and what it tells by itself: nothing as long as the process, or its server, has not named itself.
    pub(crate) fn of(&self, pid: u32) -> Option<(String, Option<Title>)> {
        self.read(pid, || Told::Nothing)
    }

    /// The same of a process of a recorded server, which is asked for its client's names where the title does not tell them apart. Others
    /// are not: their executables, in which it is looked up where they have them, may be anybody's.
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
    /// Of the server that a process belongs to; what this finds of it, by its postmaster, where it is not known yet.
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
