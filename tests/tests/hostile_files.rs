//! Files of recorded processes that are made to harm their reader: each costs its own names, nothing else.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_tests::{
    Programs, Recorded, Recorder, Running, Session, children, distribution, hostile, needs_recording,
    pgbench, run,
};

/// What a recorder needs at most, whatever the files say: 75 MB, plus unwind tables and the names of the server.
const MODEST_BYTES: u64 = 300 << 20;

fn record(pid: u32, seconds: &str) -> Recorded {
    Recorder::start(&["--process", &pid.to_string(), "-d", seconds, "-F", "199"]).finish()
}

/// Samples with this function on the stack.
fn samples_in(recorded: &Recorded, pid: u32, is_it: impl Fn(&str, &str) -> bool) -> u64 {
    let stacks = recorded.user_stacks(pid);
    let with_it = stacks
        .iter()
        .filter(|(frames, ..)| frames.iter().any(|frame| is_it(&frame.module, &frame.symbol)));
    with_it.map(|(_, _, samples)| samples).sum()
}

fn named(recorded: &Recorded, pid: u32, name: &str) -> u64 {
    samples_in(recorded, pid, |_, symbol| symbol == name)
}

#[test]
fn a_library_that_is_shortened_while_it_is_recorded_kills_nobody() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "shortens.c", "shortens", &[]);
    let library = programs.compile("gcc", "halves.c", "halves.so", &["-shared", "-fPIC"]);
    let running = Running::start(&program, &[library.to_str().expect("a plain path")]);
    let recorder = Recorder::start(&["--process", &running.pid().to_string(), "-F", "199"]);
    std::thread::sleep(Duration::from_secs(1));
    running.signal(libc::SIGUSR1);
    std::thread::sleep(Duration::from_secs(1));
    let recorded = recorder.stop();
    assert!(named(&recorded, running.pid(), "before") > 50);
    // Its symbols were read before the file was cut.
    assert!(named(&recorded, running.pid(), "after") > 50);
}

#[test]
fn sizes_that_headers_claim_are_not_believed() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "many.c", "many", &[]);
    let good = programs.compile("gcc", "moment.c", "good.so", &["-shared", "-fPIC"]);
    let claims = [
        (".eh_frame", 9 << 30),
        (".symtab", 9 << 30),
        (".dynsym", 9 << 30),
        (".symtab", 200 << 20),
        (".shstrtab", 1 << 40),
    ];
    let mut libraries = vec![good.to_str().expect("a plain path").to_string()];
    for (n, (section, bytes)) in claims.into_iter().enumerate() {
        let library = programs.compile("gcc", "moment.c", &format!("bad{n}.so"), &["-shared", "-fPIC"]);
        hostile::claim_size(&library, &[section], bytes);
        libraries.push(library.to_str().expect("a plain path").to_string());
    }
    let libraries: Vec<&str> = libraries.iter().map(String::as_str).collect();
    let running = Running::start(&program, &libraries);
    let recorded = record(running.pid(), "4");
    let good = samples_in(&recorded, running.pid(), |module, symbol| {
        module == "good.so" && symbol == "for_a_moment"
    });
    assert!(good > 20, "{good} samples in the good library");
    let memory = recorded.meta.cost.max_rss_bytes;
    assert!(memory < 2 * MODEST_BYTES, "{memory} bytes");
}

/// `bad.so`, whose debug information takes for ever to read.
fn endless_library(programs: &Programs) -> PathBuf {
    let bad = programs.compile("gcc", "moment.c", "bad.so", &["-shared", "-fPIC"]);
    let (info, abbreviations) = (
        programs.folder().join("info"),
        programs.folder().join("abbreviations"),
    );
    hostile::endless_debug_information(&info, &abbreviations);
    run(Command::new("objcopy")
        .arg(format!("--add-section=.debug_info={}", info.display()))
        .arg(format!("--add-section=.debug_abbrev={}", abbreviations.display()))
        .arg(&bad));
    bad
}

#[test]
fn debug_information_that_takes_for_ever_costs_its_own_names() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "many.c", "many", &[]);
    let good = programs.compile("gcc", "moment.c", "good.so", &["-shared", "-fPIC"]);
    let bad = endless_library(&programs);
    let libraries = [&bad, &good].map(|library| library.to_str().expect("a plain path"));
    let running = Running::start(&program, &libraries);
    let recorded = record(running.pid(), "8");
    let of = |library: &'static str| {
        move |module: &str, symbol: &str| module == library && symbol == "for_a_moment"
    };
    let good = samples_in(&recorded, running.pid(), of("good.so"));
    assert!(good > 20, "{good} samples in the good library");
    assert_eq!(samples_in(&recorded, running.pid(), of("bad.so")), 0);
    let all = samples_in(&recorded, running.pid(), |module, _| module == "bad.so");
    assert!(all > 20, "{all} samples in the bad library");
}

/// Each of them takes seconds until it is given up: these must not add up when the recording is to end.
#[test]
fn many_files_that_take_for_ever_do_not_hold_up_the_end() {
    needs_recording!();
    const LIBRARIES: usize = 12;
    const END: Duration = Duration::from_secs(10);
    let programs = Programs::default();
    let program = programs.compile("gcc", "many.c", "many", &[]);
    let bad = endless_library(&programs);
    let libraries: Vec<String> = (0..LIBRARIES)
        .map(|n| {
            let copy = programs.folder().join(format!("bad{n}.so"));
            fs::copy(&bad, &copy).expect("there is room");
            copy.to_str().expect("a plain path").to_string()
        })
        .collect();
    let libraries: Vec<&str> = libraries.iter().map(String::as_str).collect();
    let running = Running::start(&program, &libraries);
    let pid = running.pid().to_string();
    // In three seconds for each they would take 36.
    let arguments = ["--process", &pid, "-F", "199"];
    let recorder = Recorder::start(&arguments);
    std::thread::sleep(Duration::from_secs(2));
    let begin = Instant::now();
    let stopped = recorder.stop();
    assert!(
        begin.elapsed() < END,
        "it ended {:?} after Ctrl-C",
        begin.elapsed()
    );
    let begin = Instant::now();
    let ended = Recorder::start(&[&arguments[..], &["-d", "2"]].concat()).finish();
    assert!(begin.elapsed() < 2 * END, "-d 2 took {:?}", begin.elapsed());
    for recorded in [stopped, ended] {
        assert!(recorded.meta.complete);
        recorded.session(running.pid()).assert_conserved();
    }
}

/// Whoever takes the kernel's events does not wait for names, however long they take to read, and gets them in the end.
#[test]
fn while_the_reader_of_names_stands_still_the_recording_goes_on() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("jit", "off"));
    pgbench::initialise(&cluster, 1);
    let load = pgbench::Load::of_reads(&cluster);
    let recorder = Recorder::server(&cluster, &["-F", "999"]);
    let readers = children(recorder.pid());
    let [reader] = readers[..] else {
        panic!("the recorder has the processes {readers:?}");
    };
    let send = |signal| {
        // SAFETY: a signal to a process of the recorder, which lives.
        let sent = unsafe { libc::kill(reader.cast_signed(), signal) };
        assert_eq!(sent, 0, "a signal to {reader}");
    };
    send(libc::SIGSTOP);
    // The interpreter is a library that no session had loaded before.
    let mut session = Session::connect(&cluster);
    session.run(
        "DO $$ DECLARE until timestamptz := clock_timestamp() + interval '4 s';
        BEGIN WHILE clock_timestamp() < until LOOP END LOOP; END $$",
    );
    let mut short = Session::connect(&cluster);
    let short_pid = short.pid();
    short.run("SELECT pg_sleep(0.5)");
    drop(short);
    send(libc::SIGCONT);
    std::thread::sleep(Duration::from_secs(1));
    let recorded = recorder.stop();
    drop(load);
    let quality = &recorded.meta.quality;
    let lost = [quality.lost, quality.rows_dropped, quality.stacks_without_room];
    assert_eq!(lost, [0; 3]);
    assert_eq!(recorded.session(short_pid).row.backend_type, "client backend");
    let pid = session.pid();
    recorded.session(pid).assert_conserved();
    let all = samples_in(&recorded, pid, |_, _| true);
    let named = samples_in(&recorded, pid, |module, symbol| {
        module == "plpgsql.so" && symbol == "plpgsql_inline_handler"
    });
    assert!(
        named > 1_000 && named * 10 > all * 9,
        "{named} of {all} samples in the interpreter"
    );
    let frames = recorded.stacks().flatten();
    let tickets = frames.filter(|frame| frame.symbol.contains("waits for names"));
    assert_eq!(tickets.count(), 0, "a ticket is no stack");
}

#[test]
fn more_libraries_than_there_are_descriptors_are_all_named() {
    needs_recording!();
    const LIBRARIES: usize = 300;
    let programs = Programs::default();
    let program = programs.compile("gcc", "many.c", "many", &[]);
    let library = programs.compile("gcc", "moment.c", "library.so", &["-shared", "-fPIC"]);
    let libraries: Vec<String> = (0..LIBRARIES)
        .map(|n| {
            let copy = programs.folder().join(format!("library{n}.so"));
            fs::copy(&library, &copy).expect("there is room");
            copy.to_str().expect("a plain path").to_string()
        })
        .collect();
    let libraries: Vec<&str> = libraries.iter().map(String::as_str).collect();
    let running = Running::start(&program, &libraries);
    let few = ["prlimit", "--nofile=200:200"];
    let pid = running.pid().to_string();
    let recorded = Recorder::through(&few, &["--process", &pid, "-d", "10", "-F", "499"]).finish();
    let stacks = recorded.user_stacks(running.pid());
    let leaves = stacks.iter().filter_map(|(frames, ..)| frames.last());
    let mut seen: Vec<&str> = leaves.clone().map(|frame| frame.module.as_str()).collect();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 200, "{} libraries were seen", seen.len());
    for leaf in leaves.filter(|leaf| leaf.module.starts_with("library")) {
        assert_eq!(leaf.symbol, "for_a_moment", "{leaf:?}");
    }
}

#[test]
fn a_perf_map_that_is_no_file_of_the_process_is_not_read() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "inlined.c", "inlined", &[]);
    let elsewhere = programs.folder().join("elsewhere");
    type Plant<'a> = &'a dyn Fn(&Path);
    let plants: [(&str, bool, Plant<'_>); 5] = [
        ("its own", true, &|_| {}),
        ("another user's", false, &|map| {
            chown(map, Some(12_345), None).expect("root may do that");
        }),
        ("a FIFO", false, &|map| {
            fs::remove_file(map).expect("the program has made it");
            run(Command::new("mkfifo").arg(map));
        }),
        ("a link to a device", false, &|map| {
            fs::remove_file(map).expect("the program has made it");
            symlink("/dev/zero", map).expect("its name is free");
        }),
        ("a file without an end", false, &|map| {
            chown(map, Some(0), None).expect("root may do that");
            let text = fs::read(map).expect("the program has written it");
            let file = fs::File::create(map).expect("root may do that");
            file.set_len(1 << 40).expect("files may have holes");
            std::os::unix::fs::FileExt::write_all_at(&file, &text, 1 << 39).expect("there is room");
        }),
    ];
    for (what, is_read, plant) in plants {
        let running = Running::start(&program, &["made"]);
        std::thread::sleep(Duration::from_millis(200));
        let map = format!("/tmp/perf-{}.map", running.pid());
        plant(Path::new(&map));
        let recorded = record(running.pid(), "2");
        fs::remove_file(&map).expect("it was there");
        let named = named(&recorded, running.pid(), "made_while_running");
        assert_eq!(named > 50, is_read, "{what}: {named} samples have the name");
        let memory = recorded.meta.cost.max_rss_bytes;
        assert!(memory < MODEST_BYTES, "{what}: {memory} bytes");
    }
    drop(elsewhere);
}
