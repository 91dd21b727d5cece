//! Parsing of WHO: which sessions of a snapshot, and what to show of them.
//!
//! A name with an empty value (`user=`) selects the sessions that have none. Quotes that no shell removed are removed here if they enclose
//! a whole value: no name is meant to contain them.

use std::num::NonZeroU32;

use dbtime_report::{Dimension, Filter, LineKind, SnapshotOptions, Whose};

use crate::filter_line;
use crate::options::each_once;

/// What is shown by default.
const USUAL: [LineKind; 3] = [LineKind::Stat, LineKind::Time, LineKind::Wait];

/// Names whose value cannot be empty, and what may have been meant.
const NEVER_EMPTY: [(&str, &str); 6] = [
    ("wait", "wait=IO, or wait=CPU for time outside of waits"),
    ("state", "state=disk"),
    ("query", "query=-42"),
    ("session", "session=4711"),
    ("include", "include=read"),
    ("ash", "ash=query,wait"),
];

/// Parses the words of WHO.
///
/// # Errors
/// One of them is invalid; the error says which there are.
pub fn parse(words: &[String]) -> Result<SnapshotOptions, String> {
    let mut options = SnapshotOptions {
        gather: USUAL.to_vec(),
        ..SnapshotOptions::default()
    };
    let mut others = Vec::new();
    for word in without_quotes(words)? {
        match word.split_once('=') {
            Some(("gather", letters)) => options.gather = gather(letters)?,
            Some(("include", text)) => options.include = text.to_string(),
            Some(("ash", names)) => options.ash = dimensions(names)?,
            _ => others.push(word),
        }
    }
    options.filter = filter(&others)?;
    Ok(options)
}

/// Parses the words of WHO that select sessions.
///
/// # Errors
/// One of them is invalid; the error says which there are.
pub fn sessions(words: &[String]) -> Result<Filter, String> {
    filter(&without_quotes(words)?)
}

fn filter(words: &[String]) -> Result<Filter, String> {
    let mut pids = Vec::new();
    let mut others = Vec::new();
    let mut whose = Whose::All;
    for word in words {
        if word.contains('=') {
            others.push(word.clone());
        } else if word.starts_with(|c: char| c.is_ascii_digit()) {
            for number in word.split(',') {
                pids.push(pid(number, word)?);
            }
        } else {
            whose = match (word.as_str(), whose) {
                ("all", _) => whose,
                ("fg", Whose::All | Whose::Foreground) => Whose::Foreground,
                ("bg", Whose::All | Whose::Background) => Whose::Background,
                ("fg" | "bg", _) => return Err("no session is both fg and bg".to_string()),
                _ => {
                    return Err(format!(
                        "'{word}' selects no session: give all, fg, bg, pids, or NAME=VALUE as in user=bob"
                    ));
                }
            };
        }
    }
    let mut filter = filter_line::of_words(&others)?;
    filter.sessions.append(&mut pids);
    filter.whose = whose;
    Ok(filter)
}

/// One of the numbers of a word.
fn pid(number: &str, word: &str) -> Result<u32, String> {
    let pid: Option<NonZeroU32> = number.parse().ok();
    pid.map(NonZeroU32::get).ok_or_else(|| {
        format!(
            "'{number}' in '{word}' is not a pid: pids are whole numbers, separated by commas without blanks (4711,4712); for a name \
             that begins with a digit, write NAME=VALUE (user={word})"
        )
    })
}

/// The words without quotes that no shell removed.
fn without_quotes(words: &[String]) -> Result<Vec<String>, String> {
    let plain = |word: &String| {
        let all = within_quotes(word, word)?;
        let Some((name, value)) = all.split_once('=') else {
            return Ok(all.to_string());
        };
        let value = within_quotes(value, word)?;
        match NEVER_EMPTY.iter().find(|(never, _)| *never == name) {
            Some((_, example)) if value.is_empty() => {
                Err(format!("{name}= has no value: give one, as in {example}"))
            }
            _ => Ok(format!("{name}={value}")),
        }
    };
    words.iter().map(plain).collect()
}

/// What is between quotes if they enclose all of a text, otherwise all of it.
fn within_quotes<'a>(text: &'a str, word: &str) -> Result<&'a str, String> {
    let quotes = ['\'', '"'];
    let Some((quote, rest)) = quotes
        .into_iter()
        .find_map(|quote| Some((quote, text.strip_prefix(quote)?)))
    else {
        return Ok(text);
    };
    match rest.split_once(quote) {
        Some((within, "")) => Ok(within),
        // Happens when a shell splits a variable at its blanks.
        None => Err(format!(
            "{word}: unclosed quote; a value with blanks has to arrive as one word: type application='my app' in a shell, \
            or put a variable within \"\""
        )),
        Some(_) => Err(format!(
            "{word}: quotes must enclose the whole value; if the value contains {quote}, use the other kind of quotes"
        )),
    }
}

fn gather(letters: &str) -> Result<Vec<LineKind>, String> {
    let mut kinds = Vec::new();
    for letter in letters.chars() {
        match letter {
            's' => kinds.push(LineKind::Stat),
            't' => kinds.push(LineKind::Time),
            'w' => kinds.push(LineKind::Wait),
            'l' => kinds.push(LineKind::Latch),
            'o' => kinds.push(LineKind::Lock),
            'a' => kinds.extend(LineKind::ALL),
            _ => {
                return Err(format!(
                    "gather={letters}: '{letter}' is not one of s (statistics), t (times), w (waits), l (LWLocks held), o (locks of pg_locks), a (all)"
                ));
            }
        }
    }
    match kinds.is_empty() {
        true => Err("gather= needs letters: s, t, w, l, o or a".to_string()),
        false => Ok(kinds),
    }
}

fn dimensions(names: &str) -> Result<Vec<Dimension>, String> {
    // Snapper separates them with a plus.
    let split = names.split([',', '+']);
    let dimensions: Vec<Dimension> = split
        .map(|name| Dimension::parse_of_time(name).map_err(|e| format!("ash={name}: {e}")))
        .collect::<Result<_, _>>()?;
    each_once(&dimensions).map_err(|e| format!("ash={names}: {e}"))?;
    Ok(dimensions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<SnapshotOptions, String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        parse(&words)
    }

    #[test]
    fn words_choose_sessions_and_what_is_shown() {
        assert_eq!(of(&[]), of(&["all"]));
        let options = of(&[
            "fg",
            "4711,4712",
            "4713",
            "user=bob",
            "wait=IO",
            "gather=slo",
            "include=byte",
            "ash=query+wait",
        ]);
        let options = options.expect("words");
        assert_eq!(options.filter.whose, Whose::Foreground);
        assert_eq!(options.filter.sessions, [4711, 4712, 4713]);
        assert_eq!(options.filter.facts, [(Dimension::User, "bob".to_string())]);
        assert_eq!(options.filter.waits, ["IO"]);
        assert_eq!(options.gather, [LineKind::Stat, LineKind::Latch, LineKind::Lock]);
        assert_eq!(options.include, "byte");
        assert_eq!(options.ash, [Dimension::Query, Dimension::Wait]);
    }

    #[test]
    fn locks_are_chosen_by_the_same_words() {
        let words = ["bg", "4711", "backend_type=checkpointer"].map(str::to_string);
        assert_eq!(sessions(&words), parse(&words).map(|options| options.filter));
        let both = ["fg", "bg"].map(str::to_string);
        assert!(sessions(&both).expect_err("no session").contains("both"));
    }

    #[test]
    fn quotes_around_all_of_a_value_are_no_part_of_it() {
        let application = |word: &str| of(&[word]).map(|options| options.filter.facts);
        for (word, value) in [
            ("application=my app", "my app"),
            ("application='my app'", "my app"),
            ("application=\"my app\"", "my app"),
            ("'application=my app'", "my app"),
            ("\"application='my app'\"", "my app"),
            ("application=\"'my app'\"", "'my app'"),
            ("application=it's", "it's"),
            ("application=''", ""),
            ("application=a=\"b\"", "a=\"b\""),
            ("application='ä'", "ä"),
        ] {
            let expected = vec![(Dimension::Application, value.to_string())];
            assert_eq!(application(word), Ok(expected), "{word}");
        }
        for (word, part) in [
            ("application='my", "unclosed"),
            ("application='", "unclosed"),
            ("application='it's'", "other kind"),
            ("application=\"my\" app", "whole value"),
        ] {
            let error = application(word).expect_err(word);
            assert!(error.contains(part) && error.contains(word), "{word}: {error}");
        }
        let all = of(&["'fg'", "'4711,4712'", "wait='IO:DataFileRead'", "include='read'"]);
        assert_eq!(
            all,
            of(&["fg", "4711,4712", "wait=IO:DataFileRead", "include=read"])
        );
        // For locks, too.
        let word = ["user='bob'".to_string()];
        assert_eq!(sessions(&word), sessions(&["user=bob".to_string()]));
    }

    #[test]
    fn an_empty_value_is_that_of_who_has_none_and_of_nothing_else() {
        let nobody = of(&["user=", "client="]).expect("words").filter.facts;
        assert_eq!(
            nobody,
            [
                (Dimension::User, String::new()),
                (Dimension::Client, String::new())
            ]
        );
        for (name, example) in NEVER_EMPTY {
            for word in [format!("{name}="), format!("{name}=''")] {
                let error = of(&[&word]).expect_err(&word);
                assert!(
                    error.contains("has no value") && error.contains(example),
                    "{error}"
                );
            }
        }
        // The recommended examples are valid.
        for (_, example) in NEVER_EMPTY {
            let words: Vec<&str> = example.split_terminator([',', ' ']).collect();
            assert!(of(&words[..1]).is_ok(), "{example}");
        }
    }

    #[test]
    fn what_begins_with_a_digit_is_a_pid_or_says_what_to_write() {
        for (word, number) in [
            ("10abc", "'10abc'"),
            ("4711,", "''"),
            ("4711-4720", "'4711-4720'"),
            ("0", "'0'"),
        ] {
            let error = of(&[word]).expect_err(word);
            assert!(error.contains(number), "{word}: {error}");
            assert!(error.contains(&format!("user={word}")), "{word}: {error}");
        }
        // With a name, the error is about the name.
        let error = of(&["10abc=x"]).expect_err("no name");
        assert!(error.contains("NAME=VALUE"), "{error}");
    }

    #[test]
    fn what_is_none_says_which_there_are() {
        for (word, part) in [
            ("bob", "user=bob"),
            ("", "user=bob"),
            ("4711,x", "'x'"),
            ("gather=stq", "'q'"),
            ("gather=", "letters"),
            ("ash=colour", "colour"),
            ("ash=wait+state,wait", "'wait' is listed twice"),
            ("colour=red", "NAME=VALUE"),
            ("foreground", "fg"),
            ("99999999999", "pid"),
        ] {
            let error = of(&[word]).expect_err(word);
            assert!(error.contains(part), "{word}: {error}");
        }
    }
}
