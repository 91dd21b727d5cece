//! What there is to read: files, standard input, and the files inside of archives.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use dbtime_model::Rows;

use crate::archive::{Archive, MAX_MEMBERS, Member};
use crate::oracle_trace::continued_file;
use crate::parallel::{Done, Shared, import_one};
use crate::read_ahead::read_ahead;
use crate::{IMPORTERS, ImportError, Lines, Options, compression};

/// Stands for standard input.
const STANDARD_INPUT: &str = "-";

fn is_standard_input(path: &Path) -> bool {
    path == Path::new(STANDARD_INPUT)
}

/// All inputs that were named.
#[derive(Default)]
pub(crate) struct Inputs<'a> {
    /// With their place in the order in which they were named.
    pub all: Vec<(usize, Input<'a>)>,
    /// What cannot even be opened.
    pub failed: Vec<(usize, Done)>,
    /// What the user should know, in sentences.
    pub problems: Vec<String>,
}

/// Something that is read from start to end.
pub(crate) enum Input<'a> {
    File(&'a Path),
    Member(Archive<'a>, Member),
    /// Parts of one trace, in their order; named together.
    Parts(Vec<Input<'a>>, PathBuf),
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
                            "{}: only the first {MAX_MEMBERS} of its {} files are read: unpack it to read \
                             all",
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
        inputs.join_parts();
        inputs
    }

    /// Joins files that continue each other: a call that began in one of them and ended in the next is one call.
    fn join_parts(&mut self) {
        if self.all.len() < 2 {
            return;
        }
        let before: Vec<Option<usize>> = self
            .all
            .iter()
            .enumerate()
            .map(|(at, (_, input))| self.before(at, &input.continues()?))
            .collect();
        let mut inputs: Vec<Option<(usize, Input<'_>)>> = self.all.drain(..).map(Some).collect();
        for first in 0..inputs.len() {
            // Files that continue each other in a circle have no first part: each is read alone.
            let is_first = before[first].is_none() || !has_first(&before, first);
            let Some((order, input)) = inputs[first].take_if(|_| is_first) else {
                continue;
            };
            let mut parts = vec![input];
            let mut last = first;
            while let Some(next) = before.iter().position(|before| *before == Some(last))
                && let Some((_, part)) = inputs[next].take()
            {
                parts.push(part);
                last = next;
            }
            self.all.push((order, Input::of_parts(parts)));
        }
        self.all.extend(inputs.into_iter().flatten());
    }

    /// Which of the others has this name: preferably one in the same folder.
    fn before(&self, at: usize, name: &str) -> Option<usize> {
        let folder = self.all[at].1.path().parent();
        let named = self.all.iter().enumerate().filter(|(other, (_, input))| {
            let of_other = input.path().file_name().unwrap_or_default().to_string_lossy();
            // The name of a compressed file goes on.
            let rest = of_other.strip_prefix(name);
            *other != at && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let of_name: Vec<usize> = named.map(|(other, _)| other).collect();
        let same_folder = of_name
            .iter()
            .find(|other| self.all[**other].1.path().parent() == folder);
        same_folder.or(of_name.first()).copied()
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

/// True if the chain of those before it has a first one.
fn has_first(before: &[Option<usize>], of: usize) -> bool {
    let mut at = of;
    for _ in 0..before.len() {
        match before[at] {
            Some(earlier) => at = earlier,
            None => return true,
        }
    }
    false
}

impl<'a> Input<'a> {
    fn of_parts(mut parts: Vec<Input<'a>>) -> Input<'a> {
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return only;
        }
        let mut name = parts[0].path().as_os_str().to_os_string();
        name.push(match parts.len() {
            2 => " and the file that continues it".to_string(),
            count => format!(" and {} files that continue it", count - 1),
        });
        Input::Parts(parts, name.into())
    }
}

impl Input<'_> {
    /// Reads it. `idle_cpus`: threads that may read, less files that are read at the same time.
    pub(crate) fn import(
        &self,
        options: &Options,
        shared: &Shared,
        to: SyncSender<Rows>,
        idle_cpus: usize,
    ) -> Done {
        let path = self.path();
        if let Input::Parts(parts, _) = self {
            read_ahead(
                |sink| {
                    parts.iter().try_for_each(|part| {
                        part.open(shared, |source| sink.fill(source))??;
                        // A part may end within a line.
                        sink.fill(&b"\n"[..])
                    })
                },
                |ahead| import_one(options, Box::new(ahead), path, to, idle_cpus > 1),
            )
        } else if idle_cpus > 0 {
            // Decompressing keeps a CPU busy: a third thread would only get in the way of the two.
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

    /// True for a file that is read as it is.
    fn is_plain(&self) -> bool {
        match self {
            Input::File(path) if !is_standard_input(path) && path.is_file() => {
                File::open(path).and_then(compression::is_plain).unwrap_or(false)
            }
            Input::File(_) | Input::Member(..) | Input::Parts(..) => false,
        }
    }

    fn path(&self) -> &Path {
        match self {
            Input::File(path) => path,
            Input::Member(_, member) => &member.path,
            Input::Parts(_, name) => name,
        }
    }

    /// Opens it (of several parts, the first) and decompresses it, for as long as `with` needs it.
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
            Input::Parts(parts, _) => parts[0].open(shared, with),
        }
    }

    /// Its format, as far as its beginning tells; none if it can be read only once.
    pub(crate) fn format(&self) -> Option<&'static str> {
        self.beginning(|head| {
            let importer = IMPORTERS.iter().find(|importer| importer.detect(head))?;
            Some(importer.name())
        })
    }

    /// Name of the file that it says it continues; none if it can be read only once.
    fn continues(&self) -> Option<String> {
        self.beginning(continued_file)
    }

    /// What its first bytes say.
    fn beginning<T>(&self, say: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        match self {
            Input::File(path) => {
                let file = path.is_file().then(|| File::open(path).ok())??;
                say(Lines::new(compression::open(file).ok()?).head())
            }
            Input::Member(archive, member) => {
                let mut archive = archive.clone();
                let file = archive.read(member.index).ok()?;
                say(Lines::new(compression::open(file).ok()?).head())
            }
            Input::Parts(parts, _) => parts[0].beginning(say),
        }
    }
}

/// A file that counts what is read from it, and ends early if reading is stopped.
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
