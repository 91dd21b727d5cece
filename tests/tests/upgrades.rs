//! A server that ends and comes back as another version, on a directory that took the place of its own, as in an upgrade.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dbtime::throwaway::{Cluster, Options, Shutdown};
use dbtime_model::recording::Recording;
use dbtime_model::{State, StatementRow};
use dbtime_tests::{Recorded, Recorder, Session, assert_close, builds, needs_recording};

const SLEPT_S: f64 = 2.0;
const SLEEP: &str = "Timeout:PgSleep";
/// Rows that each session inserts: as many records of the log, and some more.
const INSERTED: u64 = 5_000;
/// The server is asked for what it counts once a second.
const ASKED_WITHIN: Duration = Duration::from_millis(1_400);

/// What a server says of itself, of a session that slept, and of background processes.
struct Life {
    version: String,
    session: Session,
    statement: u64,
    /// As it is recorded.
    text: &'static str,
    /// Their waits have other numbers in either version.
    background: Vec<(u32, &'static str)>,
}

/// `sql` sleeps.
fn live(
    cluster: &Cluster,
    sql: &'static str,
    text: &'static str,
    background: &[(&str, &'static str)],
) -> Life {
    let mut witness = Session::connect(cluster);
    let mut session = Session::connect(cluster);
    session.run("CREATE TABLE counted (n int)");
    session.run(&format!(
        "INSERT INTO counted SELECT generate_series(1, {INSERTED})"
    ));
    let pid = session.pid();
    let sleeper = std::thread::spawn(move || {
        session.run(sql);
        session
    });
    std::thread::sleep(Duration::from_secs_f64(SLEPT_S / 2.0));
    let statement: i64 = witness
        .ask(&format!(
            "SELECT query_id FROM pg_stat_activity WHERE pid = {pid}"
        ))
        .parse()
        .expect("it has an id");
    let mut process = |kind: &str| -> u32 {
        let question = format!("SELECT min(pid) FROM pg_stat_activity WHERE backend_type = '{kind}'");
        witness.ask(&question).parse().expect("a pid")
    };
    let background = background
        .iter()
        .map(|(kind, wait)| (process(kind), *wait))
        .collect();
    let version = witness.ask("SHOW server_version");
    Life {
        version: version.split(' ').next().unwrap_or_default().to_string(),
        session: sleeper.join().expect("it sleeps"),
        statement: statement.cast_unsigned(),
        text,
        background,
    }
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_micros() as i64
}

#[track_caller]
fn assert_recorded(recorded: &Recorded, tier: &str, life: &Life) {
    let what = format!("{tier}, {}", life.version);
    let session = recorded.session(life.session.pid());
    session.assert_conserved();
    let slept = session.ns(Some(SLEEP), &State::ALL) as f64 / 1e9;
    // By samples it was 2.47 s once in ten runs: why is not known yet.
    let share = if tier == "sampled" { 0.3 } else { 0.1 };
    assert_close(&format!("{what}: slept, s"), slept, SLEPT_S, share, 0.0);
    let of_statement = session
        .activity
        .iter()
        .filter(|row| row.statement == life.statement && row.wait().to_string() == SLEEP);
    let slept = of_statement.map(|row| row.ns).sum::<u64>() as f64 / 1e9;
    let of_statement = format!("{what}: slept in statement {:x}, s", life.statement);
    assert_close(&of_statement, slept, SLEPT_S, share, 0.0);
    let mut texts = Vec::new();
    let recording = Recording::open(&recorded.path).expect("it was read before");
    recording.read(|rows: Vec<StatementRow>| {
        let of_it = rows.into_iter().filter(|row| row.id == life.statement);
        texts.extend(of_it.map(|row| row.text).filter(|text| !text.is_empty()));
    });
    assert!(
        !texts.is_empty() && texts.iter().all(|text| *text == *life.text),
        "{what}: {texts:?}, and it was {}",
        life.text
    );
    for (pid, wait) in &life.background {
        let session = recorded.session(*pid);
        assert!(
            session.share_of_wait(wait) > 0.6,
            "{what}: {wait}\n{}",
            session.ledger()
        );
    }
}

#[test]
fn a_server_that_comes_back_as_another_version_on_another_directory_is_followed() {
    needs_recording!();
    let [old, new] = &builds(&[17, 18])[..] else {
        return;
    };
    let options = || {
        Options::default()
            .set("compute_query_id", "on")
            .set("autovacuum", "off")
    };
    let mut upgraded = new.start(options());
    upgraded.stop(Shutdown::Fast).expect("it ran");
    let mut cluster = old.start(options());
    let mut recorders = [
        ("sampled", Recorder::server(&cluster, &[])),
        ("exact", Recorder::server(&cluster, &["--exact", "--connect"])),
    ];

    let wal_writer = ("walwriter", "Activity:WalWriterMain");
    let first = live(
        &cluster,
        "SELECT pg_sleep(2), 17",
        "SELECT pg_sleep(?), ?",
        &[wal_writer],
    );
    let stopped_us = now_us();
    cluster.stop(Shutdown::Fast).expect("it ran");
    cluster.take_in(upgraded).expect("both are stopped");
    cluster.launch().expect("it starts");
    for (_, recorder) in &mut recorders {
        recorder.wait_for_line("note: the data directory has been replaced");
    }
    let followed_us = now_us();
    let mut second = live(
        &cluster,
        "SELECT pg_sleep(2), 'x', 18",
        "SELECT pg_sleep(?), ?, ?",
        &[wal_writer, ("io worker", "Activity:IoWorkerMain")],
    );
    std::thread::sleep(ASKED_WITHIN);
    let pid = second.session.pid();
    let counted: u64 = second
        .session
        .ask(&format!("SELECT wal_records FROM pg_stat_get_backend_wal({pid})"))
        .parse()
        .expect("a number");
    let recordings = recorders.map(|(tier, recorder)| (tier, recorder.stop()));

    for (tier, recorded) in &recordings {
        assert_recorded(recorded, tier, &first);
        assert_recorded(recorded, tier, &second);
        let database = &recorded.meta.database;
        let versions: Vec<&str> = database.versions().collect();
        assert_eq!(versions, [&first.version, &second.version], "{tier}");
        let from_us = database.later_versions[0].from_us;
        // The recorder's clock was set when it began.
        let bounds = stopped_us - 100_000..=followed_us + 100_000;
        assert!(
            bounds.contains(&from_us),
            "{tier}: {from_us} is not in {bounds:?}"
        );
        let text = recorded.text(&[]);
        for words in [
            format!("PostgreSQL {}, from ", first.version),
            format!(" on {}, ", second.version),
        ] {
            assert!(text.contains(&words), "{tier}: no '{words}' in\n{text}");
        }
        let json = recorded.json(&[]);
        assert_eq!(
            json["meta"]["database"]["later_versions"][0]["version"],
            second.version.as_str(),
            "{tier}"
        );
    }

    // Views that only the newer one has, and one word about each thing that is not there.
    let (_, asked) = &recordings[1];
    let found = asked.session(pid).counter("pg_stat_backend_wal.wal_records");
    assert!(
        (INSERTED..=counted).contains(&found),
        "{found} records of {INSERTED} rows, and the server counted {counted}"
    );
    let said = |words: &str| {
        let notes = asked.meta.notes.iter();
        notes.filter(|note| note.text.contains(words)).count()
    };
    assert_eq!(
        said("pg_stat_statements is not loaded"),
        1,
        "{:#?}",
        asked.meta.notes
    );
    // Where the new one is there before the next second, nobody was asked in between.
    assert!(
        said("no longer reports its statistics") <= 1,
        "{:#?}",
        asked.meta.notes
    );
}
