//! `make install`: the command, its manual pages and its completions, for everybody, where they are looked for; and `make deb`,
//! the same as a package.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use dbtime_tests::{Outcome, dbtime, dbtime_binary, repository, run};
use tempfile::TempDir;

/// `make TARGET` as a user calls it, even if these tests were started by another make, which makes those below it print their directory and
/// passes its options on.
fn make(target: &str, binary: &Path) -> Command {
    let mut command = Command::new("make");
    command
        .arg(target)
        .arg(format!("BINARY={}", binary.display()))
        .current_dir(repository())
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL");
    command
}

fn install(destination: &Path, binary: &Path) -> Outcome {
    let done = make("install", binary)
        .arg(format!("DESTDIR={}", destination.display()))
        .arg("PREFIX=/usr")
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

/// Makes the package below this directory, without compressing it.
fn package(below: &Path) -> PathBuf {
    let made = make("deb", &dbtime_binary())
        .arg(format!("PACKAGES={}", below.display()))
        .env("DPKG_DEB_COMPRESSOR_LEVEL", "0")
        .output();
    let made: Outcome = made.expect("make can be run").into();
    let made = made.expect_code(0);
    let path = PathBuf::from(made.stdout.lines().last().expect("its name"));
    assert_eq!(path.parent(), Some(below), "{}", path.display());
    path
}

/// dpkg with a root directory of its own, in which nothing else is installed: it needs no privileges, and this machine stays as it is.
fn dpkg(root: &Path, arguments: &[&str]) {
    run(Command::new("dpkg")
        .arg(format!("--root={}", root.display()))
        .args(["--force-script-chrootless", "--force-not-root", "--force-depends"])
        .args(["--force-confold", "--log=/dev/null"])
        .args(arguments)
        // Where dpkg and the scripts find programs.
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ));
}

/// The same package with another version, and another file for the agent.
fn newer(package: &Path, below: &Path) -> PathBuf {
    let tree = below.join("tree");
    run(Command::new("dpkg-deb").arg("-R").arg(package).arg(&tree));
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control).expect("it is there");
    let text = text.replace("\nVersion: ", "\nVersion: 9:");
    fs::write(&control, text).expect("it can be written");
    let agent = tree.join("etc/dbtime/agent.toml");
    fs::write(&agent, "spool = \"/new\"\n").expect("it can be written");
    let newer = below.join("newer.deb");
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "-z0", "--build"])
        .args([&tree, &newer]));
    newer
}

/// Everything below a directory except dpkg's own records: directories and files, with their modes.
fn entries(root: &Path) -> BTreeMap<String, u32> {
    let found = run(Command::new("find").arg(root).args([
        "-mindepth",
        "1",
        "-path",
        "*/var/lib/dpkg",
        "-prune",
        "-o",
        "-printf",
        "%P %m\n",
    ]));
    let lines = found.lines().filter_map(|line| line.rsplit_once(' '));
    lines
        .map(|(path, mode)| (path.to_string(), u32::from_str_radix(mode, 8).expect("a mode")))
        .filter(|(path, _)| !path.is_empty() && !["var", "var/lib"].contains(&path.as_str()))
        .collect()
}

#[test]
fn a_package_has_what_is_installed_and_leaves_nothing() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let package = package(home.path());
    let root = home.path().join("root");
    fs::create_dir_all(root.join("var/lib/dpkg")).expect("a root");
    fs::write(root.join("var/lib/dpkg/status"), "").expect("a root");
    let path = |path: &Path| path.to_str().expect("a plain path").to_string();
    dpkg(&root, &["--install", &path(&package)]);

    // What 'make install' installs, pages compressed, and what Debian wants besides.
    let staged = home.path().join("staged");
    install(&staged, &dbtime_binary()).expect_code(0);
    let mut expected: BTreeMap<String, u32> = entries(&staged)
        .into_iter()
        .map(|(path, mode)| match path.strip_prefix("usr/share/man/man1/") {
            Some(_) => (format!("{path}.gz"), mode),
            None => (path, mode),
        })
        .collect();
    expected.remove("usr/share/doc/dbtime/agent.toml");
    for directory in ["etc", "etc/dbtime"] {
        expected.insert(directory.to_string(), 0o755);
    }
    for file in ["CHANGELOG.md.gz", "changelog.gz", "copyright"] {
        expected.insert(format!("usr/share/doc/dbtime/{file}"), 0o644);
    }
    expected.insert("etc/dbtime/agent.toml".to_string(), 0o644);
    assert_eq!(entries(&root), expected);
    assert_eq!(expected.get("usr/bin/dbtime"), Some(&0o755));
    let version = run(Command::new(root.join("usr/bin/dbtime")).arg("--version"));
    assert!(version.starts_with("dbtime "), "{version}");
    // Nothing enables the unit.
    assert!(!root.join("etc/systemd").exists());

    // The owner's changes survive an upgrade, and the new file is laid beside them.
    let agent = root.join("etc/dbtime/agent.toml");
    fs::write(&agent, "spool = \"/mine\"\n").expect("it can be written");
    dpkg(&root, &["--install", &path(&newer(&package, home.path()))]);
    assert_eq!(
        fs::read_to_string(&agent).expect("it is there"),
        "spool = \"/mine\"\n"
    );
    let beside = fs::read_to_string(root.join("etc/dbtime/agent.toml.dpkg-dist"));
    assert_eq!(beside.expect("it is there"), "spool = \"/new\"\n");

    dpkg(&root, &["--remove", "dbtime"]);
    assert!(!root.join("usr").exists());
    assert!(agent.exists(), "a removal keeps what the owner wrote");
    dpkg(&root, &["--purge", "dbtime"]);
    assert_eq!(entries(&root), BTreeMap::new());
}

#[test]
fn a_package_is_reproducible_and_as_debian_wants_it() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let places = ["one", "two"].map(|name| home.path().join(name));
    let [one, two] = places.map(|place| {
        fs::create_dir(&place).expect("a directory");
        package(&place)
    });
    assert_eq!(one.file_name(), two.file_name());
    let [one_bytes, two_bytes] = [&one, &two].map(|path| fs::read(path).expect("it is there"));
    assert!(one_bytes == two_bytes, "two packages of one binary differ");
    run(Command::new("lintian")
        .args(["--fail-on", "error", "--allow-root"])
        .arg(&one));
}
