//! The directory that the demo leaves behind: always a new one, and removed if the demo fails.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use dbtime_model::output::{Directory, Place, caller_of_sudo};

use super::data::ReadFrom;
use crate::output::{self, say};

/// Name in the current directory; `-2`, `-3` … is added when it is taken.
const NAME: &str = "dbtime-demo";
/// More suggest that nobody looks at them.
const MOST: u32 = 1000;

pub(super) struct OutputDirectory {
    place: Place,
    directory: Arc<Directory>,
    keep: bool,
}

impl OutputDirectory {
    /// Creates the directory that was asked for, or one in the current directory.
    pub(super) fn create(wanted: Option<&Path>) -> Result<OutputDirectory> {
        if let Some(path) = wanted {
            return match OutputDirectory::at(path)? {
                Some(made) => Ok(made),
                None => bail!(
                    "{} already exists: choose another name or remove it",
                    path.display()
                ),
            };
        }
        for number in 1..=MOST {
            let name = match number {
                1 => NAME.to_string(),
                _ => format!("{NAME}-{number}"),
            };
            if let Some(made) = OutputDirectory::at(Path::new(&name))? {
                return Ok(made);
            }
        }
        bail!("{NAME} to {NAME}-{MOST} already exist: remove some or choose a name with -o")
    }

    /// Creates this one; none if the name is taken.
    fn at(path: &Path) -> Result<Option<OutputDirectory>> {
        let place = output::place(path)?;
        match place.create_directory() {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(None),
            made => Ok(Some(OutputDirectory {
                directory: Arc::new(made.with_context(|| path.display().to_string())?),
                place,
                keep: false,
            })),
        }
    }

    pub(super) fn recording(&self, from: ReadFrom) -> Place {
        self.place_of(&format!("{}.dbt", from.file_name()))
    }

    pub(super) fn flame_graph(&self, from: ReadFrom) -> Place {
        self.place_of(&format!("{}.svg", from.file_name()))
    }

    /// What differs between the two.
    pub(super) fn page(&self) -> Place {
        self.place_of("device-against-page-cache.html")
    }

    fn place_of(&self, name: &str) -> Place {
        Place::inside(Arc::clone(&self.directory), name.as_ref())
    }

    /// The demo has succeeded: the directory stays, and belongs to whoever called sudo.
    pub(super) fn keep(mut self) {
        self.keep = true;
        if let Some(text) = output::give(&self.directory, caller_of_sudo()) {
            say(format_args!("note: {text}"));
        }
    }
}

impl Drop for OutputDirectory {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // Only what the demo makes, so that nothing is lost that somebody else has put there. What cannot be removed
        // stays; drop could not report it.
        for from in ReadFrom::BOTH {
            let _ = self.recording(from).remove_directory();
            let _ = self.flame_graph(from).remove_file();
        }
        let _ = self.page().remove_file();
        let _ = self.place.remove_empty_directory();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_demo_that_fails_removes_what_it_made_and_nothing_else() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let path = home.path().join("out");
        let output = OutputDirectory::create(Some(&path)).expect("it is new");
        fs::create_dir_all(output.recording(ReadFrom::Device).path().join("activity")).expect("it is ours");
        fs::write(output.flame_graph(ReadFrom::PageCache).path(), "svg").expect("it is ours");
        fs::write(output.page().path(), "html").expect("it is ours");
        drop(output);
        assert!(!path.exists());

        let output = OutputDirectory::create(Some(&path)).expect("it is new again");
        fs::write(path.join("mine"), "mine").expect("it is ours");
        drop(output);
        assert_eq!(fs::read(path.join("mine")).expect("it stays"), b"mine");
        let error = OutputDirectory::create(Some(&path)).err().expect("it exists");
        assert!(error.to_string().contains("already exists"), "{error}");
    }
}
