//! Who had the CPUs of the host while sessions waited for one, against the kernel's accounting of each process.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dbtime::throwaway::Options;
use dbtime_tests::{
    Recorder, Session, assert_close, distribution, needs_recording, number, sampling_error, say, schedstat,
    wait_for_state,
};

/// A program of this name that takes as much of a CPU as it gets.
struct Neighbour(Child);

/// As long as the kernel keeps names; with what a terminal must not see.
const NAME: &str = "neigh\u{1b}[31m bour";

impl Neighbour {
    fn start(folder: &std::path::Path) -> Neighbour {
        let program = folder.join(NAME);
        if !program.exists() {
            fs::copy("/usr/bin/yes", &program).expect("coreutils are there");
        }
        let child = Command::new(program)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Neighbour(child.expect("it runs"))
    }

    /// Stops it; returns the CPU time that it has had, seconds.
    fn stop(&self) -> f64 {
        // SAFETY: kill has no memory effects; the child is not reaped yet.
        unsafe { libc::kill(self.0.id().cast_signed(), libc::SIGSTOP) };
        wait_for_state(self.0.id(), 'T');
        let stat = schedstat(self.0.id()).expect("it is not reaped");
        stat.on_cpu.as_secs_f64()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn who_has_the_cpus_that_sessions_wait_for_is_named() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let cpus = std::thread::available_parallelism()
        .expect("there are some")
        .get();
    // Twice as many as there are CPUs: they wait for each other, however the scheduler groups them.
    let mut sessions: Vec<Session> = (0..2 * cpus).map(|_| Session::connect(&cluster)).collect();
    let on_cpu = |sessions: &[Session]| -> f64 {
        let of_each = sessions
            .iter()
            .map(|session| session.schedstat().on_cpu.as_secs_f64());
        of_each.sum()
    };
    let folder = tempfile::tempdir().expect("a folder");
    for options in [&[][..], &["--collector", "proc"]] {
        let recorder = Recorder::server(&cluster, options);
        let neighbours: Vec<Neighbour> = (0..cpus).map(|_| Neighbour::start(folder.path())).collect();
        let before = on_cpu(&sessions);
        std::thread::scope(|scope| {
            for session in &mut sessions {
                scope.spawn(|| session.burn(Duration::from_secs(4)));
            }
        });
        let by_neighbours: f64 = neighbours.iter().map(Neighbour::stop).sum();
        sessions.iter().for_each(Session::wait_until_idle);
        let by_sessions = on_cpu(&sessions) - before;
        // A while in which nobody wants a CPU.
        std::thread::sleep(Duration::from_secs(1));
        let recorded = recorder.stop();

        let report = recorded.json(&[]);
        let host = &report["saturation"]["host_cpu"];
        let seconds = |name: &str| number(&host[name]) / 1e9;
        let (all, server, others, idle) = (
            seconds("cpus_ns"),
            seconds("server_ns"),
            seconds("others_ns"),
            seconds("idle_ns"),
        );
        say(&format!(
            "{options:?}: sessions {by_sessions:.3} s, neighbours {by_neighbours:.3} s; found {host:#}"
        ));
        let elapsed = (recorded.meta.end_us - recorded.meta.start_us) as f64 / 1e6;
        assert_close("CPUs, s", all, cpus as f64 * elapsed, 0.02, 0.1);
        assert_close(
            "all parts, s",
            server + others + idle + seconds("stolen_ns"),
            all,
            0.0,
            1e-6,
        );
        // Other processes of the server have little.
        assert_close("the server, s", server, by_sessions, 0.02, 0.1);
        // dbtime, the test and whoever else is here.
        assert!(
            others > by_neighbours - 0.1,
            "others {others} s, neighbours {by_neighbours} s"
        );
        let named = host["others"].as_array().expect("a list");
        let of = |name: &str| named.iter().find(|of| of["name"] == name);
        match options {
            [] => {
                let neighbour = of(&NAME[..15]).unwrap_or_else(|| panic!("they are not named: {host:#}"));
                let error = sampling_error(by_neighbours, all, 99.0);
                let found = number(&neighbour["ns"]) / 1e9;
                assert_close(
                    "neighbours, s",
                    found,
                    by_neighbours,
                    0.0,
                    error + recorded.stolen,
                );
            }
            _ => assert!(named.is_empty(), "{host:#}"),
        }
        let text = recorded.text(&[]);
        let said = text.lines().take(12).collect::<Vec<_>>().join(" ");
        assert!(said.contains("waited") && said.contains("% was idle."), "{text}");
        assert!(
            !options.is_empty() || said.contains("(neigh?[31m bour "),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
