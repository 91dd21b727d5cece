//! What a server process says about itself in its title.
//!
//! `init_ps_display` (src/backend/utils/misc/ps_status.c) sets the fixed part of the title once, whatever `update_process_title` says:
//! `postgres: [CLUSTER_NAME: ]FIXED [ACTIVITY]`. FIXED is `USER DATABASE HOST` for a client backend (src/backend/tcop/backend_startup.c;
//! `walsender USER [DATABASE] HOST` for a WAL sender) and the name of the process for all others. Names may contain anything, so a title
//! can often be read in several ways: the names that the process itself has then decide which is meant; without them it is not known.

use dbtime_model::BackendType;

use super::client_names::{Names, Told};

/// What the title says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Title {
    pub(crate) backend_type: BackendType,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) client: String,
    pub(crate) leader_pid: u32,
}

// Their titles continue with the names of users and databases.
const AUTOVACUUM_WORKER: &str = "autovacuum worker";
const WAL_SENDER: &str = "walsender";

/// Beginning of the title and the backend type it stands for, in the terms of `pg_stat_activity.backend_type`.
const PROCESSES: [(&str, &str); 18] = [
    ("archiver", "archiver"),
    ("autovacuum launcher", "autovacuum launcher"),
    (AUTOVACUUM_WORKER, AUTOVACUUM_WORKER),
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
    (WAL_SENDER, WAL_SENDER),
    ("walsummarizer", "walsummarizer"),
    ("walwriter", "walwriter"),
];

/// Processes that every running server has, with exactly these titles: what precedes is the cluster name.
const ALWAYS_THERE: [&str; 3] = ["checkpointer", "background writer", "walwriter"];

/// Activities that only a WAL sender has: names of replication commands, and what `WalSndLoop` and base backups show.
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

/// The cluster name in the title of one of the server's own processes; empty if the server has none.
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

/// True if a title cannot be read without the cluster name: a colon may end that name, or be part of a user's.
pub(crate) fn needs_cluster_name(title: &str) -> bool {
    title.strip_prefix(BEGIN).is_some_and(|text| text.contains(": "))
}

/// Reads a title from a server with this cluster name (empty: it has none). None as long as the process still carries its parent's. `told`:
/// for whom the process works, called if the title can be read in more than one way.
pub(crate) fn parse(title: &str, cluster_name: &str, told: impl FnOnce() -> Told) -> Option<Title> {
    let text = title.strip_prefix(BEGIN)?.trim_end();
    let text = match cluster_name {
        "" => text,
        name => {
            let rest = text.strip_prefix(name)?.strip_prefix(':')?;
            // Its blank may have been trimmed with the end of the title; further blanks belong to the user's name.
            rest.strip_prefix(' ').unwrap_or(rest)
        }
    };
    // "client backend", "dead-end client backend" …: the process does not know yet who its client is.
    let unfinished = text.is_empty() || text.ends_with("client backend") || text.ends_with("initializing");
    let (by_itself, is_certain) = by_itself(text);
    if is_certain || unfinished && by_itself.is_none() {
        return by_itself;
    }
    let (told, otherwise) = match told() {
        Told::Nothing => (None, process(text)),
        Told::NoClient => (background(text), process(text)),
        // If none of them fits, the title has been truncated.
        Told::OneOf(names) => (of_names(text, &names), of_client("", "", "")),
    };
    told.or(by_itself).or(Some(otherwise))
}

/// What a title says on its own, and whether no other reading is possible.
fn by_itself(text: &str) -> (Option<Title>, bool) {
    let as_client = client(text);
    match (known_process(text), as_client) {
        (None, as_client) => {
            let has_names = as_client.as_ref().is_some_and(|title| !title.user.is_empty());
            (as_client, has_names)
        }
        (Some((WAL_SENDER, rest)), as_client) => {
            let sender = wal_sender(rest).or(as_client);
            (sender.or_else(|| Some(process(WAL_SENDER))), false)
        }
        // A database's name may look like a host, too.
        (Some((AUTOVACUUM_WORKER, _)), Some(_)) => (Some(process(BackendType::UNKNOWN)), false),
        // A user may be called "logger": a client's title continues with database and host.
        (Some(_), Some(client)) => (Some(client), false),
        (Some(_), None) => {
            let title = background(text);
            let is_certain = title.is_some();
            (title, is_certain)
        }
    }
}

fn process(backend_type: &str) -> Title {
    Title {
        backend_type: BackendType(backend_type.into()),
        user: String::new(),
        database: String::new(),
        client: String::new(),
        leader_pid: 0,
    }
}

/// The backend type of the process whose title begins like this, and the rest of the title.
fn known_process(text: &str) -> Option<(&'static str, &str)> {
    PROCESSES.iter().find_map(|(name, backend_type)| {
        let rest = text.strip_prefix(name)?;
        // The name of a database may itself begin with blanks.
        let rest = rest.strip_prefix(' ').or(rest.is_empty().then_some(""))?;
        Some((*backend_type, rest))
    })
}

/// For a process that works for the server itself. None: the title begins like that of no known one.
fn background(text: &str) -> Option<Title> {
    let (backend_type, rest) = known_process(text)?;
    let mut title = process(backend_type);
    match backend_type {
        BackendType::PARALLEL_WORKER => title.leader_pid = rest.split(' ').next()?.parse().ok()?,
        AUTOVACUUM_WORKER => title.database = rest.to_string(),
        _ => {}
    }
    Some(title)
}

/// `USER [DATABASE] HOST …` after "walsender". None: there is no host.
fn wal_sender(rest: &str) -> Option<Title> {
    let hosts = hosts(rest)?;
    // A user may be called "walsender" too, and only a replication activity tells the two apart. A name that looks like a host is not
    // followed by an activity.
    let replicates = !hosts.host.is_empty()
        && REPLICATION
            .iter()
            .any(|activity| hosts.activity.starts_with(activity));
    if !replicates {
        return Some(Title {
            client: hosts.host.to_string(),
            ..process(BackendType::UNKNOWN)
        });
    }
    // Two words are a user and a database, or a user with a blank in its name.
    let user = if hosts.names.contains(' ') {
        ""
    } else {
        hosts.names
    };
    Some(Title {
        backend_type: BackendType(WAL_SENDER.into()),
        ..of_client(user, "", hosts.host)
    })
}

/// `USER DATABASE HOST …`. Names may contain spaces: with more than two words before the host it is not clear where one ends, and both stay
/// unknown. They may even contain what looks like a host, which then stays unknown too.
fn client(text: &str) -> Option<Title> {
    let Hosts { names, host, .. } = hosts(text)?;
    Some(match names.split(' ').collect::<Vec<_>>()[..] {
        [user, database] if !host.is_empty() => of_client(user, database, host),
        _ => of_client("", "", host),
    })
}

fn of_client(user: &str, database: &str, host: &str) -> Title {
    Title {
        user: user.to_string(),
        database: database.to_string(),
        client: host.to_string(),
        ..process(BackendType::CLIENT)
    }
}

/// The title that one of these pairs of names produces. None: none does, or several do, and it is not known which is meant.
fn of_names(text: &str, all: &[Names]) -> Option<Title> {
    let mut made = all
        .iter()
        .flat_map(|names| [made_of(text, names), sender_made_of(text, names)])
        .flatten();
    let first = made.next()?;
    made.all(|other| other == first).then_some(first)
}

fn made_of(text: &str, names: &Names) -> Option<Title> {
    let Names { user, database } = names;
    let rest = text.strip_prefix(user.as_str())?.strip_prefix(' ')?;
    let rest = rest.strip_prefix(database.as_str())?.strip_prefix(' ')?;
    let is_named = !user.is_empty() && !database.is_empty();
    let host = rest.split(' ').next().filter(|word| is_named && is_host(word))?;
    Some(of_client(user, database, host))
}

/// A WAL sender may have no database.
fn sender_made_of(text: &str, names: &Names) -> Option<Title> {
    let Names { user, database } = names;
    let rest = text.strip_prefix(WAL_SENDER)?.strip_prefix(' ')?;
    let rest = rest.strip_prefix(user.as_str())?.strip_prefix(' ')?;
    let rest = match database.as_str() {
        "" => rest,
        database => rest.strip_prefix(database)?.strip_prefix(' ')?,
    };
    let is_named = !user.is_empty();
    let host = rest.split(' ').next().filter(|word| is_named && is_host(word))?;
    Some(Title {
        backend_type: BackendType(WAL_SENDER.into()),
        ..of_client(user, database, host)
    })
}

/// A title split at the first word that is `[local]` or `HOST(PORT)`.
struct Hosts<'a> {
    names: &'a str,
    /// Empty if another word looks like one, too.
    host: &'a str,
    activity: &'a str,
}

fn hosts(text: &str) -> Option<Hosts<'_>> {
    let mut at = 0;
    let mut found: Option<Hosts<'_>> = None;
    for word in text.split(' ') {
        let end = at + word.len();
        // The first one is a name, or the beginning of one.
        if at > 0 && is_host(word) {
            match &mut found {
                Some(first) => first.host = "",
                None => {
                    found = Some(Hosts {
                        // A name may itself end in blanks.
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

fn is_host(word: &str) -> bool {
    word == "[local]"
        || word
            .strip_suffix(')')
            .and_then(|w| w.split_once('('))
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(title: &str) -> Option<(String, String, String, String)> {
        fields_of(title, "")
    }

    fn fields_of(title: &str, cluster: &str) -> Option<(String, String, String, String)> {
        told(title, cluster, || Told::Nothing)
    }

    fn told(
        title: &str,
        cluster: &str,
        told: impl FnOnce() -> Told,
    ) -> Option<(String, String, String, String)> {
        parse(title, cluster, told).map(|t| (t.backend_type.0.to_string(), t.user, t.database, t.client))
    }

    fn names(all: &[(&str, &str)]) -> Told {
        let names = all.iter().map(|(user, database)| Names {
            user: (*user).to_string(),
            database: (*database).to_string(),
        });
        Told::OneOf(names.collect())
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
        // The server has no cluster name: the colon is in the user's name.
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
        // A WAL sender of user shop, or a client of user walsender? Only its activity can tell.
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
            four("walsender", "", "", "10.0.0.7(1)")
        );
        assert_eq!(
            fields("postgres: pg_cron launcher"),
            four("pg_cron launcher", "", "", "")
        );
    }

    #[test]
    fn a_parallel_worker_names_its_leader() {
        let title = parse("postgres: parallel worker for PID 4242 ", "", || Told::NoClient).unwrap();
        assert_eq!(
            (title.backend_type.0.as_str(), title.leader_pid),
            ("parallel worker", 4242)
        );
    }

    #[test]
    fn a_title_that_is_still_the_parents_says_nothing() {
        for title in [
            "/usr/lib/postgresql/15/bin/postgres -D /var/lib/x",
            "",
            "postgres: ",
            "postgres: client backend",
            "postgres: client backend initializing",
        ] {
            assert_eq!(fields(title), None, "{title}");
            assert_eq!(told(title, "", || panic!("it is not asked")), None, "{title}");
        }
    }

    #[test]
    fn names_that_the_process_has_divide_its_title() {
        let client = |user, db, host| four("client backend", user, db, host);
        for (user, database) in [
            ("a b", "c [local] d"),
            ("a", "b c [local] d"),
            (" ", "x "),
            (" a ", " b "),
            ("[local]", "[local]"),
            ("10.0.0.1(1)", "x 10.0.0.1(1)"),
            ("a: walsender", "shop"),
            ("walsender", "shop"),
            ("walsender rep", "[local] streaming"),
            ("logger", "x y"),
            ("autovacuum worker", "shop"),
            ("parallel worker for PID 1", "shop"),
            ("bob shop [local] idle", "postgres: bob"),
            ("ä\u{fffd} \u{202e}\n", "\t\u{1b}[2J"),
        ] {
            for (host, activity) in [
                ("[local]", " idle"),
                ("::1(5123)", " SELECT"),
                ("10.0.0.7(1)", ""),
                ("[local]", " idle in transaction"),
            ] {
                for cluster in ["", "15/main"] {
                    let begin = match cluster {
                        "" => String::new(),
                        name => format!("{name}: "),
                    };
                    let title = format!("postgres: {begin}{user} {database} {host}{activity}");
                    // The other names in its memory do not fit.
                    let has = [
                        ("", ""),
                        ("", user),
                        (user, database),
                        (database, user),
                        ("", database),
                    ];
                    let found = told(&title, cluster, || names(&has));
                    assert_eq!(found, client(user, database, host), "{title:?}");
                    let found = fields_of(&title, cluster).expect("it is a process of a server");
                    let is_right = found.1.is_empty() || (found.1 == user && found.2 == database);
                    assert!(is_right, "{title:?}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn a_wal_sender_is_told_from_a_user_of_that_name() {
        let title = "postgres: walsender a b [local] streaming 0/3000060";
        assert_eq!(fields(title), four("walsender", "", "", "[local]"));
        for (user, database, backend_type) in [
            ("a b", "", "walsender"),
            ("a", "b", "walsender"),
            ("walsender", "a b", "client backend"),
            ("walsender a", "b", "client backend"),
        ] {
            assert_eq!(
                told(title, "", || names(&[(user, database)])),
                four(backend_type, user, database, "[local]")
            );
        }
        // The label of a backup may be anything.
        let title = "postgres: walsender a b [local] sending backup \"x [local] y\"";
        assert_eq!(fields(title), four("unknown", "", "", ""));
        assert_eq!(
            told(title, "", || names(&[("a b", "")])),
            four("walsender", "a b", "", "[local]")
        );
        // Only a WAL sender can have no database.
        assert_eq!(
            told("postgres: a b [local] c [local] idle", "", || names(&[(
                "a b", ""
            )])),
            four("client backend", "", "", "")
        );
    }

    #[test]
    fn names_that_fit_in_two_ways_or_not_at_all_tell_nothing() {
        let title = "postgres: a b c [local] idle";
        for has in [
            vec![("a", "b c"), ("a b", "c")],
            vec![("a b", "x"), ("b", "c"), ("", "a b c"), ("a", "b")],
            vec![],
        ] {
            let found = told(title, "", || names(&has));
            assert_eq!(found, four("client backend", "", "", "[local]"), "{has:?}");
        }
        // The same names twice are one answer.
        assert_eq!(
            told(title, "", || names(&[("a b", "c"), ("a b", "c")])),
            four("client backend", "a b", "c", "[local]")
        );
        // The end has been cut off.
        for title in ["postgres: a b", "postgres: a b c", "postgres: a b c [loc"] {
            assert_eq!(
                told(title, "", || names(&[("a b", "c")])),
                four("client backend", "", "", ""),
                "{title}"
            );
        }
    }

    #[test]
    fn a_process_without_a_client_is_what_it_calls_itself() {
        let title = "postgres: autovacuum worker [local]";
        // On its own it can be the title of a user "autovacuum" as well.
        assert_eq!(fields(title), four("unknown", "", "", ""));
        assert_eq!(
            told(title, "", || names(&[("autovacuum", "worker")])),
            four("client backend", "autovacuum", "worker", "[local]")
        );
        let background = told(title, "", || Told::NoClient);
        assert_eq!(background, four("autovacuum worker", "", "[local]", ""));
        assert_eq!(
            told("postgres: autovacuum worker  x [local] y", "", || Told::NoClient),
            four("autovacuum worker", "", " x [local] y", "")
        );
        assert_eq!(
            told("postgres: pg_cron launcher", "", || Told::NoClient),
            four("pg_cron launcher", "", "", "")
        );
    }

    #[test]
    fn what_a_title_says_for_certain_is_not_asked_for() {
        for title in [
            "postgres: bob shop [local] idle",
            "postgres: [local] shop [local] idle",
            "postgres: checkpointer ",
            "postgres: autovacuum worker shop x",
            "postgres: parallel worker for PID 4242",
        ] {
            assert!(told(title, "", || panic!("it is asked")).is_some(), "{title}");
        }
        assert_eq!(
            fields("postgres: [local] shop [local] idle"),
            four("client backend", "[local]", "shop", "[local]")
        );
    }

    proptest! {
        /// Whatever the names in a title, it yields these or none, with the names in the process's memory and without.
        #[test]
        fn a_title_tells_the_names_it_is_made_of_or_none(
            user in "(walsender|logger|autovacuum worker|\\[local\\]|x\\(1\\)|[a-c :]){1,4}",
            database in "(walsender|streaming|\\[local\\]|x\\(1\\)|[a-c :]){1,4}",
            others in prop::collection::vec(("[a-c :]{0,3}", "[a-c :]{0,3}"), 0..4),
        ) {
            let title = format!("postgres: {user} {database} [local] idle");
            let mut has: Vec<(&str, &str)> = others.iter().map(|(u, d)| (u.as_str(), d.as_str())).collect();
            has.push((user.as_str(), database.as_str()));
            for told in [names(&has), names(&has[has.len() - 1..]), Told::Nothing] {
                let is_alone = matches!(&told, Told::OneOf(names) if names.len() == 1);
                let found = parse(&title, "", || told).expect("it is a client's");
                let is_right = found.user == user && found.database == database && found.client == "[local]";
                prop_assert!(is_right || (found.user.is_empty() && !is_alone), "{found:?}");
            }
        }
    }
}
