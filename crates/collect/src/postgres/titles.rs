//! Titles of live server processes, each read with the cluster name of its own server.
//!
//! A colon in a title may end the cluster name, or stand in the name of a user who wants to be taken for a background process:
//! which of the two it is, the server's own processes tell.

use std::cell::RefCell;
use std::collections::HashMap;

use super::title::{self, Title};
use crate::process;

/// A server that is gone leaves its name here; more of them than this are not kept.
const MOST_SERVERS: usize = 64;

/// Cluster names by postmaster: its pid, and when it began.
#[derive(Debug, Default)]
pub(crate) struct Titles(RefCell<HashMap<(u32, u64), String>>);

impl Titles {
    /// Title of a process, and what it tells: nothing as long as the process, or its server, has not named itself.
    pub(crate) fn of(&self, pid: u32) -> Option<(String, Option<Title>)> {
        let text = process::title(pid)?;
        let told = if title::needs_cluster_name(&text) {
            self.cluster_name(pid).and_then(|name| title::parse(&text, &name))
        } else {
            title::parse(&text, "")
        };
        Some((text, told))
    }

    /// Cluster name of the server that a process belongs to.
    fn cluster_name(&self, pid: u32) -> Option<String> {
        let postmaster = process::parent(pid)?;
        let server = (postmaster, process::start_ticks(postmaster)?);
        if let Some(name) = self.0.borrow().get(&server) {
            return Some(name.clone());
        }
        let siblings = process::children(postmaster);
        let name = siblings
            .into_iter()
            .find_map(|sibling| title::cluster_name(&process::title(sibling)?).map(str::to_string))?;
        let mut names = self.0.borrow_mut();
        if names.len() >= MOST_SERVERS {
            names.clear();
        }
        names.insert(server, name.clone());
        Some(name)
    }
}
