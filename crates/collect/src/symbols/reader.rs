//! Has names read from files: once recording has begun, by a thread of its own. Whoever takes the kernel's events must not wait for a
//! large symbol table, or for a disk.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::elf_names::AtPlace;
use super::maps::Mapping;
use super::module::Modules;
use super::namer::Usage;
use crate::{CollectError, priority, privilege};

/// How long an answer is waited for: nearly all come within a tenth of a millisecond.
const PATIENCE: Duration = Duration::from_millis(2);

/// How long its end is waited for: it may hang in the kernel.
const LAST: Duration = Duration::from_secs(1);

/// Executables and libraries that recorded processes have mapped, by number.
pub(super) struct Reader {
    place: Place,
    /// In the order of their numbers.
    files: Vec<File>,
    usage: Usage,
}

/// What frames say about their file.
struct File {
    /// Without its directory.
    name: String,
    /// In hex; empty if it has none or cannot be read, and until it has been opened.
    build_id: String,
}

/// Where they are read.
enum Place {
    Here(Box<Modules>),
    Thread(Thread),
}

struct Thread {
    handle: JoinHandle<()>,
    questions: Sender<Question>,
    answers: Receiver<Answer>,
    /// Questions without an answer.
    open: usize,
    /// Of these, how often all files were to be forgotten: answers before that are about files with other numbers.
    clearing: usize,
    /// The last answer about an offset: number of its file, offset, and what is there.
    named: Option<(usize, u64, AtPlace)>,
    has_ended: bool,
}

enum Question {
    Open(Box<Mapping>, u32),
    Name(usize, u64),
    Clear,
}

enum Answer {
    /// The build id of a file that was opened.
    Opened(usize, String),
    Named(usize, u64, AtPlace),
    Cleared,
}

impl Reader {
    /// Reads in the calling thread for now.
    pub(super) fn of(modules: Modules) -> Reader {
        Reader {
            usage: modules.usage().clone(),
            place: Place::Here(Box::new(modules)),
            files: Vec::new(),
        }
    }

    /// What was read so far, while it is read in the calling thread.
    pub(super) fn here(&mut self) -> Option<&mut Modules> {
        match &mut self.place {
            Place::Here(modules) => Some(modules),
            Place::Thread(_) => None,
        }
    }

    /// Reads in a thread of its own from now on.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn go_on_in_thread(&mut self) -> Result<(), CollectError> {
        let Place::Here(modules) = &mut self.place else {
            return Ok(());
        };
        let (hand_over, handed_over) = channel();
        let (questions, of_thread) = channel();
        let (tell, answers) = channel();
        let handle = thread::Builder::new()
            .name("dbtime-names".to_string())
            .spawn(move || {
                if let Ok(modules) = handed_over.recv() {
                    work(modules, &of_thread, &tell);
                }
            })
            .map_err(|e| {
                CollectError::Kernel(format!("the thread that reads names cannot be started: {e}"))
            })?;
        // Only now: without a thread they are read here, as before.
        let _ = hand_over.send(std::mem::take(&mut **modules));
        self.place = Place::Thread(Thread {
            handle,
            questions,
            answers,
            open: 0,
            clearing: 0,
            named: None,
            has_ended: false,
        });
        Ok(())
    }

    /// Adds what a process has mapped there. Returns its number.
    pub(super) fn open(&mut self, mapping: &Mapping, pid: u32) -> usize {
        let number = self.files.len();
        self.files.push(File {
            name: mapping.file_name(),
            build_id: String::new(),
        });
        match &mut self.place {
            Place::Here(modules) => {
                modules.open(mapping, pid);
                self.files[number].build_id = modules.build_id(number).to_string();
            }
            Place::Thread(thread) => {
                let is_free = thread.open == 0;
                thread.ask(Question::Open(Box::new(mapping.clone()), pid));
                if is_free {
                    thread.wait(PATIENCE, &mut self.files);
                }
            }
        }
        number
    }

    /// File name without its directory, and build id. That is known once something in the file has been named.
    pub(super) fn identity(&self, number: usize) -> (&str, &str) {
        let file = &self.files[number];
        (&file.name, &file.build_id)
    }

    /// Names what is at an offset of a file. None: that will be known later, once [`Reader::is_busy`] says no.
    pub(super) fn name(&mut self, number: usize, offset: u64) -> Option<AtPlace> {
        let thread = match &mut self.place {
            Place::Here(modules) => return Some(modules.name(number, offset)),
            Place::Thread(thread) => thread,
        };
        thread.wait(Duration::ZERO, &mut self.files);
        let is_it = |named: &(usize, u64, AtPlace)| (named.0, named.1) == (number, offset);
        if thread.open == 0 && !thread.named.as_ref().is_some_and(is_it) {
            thread.ask(Question::Name(number, offset));
            thread.wait(PATIENCE, &mut self.files);
        }
        match thread.named.take_if(|named| is_it(named)) {
            Some((_, _, found)) => Some(found),
            // It could not do without some privilege, or hit a bug.
            None if thread.has_ended => Some(AtPlace::nothing(offset)),
            None => None,
        }
    }

    /// True while an answer is outstanding.
    pub(super) fn is_busy(&mut self) -> bool {
        match &mut self.place {
            Place::Here(_) => false,
            Place::Thread(thread) => {
                thread.wait(Duration::ZERO, &mut self.files);
                thread.open > 0
            }
        }
    }

    /// Waits for an outstanding answer, at most this long.
    pub(super) fn wait(&mut self, longest: Duration) {
        if let Place::Thread(thread) = &mut self.place {
            thread.wait(longest, &mut self.files);
        }
    }

    /// Forgets all files, and what was read from them.
    pub(super) fn clear(&mut self) {
        self.files.clear();
        match &mut self.place {
            Place::Here(modules) => modules.clear(),
            Place::Thread(thread) => {
                thread.named = None;
                thread.clearing += 1;
                thread.ask(Question::Clear);
            }
        }
    }

    /// What the process that reads names uses.
    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }
}

impl Drop for Reader {
    /// Nobody wants the answer any more that the thread may be waiting for.
    fn drop(&mut self) {
        let Place::Thread(thread) = &mut self.place else {
            return;
        };
        (thread.questions, _) = channel();
        (_, thread.answers) = channel();
        self.usage.kill();
        let begin = Instant::now();
        while !thread.handle.is_finished() && begin.elapsed() < LAST {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Thread {
    fn ask(&mut self, question: Question) {
        match self.questions.send(question) {
            Ok(()) => self.open += 1,
            Err(_) => self.has_ended = true,
        }
    }

    /// Waits until every question has its answer, at most this long.
    fn wait(&mut self, longest: Duration, files: &mut [File]) {
        let begin = Instant::now();
        while self.open > 0 {
            match self.answers.recv_timeout(longest.saturating_sub(begin.elapsed())) {
                Ok(answer) => self.take(answer, files),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => {
                    self.has_ended = true;
                    self.open = 0;
                }
            }
        }
    }

    fn take(&mut self, answer: Answer, files: &mut [File]) {
        self.open -= 1;
        match answer {
            Answer::Cleared => self.clearing -= 1,
            _ if self.clearing > 0 => {}
            Answer::Opened(number, build_id) => {
                if let Some(file) = files.get_mut(number) {
                    file.build_id = build_id;
                }
            }
            Answer::Named(number, offset, found) => self.named = Some((number, offset, found)),
        }
    }
}

fn work(mut modules: Modules, questions: &Receiver<Question>, answers: &Sender<Answer>) {
    // It was started while recording began: later tables must not take precedence over the database. Nothing is lost if it fails.
    let _ = priority::give_up();
    if privilege::keep_only(privilege::READS_FILES).is_err() {
        return;
    }
    for question in questions {
        let answer = match question {
            Question::Open(mapping, pid) => {
                let number = modules.open(&mapping, pid);
                Answer::Opened(number, modules.build_id(number).to_string())
            }
            Question::Name(number, offset) => Answer::Named(number, offset, modules.name(number, offset)),
            Question::Clear => {
                modules.clear();
                Answer::Cleared
            }
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}
