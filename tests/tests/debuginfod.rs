//! Functions of stripped executables are named by debug files of a debuginfod server, where the environment asks for it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use dbtime_tests::{Programs, Recorded, Recorder, Running, dbtime_binary, needs_recording};

/// A server has found its files by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// Debian's server, over the debug files in a folder.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(folder: &Path) -> Server {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .expect("a free port")
            .port();
        let child = Command::new("debuginfod")
            .args(["-p", &port.to_string(), "-d", ":memory:", "-F"])
            .arg(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("debuginfod is installed");
        Server { child, port }
    }

    /// Waits until it has the debug file of this build id.
    fn wait_for(&self, build_id: &str) {
        let give_up = Instant::now() + PATIENCE;
        while !self
            .status(build_id)
            .is_some_and(|status| status.contains(" 200 "))
        {
            assert!(Instant::now() < give_up, "the server does not find {build_id}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn status(&self, build_id: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        write!(
            stream,
            "GET /buildid/{build_id}/debuginfo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        Some(line)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers every request with these bytes; the receiver gets the requests.
fn answers_always(answer: Vec<u8>) -> (u16, Receiver<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = Vec::new();
            for line in BufReader::new(&stream).lines().map_while(Result::ok) {
                if line.is_empty() {
                    break;
                }
                lines.push(line);
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                answer.len()
            );
            // A client that does not want any more hangs up.
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(&answer));
            if tell.send(lines).is_err() {
                return;
            }
        }
    });
    (port, told)
}

fn record(urls: &str, pid: u32) -> Recorded {
    let environment = format!("DEBUGINFOD_URLS={urls}");
    Recorder::through(
        &["env", &environment],
        &["--process", &pid.to_string(), "-d", "2", "-F", "199"],
    )
    .finish()
}

/// Samples in the function that the program is in all of its time.
fn samples_in_outer(recorded: &Recorded, pid: u32) -> u64 {
    let stacks = recorded.user_stacks(pid);
    let named = stacks
        .iter()
        .filter(|(frames, ..)| frames.iter().any(|frame| frame.symbol == "outer"));
    named.map(|(_, _, samples)| samples).sum()
}

#[track_caller]
fn assert_told(recorded: &Recorded, words: &str) {
    let reasons = &recorded.meta.collector.reasons;
    assert!(reasons.iter().any(|reason| reason.contains(words)), "{reasons:?}");
}

#[test]
fn functions_of_a_stripped_program_are_named_by_a_server() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "inlined.c", "stripped", &["-g", "-Wl,--build-id=sha1"]);
    let folder = programs.folder().join("served");
    fs::create_dir(&folder).expect("an own folder");
    let build_id = programs.cut_debug_file(&program, &folder.join("any.debug"));
    let server = Server::start(&folder);
    server.wait_for(&build_id);
    let running = Running::start(&program, &[]);

    let without = record("", running.pid());
    assert_eq!(samples_in_outer(&without, running.pid()), 0);
    let with = record(&format!("http://127.0.0.1:{}", server.port), running.pid());
    let samples = samples_in_outer(&with, running.pid());
    assert!(samples > 50, "{samples} samples");
    assert_told(&with, "named from a debug file that was fetched");
}

#[test]
fn a_server_is_told_build_ids_only_and_what_it_answers_costs_names_at_most() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "inlined.c", "stripped", &["-g", "-Wl,--build-id=sha1"]);
    let build_id = programs.cut_debug_file(&program, &programs.folder().join("its.debug"));
    let other = programs.compile("gcc", "calls.c", "other", &["-g", "-Wl,--build-id=sha1"]);
    let running = Running::start(&program, &[]);
    for answer in [
        Vec::new(),
        b"<html>".to_vec(),
        vec![0x7f; 1 << 20],
        fs::read(&other).expect("an own file"),
    ] {
        let (port, requests) = answers_always(answer);
        let recorded = record(&format!("http://127.0.0.1:{port}"), running.pid());
        assert_eq!(samples_in_outer(&recorded, running.pid()), 0);
        assert!(recorded.session(running.pid()).samples() > 50);
        assert_told(&recorded, "no debug file for stripped could be fetched");
        let requests: Vec<Vec<String>> = requests.try_iter().collect();
        let asked = format!("GET /buildid/{build_id}/debuginfo ");
        assert!(
            requests.iter().any(|lines| lines[0].starts_with(&asked)),
            "{requests:?}"
        );
        for lines in &requests {
            assert!(lines[0].starts_with("GET /buildid/"), "{lines:?}");
            let told = lines.join("\n");
            for secret in [
                program.to_str().expect("a plain path"),
                &running.pid().to_string(),
            ] {
                assert!(!told.contains(secret), "{told}");
            }
        }
    }
    // Nobody there.
    let recorded = record("http://127.0.0.1:9", running.pid());
    assert_told(&recorded, "no debug file for stripped could be fetched");
    assert!(recorded.session(running.pid()).samples() > 50);
}

/// A server that never answers: the recorder is killed while it waits for a debug file.
#[test]
fn what_a_killed_recorder_was_fetching_is_removed_by_the_next_one_which_says_so() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "inlined.c", "stripped", &["-g", "-Wl,--build-id=sha1"]);
    programs.cut_debug_file(&program, &programs.folder().join("its.debug"));
    let running = Running::start(&program, &[]);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("it is bound").port();
    let temporary = programs.folder().join("temporary");
    fs::create_dir(&temporary).expect("an own folder");
    // The user nobody must be able to enter it.
    fs::set_permissions(programs.folder(), fs::Permissions::from_mode(0o711)).expect("an own folder");
    let left = || fs::read_dir(&temporary).expect("an own folder").count();
    let record = |urls: &str, name: &str| {
        Command::new(dbtime_binary())
            .args(["record", "--process", &running.pid().to_string(), "-d", "1", "-o"])
            .arg(programs.folder().join(name))
            .env("TMPDIR", &temporary)
            .env("DEBUGINFOD_URLS", urls)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run")
    };
    let mut killed = record(&format!("http://127.0.0.1:{port}"), "killed.dbt");
    // It is asked: so the client runs.
    let (asked, _) = silent.accept().expect("somebody asks");
    assert_eq!(left(), 1);
    killed.kill().expect("our child");
    killed.wait().expect("our child");
    drop(asked);
    assert_eq!(left(), 1, "the kernel removes no folders");
    let next = record("", "next.dbt").wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&next.stderr);
    assert!(next.status.success(), "{said}");
    assert!(
        said.contains("note: removed") && said.contains("dbtime-debuginfod-") && said.contains("killed"),
        "{said}"
    );
    assert_eq!(left(), 0, "{said}");
}
