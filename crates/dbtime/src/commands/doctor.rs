//! `dbtime doctor`: what this host permits, and what to do about the rest.

use std::process::ExitCode;

use clap::Args;
use dbtime_collect::{Examination, Finding, Verdict, examine, host_description};
use dbtime_report::shell_word;
use serde_json::{Value, json};

use crate::exit_code::FAILED;
use crate::options::{AnswerFormat, TableFormat};
use crate::output::{self, ProgressLine};
use crate::remains::mend;

/// `dbtime doctor`
#[derive(Debug, Args)]
#[command(after_help = "Example: sudo dbtime doctor\n\n\
                  Every server is recorded briefly. The exit status is 0 when recording works, 1 when it does not.")]
pub struct DoctorArguments {
    /// For whom
    #[command(flatten)]
    answer: AnswerFormat,
}

/// Width of the name of what was examined, including the verdict before it.
const INDENT: usize = 26;
/// Sentences cannot be narrower than this.
const LEAST_WIDTH: usize = 60;

/// Examines the host, and prints what was found.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn run(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    mend();
    let mut line = ProgressLine::new();
    line.show("looking at this host …");
    let found = examine();
    drop(line);
    output::print(&match arguments.answer.format {
        TableFormat::Text => text(&found, output::width()),
        TableFormat::Json => format!("{:#}\n", as_json(&found)),
    })?;
    Ok(match found.recording_works() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    })
}

fn text(found: &Examination, width: usize) -> String {
    let mut text = format!("Host {}\n", host_description().name);
    add(&mut text, &found.host, width);
    for server in &found.servers {
        text += &format!(
            "\n{} on {} (pid {})\n",
            server.name, server.data_directory, server.pid
        );
        add(&mut text, &server.findings, width);
    }
    text.push('\n');
    text += &match (found.recording_works(), found.servers.as_slice()) {
        (false, _) => "Recording does not work here: see the lines marked 'no'.\n".to_string(),
        (true, []) => "Recording works.\n".to_string(),
        (true, [_]) => "Recording works: sudo dbtime record\n".to_string(),
        (true, servers) => servers
            .iter()
            .filter(|server| server.recording_works())
            .map(|server| {
                let directory = shell_word(&server.data_directory);
                format!("Recording works: sudo dbtime record --postgres {directory}\n")
            })
            .collect(),
    };
    text
}

fn add(text: &mut String, findings: &[Finding], width: usize) {
    for finding in findings {
        let found = match &finding.remedy {
            Some(remedy) => format!("{}; {remedy}", finding.found),
            None => finding.found.clone(),
        };
        let head = format!("  {:<5} {:<17} ", word(finding.verdict), finding.about);
        let lines = broken(&found, width.max(LEAST_WIDTH) - INDENT);
        for (n, line) in lines.iter().enumerate() {
            match n {
                0 => *text += &format!("{head}{line}\n"),
                _ => *text += &format!("{:INDENT$}{line}\n", ""),
            }
        }
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "ok",
        Verdict::Less => "less",
        Verdict::Missing => "no",
    }
}

/// Text in lines of this width, wrapped at blanks.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one from the beginning");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

fn as_json(found: &Examination) -> Value {
    let findings = |findings: &[Finding]| -> Vec<Value> {
        let one = |finding: &Finding| {
            json!({
                "about": finding.about,
                "verdict": word(finding.verdict),
                "found": finding.found,
                "remedy": finding.remedy,
            })
        };
        findings.iter().map(one).collect()
    };
    let servers = found.servers.iter().map(|server| {
        json!({
            "name": server.name,
            "data_directory": server.data_directory,
            "pid": server.pid,
            "recording_works": server.recording_works(),
            "findings": findings(&server.findings),
        })
    });
    json!({
        "recording_works": found.recording_works(),
        "host": findings(&found.host),
        "servers": servers.collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_at_blanks_and_long_words_are_whole() {
        assert_eq!(broken("a bc def", 4), ["a bc", "def"]);
        assert_eq!(broken("abcdefgh i\n j", 4), ["abcdefgh", "i j"]);
        assert_eq!(broken("", 4), [""]);
    }
}
