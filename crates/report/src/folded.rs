//! Folded stacks as text: `level;level;frame;frame_[k] nanoseconds`, one stack a line, frames root first.
//!
//! The format that `flamegraph.pl`, inferno, speedscope and others read. Kernel frames end in `_[k]`. The value
//! is in whole nanoseconds, so that the sum of all lines is DB time exactly.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::export::Exporter;
use crate::flame::{Folded, FoldedStack};
use crate::printable::printable;

/// Marks a kernel frame.
pub(crate) const KERNEL_SUFFIX: &str = "_[k]";

/// Writes folded stacks.
pub(crate) struct FoldedText;

impl Exporter for FoldedText {
    fn endings(&self) -> &'static [&'static str] {
        &["folded", "txt"]
    }

    fn write(&self, folded: &Folded, out: &mut dyn Write) -> io::Result<()> {
        for stack in &folded.stacks {
            writeln!(out, "{} {}", names(stack).join(";"), stack.ns)?;
        }
        Ok(())
    }
}

/// Levels and frames of a stack, root first, as they are written.
pub(crate) fn names(stack: &FoldedStack) -> Vec<String> {
    let mut names = Vec::new();
    each_name(stack, |name, suffix| names.push(format!("{name}{suffix}")));
    names
}

/// Passes on the name of each level and frame, root first, with its suffix.
pub(crate) fn each_name(stack: &FoldedStack, mut take: impl FnMut(&str, &str)) {
    for name in stack.levels.iter() {
        take(&frame_name(name), "");
    }
    for (is_kernel, name) in stack.frames() {
        take(&frame_name(name), if is_kernel { KERNEL_SUFFIX } else { "" });
    }
    if stack.levels.is_empty() && stack.frames().next().is_none() {
        take("[no stack]", "");
    }
}

/// A name that cannot be mistaken for another part of the line: no `;`, no control character, no blank at
/// either end, no leading `#` (a comment), and no last word that reads like a number: a reader would take it
/// for the first of the two values of a differential profile.
pub(crate) fn frame_name(name: &str) -> Cow<'_, str> {
    // Nearly all names consist of such characters, and there are millions of them.
    let is_harmless = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b';' | b'#');
    if !name.is_empty() && name.bytes().all(is_harmless) {
        return Cow::Borrowed(name);
    }
    let mut name = printable(name).trim().replace(';', ":");
    if let Some(at) = name.rfind(' ')
        && name[at + 1..].chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        name.replace_range(at..=at, "_");
    }
    if name.starts_with('#') {
        name.replace_range(..1, "_");
    }
    if name.is_empty() {
        name.push_str("[none]");
    }
    Cow::Owned(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_the_line() {
        assert_eq!(frame_name("Lcom/a;b\n\u{1b}[1m"), "Lcom/a:b??[1m");
        assert_eq!(frame_name("  f  "), "f");
        assert_eq!(
            frame_name("operator delete(void*, long)"),
            "operator delete(void*, long)"
        );
        assert_eq!(frame_name("lambda 42"), "lambda_42");
        assert_eq!(frame_name("x 4 2.5"), "x 4_2.5");
        assert_eq!(frame_name("# f"), "_ f");
        assert_eq!(frame_name(" \u{3000} "), "[none]");
        assert_eq!(frame_name(""), "[none]");
    }
}
