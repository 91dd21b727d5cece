//! Words that are typed where there is a choice: what to say about one that is not among the choices.

/// How similar a command's own options must be for `clap` to suggest them (Jaro similarity).
const SIMILAR: f64 = 0.7;
/// A word of at least so many letters, one of them mistyped, left out, added or swapped with the next, counts as similar, too: Jaro
/// similarity is low for short words.
const SHORT: usize = 3;

/// Lists the choices, and says which may have been meant. `what`: what they are, for example `column`.
pub fn no_such(what: &str, word: &str, choices: &[&str]) -> String {
    format!(
        "no such {what}: '{word}'; choose from {}{}",
        choices.join(", "),
        did_you_mean(word, choices)
    )
}

/// The most similar of the words, as a question after a sentence; empty when none is similar.
pub fn did_you_mean<S: AsRef<str>>(word: &str, choices: &[S]) -> String {
    let word = word.to_lowercase();
    let is_short = word.chars().count() >= SHORT;
    let similarity = |choice: &S| {
        let choice = choice.as_ref().to_lowercase();
        match is_short && strsim::osa_distance(&word, &choice) <= 1 {
            true => 1.0,
            false => strsim::jaro(&word, &choice),
        }
    };
    choices
        .iter()
        .map(|choice| (similarity(choice), choice.as_ref()))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map_or_else(String::new, |(_, choice)| format!(". Did you mean '{choice}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_similar_is_suggested_and_what_is_not_is_not() {
        let said = no_such("state", "dsk", &["user", "disk", "sleep"]);
        assert_eq!(
            said,
            "no such state: 'dsk'; choose from user, disk, sleep. Did you mean 'disk'?"
        );
        assert_eq!(did_you_mean("LOK", &["Lock", "IO"]), ". Did you mean 'Lock'?");
        assert_eq!(did_you_mean("bbo", &["alice", "bob"]), ". Did you mean 'bob'?");
        assert_eq!(did_you_mean("xyz", &["Lock", "IO"]), "");
        assert_eq!(did_you_mean::<&str>("xyz", &[]), "");
    }
}
