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
    let plain = stack
        .levels
        .iter()
        .chain(&stack.user)
        .map(|name| frame_name(name));
    let kernel = stack.kernel.iter().map(|name| frame_name(name) + KERNEL_SUFFIX);
    let names: Vec<String> = plain.chain(kernel).collect();
    if names.is_empty() {
        vec!["[no stack]".to_string()]
    } else {
        names
    }
}

/// A name that cannot be mistaken for another part of the line: no `;`, no control character, no blank at
/// either end, no leading `#` (a comment), and no last word that reads like a number: a reader would take it
/// for the first of the two values of a differential profile.
pub(crate) fn frame_name(name: &str) -> String {
    let mut name = printable(name).trim().replace(';', ":");
    if let Some(at) = name.rfind(' ')
        && name[at + 1..].chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        name.replace_range(at..=at, "_");
    }
    let name = match name.strip_prefix('#') {
        Some(rest) => Cow::Owned(format!("_{rest}")),
        None => Cow::Borrowed(name.as_str()),
    };
    if name.is_empty() {
        "[none]".to_string()
    } else {
        name.into_owned()
    }
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
