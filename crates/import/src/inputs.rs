//! What there is to read: files, standard input, and the files inside of archives.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use dbtime_model::Rows;

use crate::archive::{Archive, MAX_MEMBERS, Member};
use crate::parallel::{Done, Shared, import_one};
use crate::read_ahead::read_ahead;
use crate::{IMPORTERS, ImportError, Lines, Options, compression};

/// Stands for standard input.
const STANDARD_INPUT: &str = "-";

fn is_standard_input(path: &Path) -> bool {
    path == Path::new(STANDARD_INPUT)
}

/// All that was named.
#[derive(Default)]
pub(crate) struct Inputs<'a> {
    /// With their place in the order of all.
    pub all: Vec<(usize, Input<'a>)>,
    /// What cannot even be opened.
    pub failed: Vec<(usize, Done)>,
    /// What a person should know, in sentences.
    pub problems: Vec<String>,
}

/// Something that is read from its begin to its end.
pub(crate) enum Input<'a> {
    File(&'a Path),
    Member(Archive<'a>, Member),
}

impl<'a> Inputs<'a> {
    pub(crate) fn of(paths: &'a [PathBuf], shared: &'a Shared) -> Inputs<'a> {
        let mut inputs = Inputs::default();
        for path in paths {
            let opened = match is_standard_input(path) {
                true => Ok(None),
                false => Archive::open(path, shared),
            };
            match opened {
                Ok(None) => inputs.add(Input::File(path)),
                Ok(Some((archive, contents))) => {
                    if contents.members.is_empty() {
                        inputs.fail(ImportError::Empty(path.clone()));
                    }
                    if contents.count > MAX_MEMBERS {
                        inputs.problems.push(format!(
                            "{}: of its {} files the first {MAX_MEMBERS} are read: unpack it to read all",
                            path.display(),
                            contents.count
                        ));
                    }
                    for member in contents.members {
                        inputs.add(Input::Member(archive.clone(), member));
                    }
                }
                Err(e) => inputs.fail(e),
            }
        }
        inputs
    }

    fn count(&self) -> usize {
        self.all.len() + self.failed.len()
    }

    fn add(&mut self, input: Input<'a>) {
        self.all.push((self.count(), input));
    }

    fn fail(&mut self, error: ImportError) {
        self.failed.push((self.count(), Err(error)));
    }
}

impl Input<'_> {
    /// Reads it. `idle_cpus`: how many fewer files are read at the same time than threads may read.
    pub(crate) fn import(
        &self,
        options: &Options,
        shared: &Shared,
        to: SyncSender<Rows>,
        idle_cpus: usize,
    ) -> Done {
        let path = self.path();
        if idle_cpus > 0 {
            // To decompress is work for a CPU of its own: a third thread would only be in the way of the two.
            let has_idle_cpu = idle_cpus > 1 || self.is_plain();
            read_ahead(
                |sink| self.open(shared, |source| sink.fill(source))?,
                |ahead| import_one(options, Box::new(ahead), path, to, has_idle_cpu),
            )
        } else {
            self.open(shared, |source| import_one(options, source, path, to, false))
                .map_err(|e| ImportError::io(path, e))?
        }
    }

    /// True of a file that is read as it is.
    fn is_plain(&self) -> bool {
        match self {
            Input::File(path) if !is_standard_input(path) && path.is_file() => {
                File::open(path).and_then(compression::is_plain).unwrap_or(false)
            }
            Input::File(_) | Input::Member(..) => false,
        }
    }

    fn path(&self) -> &Path {
        match self {
            Input::File(path) => path,
            Input::Member(_, member) => &member.path,
        }
    }

    /// Opens it, through its compression, for as long as `with` needs it.
    fn open<T>(&self, shared: &Shared, with: impl FnOnce(Box<dyn Read + '_>) -> T) -> io::Result<T> {
        match self {
            Input::File(path) => {
                let file: Box<dyn Read> = if is_standard_input(path) {
                    Box::new(io::stdin())
                } else {
                    Box::new(File::open(path)?)
                };
                Ok(with(compression::open(Counted { file, shared })?))
            }
            Input::Member(archive, member) => {
                let mut archive = archive.clone();
                let file = archive.read(member.index)?;
                Ok(with(compression::open(file)?))
            }
        }
    }

    /// What it is, as far as its beginning tells; none of what can be read only once.
    pub(crate) fn format(&self) -> Option<&'static str> {
        match self {
            Input::File(path) => {
                let file = path.is_file().then(|| File::open(path).ok())??;
                format_of(compression::open(file).ok()?)
            }
            Input::Member(archive, member) => {
                let mut archive = archive.clone();
                let file = archive.read(member.index).ok()?;
                format_of(compression::open(file).ok()?)
            }
        }
    }
}

fn format_of(source: Box<dyn Read + '_>) -> Option<&'static str> {
    let mut lines = Lines::new(source);
    let importer = IMPORTERS.iter().find(|importer| importer.detect(lines.head()))?;
    Some(importer.name())
}

/// A file that counts what is read of it, and ends when it should.
struct Counted<'a> {
    file: Box<dyn Read>,
    shared: &'a Shared,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.shared.is_stopped() {
            return Ok(0);
        }
        let read = self.file.read(buffer)?;
        self.shared.has_read(read as u64);
        Ok(read)
    }
}
