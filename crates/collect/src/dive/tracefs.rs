//! The only place that writes ftrace's settings. Those of the kernel's own trace are recorded before they are changed,
//! in memory and in the state file, and restored later; a private instance is removed with all that was set in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::state_file::{Owner, Setting, State, StateFile};
use crate::CollectError;

/// Where the file system is mounted.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Name of a private instance: followed by pid and start of its owner.
const INSTANCE: &str = "dbtime-";
/// Files that hold a list: one entry per line, added by writing, emptied by opening.
const LISTS: [&str; 4] = [
    "set_ftrace_pid",
    "set_event_pid",
    "set_graph_function",
    "set_ftrace_filter",
];

/// The file system.
#[derive(Debug, Clone)]
pub(super) struct TraceFs(PathBuf);

impl TraceFs {
    /// Finds it.
    ///
    /// # Errors
    /// It is not mounted.
    pub(super) fn find() -> Result<TraceFs, CollectError> {
        MOUNTS
            .into_iter()
            .map(PathBuf::from)
            .find(|mount| mount.join("current_tracer").exists())
            .map(TraceFs)
            .ok_or_else(|| {
                CollectError::Kernel(format!(
                    "{0} has no trace files: dives need a kernel with ftrace, and tracefs mounted (mount -t tracefs nodev {0})",
                    MOUNTS[0]
                ))
            })
    }

    /// A file of the kernel's own trace.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    /// Value of a setting of the kernel's own trace; None if the kernel has none of this name.
    pub(super) fn value(&self, file: &str) -> Option<String> {
        Some(read(&self.path(file)).ok()?.trim().to_string())
    }

    /// Entries of a list of the kernel's own trace.
    pub(super) fn entries(&self, file: &str) -> Vec<String> {
        read(&self.path(file)).map_or_else(|_| Vec::new(), |text| entries(&text))
    }

    /// Number of unread events in the kernel's own trace.
    pub(super) fn unread(&self) -> u64 {
        sum_of_stats(&self.0, &["entries"])
    }

    /// Names of all instances, whoever made them.
    pub(super) fn instances(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.path("instances"));
        folders
            .into_iter()
            .flatten()
            .flatten()
            .map(|f| f.path())
            .collect()
    }
}

/// True if a dive has left something behind, or is running.
pub(super) fn is_left_over(fs: &TraceFs) -> bool {
    let is_abandoned = |instance: &PathBuf| owner_of(instance).is_some_and(|owner| !owner.is_alive());
    StateFile::is_there() || fs.instances().iter().any(is_abandoned)
}

/// All that was changed, and how to undo it.
#[derive(Debug)]
pub(super) struct Changes {
    fs: TraceFs,
    file: StateFile,
    state: State,
}

impl Changes {
    /// Takes the lock, and undoes what an earlier dive has left behind. Returns what that was.
    ///
    /// # Errors
    /// Another dive runs, or what is left behind cannot be undone.
    pub(super) fn begin(fs: TraceFs) -> Result<(Changes, Vec<String>), CollectError> {
        let file = StateFile::lock()?;
        let mut notes = Vec::new();
        let left_over = file.left_over()?;
        let mut changes = Changes {
            state: StateFile::fresh()?,
            fs,
            file,
        };
        if let Some(state) = left_over {
            let owner = state.owner.pid;
            changes.state.instance = state.instance;
            changes.state.settings = state.settings;
            let what = changes.undo()?;
            notes.push(format!(
                "restored settings that a killed dive (pid {owner}) had changed: {}",
                if what.is_empty() {
                    "none differed".to_string()
                } else {
                    what.join(", ")
                }
            ));
        }
        for instance in changes.fs.instances() {
            let Some(owner) = owner_of(&instance) else {
                continue;
            };
            if !owner.is_alive() {
                remove_instance(&instance)?;
                notes.push(format!("removed {}, left by a killed dive", instance.display()));
            }
        }
        Ok((changes, notes))
    }

    /// The file system.
    pub(super) fn fs(&self) -> &TraceFs {
        &self.fs
    }

    /// Path of this process's private instance.
    fn instance(&self) -> PathBuf {
        let Owner { pid, started } = self.state.owner;
        let name = format!("{INSTANCE}{pid}-{started}");
        self.fs.path("instances").join(name)
    }

    /// Makes a private instance.
    fn make_instance(&mut self) -> Result<(), CollectError> {
        let instance = self.instance();
        self.state.instance = Some(instance.clone());
        self.file.save(&self.state)?;
        fs::create_dir(&instance).map_err(|e| CollectError::io(&instance, e))
    }

    /// Remembers a setting before it is changed.
    fn remember(&mut self, path: PathBuf) -> Result<(), CollectError> {
        if self.state.settings.iter().any(|known| known.path == path) {
            return Ok(());
        }
        let found = found(&path)?;
        self.state.settings.push(Setting { path, found });
        self.file.save(&self.state)
    }

    /// Restores everything, the last change first, and returns what differed.
    ///
    /// # Errors
    /// Something cannot be restored: it stays recorded for the next dive.
    pub(super) fn undo(&mut self) -> Result<Vec<String>, CollectError> {
        let mut differed = Vec::new();
        if let Some(instance) = &self.state.instance {
            if instance.exists() {
                remove_instance(instance)?;
                differed.push(instance.display().to_string());
            }
            self.state.instance = None;
        }
        let mut failed = None;
        for setting in self.state.settings.iter().rev() {
            match give_back(setting) {
                Ok(false) => {}
                Ok(true) => differed.push(file_name(&setting.path)),
                // The others are restored all the same.
                Err(e) => failed = Some(e),
            }
        }
        if let Some(e) = failed {
            return Err(e);
        }
        // What is in the kernel's own trace is a dive's: it was empty when the dive took it.
        if self
            .state
            .settings
            .iter()
            .any(|s| s.path == self.fs.path("tracing_on"))
        {
            let trace = self.fs.path("trace");
            write(&trace, &[]).map_err(|e| CollectError::io(&trace, e))?;
        }
        self.state.settings.clear();
        self.file.discard()?;
        Ok(differed)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // Nobody is left to be told; what could not be undone stays in the state file.
        let _ = self.undo();
    }
}

/// A trace: the kernel's own, or a private instance.
#[derive(Debug)]
pub(super) struct Trace {
    /// Closed before anything is restored: while it is open, the tracer cannot be changed.
    pipe: Option<File>,
    changes: Changes,
    folder: PathBuf,
    is_private: bool,
}

impl Trace {
    /// A private instance, which [`Trace::make`] makes.
    pub(super) fn private(changes: Changes) -> Trace {
        Trace {
            pipe: None,
            folder: changes.instance(),
            changes,
            is_private: true,
        }
    }

    /// The kernel's own trace.
    pub(super) fn global(changes: Changes) -> Trace {
        Trace {
            pipe: None,
            folder: changes.fs.0.clone(),
            changes,
            is_private: false,
        }
    }

    /// Makes it, if it is private.
    ///
    /// # Errors
    /// The kernel creates no instance.
    pub(super) fn make(&mut self) -> Result<(), CollectError> {
        match self.is_private {
            true => self.changes.make_instance(),
            false => Ok(()),
        }
    }

    /// Whether nobody else can use it.
    pub(super) fn is_private(&self) -> bool {
        self.is_private
    }

    /// The file system.
    pub(super) fn fs(&self) -> &TraceFs {
        &self.changes.fs
    }

    /// Whether the kernel has this setting here.
    pub(super) fn has(&self, file: &str) -> bool {
        self.folder.join(file).exists()
    }

    /// Text of a file; None if the kernel has none of this name here.
    pub(super) fn text(&self, file: &str) -> Option<String> {
        read(&self.folder.join(file)).ok()
    }

    /// Sets a value, or all entries of a list: in this trace, or globally where the kernel has it only once.
    ///
    /// # Errors
    /// The kernel refuses it; the error is that of the operating system.
    pub(super) fn set(&mut self, file: &str, entries: &[String]) -> Result<(), CollectError> {
        let own = self.changes.fs.path(file);
        let mut path = self.folder.join(file);
        if !path.exists() {
            // Some settings of a tracer exist only once, and apply to all instances.
            path.clone_from(&own);
        }
        // Before about Linux 6.19 the options of a tracer are shared by all instances, too.
        if path == own || file.starts_with("options/") && own.exists() {
            self.changes.remember(own)?;
        }
        if is_list(&path) || found(&path)? != entries {
            write(&path, entries).map_err(|e| {
                CollectError::Kernel(format!(
                    "{}: cannot write '{}': {e}",
                    path.display(),
                    entries.join(" ")
                ))
            })?;
        }
        Ok(())
    }

    /// Limits tracing to functions whose names match one of these patterns. Returns the patterns that match none.
    ///
    /// # Errors
    /// The kernel refuses to limit anything.
    pub(super) fn set_functions(&mut self, patterns: &[String]) -> Result<Vec<String>, CollectError> {
        const FILE: &str = "set_ftrace_filter";
        let path = self.folder.join(FILE);
        if !self.is_private {
            self.changes.remember(path.clone())?;
        }
        let mut file = open(&path).map_err(|e| CollectError::io(&path, e))?;
        let mut unknown = Vec::new();
        for pattern in patterns {
            match file.write_all(format!("{pattern}\n").as_bytes()) {
                Ok(()) => {}
                // What ftrace answers to a name that it does not know.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => unknown.push(pattern.clone()),
                Err(e) => return Err(CollectError::io(&path, e)),
            }
        }
        Ok(unknown)
    }

    /// Sets a value.
    ///
    /// # Errors
    /// As [`Trace::set`].
    pub(super) fn set_value(&mut self, file: &str, value: &str) -> Result<(), CollectError> {
        self.set(file, &[value.to_string()])
    }

    /// Sets a value where the kernel has such a setting.
    ///
    /// # Errors
    /// As [`Trace::set`].
    pub(super) fn set_if_there(&mut self, file: &str, value: &str) -> Result<(), CollectError> {
        if self.has(file) {
            self.set_value(file, value)
        } else {
            Ok(())
        }
    }

    /// Sets the buffer space for events, kilobytes per CPU; a larger buffer is left as it is.
    ///
    /// # Errors
    /// As [`Trace::set`].
    pub(super) fn set_room(&mut self, kilobytes: u64) -> Result<(), CollectError> {
        const FILE: &str = "buffer_size_kb";
        let now = found(&self.folder.join(FILE))?;
        match now.first().and_then(|size| size.parse::<u64>().ok()) {
            Some(size) if size < kilobytes => self.set_value(FILE, &kilobytes.to_string()),
            // If CPUs differ (`X`), somebody has set them so.
            _ => Ok(()),
        }
    }

    /// Starts tracing. Returns the lines that ftrace puts above the text of this tracer.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn start(&mut self) -> Result<String, CollectError> {
        use std::os::unix::fs::OpenOptionsExt;
        let trace = self.folder.join("trace");
        write(&trace, &[]).map_err(|e| CollectError::io(&trace, e))?;
        let header = read(&trace).map_err(|e| CollectError::io(&trace, e))?;
        let pipe = self.folder.join("trace_pipe");
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&pipe);
        self.pipe = Some(opened.map_err(|e| CollectError::io(&pipe, e))?);
        self.set_value("tracing_on", "1")?;
        Ok(header)
    }

    /// Reads what has been traced; 0 = there is nothing.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(pipe) = &mut self.pipe else { return Ok(0) };
        match pipe.read(into) {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
            other => other,
        }
    }

    /// Stops tracing; what was traced can still be read.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn pause(&mut self) -> Result<(), CollectError> {
        self.set_value("tracing_on", "0")
    }

    /// Events that did not fit, were overwritten before they were read, or dropped.
    pub(super) fn lost(&self) -> u64 {
        sum_of_stats(&self.folder, &["overrun", "commit overrun", "dropped events"])
    }

    /// Restores everything.
    ///
    /// # Errors
    /// Something could not be restored.
    pub(super) fn end(mut self) -> Result<Changes, CollectError> {
        self.pipe = None;
        self.changes.undo()?;
        Ok(self.changes)
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn is_list(path: &Path) -> bool {
    LISTS.contains(&file_name(path).as_str())
}

/// Entries of a list; where there are none, ftrace writes a comment.
fn entries(text: &str) -> Vec<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#') && *line != "no pid")
        .map(str::to_string)
        .collect()
}

/// What to write to restore a setting to its present value.
fn found(path: &Path) -> Result<Vec<String>, CollectError> {
    let text = read(path).map_err(|e| CollectError::io(path, e))?;
    if is_list(path) {
        return Ok(entries(&text));
    }
    let text = text.trim();
    let value = match file_name(path).as_str() {
        // `[local] global counter …`: the one in brackets is in use.
        "trace_clock" => text.split(['[', ']']).nth(1).unwrap_or(text),
        // `7 (expanded: 1408)`: the size that it gets on first use, which this is.
        "buffer_size_kb" => text
            .split_once("expanded: ")
            .map_or(text, |(_, size)| size.trim_end_matches(')')),
        _ => text,
    };
    Ok(vec![value.to_string()])
}

/// Restores a setting; true if it differed.
fn give_back(setting: &Setting) -> Result<bool, CollectError> {
    if found(&setting.path)? == setting.found {
        return Ok(false);
    }
    write(&setting.path, &setting.found).map_err(|e| {
        CollectError::Kernel(format!(
            "{} could not be restored to '{}': {e}; the next 'dbtime dive' tries again",
            setting.path.display(),
            setting.found.join(" ")
        ))
    })?;
    Ok(true)
}

/// Trace files have no size.
fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).truncate(true).open(path)
}

/// Opening empties a list; ftrace wants each entry in a write of its own.
fn write(path: &Path, entries: &[String]) -> io::Result<()> {
    let mut file = open(path)?;
    for entry in entries {
        file.write_all(format!("{entry}\n").as_bytes())?;
    }
    Ok(())
}

/// Sum over all CPUs of the lines `NAME: NUMBER` of `per_cpu/cpuN/stats` whose names are these.
fn sum_of_stats(trace: &Path, names: &[&str]) -> u64 {
    let cpus = fs::read_dir(trace.join("per_cpu"))
        .into_iter()
        .flatten()
        .flatten();
    cpus.filter_map(|cpu| read(&cpu.path().join("stats")).ok())
        .flat_map(|text| {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            let wanted = lines.filter(|(name, _)| names.contains(name));
            let numbers = wanted.filter_map(|(_, number)| number.trim().parse::<u64>().ok());
            numbers.collect::<Vec<_>>()
        })
        .sum()
}

/// The owner of an instance, if a dive made it.
fn owner_of(instance: &Path) -> Option<Owner> {
    let name = file_name(instance);
    let (pid, started) = name.strip_prefix(INSTANCE)?.split_once('-')?;
    Some(Owner {
        pid: pid.parse().ok()?,
        started: started.parse().ok()?,
    })
}

fn remove_instance(instance: &Path) -> Result<(), CollectError> {
    fs::remove_dir(instance).map_err(|e| {
        CollectError::Kernel(format!(
            "{}: this trace instance of a dive cannot be removed: {e}; the next 'dbtime dive' tries again",
            instance.display()
        ))
    })
}
