//! Names of tables and indexes, read from the server's files without a connection: against what the server itself says of every
//! relation that is met.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, chown};
use std::time::Duration;

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{Recorder, Server, Session, builds, dbtime, distribution, needs_recording, number, say};
use serde_json::Value;

/// Schema and name of all relations of a database, by id and by file.
#[derive(Default)]
struct Truth {
    by_id: BTreeMap<u64, String>,
    by_file: BTreeMap<String, String>,
}

impl Truth {
    fn of(session: &mut Session) -> Truth {
        let said = session.ask(
            "WITH named AS (SELECT c.oid, c.relkind, c.reltoastrelid, n.nspname, format('%I.%I', n.nspname, c.relname) AS name \
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace) \
             SELECT string_agg(concat_ws('|', oid, coalesce(pg_relation_filepath(oid), ''), CASE \
             WHEN nspname <> 'pg_toast' THEN name \
             WHEN relkind = 't' THEN (SELECT t.name FROM named t WHERE t.reltoastrelid = c.oid) || ' (toast)' \
             ELSE (SELECT t.name FROM pg_index i JOIN named t ON t.reltoastrelid = i.indrelid WHERE i.indexrelid = c.oid) \
             || ' (toast index)' END), E'\\n') FROM named c",
        );
        let mut truth = Truth::default();
        for line in said.lines() {
            let fields: Vec<&str> = line.splitn(3, '|').collect();
            let [id, file, name] = fields[..] else {
                panic!("{line}");
            };
            truth.by_id.insert(id.parse().expect("an id"), name.to_string());
            if !file.is_empty() {
                truth.by_file.insert(file.to_string(), name.to_string());
            }
        }
        truth
    }
}

/// A server with two databases, one of which lies in a tablespace of its own.
struct Scene {
    cluster: Cluster,
    sessions: [Session; 2],
    _space: tempfile::TempDir,
}

const ROWS: &str = "SELECT i, repeat('x', 400) FROM generate_series(1, 4000) i";

impl Scene {
    fn of(build: &Server) -> Scene {
        let options = Options::default()
            .set("shared_buffers", "1MB")
            .set("autovacuum", "off")
            .set("max_parallel_workers_per_gather", "0");
        let cluster = build.start(options);
        let space = tempfile::tempdir().expect("a folder");
        let owner = std::fs::metadata(cluster.data_dir()).expect("it is there");
        chown(space.path(), Some(owner.uid()), Some(owner.gid())).expect("root may");
        let mut one = Session::connect(&cluster);
        for sql in [
            &format!("CREATE TABLESPACE space LOCATION '{}'", space.path().display()),
            "CREATE DATABASE other TABLESPACE space",
            "CREATE SCHEMA \"Shop 1\"",
            "CREATE TABLE \"Shop 1\".\"Order \"\"x\"\"\" (i int PRIMARY KEY, t text)",
            "CREATE TABLE long (t text)",
            "ALTER TABLE long ALTER t SET STORAGE EXTERNAL",
            "INSERT INTO long SELECT repeat('y', 9000) FROM generate_series(1, 400)",
            "CREATE TABLE elsewhere (i int, t text) TABLESPACE space",
            "CREATE TABLE moved (i int, t text)",
            "CREATE TABLE old_name (i int, t text)",
            "CREATE TABLE parts (i int, t text) PARTITION BY RANGE (i)",
            "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (1000000)",
            "CREATE TABLE late (i int, t text)",
            "BEGIN; CREATE TABLE never (i int); ROLLBACK",
            "BEGIN; ALTER TABLE moved RENAME TO never; ROLLBACK",
            "ALTER TABLE old_name RENAME TO new_name",
        ] {
            one.run(sql);
        }
        for table in [
            "\"Shop 1\".\"Order \"\"x\"\"\"",
            "elsewhere",
            "moved",
            "new_name",
            "parts",
            "late",
        ] {
            one.run(&format!("INSERT INTO {table} {ROWS}"));
        }
        let mut two = Session::connect_as(&cluster, "postgres", "other");
        two.run(&format!("CREATE TABLE there AS {ROWS}"));
        // Another file, with the same rows.
        one.run("VACUUM FULL moved");
        one.run("CHECKPOINT");
        Scene {
            cluster,
            sessions: [one, two],
            _space: space,
        }
    }
}

/// The locks on relations that dbtime sees now: id and name.
fn locks(cluster: &Cluster) -> Vec<(u64, Option<String>)> {
    let latch = dbtime(&[
        "latch",
        "--format",
        "json",
        "--top",
        "1000",
        "--all-locks",
        "-d",
        "1",
        "--postgres",
        cluster.data_dir().to_str().expect("a plain path"),
    ])
    .expect_code(0);
    let latch: Value = serde_json::from_str(&latch.stdout).expect("JSON");
    let locks = latch["locks"]["locks"].as_array().expect("locks").iter();
    locks
        .filter(|lock| lock["type"] == "relation")
        .map(|lock| {
            let name = lock["relation_name"].as_str().map(str::to_string);
            (number(&lock["relation"]) as u64, name)
        })
        .collect()
}

#[test]
fn relations_are_called_as_the_server_calls_them() {
    needs_recording!();
    for build in builds(&[14, 15, 16, 17, 18]).iter().chain([&distribution()]) {
        let mut scene = Scene::of(build);
        let truth: Vec<Truth> = scene.sessions.iter_mut().map(Truth::of).collect();

        // What is read: tables, indexes, long values, in both tablespaces and databases.
        let recorder = Recorder::server(&scene.cluster, &["--exact=calls"]);
        let [one, two] = &mut scene.sessions;
        for sql in [
            "SELECT count(t) FROM \"Shop 1\".\"Order \"\"x\"\"\"",
            "SET enable_seqscan = off",
            "SELECT count(t) FROM \"Shop 1\".\"Order \"\"x\"\"\" WHERE i > 0",
            "SET enable_seqscan = on",
            "SELECT sum(length(t || 'x')) FROM long",
            "SELECT count(t) FROM elsewhere",
            "SELECT count(t) FROM moved",
            "SELECT count(t) FROM new_name",
            "SELECT count(t) FROM parts",
        ] {
            one.run(sql);
        }
        two.run("SELECT count(*) FROM there");
        let report = recorder.stop().json(&["--io", "--top", "10000"]);
        let mut found = Vec::new();
        let groups = report["io"]["by_file"]["groups"].as_array().expect("files");
        for group in groups.iter().filter(|group| group["file_kind"] == "relation") {
            let file = group["file"].as_str().expect("a path");
            let expected = truth.iter().find_map(|truth| truth.by_file.get(file));
            assert_eq!(group["relation"].as_str(), expected.map(String::as_str), "{file}");
            found.extend(expected.cloned());
        }
        say(&format!(
            "{}: {} files, {}",
            build.name,
            found.len(),
            found.join(", ")
        ));
        for wanted in [
            "\"Shop 1\".\"Order \"\"x\"\"\"",
            "\"Shop 1\".\"Order \"\"x\"\"_pkey\"",
            "public.long (toast)",
            "public.elsewhere",
            "public.moved",
            "public.new_name",
            "public.part",
            "public.there",
        ] {
            assert!(found.iter().any(|name| name == wanted), "{wanted} is missing");
        }

        // What is locked, in both databases and in none.
        let [one, two] = &mut scene.sessions;
        one.run("BEGIN; SELECT FROM long; SELECT FROM parts; SELECT FROM pg_authid; LOCK TABLE late");
        two.run("BEGIN; LOCK TABLE there");
        let locks = locks(&scene.cluster);
        for (id, name) in &locks {
            let expected = truth.iter().find_map(|truth| truth.by_id.get(id));
            assert_eq!(name.as_ref(), expected, "{id}");
        }
        for wanted in [
            "public.long",
            "public.parts",
            "public.part",
            "pg_catalog.pg_authid",
            "public.late",
            "public.there",
        ] {
            let is_wanted = |(_, name): &(u64, Option<String>)| name.as_deref() == Some(wanted);
            assert!(locks.iter().any(is_wanted), "{wanted} is missing: {locks:?}");
        }
    }
}

#[test]
fn what_is_made_has_its_name_from_the_next_checkpoint_on() {
    needs_recording!();
    let mut scene = Scene::of(&distribution());
    let [one, _] = &mut scene.sessions;
    one.run("BEGIN; CREATE TABLE fresh (i int); ALTER TABLE late RENAME TO later; COMMIT");
    let ids = one.ask("SELECT string_agg(oid::text, ' ' ORDER BY relname) FROM pg_class WHERE relname IN ('fresh', 'later')");
    let ids: Vec<u64> = ids.split(' ').map(|id| id.parse().expect("an id")).collect();
    one.run("BEGIN; LOCK TABLE fresh; LOCK TABLE later");
    let names = || {
        let locks = locks(&scene.cluster);
        let of = |id: &u64| {
            locks
                .iter()
                .find(|(other, _)| other == id)
                .expect("it is locked")
                .1
                .clone()
        };
        ids.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(names(), [None, Some("public.late".to_string())]);
    let mut other = Session::connect(&scene.cluster);
    other.run("CHECKPOINT");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(
        names(),
        [Some("public.fresh".to_string()), Some("public.later".to_string())]
    );
}
