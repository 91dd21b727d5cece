//! Names of the tasks that end a sleep.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use arcstr::{ArcStr, literal};

use crate::postgres::titles::Titles;
use crate::process;

/// A pid is looked up again after this time: it may have become another process.
const VALID: Duration = Duration::from_secs(5);

/// Names that have been looked up.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    names: HashMap<u32, (ArcStr, Instant)>,
    titles: Titles,
}

impl Wakers {
    /// Name of a task by its pid; `comm`: its own name, for one that is gone. 0 is an interrupt.
    pub(crate) fn name_of(&mut self, pid: u32, comm: &str) -> ArcStr {
        if pid == 0 {
            return literal!("interrupt");
        }
        let now = Instant::now();
        if let Some((name, found)) = self.names.get(&pid)
            && now.duration_since(*found) < VALID
        {
            return ArcStr::clone(name);
        }
        let name = describe(pid, &self.titles)
            .map(ArcStr::from)
            .or_else(|| self.names.remove(&pid).map(|(name, _)| name))
            .unwrap_or_else(|| format!("{} {pid}", if comm.is_empty() { "pid" } else { comm }).into());
        self.names
            .retain(|_, (_, found)| now.duration_since(*found) < 10 * VALID);
        self.names.insert(pid, (ArcStr::clone(&name), now));
        name
    }
}

/// The kind of a server process, or the name of another process, with the pid.
fn describe(pid: u32, titles: &Titles) -> Option<String> {
    let name = match titles.of(pid).and_then(|(_, title)| title) {
        Some(title) => title.backend_type.0,
        None => process::name(pid)?.into(),
    };
    Some(format!("{name} {pid}"))
}
