//! A connection to the server, if the user wants one: where to, as whom, and limited to reading.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use postgres::config::Host;
use postgres::{Client, Config, NoTls};
use rustix::thread::{Gid, Uid};

use super::password_file::{self, Login};
use crate::target_file::TargetFile;
use crate::{privilege, process};

/// The name under which dbtime connects, unless the user chose another.
pub(crate) const OWN_APPLICATION: &str = "dbtime";
/// A server that does not answer within this time is given up.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
/// First commands of every connection. The owner of a database may have put functions of their own before the server's.
const READS_ONLY: &str = "SET search_path = pg_catalog; SET default_transaction_read_only = on; SET statement_timeout = '2s'; \
     SET lock_timeout = '1s'";

/// Where to connect, and as whom, as libpq's keywords and values or a URL. Defaults are taken from the server itself: its socket and port,
/// the operating system user that it runs as, the database `postgres`. A password may also be in the environment variable PGPASSWORD, or in
/// libpq's password file.
#[derive(Debug, Clone)]
pub struct Connect(Box<Config>);

impl FromStr for Connect {
    type Err = String;

    fn from_str(text: &str) -> Result<Connect, String> {
        Config::from_str(text)
            .map(|config| Connect(Box::new(config)))
            .map_err(|e| described(&e))
    }
}

/// An error with its cause.
pub(super) fn described(error: &postgres::Error) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The operating system user that a server runs as.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerUser {
    uid: u32,
    gid: u32,
}

impl ServerUser {
    /// Of the server with this postmaster: the owner of its data directory, as every server requires.
    pub(super) fn of(postmaster: u32) -> std::io::Result<ServerUser> {
        let directory = std::fs::metadata(process::path(postmaster, "cwd"))?;
        Ok(ServerUser {
            uid: directory.uid(),
            gid: directory.gid(),
        })
    }

    /// Makes the calling thread this user, as far as files and sockets go, and gives up all capabilities for good. The real and the saved
    /// user stay: processes of the server cannot signal or trace it. If the change is not allowed, the user stays the same.
    ///
    /// # Errors
    /// The kernel refuses to drop its capabilities.
    pub(super) fn become_in_thread(self) -> Result<(), String> {
        let (user, group) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        // The server's other groups are not needed.
        let _ = rustix::thread::set_thread_groups(&[]);
        let _ = rustix::thread::set_thread_res_gid(None, group, None);
        let _ = rustix::thread::set_thread_res_uid(None, user, None);
        privilege::give_up_all_privileges().map_err(|e| e.to_string())
    }

    /// From the server's own list of users.
    fn name(self, postmaster: u32) -> Option<String> {
        let users = TargetFile::below_root(postmaster, Path::new("/etc/passwd")).ok()?;
        let users = users.small_text().ok()?;
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let uid: u32 = fields.nth(1)?.parse().ok()?;
            (uid == self.uid).then(|| name.to_string())
        })
    }
}

impl Connect {
    /// Fills in what the user left open.
    ///
    /// # Errors
    /// The server does not say where it listens.
    pub(super) fn to(&self, postmaster: u32, user: ServerUser) -> Result<Reach, String> {
        let Connect(mut config) = self.clone();
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            let (directory, port) = socket(postmaster)?;
            config.host_path(directory);
            if config.get_ports().is_empty() {
                config.port(port);
            }
        }
        if config.get_user().is_none() {
            let name = user.name(postmaster);
            config.user(name.as_deref().unwrap_or("postgres"));
        }
        if config.get_dbname().is_none() {
            config.dbname("postgres");
        }
        if let (None, Ok(password)) = (config.get_password(), std::env::var("PGPASSWORD")) {
            config.password(password);
        }
        let mut not_used = None;
        if config.get_password().is_none() {
            let host = host(&config);
            let login = host.as_deref().and_then(|host| {
                Some(Login {
                    host,
                    port: config.get_ports().first().copied().unwrap_or(5432),
                    database: config.get_dbname()?,
                    user: config.get_user()?,
                })
            });
            match login.map_or(Ok(None), password_file::password) {
                Ok(Some(password)) => {
                    config.password(password);
                }
                Ok(None) => {}
                Err(why) => not_used = Some(why),
            }
        }
        if config.get_application_name().is_none() {
            config.application_name(OWN_APPLICATION);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECTS_WITHIN);
        }
        Ok(Reach {
            config: *config,
            not_used,
        })
    }
}

/// How the server is reached.
#[derive(Debug, Clone)]
pub(super) struct Reach {
    pub(super) config: Config,
    /// Why no password was taken from the password file; of no interest if none is needed.
    not_used: Option<String>,
}

/// The host by its name, its address or the directory of its socket. None if there are several: it is not known yet which it will be.
fn host(config: &Config) -> Option<String> {
    match (config.get_hosts(), config.get_hostaddrs()) {
        ([Host::Tcp(name)], _) => Some(name.clone()),
        ([Host::Unix(directory)], _) => directory.to_str().map(str::to_string),
        ([], [address]) => Some(address.to_string()),
        _ => None,
    }
}

/// Connects; nothing can be changed over the connection, and nothing takes long.
///
/// # Errors
/// As reported by the server or the library.
pub(super) fn connected(reach: &Reach) -> Result<Client, String> {
    let Reach { config, not_used } = reach;
    let mut client = config.connect(NoTls).map_err(|e| {
        let (hosts, user) = (config.get_hosts(), config.get_user().unwrap_or_default());
        let not_used = not_used.iter().map(|why| format!(" ({why})"));
        format!(
            "{hosts:?} as {user}: {}{}",
            described(&e),
            not_used.collect::<String>()
        )
    })?;
    client.batch_execute(READS_ONLY).map_err(|e| described(&e))?;
    Ok(client)
}

/// The directory of the server's first socket, as this process finds it, and its port: lines 5 and 4 of its postmaster.pid
/// (src/include/utils/pidfile.h).
fn socket(postmaster: u32) -> Result<(PathBuf, u16), String> {
    let text = TargetFile::in_working_directory(postmaster, "postmaster.pid")
        .and_then(|file| file.small_text())
        .map_err(|e| format!("postmaster.pid: {e}"))?;
    let mut lines = text.lines().skip(3).map(str::trim);
    let port = lines.next().and_then(|line| line.parse().ok());
    let directory = lines
        .next()
        .filter(|line| !line.is_empty() && !line.starts_with('@'));
    match (directory, port) {
        (Some(directory), Some(port)) => Ok((as_found_here(postmaster, Path::new(directory)), port)),
        _ => Err(
            "it listens on no Unix socket: give its address with --connect='host=127.0.0.1 user=…'"
                .to_string(),
        ),
    }
}

/// By its own name if this process has the same root as the server.
fn as_found_here(postmaster: u32, directory: &Path) -> PathBuf {
    let Ok(below) = directory.strip_prefix("/") else {
        return process::path(postmaster, "cwd").join(directory);
    };
    let there = process::path(postmaster, "root").join(below);
    let id = |path: &Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    match id(directory).is_some() && id(directory) == id(&there) {
        true => directory.to_path_buf(),
        false => there,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_says_is_kept_and_a_password_is_not_shown() {
        let connect: Connect = "host=/run/x port=5433 user=monitor dbname=shop password=secret"
            .parse()
            .expect("libpq's keywords");
        let user = ServerUser {
            uid: u32::MAX,
            gid: 0,
        };
        let Reach { config, .. } = connect.to(std::process::id(), user).expect("it says where");
        assert_eq!(
            (config.get_user(), config.get_dbname()),
            (Some("monitor"), Some("shop"))
        );
        assert_eq!(config.get_ports(), [5433]);
        assert_eq!(config.get_application_name(), Some("dbtime"));
        assert!(!format!("{connect:?} {config:?}").contains("secret"));
        assert!("host".parse::<Connect>().is_err());
    }
}
