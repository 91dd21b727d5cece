//! Commands of clients are as many as the server counts, however they are sent.

use std::collections::BTreeMap;

use dbtime::throwaway::Options;
use dbtime_tests::{Recorder, every_version, needs_recording, pgbench, say};

use crate::commands::{CALLS, counts, tail};

#[test]
fn commands_are_as_many_as_the_server_counts_in_every_version() {
    needs_recording!();
    for server in every_version() {
        let cluster = server.start(
            Options::default()
                .set("shared_preload_libraries", "pg_stat_statements")
                .set("pg_stat_statements.track", "top"),
        );
        cluster
            .psql("CREATE EXTENSION pg_stat_statements")
            .expect("the build comes with it");
        pgbench::initialise(&cluster, 1);
        for mode in ["simple", "extended", "prepared"] {
            cluster
                .psql("SELECT pg_stat_statements_reset()")
                .expect("statistics are on");
            let recorder = Recorder::server(&cluster, &[CALLS]);
            pgbench::run(
                &cluster,
                &[
                    "--no-vacuum",
                    "--client=4",
                    "--jobs=2",
                    "--transactions=100",
                    "--protocol",
                    mode,
                ],
            );
            let recorded = recorder.stop();
            let truth = cluster
                .psql("SELECT queryid, calls FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'")
                .expect("it is there");
            let truth: BTreeMap<String, u64> = truth
                .lines()
                .filter_map(|line| line.split_once('\t'))
                .map(|(id, calls)| (id.to_string(), calls.parse().expect("a number")))
                .collect();
            let report = tail(&recorded);
            let found = counts(&report);
            say(&format!("{} {mode}: {found:?}", recorded.meta.database.version));
            assert!(truth.len() >= 7, "{truth:?}");
            for (id, calls) in truth {
                let found = found.get(&id).copied().unwrap_or_default();
                // To prepare a statement is a command too, and no call.
                let more = if mode == "prepared" { 4 } else { 0 };
                assert!(
                    (calls..=calls + more).contains(&found),
                    "{mode}: query {id}: {found} commands, {calls} calls\n{}",
                    recorded.text(&["--tail"])
                );
            }
        }
    }
}
