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

/// Reads a title. None as long as the process still carries its parent's.
pub(crate) fn parse(title: &str) -> Option<Title> {
    let text = title.strip_prefix("postgres: ")?.trim_end();
    // A cluster name, if there is one, ends with a colon; a user name may contain one as well. The text as it stands
    // is therefore tried first.
    let without_cluster = text.split_once(": ").map(|(_, rest)| rest);
    known_process(text)
        .or_else(|| without_cluster.and_then(known_process))
        .or_else(|| client(without_cluster.unwrap_or(text)))
        .or_else(|| {
            let name = without_cluster.unwrap_or(text);
            // "client backend", "dead-end client backend" …: the process has not read who its client is.
            let unfinished =
                name.is_empty() || name.ends_with("client backend") || name.ends_with("initializing");
            (!unfinished).then(|| process(name))
        })
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
    if *backend_type != "walsender" && client(text).is_some() {
        return None;
    }
    let mut title = process(backend_type);
    match *backend_type {
        BackendType::PARALLEL_WORKER => title.leader_pid = rest.split(' ').next()?.parse().ok()?,
        "autovacuum worker" => title.database = rest.to_string(),
        "walsender" => {
            if let Some((names, host)) = split_at_host(rest) {
                title.user = names.split(' ').next().unwrap_or_default().to_string();
                title.database = names
                    .split_once(' ')
                    .map(|(_, db)| db.to_string())
                    .unwrap_or_default();
                title.client = host.to_string();
            }
        }
        _ => {}
    }
    Some(title)
}

/// `USER DATABASE HOST …`. Names may contain spaces: with more than two words before the host nobody can tell where
/// one ends, and both stay unknown.
fn client(text: &str) -> Option<Title> {
    let (names, host) = split_at_host(text)?;
    let (user, database) = match names.split(' ').collect::<Vec<_>>()[..] {
        [user, database] => (user, database),
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

/// Splits before the first word that is `[local]` or `HOST(PORT)`.
fn split_at_host(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for word in text.split(' ') {
        let is_host = word == "[local]"
            || word
                .strip_suffix(')')
                .and_then(|w| w.split_once('('))
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if is_host {
            return (at > 0).then(|| (text[..at].trim_end(), word));
        }
        at += word.len() + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(title: &str) -> Option<(String, String, String, String)> {
        parse(title).map(|t| (t.backend_type.0, t.user, t.database, t.client))
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
            fields("postgres: main: bob shop app-1.example(5123) idle"),
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
    fn background_processes() {
        assert_eq!(
            fields("postgres: checkpointer "),
            four("checkpointer", "", "", "")
        );
        assert_eq!(fields("postgres: main: walwriter"), four("walwriter", "", "", ""));
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
        let title = parse("postgres: parallel worker for PID 4242 ").unwrap();
        assert_eq!(
            (title.backend_type.0.as_str(), title.leader_pid),
            ("parallel worker", 4242)
        );
    }

    #[test]
    fn a_title_that_is_still_the_parents_says_nothing() {
        assert_eq!(parse("/usr/lib/postgresql/15/bin/postgres -D /var/lib/x"), None);
        assert_eq!(parse(""), None);
        assert_eq!(parse("postgres: "), None);
        assert_eq!(parse("postgres: client backend"), None);
    }
}
