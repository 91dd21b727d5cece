//! What a server process says of itself in its title.
//!
//! `init_ps_display` (src/backend/utils/misc/ps_status.c) sets the fixed part of the title once, whatever
//! `update_process_title` says: `postgres: [CLUSTER_NAME: ]FIXED [ACTIVITY]`. FIXED is `USER DATABASE HOST` for a
//! client backend (src/backend/tcop/backend_startup.c; `walsender USER [DATABASE] HOST` for a WAL sender) and the name
//! of the process for all others.

use dbtime_model::BackendType;

/// What the title tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Title {
    pub(crate) backend_type: BackendType,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) client: String,
    pub(crate) leader_pid: u32,
}

/// Beginning of the title and the backend type it means, in the words of `pg_stat_activity.backend_type`.
const PROCESSES: [(&str, &str); 18] = [
    ("archiver", "archiver"),
    ("autovacuum launcher", "autovacuum launcher"),
    ("autovacuum worker", "autovacuum worker"),
    ("background writer", "background writer"),
    ("checkpointer", "checkpointer"),
    ("io worker", "io worker"),
    ("logger", "logger"),
    ("logical replication launcher", "logical replication launcher"),
    (
        "logical replication parallel apply worker",
        "logical replication parallel worker",
    ),
    ("logical replication", "logical replication worker"),
    ("parallel worker for PID", BackendType::PARALLEL_WORKER),
    ("slotsync worker", "slotsync worker"),
    ("startup", "startup"),
    ("stats collector", "stats collector"),
    ("walreceiver", "walreceiver"),
    ("walsender", "walsender"),
    ("walsummarizer", "walsummarizer"),
    ("walwriter", "walwriter"),
];

/// Processes that every running server has, under exactly these titles: what stands before is the cluster name.
const ALWAYS_THERE: [&str; 3] = ["checkpointer", "background writer", "walwriter"];

/// What only a WAL sender says it is doing: names of replication commands, and what `WalSndLoop` and base backups show.
const REPLICATION: [&str; 12] = [
    "streaming",
    "sending backup",
    "START_REPLICATION",
    "IDENTIFY_SYSTEM",
    "READ_REPLICATION_SLOT",
    "BASE_BACKUP",
    "CREATE_REPLICATION_SLOT",
    "DROP_REPLICATION_SLOT",
    "ALTER_REPLICATION_SLOT",
    "TIMELINE_HISTORY",
    "UPLOAD_MANIFEST",
    "WAIT_FOR_WAL",
];

/// What every title begins with.
const BEGIN: &str = "postgres: ";

/// The cluster name that the title of one of the server's own processes tells; empty when the server has none.
pub(crate) fn cluster_name(title: &str) -> Option<&str> {
    let text = title.strip_prefix(BEGIN)?.trim_end();
    ALWAYS_THERE.iter().find_map(|process| {
        let before = text.strip_suffix(process)?;
        if before.is_empty() {
            Some("")
        } else {
            before.strip_suffix(": ").filter(|name| !name.is_empty())
        }
    })
}

/// True when a title cannot be read without the cluster name: a colon may end that name, or stand in a user's.
pub(crate) fn needs_cluster_name(title: &str) -> bool {
    title.strip_prefix(BEGIN).is_some_and(|text| text.contains(": "))
}

/// Reads a title of a server of this cluster name (empty: it has none). None as long as the process still carries its parent's.
pub(crate) fn parse(title: &str, cluster_name: &str) -> Option<Title> {
    let text = title.strip_prefix(BEGIN)?.trim_end();
    let text = match cluster_name {
        "" => text,
        // Its end may have been cut off with the blanks.
        name => text.strip_prefix(name)?.strip_prefix(':')?.trim_start(),
    };
    // "client backend", "dead-end client backend" …: the process has not read who its client is.
    let unfinished = text.is_empty() || text.ends_with("client backend") || text.ends_with("initializing");
    known_process(text)
        .or_else(|| client(text))
        .or_else(|| (!unfinished).then(|| process(text)))
}

fn process(backend_type: &str) -> Title {
    Title {
        backend_type: BackendType(backend_type.to_string()),
        user: String::new(),
        database: String::new(),
        client: String::new(),
        leader_pid: 0,
    }
}

fn known_process(text: &str) -> Option<Title> {
    let (name, backend_type) = PROCESSES.iter().find(|(name, _)| {
        text.strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    })?;
    let rest = text[name.len()..].trim_start();
    // A user may be called "logger": a client's title goes on with database and host.
    let as_client = client(text);
    if *backend_type != "walsender" && as_client.is_some() {
        return None;
    }
    let mut title = process(backend_type);
    match *backend_type {
        BackendType::PARALLEL_WORKER => title.leader_pid = rest.split(' ').next()?.parse().ok()?,
        "autovacuum worker" => title.database = rest.to_string(),
        "walsender" => {
            let Hosts {
                names,
                host,
                activity,
            } = match hosts(rest) {
                Some(hosts) => hosts,
                // It says nothing of a client: only "walsender" itself.
                None => return as_client.is_none().then_some(title),
            };
            // A user may be called "walsender" too, and only replicating tells which of the two it is.
            if !REPLICATION
                .iter()
                .any(|activities| activity.starts_with(activities))
            {
                title = process(BackendType::UNKNOWN);
                title.client = host.to_string();
                return Some(title);
            }
            title.client = host.to_string();
            match names.split(' ').collect::<Vec<_>>()[..] {
                [user] => title.user = user.to_string(),
                [user, database] => (title.user, title.database) = (user.to_string(), database.to_string()),
                _ => {}
            }
        }
        _ => {}
    }
    Some(title)
}

/// `USER DATABASE HOST …`. Names may contain spaces: with more than two words before the host nobody can tell where
/// one ends, and both stay unknown. They may even contain what looks like a host: then it is not known either.
fn client(text: &str) -> Option<Title> {
    let Hosts { names, host, .. } = hosts(text)?;
    let (user, database) = match names.split(' ').collect::<Vec<_>>()[..] {
        [user, database] if !host.is_empty() => (user, database),
        _ => ("", ""),
    };
    Some(Title {
        backend_type: BackendType(BackendType::CLIENT.to_string()),
        user: user.to_string(),
        database: database.to_string(),
        client: host.to_string(),
        leader_pid: 0,
    })
}

/// A title taken apart at the first word that is `[local]` or `HOST(PORT)`.
struct Hosts<'a> {
    names: &'a str,
    /// Empty when another word looks like one, too.
    host: &'a str,
    activity: &'a str,
}

fn hosts(text: &str) -> Option<Hosts<'_>> {
    let mut at = 0;
    let mut found: Option<Hosts<'_>> = None;
    for word in text.split(' ') {
        let end = at + word.len();
        let is_host = word == "[local]"
            || word
                .strip_suffix(')')
                .and_then(|w| w.split_once('('))
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if is_host {
            match &mut found {
                Some(first) => first.host = "",
                None if at == 0 => return None,
                None => {
                    found = Some(Hosts {
                        // A name may end in blanks of its own.
                        names: &text[..at - 1],
                        host: word,
                        activity: text[end..].trim_start(),
                    });
                }
            }
        }
        at = end + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(title: &str) -> Option<(String, String, String, String)> {
        fields_of(title, "")
    }

    fn fields_of(title: &str, cluster: &str) -> Option<(String, String, String, String)> {
        parse(title, cluster).map(|t| (t.backend_type.0, t.user, t.database, t.client))
    }

    fn four(a: &str, b: &str, c: &str, d: &str) -> Option<(String, String, String, String)> {
        Some((a.into(), b.into(), c.into(), d.into()))
    }

    #[test]
    fn client_backends() {
        let client = |user, db, host| four("client backend", user, db, host);
        assert_eq!(
            fields("postgres: bob shop [local] idle"),
            client("bob", "shop", "[local]")
        );
        assert_eq!(
            fields("postgres: bob shop 10.0.0.7(5123) SELECT"),
            client("bob", "shop", "10.0.0.7(5123)")
        );
        assert_eq!(
            fields("postgres: bob shop ::1(5123) idle in transaction"),
            client("bob", "shop", "::1(5123)")
        );
        assert_eq!(
            fields_of("postgres: 15/main: bob shop app-1.example(5123) idle", "15/main"),
            client("bob", "shop", "app-1.example(5123)")
        );
    }

    #[test]
    fn a_user_may_be_called_like_a_process() {
        assert_eq!(
            fields("postgres: logger shop [local] idle"),
            four("client backend", "logger", "shop", "[local]")
        );
    }

    #[test]
    fn names_with_spaces_stay_unknown_rather_than_wrong() {
        assert_eq!(
            fields("postgres: my user shop [local] idle"),
            four("client backend", "", "", "[local]")
        );
    }

    #[test]
    fn a_user_may_be_called_like_a_process_of_a_cluster() {
        // The server has no cluster name: it is the user's that has a colon in it.
        assert_eq!(
            fields("postgres: a: walsender shop [local] idle"),
            four("client backend", "", "", "[local]")
        );
        assert_eq!(
            fields("postgres: a: checkpointer shop [local] idle"),
            four("client backend", "", "", "[local]")
        );
        assert_eq!(
            fields_of("postgres: main: a: walsender shop [local] idle", "main"),
            four("client backend", "", "", "[local]")
        );
        // A WAL sender of user shop, or a client of user walsender? What it does tells, or nothing.
        assert_eq!(
            fields("postgres: walsender shop [local] idle"),
            four("unknown", "", "", "[local]")
        );
    }

    #[test]
    fn names_that_look_like_a_host_stay_unknown_rather_than_wrong() {
        // Of user "bob shop [local]", of database "x [local]", of user "bob shop 10.0.0.1(1)".
        for title in [
            "postgres: bob shop [local] x [local] idle",
            "postgres: bob x [local] [local] idle",
            "postgres: bob shop 10.0.0.1(1) x 10.0.0.7(5123) idle",
        ] {
            assert_eq!(fields(title), four("client backend", "", "", ""), "{title}");
        }
    }

    #[test]
    fn the_cluster_name_is_told_by_processes_that_no_client_can_be() {
        assert_eq!(cluster_name("postgres: checkpointer "), Some(""));
        assert_eq!(cluster_name("postgres: 15/main: walwriter "), Some("15/main"));
        assert_eq!(cluster_name("postgres: a: b: background writer"), Some("a: b"));
        for title in [
            "postgres: a: checkpointer shop [local] idle",
            "postgres: evil checkpointer [local] idle",
            "postgres: logger ",
            "postgres: : checkpointer",
            "postgres",
        ] {
            assert_eq!(cluster_name(title), None, "{title}");
        }
    }

    #[test]
    fn background_processes() {
        assert_eq!(
            fields("postgres: checkpointer "),
            four("checkpointer", "", "", "")
        );
        assert_eq!(
            fields_of("postgres: main: walwriter", "main"),
            four("walwriter", "", "", "")
        );
        assert_eq!(
            fields("postgres: autovacuum worker shop"),
            four("autovacuum worker", "", "shop", "")
        );
        assert_eq!(
            fields("postgres: startup recovering 000000010000000000000001"),
            four("startup", "", "", "")
        );
        assert_eq!(fields("postgres: io worker 2"), four("io worker", "", "", ""));
        assert_eq!(
            fields("postgres: logical replication apply worker for subscription 16394"),
            four("logical replication worker", "", "", "")
        );
        assert_eq!(
            fields("postgres: walsender rep [local] streaming 0/3000060"),
            four("walsender", "rep", "", "[local]")
        );
        assert_eq!(
            fields("postgres: walsender rep shop 10.0.0.7(1) START_REPLICATION"),
            four("walsender", "rep", "shop", "10.0.0.7(1)")
        );
        assert_eq!(
            fields("postgres: pg_cron launcher"),
            four("pg_cron launcher", "", "", "")
        );
    }

    #[test]
    fn a_parallel_worker_names_its_leader() {
        let title = parse("postgres: parallel worker for PID 4242 ", "").unwrap();
        assert_eq!(
            (title.backend_type.0.as_str(), title.leader_pid),
            ("parallel worker", 4242)
        );
    }

    #[test]
    fn a_title_that_is_still_the_parents_says_nothing() {
        assert_eq!(
            parse("/usr/lib/postgresql/15/bin/postgres -D /var/lib/x", ""),
            None
        );
        assert_eq!(parse("", ""), None);
        assert_eq!(parse("postgres: ", ""), None);
        assert_eq!(parse("postgres: client backend", ""), None);
    }
}
