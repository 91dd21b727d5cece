//! `make install`: the command, its manual pages and its completions, for everybody, where they are looked for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use dbtime_tests::{Outcome, dbtime, dbtime_binary, repository, run};
use tempfile::TempDir;

fn install(destination: &Path, binary: &Path) -> Outcome {
    let done = Command::new("make")
        .arg("install")
        .arg(format!("DESTDIR={}", destination.display()))
        .arg("PREFIX=/usr")
        .arg(format!("BINARY={}", binary.display()))
        .current_dir(repository())
        .output();
    done.expect("make can be run").into()
}

/// The names of the commands that the help shows.
fn commands() -> Vec<String> {
    let help = dbtime(&["--help"]).expect_code(0).stdout;
    let (_, listed) = help.split_once("Commands:\n").expect("commands");
    let (listed, _) = listed.split_once("\n\n").expect("an end");
    let begins = listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    begins
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_string)
        .collect()
}

#[test]
fn everything_is_where_it_is_looked_for() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    // A name with a blank in it, as nobody should have.
    let destination = home.path().join("a package");
    install(&destination, &dbtime_binary()).expect_code(0);
    // And again, over what is there.
    install(&destination, &dbtime_binary()).expect_code(0);
    let usr = destination.join("usr");
    let version = run(Command::new(usr.join("bin/dbtime")).arg("--version"));
    assert!(version.starts_with("dbtime "), "{version}");

    let commands = commands();
    assert!(
        commands.len() > 10 && commands.iter().any(|name| name == "record"),
        "{commands:?}"
    );
    let share = usr.join("share");
    let pages = commands.iter().map(|name| format!("dbtime-{name}.1"));
    let pages: Vec<String> = pages.chain(["dbtime.1".to_string()]).collect();
    let made = fs::read_dir(share.join("man/man1")).expect("pages").count();
    assert_eq!(made, pages.len(), "a page for each command, and no other");
    let pages = pages.iter().map(|name| format!("man/man1/{name}"));
    let completions = [
        "bash-completion/completions/dbtime",
        "zsh/site-functions/_dbtime",
        "fish/vendor_completions.d/dbtime.fish",
    ];
    for name in pages.chain(completions.map(str::to_string)) {
        let mode = fs::metadata(share.join(&name)).expect(&name).permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{name}");
    }
    let unit = fs::read_to_string(usr.join("lib/systemd/system/dbtime-agent.service")).expect("it is there");
    assert!(unit.contains("ExecStart=/usr/bin/dbtime agent"), "{unit}");
    // The file that is to be copied is one that the agent understands.
    let sample = share.join("doc/dbtime/agent.toml");
    dbtime(&[
        "agent",
        "--check",
        "--config",
        sample.to_str().expect("a plain path"),
    ])
    .expect_code(0);
    let page = fs::read_to_string(share.join("man/man1/dbtime-record.1")).expect("it is there");
    for words in ["dbtime", "record", "\\-\\-duration", "sudo dbtime record"] {
        assert!(page.contains(words), "'{words}' is missing in {page}");
    }
    for name in completions {
        let script = fs::read_to_string(share.join(name)).expect("it is there");
        for word in commands
            .iter()
            .map(String::as_str)
            .chain(["postgres", "wait_class"])
        {
            assert!(script.contains(word), "'{word}' is missing in {name}");
        }
    }
}

/// What bash would offer for the last of these words.
fn offered(words: &[&str]) -> Vec<String> {
    let script = r#"
        source <("$0" completions bash)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _dbtime dbtime "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let output = run(Command::new("bash")
        .args(["--norc", "-c", script])
        .arg(dbtime_binary())
        .args(words));
    output.lines().map(str::to_string).collect()
}

#[test]
fn a_shell_completes_commands_options_and_dimensions() {
    assert_eq!(offered(&["dbtime", "rep"]), ["report"]);
    assert_eq!(offered(&["dbtime", "record", "--dur"]), ["--duration"]);
    assert_eq!(offered(&["dbtime", "flame", "--by", "wait_"]), ["wait_class"]);
}

#[test]
fn without_a_build_it_says_what_to_do() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let outcome = install(home.path(), &home.path().join("dbtime"));
    assert_ne!(outcome.code, 0);
    assert!(outcome.stderr.contains("make build"), "{outcome:#?}");
    assert_eq!(fs::read_dir(home.path()).expect("it is there").count(), 0);
}
