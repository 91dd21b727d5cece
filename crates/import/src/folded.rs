//! Folded stacks: `frame;frame;frame value`, one stack per line, root first.
//!
//! What `stackcollapse-*.pl`, inferno, `profile -f`, `offcputime -f` and dbtime itself write. Frames that end in `_[k]` at the
//! leaf are the kernel's. Lines that begin with `#` are comments. The file does not say what its values are: rows have counts,
//! unless the caller knows how much time one stands for. The wait is `not recorded`, the state `unknown`.

use std::io::Read;
use std::path::Path;

use dbtime_model::recording::{Clock, Unit};
use dbtime_model::{State, Wait};
use xxhash_rust::xxh3::xxh3_64;

use crate::import::unknown_line;
use crate::samples::{FrameNumber, Place, Process, Samples, Table, Weight, sampled};
use crate::text::decimal;
use crate::{Import, ImportError, Importer, Lines};

const KERNEL_SUFFIX: &[u8] = b"_[k]";

/// Separates kernel from user frames (`profile -df`); not a frame itself.
const DELIMITERS: [&[u8]; 2] = [b"-", b"--"];

/// Lines of a file examined to detect its format: all of them must be folded stacks.
const LOOKED_AT: usize = 20;

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct Folded;

impl Importer for Folded {
    fn name(&self) -> &'static str {
        "folded stacks"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines: Vec<&[u8]> = head.split_inclusive(|byte| *byte == b'\n').collect();
        // The last one may be truncated.
        if lines.len() > 1 && !head.ends_with(b"\n") {
            lines.pop();
        }
        let mut stacks = lines
            .into_iter()
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
            .take(LOOKED_AT)
            .peekable();
        stacks.peek().is_some()
            && stacks.all(|line| stack_and_value(line).is_some() && std::str::from_utf8(line).is_ok())
    }

    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read + '_>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError> {
        let mut file = crate::import::file(path);
        let mut samples = Samples::new();
        let session = samples.process(Process::named(b"", 0));
        let wait = samples.wait(Wait::not_recorded());
        let mut known: Table<u64, (FrameNumber, bool)> = Table::default();
        let mut frames: Vec<FrameNumber> = Vec::new();
        while let Some(line) = lines.next_line() {
            let text = line.bytes.trim_ascii();
            if text.is_empty() || text.starts_with(b"#") {
                continue;
            }
            // The value of a truncated last line may have more digits.
            let Some((stack, value)) = stack_and_value(text).filter(|_| line.ended) else {
                unknown_line(&mut file, line.number, line.bytes);
                continue;
            };
            frames.clear();
            let mut kernel_frames = 0;
            let mut is_kernel_side = true;
            for name in stack.rsplit(|byte| *byte == b';') {
                if DELIMITERS.contains(&name) {
                    continue;
                }
                let (frame, is_kernel) =
                    *known
                        .entry(xxh3_64(name))
                        .or_insert_with(|| match name.strip_suffix(KERNEL_SUFFIX) {
                            Some(symbol) => (samples.frame(symbol, b"[kernel]"), true),
                            None => (samples.frame(name, b""), false),
                        });
                is_kernel_side &= is_kernel;
                if is_kernel_side {
                    kernel_frames += 1;
                }
                frames.push(frame);
            }
            let (kernel, user) = frames.split_at(kernel_frames);
            let place = Place {
                session,
                second: 0,
                wait,
                state: State::Unknown,
                user: samples.stack(user),
                kernel: samples.stack(kernel),
            };
            samples.add(place, Weight::counts(value, into.options()));
        }
        file.lines = lines.number();
        let measure = sampled(Unit::Counts, Clock::None, into.options());
        samples.finish(measure, file, into);
        Ok(())
    }
}

/// `frame;frame value`
fn stack_and_value(line: &[u8]) -> Option<(&[u8], u64)> {
    let blank = memchr::memrchr2(b' ', b'\t', line)?;
    let value = decimal(&line[blank + 1..])?;
    let stack = line[..blank].trim_ascii_end();
    (!stack.is_empty()).then_some((stack, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_stack_is_not_taken_for_folded_stacks() {
        assert!(Folded.detect(b"# comment\nmain;f;g_[k] 12\nmain 3\nmai"));
        for other in [
            "",
            "# only\n",
            "hello world\n",
            "a;b 1\nplain text\n",
            "12\n",
            "a;b 1.5\n",
            "\u{0}\n",
        ] {
            assert!(!Folded.detect(other.as_bytes()), "{other}");
        }
    }
}
