//! Which sessions of a snapshot, and what of them, as it is typed.

use dbtime_report::{Dimension, Filter, LineKind, SnapshotOptions, Whose};

use crate::filter_line;

/// What is shown where nothing is said.
const USUAL: [LineKind; 3] = [LineKind::Stat, LineKind::Time, LineKind::Wait];

/// Reads the words of WHO.
///
/// # Errors
/// One of them is none; says which there are.
pub fn parse(words: &[String]) -> Result<SnapshotOptions, String> {
    let mut options = SnapshotOptions {
        gather: USUAL.to_vec(),
        ..SnapshotOptions::default()
    };
    let mut others = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some(("gather", letters)) => options.gather = gather(letters)?,
            Some(("include", text)) => options.include = text.to_string(),
            Some(("ash", names)) => options.ash = dimensions(names)?,
            _ => others.push(word.clone()),
        }
    }
    options.filter = sessions(&others)?;
    Ok(options)
}

/// Reads the words of WHO that choose sessions.
///
/// # Errors
/// One of them is none; says which there are.
pub fn sessions(words: &[String]) -> Result<Filter, String> {
    let mut pids = Vec::new();
    let mut others = Vec::new();
    let mut whose = Whose::All;
    for word in words {
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            for number in word.split(',') {
                pids.push(number.parse().map_err(|_| format!("'{number}' is not a pid"))?);
            }
        } else if word.contains('=') {
            others.push(word.clone());
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
    // Snapper separates them by a plus.
    let names = names.split([',', '+']);
    names
        .map(|name| name.parse::<Dimension>().map_err(|e| format!("ash={name}: {e}")))
        .collect()
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
    fn what_is_none_says_which_there_are() {
        for (word, part) in [
            ("bob", "user=bob"),
            ("4711,x", "'x'"),
            ("gather=stq", "'q'"),
            ("gather=", "letters"),
            ("ash=colour", "colour"),
            ("colour=red", "NAME=VALUE"),
            ("foreground", "fg"),
            ("99999999999", "pid"),
        ] {
            let error = of(&[word]).expect_err(word);
            assert!(error.contains(part), "{word}: {error}");
        }
    }
}
