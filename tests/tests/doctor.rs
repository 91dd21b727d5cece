//! `dbtime doctor`: what it says of hosts that lack something, and that recording then says the same.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    NO_BTF, Outcome, Session, dbtime, dbtime_after, dbtime_as_nobody, distribution, needs_recording, say,
    state_and_tracer,
};
use serde_json::Value;

const JSON: [&str; 3] = ["doctor", "--format", "json"];

fn parsed(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e} in {outcome:#?}"))
}

/// What it says of this server.
fn of_server(answer: &Value, cluster: &Cluster) -> Value {
    let directory = cluster.data_dir().to_str().expect("a plain path");
    let mut servers = answer["servers"].as_array().expect("servers").iter();
    let server = servers.find(|server| server["data_directory"] == directory);
    server
        .unwrap_or_else(|| panic!("{directory} is missing in {answer:#}"))
        .clone()
}

/// Verdict and text of the first finding about this.
#[track_caller]
fn finding(findings: &Value, about: &str) -> (String, String) {
    let mut all = findings.as_array().expect("findings").iter();
    let found = all
        .find(|finding| finding["about"] == about)
        .unwrap_or_else(|| panic!("nothing about '{about}' in {findings:#}"));
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_string();
    (text("verdict"), format!("{}; {}", text("found"), text("remedy")))
}

#[test]
fn where_recording_works_it_says_so_and_what_is_less_known() {
    needs_recording!();
    let with = |ids: &str| distribution().start(Options::default().set("compute_query_id", ids));
    let (with_ids, without) = (with("on"), with("off"));
    let outcome = dbtime(&JSON).expect_code(0);
    let answer = parsed(&outcome);
    assert_eq!(answer["recording_works"], true);
    let host = &answer["host"];
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is mounted");
    assert!(finding(host, "kernel").1.contains(kernel.trim()));
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").expect("perf events");
    assert!(finding(host, "perf events").1.contains(paranoid.trim()));
    for about in [
        "kernel",
        "type information",
        "capabilities",
        "process ids",
        "lockdown",
        "perf events",
    ] {
        assert_eq!(finding(host, about).0, "ok", "{about}: {answer:#}");
    }
    for (cluster, verdict, remedy) in [(&with_ids, "ok", ""), (&without, "less", "compute_query_id = on")] {
        let server = of_server(&answer, cluster);
        assert_eq!(server["recording_works"], true);
        assert!(
            server["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("PostgreSQL 1")),
            "{server:#}"
        );
        let (works, how) = finding(&server["findings"], "recording");
        assert!(works == "ok" && how.contains("sampler"), "{server:#}");
        let (ids, what) = finding(&server["findings"], "query ids");
        assert!(ids == verdict && what.contains(remedy), "{server:#}");
        finding(&server["findings"], "frame pointers");
        for about in ["sessions", "LWLocks"] {
            assert_eq!(finding(&server["findings"], about).0, "ok", "{about}: {server:#}");
        }
        let said = server["findings"]
            .to_string()
            .matches("computes no query ids")
            .count();
        assert_eq!(said, usize::from(verdict == "less"), "{server:#}");
    }
    // For people, the same.
    let text = dbtime(&["doctor"]).expect_code(0).stdout;
    for cluster in [&with_ids, &without] {
        let record = format!("sudo dbtime record --postgres {}", cluster.data_dir().display());
        assert!(text.contains(&record), "{text}");
    }
    assert!(
        text.lines()
            .all(|line| line.chars().count() <= 120 || !line.contains("  ok ")),
        "{text}"
    );
}

#[test]
fn what_is_missing_is_named_as_recording_names_it() {
    needs_recording!();
    let capabilities = ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"];
    let outcome = dbtime_as_nobody(&JSON).expect_code(1);
    let answer = parsed(&outcome);
    assert_eq!(answer["recording_works"], false);
    let (verdict, found) = finding(&answer["host"], "capabilities");
    assert_eq!(verdict, "no");
    assert!(capabilities.iter().all(|name| found.contains(name)), "{found}");

    let outcome = dbtime_after(NO_BTF, &JSON).expect_code(1);
    let (verdict, found) = finding(&parsed(&outcome)["host"], "type information");
    assert_eq!(verdict, "no");
    // In a folder that goes with the run.
    let refused = dbtime_after(
        &format!("{NO_BTF}; cd \"$SCRATCH\""),
        &["record", "--process", "1", "-d", "1"],
    );
    let why = found.trim_end_matches("; ");
    assert!(refused.expect_code(1).stderr.contains(why), "{why}");
    // Nothing is tried where it cannot work.
    let text = dbtime_after(NO_BTF, &["doctor"]).expect_code(1).stdout;
    assert!(
        text.contains("  no    type information") && !text.contains("recording         works"),
        "{text}"
    );
}

#[test]
fn a_kernel_that_is_locked_down_is_named() {
    needs_recording!();
    if !Path::new("/sys/kernel/security").exists() {
        say("the kernel has no place where it would say so");
        return;
    }
    let locked = |how: &str| {
        let mounts =
            format!("mount -t tmpfs none /sys/kernel/security; echo '{how}' > /sys/kernel/security/lockdown");
        let outcome = dbtime_after(&mounts, &JSON);
        (outcome.code, finding(&parsed(&outcome)["host"], "lockdown"))
    };
    let (code, (verdict, found)) = locked("none integrity [confidentiality]");
    assert_eq!((code, verdict.as_str()), (1, "no"));
    assert!(found.contains("lockdown=integrity"), "{found}");
    let (code, (verdict, found)) = locked("none [integrity] confidentiality");
    assert_eq!((code, verdict.as_str()), (0, "ok"));
    assert!(found.contains("integrity"), "{found}");
}

/// Ended with the test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn who_else_looks_is_named() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let session = Session::connect(&cluster);
    let strace = Command::new("strace")
        .args(["-o", "/dev/null", "-p", &session.pid().to_string()])
        .stderr(Stdio::null())
        .spawn();
    let strace = Ended(strace.expect("strace can be run; scripts/deps.sh test installs it"));
    let give_up = Instant::now() + Duration::from_secs(20);
    while state_and_tracer(session.pid()).expect("it is there").1 == 0 {
        assert!(Instant::now() < give_up, "strace does not attach");
        std::thread::sleep(Duration::from_millis(10));
    }
    let answer = parsed(&dbtime(&JSON).expect_code(0));
    let name = format!("strace (pid {})", strace.0.id());
    assert!(
        finding(&answer["host"], "other tracers").1.contains(&name),
        "{answer:#}"
    );
    let (verdict, found) = finding(&of_server(&answer, &cluster)["findings"], "traced");
    assert!(verdict == "less" && found.contains(&name), "{found}");
}
