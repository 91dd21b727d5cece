//! What the recorder must be allowed to do, what it gives up, and servers in namespaces of their own.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_tests::{
    Programs, Recorded, Recorder, Running, copy_of_command, distribution, needs_recording, processes_in,
};

/// Capabilities without which nothing can be recorded, and those that docs/doctor.md calls useful.
const NEEDED: [&str; 4] = ["bpf", "perfmon", "sys_ptrace", "dac_read_search"];
const USEFUL: [&str; 3] = ["sys_nice", "checkpoint_restore", "syslog"];

/// A command that runs another one as the user nobody, with these capabilities and no others, ever.
fn only(capabilities: &[&str]) -> [String; 6] {
    let with = |all: &str| {
        let each = capabilities.iter().map(|name| format!(",+{name}"));
        format!("{all}{}", each.collect::<String>())
    };
    [
        "setpriv".to_string(),
        "--reuid=65534".to_string(),
        "--clear-groups".to_string(),
        format!("--inh-caps={}", with("-all")),
        format!("--ambient-caps={}", with("-all")),
        format!("--bounding-set={}", with("-all")),
    ]
}

/// Records a process for two seconds with these capabilities alone.
fn record_with(capabilities: &[&str], pid: u32) -> (i32, String, Option<Recorded>) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let copy = copy_of_command(home.path());
    open_to_all(home.path());
    let output = home.path().join("test.dbt");
    let wrapper = only(capabilities);
    let done = Command::new(&wrapper[0])
        .args(&wrapper[1..])
        .arg(&copy)
        .args([
            "record",
            "--process",
            &pid.to_string(),
            "-d",
            "2",
            "-F",
            "199",
            "-o",
        ])
        .arg(&output)
        .output()
        .expect("setpriv can be run");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let code = done.status.code().unwrap_or(-1);
    let recorded = (code == 0).then(|| Recorded::open(&output, said.clone(), Some(home)));
    (code, said, recorded)
}

/// What `dbtime doctor` says with these capabilities alone: exit code, and text.
fn doctor_with(capabilities: &[&str]) -> (i32, String) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let copy = copy_of_command(home.path());
    open_to_all(home.path());
    let wrapper = only(capabilities);
    let done = Command::new(&wrapper[0])
        .args(&wrapper[1..])
        .arg(&copy)
        .args(["doctor", "--format", "json"])
        .output()
        .expect("setpriv can be run");
    (
        done.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&done.stdout).into_owned(),
    )
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("it is ours");
}

/// Samples whose stack ends in this function, called by main.
fn samples_in(recorded: &Recorded, pid: u32, name: &str) -> u64 {
    let stacks = recorded.user_stacks(pid);
    let right = stacks.iter().filter(|(frames, ..)| {
        frames.iter().any(|frame| frame.symbol == "main") && frames.iter().any(|frame| frame.symbol == name)
    });
    right.map(|(_, _, samples)| samples).sum()
}

fn spinning(programs: &Programs) -> Running {
    let program = programs.compile("gcc", "chain.c", "chain", &[]);
    open_to_all(programs.folder());
    let running = Running::start(&program, &["spin"]);
    std::thread::sleep(Duration::from_millis(200));
    running
}

#[test]
fn the_documented_capabilities_are_enough_and_each_that_is_missing_is_named() {
    needs_recording!();
    let programs = Programs::default();
    let running = spinning(&programs);
    let all = [&NEEDED[..], &USEFUL].concat();
    let (code, said, recorded) = record_with(&all, running.pid());
    assert_eq!(code, 0, "{said}");
    let recorded = recorded.expect("it ended well");
    assert!(samples_in(&recorded, running.pid(), "third") > 50);
    assert!(
        !recorded.meta.collector.reasons.iter().any(|r| r.contains("CAP_")),
        "{:?}",
        recorded.meta.collector
    );

    for missing in NEEDED {
        let rest: Vec<&str> = all.iter().copied().filter(|name| *name != missing).collect();
        let (code, said, _) = record_with(&rest, running.pid());
        assert_eq!(code, 1, "without {missing}: {said}");
        let name = format!("CAP_{}", missing.to_uppercase());
        assert!(said.contains(&name), "without {missing}: {said}");
        let (code, told) = doctor_with(&rest);
        assert!(code == 1 && told.contains(&name), "without {missing}: {told}");
        for present in rest.iter().filter(|name| NEEDED.contains(name)) {
            let name = format!("CAP_{}", present.to_uppercase());
            assert!(!said.contains(&name), "without {missing} alone: {said}");
        }
    }
    for missing in USEFUL {
        let rest: Vec<&str> = all.iter().copied().filter(|name| *name != missing).collect();
        let (code, said, recorded) = record_with(&rest, running.pid());
        assert_eq!(code, 0, "without {missing}: {said}");
        let recorded = recorded.expect("it ended well");
        let reasons = &recorded.meta.collector.reasons;
        let name = format!("CAP_{}", missing.to_uppercase());
        assert!(
            reasons.iter().any(|reason| reason.contains(&name)),
            "without {missing}: {reasons:?}"
        );
        let (code, told) = doctor_with(&rest);
        assert!(code == 0 && told.contains(&name), "without {missing}: {told}");
        // None of them is needed for stacks and names of files that are where they were.
        assert!(
            samples_in(&recorded, running.pid(), "third") > 50,
            "without {missing}"
        );
    }
}

/// Capabilities that a thread can use, as a number.
fn effective(pid: u32, thread: &str) -> u64 {
    let status =
        fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).expect("the thread is there");
    let line = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .expect("a line")
            .trim()
            .to_string()
    };
    assert_eq!(line("NoNewPrivs:"), "1", "thread {thread}");
    u64::from_str_radix(&line("CapEff:"), 16).expect("a number")
}

#[test]
fn what_recording_does_not_need_is_given_up_once_it_has_begun() {
    needs_recording!();
    /// CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_BPF, CAP_CHECKPOINT_RESTORE (linux/capability.h).
    const BPF: u64 = 1 << 39;
    const LEFT: u64 = 1 << 2 | 1 << 19 | BPF | 1 << 40;
    const DAC_OVERRIDE: u64 = 1 << 1;
    const READERS: [&str; 2] = ["dbtime-unwind", "dbtime-names"];
    let programs = Programs::default();
    let running = spinning(&programs);
    let recorder = Recorder::start(&["--process", &running.pid().to_string()]);
    let own = recorder.pid();
    let mut of_threads = Vec::new();
    for thread in fs::read_dir(format!("/proc/{own}/task"))
        .expect("it runs")
        .flatten()
    {
        let number = thread.file_name().to_string_lossy().into_owned();
        let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        if number == own.to_string() || READERS.contains(&name.trim()) {
            of_threads.push((name, effective(own, &number)));
        }
    }
    assert_eq!(of_threads.len(), 3, "{of_threads:?}");
    for (name, has) in of_threads {
        let left = match name.trim() {
            "dbtime-unwind" => LEFT,
            "dbtime-names" => LEFT & !BPF,
            _ => LEFT | DAC_OVERRIDE,
        };
        assert_eq!(has & !left, 0, "{name}: {has:x}");
    }
    // The process that reads symbols and debug information has none at all, and may make few system calls.
    let children = dbtime_tests::children(own);
    let [reader] = children[..] else {
        panic!("{children:?}")
    };
    assert_eq!(effective(reader, &reader.to_string()), 0);
    let status = fs::read_to_string(format!("/proc/{reader}/status")).expect("it runs");
    assert!(status.contains("Seccomp:\t2"), "{status}");
    std::thread::sleep(Duration::from_secs(1));
    let recorded = recorder.stop();
    assert!(samples_in(&recorded, running.pid(), "third") > 10);
    assert!(
        !Path::new(&format!("/proc/{reader}")).exists(),
        "it ends with the recorder"
    );
}

/// A server that was started by a piece of shell; killed when dropped.
struct Contained(Child, std::path::PathBuf);

impl Drop for Contained {
    fn drop(&mut self) {
        for pid in processes_in(&self.1) {
            // SAFETY: kill has no memory effects; the processes work in a directory that this test has made.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn servers_in_namespaces_of_their_own_are_found_named_and_symbolised() {
    needs_recording!();
    for namespaces in [
        "--pid --mount --mount-proc",
        "--user --map-current-user --pid --mount --mount-proc",
    ] {
        let mut cluster = distribution().start(Options::default());
        cluster.stop(dbtime::throwaway::Shutdown::Fast).expect("it stops");
        let server = cluster.programs().server_dir().join("postgres");
        let psql_program = cluster.programs().client("psql").expect("it is installed");
        let data_directory = cluster.data_dir().to_path_buf();
        let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&data_directory).expect("it is there"));
        let start = format!(
            "exec setpriv --reuid {owner} --clear-groups unshare {namespaces} --fork --kill-child {} -D {} -c listen_addresses= -c jit=off -k {}",
            server.display(),
            data_directory.display(),
            cluster.socket_dir().display(),
        );
        let start = if namespaces.contains("--user") {
            start
        } else {
            format!(
                "exec unshare {namespaces} --fork --kill-child setpriv --reuid {owner} --clear-groups {} -D {} -c listen_addresses= -c jit=off -k {}",
                server.display(),
                data_directory.display(),
                cluster.socket_dir().display()
            )
        };
        let child = Command::new("sh")
            .args(["-c", &start])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let contained = Contained(child.expect("it can be run"), data_directory.clone());
        let give_up = Instant::now() + Duration::from_secs(20);
        let psql = |sql: &str| {
            Command::new(&psql_program)
                .args([
                    "-h",
                    cluster.socket_dir().to_str().expect("a plain path"),
                    "-U",
                    "postgres",
                    "-XAtc",
                    sql,
                    "postgres",
                ])
                .output()
                .expect("psql can be run")
        };
        while !psql("SELECT 1").status.success() {
            assert!(
                Instant::now() < give_up,
                "the server does not come up: {namespaces}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        let recorder = Recorder::start(&[
            "--postgres",
            data_directory.to_str().expect("a plain path"),
            "-F",
            "199",
        ]);
        psql("SELECT sum(i) FROM generate_series(1, 8000000) i");
        psql("SELECT pg_sleep(1)");
        let recorded = recorder.stop();
        assert_eq!(recorded.meta.database.product, "PostgreSQL");
        assert!(
            recorded.meta.database.version.starts_with("15"),
            "{:?}",
            recorded.meta.database
        );
        let sessions: Vec<_> = recorded
            .sessions
            .iter()
            .filter(|session| session.database == "postgres")
            .collect();
        assert!(
            sessions.iter().any(|session| session.user == "postgres"),
            "{sessions:?}"
        );
        let named = recorded.sessions.iter().map(|session| {
            let stacks = recorded.user_stacks(session.pid);
            let named = stacks
                .iter()
                .filter(|(frames, ..)| frames.iter().any(|frame| frame.symbol == "PostgresMain"));
            named.map(|(_, _, samples)| samples).sum::<u64>()
        });
        let named: u64 = named.sum();
        assert!(named > 100, "{namespaces}: {named} samples are named");
        let quality = &recorded.meta.quality;
        assert!(
            quality.stacks_broken * 20 < quality.stacks_complete,
            "{namespaces}: {quality:?}"
        );
        drop(contained);
    }
}
