//! libpq's password file: `~/.pgpass`, or the file that the environment variable PGPASSFILE names. Its rules are those of
//! `passwordFromFile` and `getPgPassFilename` in src/interfaces/libpq/fe-connect.c.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Longer files are read only up to here.
const LONGEST: u64 = 1 << 20;
/// Socket directories that libpq is compiled with, upstream and by distributions: for its own, it looks for `localhost` instead.
const USUAL_SOCKETS: [&str; 3] = ["/tmp", "/var/run/postgresql", "/run/postgresql"];

/// What a password is looked up by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Login<'a> {
    /// A name, an address, or the directory of a socket.
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) database: &'a str,
    pub(super) user: &'a str,
}

/// The password of a login. None: there is no file, or none of its lines matches.
///
/// # Errors
/// Why the file is not used, nor would libpq use it: users other than its owner have access to it, or it is not a plain file.
pub(super) fn password(login: Login<'_>) -> Result<Option<String>, String> {
    match path() {
        Some(path) => password_in(&path, login),
        None => Ok(None),
    }
}

fn path() -> Option<PathBuf> {
    let of = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    of("PGPASSFILE")
        .map(PathBuf::from)
        .or_else(|| of("HOME").map(|home| Path::new(&home).join(".pgpass")))
}

fn password_in(path: &Path, login: Login<'_>) -> Result<Option<String>, String> {
    let opened = OpenOptions::new()
        .read(true)
        // It may be a FIFO: do not wait for its other end.
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    // A file that cannot be read is ignored, as libpq does.
    let Ok(file) = opened else { return Ok(None) };
    let why = |why: &str| Err(format!("password file {} ignored: {why}", path.display()));
    let Ok(about) = file.metadata() else {
        return Ok(None);
    };
    let mode = about.permissions().mode() & 0o777;
    if !about.is_file() {
        return why("it is not a plain file");
    }
    if mode & 0o077 != 0 {
        return why(&format!(
            "users other than its owner have access to it (mode {mode:04o}): chmod 0600 it"
        ));
    }
    let mut text = Vec::new();
    if file.take(LONGEST).read_to_end(&mut text).is_err() {
        return Ok(None);
    }
    let mut lines = text
        .split(|&byte| byte == b'\n')
        .filter_map(|line| std::str::from_utf8(line).ok());
    Ok(lines.find_map(|line| password_of(line.trim_end_matches('\r'), login)))
}

/// The password in a line, if the line matches this login: `host:port:database:user:password`.
fn password_of(line: &str, login: Login<'_>) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut rest = line;
    let mut field = || {
        let (field, after) = split_field(rest)?;
        rest = after;
        Some(field)
    };
    let [host, port, database, user] = [field()?, field()?, field()?, field()?];
    let is = |field: &str, wanted: &str| field == "*" || unescaped(field) == wanted;
    let is_host = is(host, login.host) || (USUAL_SOCKETS.contains(&login.host) && is(host, "localhost"));
    let is_login =
        is_host && is(port, &login.port.to_string()) && is(database, login.database) && is(user, login.user);
    is_login.then(|| unescaped(rest))
}

/// Up to the next colon without a backslash before it, and what follows.
fn split_field(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b':' => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

/// A backslash makes the next character an ordinary one.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.extend(match character {
            '\\' => characters.next(),
            other => Some(other),
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LOGIN: Login<'_> = Login {
        host: "db.example",
        port: 5432,
        database: "shop",
        user: "bob",
    };

    fn of(lines: &str, login: Login<'_>) -> Option<String> {
        lines.lines().find_map(|line| password_of(line, login))
    }

    #[test]
    fn the_first_line_of_the_login_has_its_password() {
        let lines = "# host:port:database:user:password\n\
            db.example:5432:shop:alice:hers\n\
            db.example:5433:shop:bob:of another port\n\
            db.example:*:shop:bob:se\\:cr\\\\et:x\n\
            *:*:*:*:of all others\n";
        assert_eq!(of(lines, LOGIN).as_deref(), Some("se:cr\\et:x"));
        let other = Login {
            host: "elsewhere",
            ..LOGIN
        };
        assert_eq!(of(lines, other).as_deref(), Some("of all others"));
        assert_eq!(of("db.example:5432:shop:bob", LOGIN), None, "it has no password");
        let names = Login {
            database: "a:b",
            user: "o\\k",
            ..LOGIN
        };
        assert_eq!(of("*:*:a\\:b:o\\\\k:p", names).as_deref(), Some("p"));
    }

    #[test]
    fn the_usual_directories_of_sockets_are_localhost() {
        let over = |host| Login { host, ..LOGIN };
        let line = "localhost:5432:shop:bob:p";
        assert_eq!(of(line, over("/var/run/postgresql")).as_deref(), Some("p"));
        assert_eq!(of(line, over("/srv/sockets")), None);
        assert_eq!(
            of("/srv/sockets:5432:shop:bob:p", over("/srv/sockets")).as_deref(),
            Some("p")
        );
    }

    #[test]
    fn a_file_that_others_may_read_is_not_used_and_that_is_said() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("passwords");
        assert_eq!(password_in(&path, LOGIN), Ok(None), "it is not there");
        fs::write(&path, b"# Pa\xdfw\xf6rter\n*:*:*:bob:secret\r\n").expect("a file of our own");
        let with_mode = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
            password_in(&path, LOGIN)
        };
        assert_eq!(with_mode(0o600), Ok(Some("secret".to_string())));
        let error = with_mode(0o640).expect_err("others may read it");
        assert!(error.contains("0640") && error.contains("chmod 0600"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        assert!(password_in(home.path(), LOGIN).is_err(), "a directory");
        assert!(password_in(Path::new("/dev/null"), LOGIN).is_err());
    }
}
