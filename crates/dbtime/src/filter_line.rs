//! A filter as it is typed: the words of `dbtime report` (`--where user=bob --wait IO`), or shorter ones (`user=bob wait=IO`).

use clap::Parser;
use dbtime_report::Filter;

use crate::options::Selection;

/// What a filter is parsed as.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    selection: Selection,
}

/// Options of a report that are written `NAME=VALUE` here; any other name is a session attribute.
const OPTIONS: [&str; 4] = ["wait", "state", "query", "session"];

/// Parses a filter typed on a screen.
///
/// # Errors
/// The text is not a filter; the error says why, in one line.
pub fn parse(text: &str) -> Result<Filter, String> {
    of_words(&words(text)?)
}

/// Parses a filter that a shell has already split into words.
///
/// # Errors
/// The words are not a filter; the error says why, in one line.
pub fn of_words(words: &[String]) -> Result<Filter, String> {
    let line = Line::try_parse_from(options(words)).map_err(|e| first_sentence(&e.to_string()))?;
    if line.selection.from.is_some() || line.selection.to.is_some() {
        return Err(
            "--from and --to are not for live data: in 'dbtime top', Left and Right move in time".to_string(),
        );
    }
    if !line.selection.host.is_empty() {
        return Err("--host selects a part of a store".to_string());
    }
    Ok(line.selection.whole_time())
}

/// `user=bob` becomes `--where=user=bob`, `wait=IO` becomes `--wait=IO`; options and their values stay as they are.
fn options(words: &[String]) -> Vec<String> {
    let mut is_value = false;
    let mut options = Vec::with_capacity(words.len());
    for word in words {
        let was_value = std::mem::replace(&mut is_value, word.starts_with("--") && !word.contains('='));
        options.push(match word.split_once('=') {
            Some((name, _)) if was_value || name.starts_with('-') => word.clone(),
            Some((name, value)) if OPTIONS.contains(&name) => format!("--{name}={value}"),
            Some(_) => format!("--where={word}"),
            None => word.clone(),
        });
    }
    options
}

/// Splits text into words as a shell does: at blanks that are not quoted or escaped with a backslash.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => {
                let next = characters.next().ok_or("there is nothing after the last \\")?;
                word.get_or_insert_default().push(next);
            }
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("unclosed quote".to_string());
    }
    words.extend(word);
    Ok(words)
}

/// A clap error without its label and the usage that follows it.
fn first_sentence(message: &str) -> String {
    let lines = message.lines().take_while(|line| !line.starts_with("Usage"));
    let lines: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines.join(" ");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    match text.split_once("For more information") {
        Some((sentence, _)) => sentence.trim().to_string(),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use dbtime_model::State;
    use dbtime_report::{Dimension, shell_word};

    use super::*;

    #[test]
    fn short_words_and_those_of_a_report_mean_the_same() {
        let short = parse("user=bob wait=IO state=disk query=-42 session=4711").expect("a filter");
        let long = parse("--where user=bob --wait IO --state disk --query -42 --session 4711");
        assert_eq!(Ok(&short), long.as_ref());
        assert_eq!(short.facts, [(Dimension::User, "bob".to_string())]);
        assert_eq!(short.states, [State::Disk]);
        assert_eq!(short.statements, [(-42i64).cast_unsigned()]);
        assert_eq!(parse("  "), Ok(Filter::default()));
    }

    #[test]
    fn what_is_quoted_is_one_word() {
        for value in ["a b", "it's", "\"", "\\", "", "x=y"] {
            let filter = parse(&format!("application={}", shell_word(value))).expect("a filter");
            assert_eq!(filter.facts, [(Dimension::Application, value.to_string())]);
        }
        let filter = parse("wait='[not sampled]' wait=\"IO:Data File\"").expect("a filter");
        assert_eq!(filter.waits, ["[not sampled]", "IO:Data File"]);
    }

    #[test]
    fn what_is_none_says_why_in_one_line() {
        for (text, part) in [
            ("color=red", "NAME=VALUE"),
            ("bob", "unexpected"),
            ("state=asleep", "asleep"),
            ("session=x", "must be a pid"),
            ("user='bob", "quote"),
            ("--from 3", "Left"),
            ("--help", "--help"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part) && !error.contains('\n'), "{text}: {error}");
            assert!(
                !error.contains("Usage") && !error.contains("For more"),
                "{text}: {error}"
            );
        }
    }
}
