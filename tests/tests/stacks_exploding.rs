//! Processes whose stacks are all different, for as long as they run: what the recorder uses of its host is bounded, and what finds no room
//! is counted.

use std::path::Path;
use std::time::Duration;

use dbtime::throwaway::Options;
use dbtime_model::State;
use dbtime_tests::{
    Books, Programs, Recorded, Recorder, Running, Session, distribution, needs_recording, pgbench, say,
};

/// As docs/safety.md has them.
const MEMORY: u64 = 400 << 20;
const FILES: usize = 200;
const MAPS: u64 = 256 << 20;
/// Stacks that may be new at once, and in each second after that.
const STACKS: f64 = 200_000.0;
const STACKS_A_SECOND: f64 = 200.0;
/// What a stack of 127 frames and its rows take on disk at most; beside them, descriptions and what never changes.
const BYTES_OF_A_STACK: f64 = 1_500.0;
const BYTES_BESIDE: f64 = 4e6;

/// Stands for what found no room.
const NO_ROOM: &str = "[more stacks than are kept]";

/// Records for so long; what it used of its host stays within bounds all the time.
fn record(what: &str, arguments: &[&str], seconds: u64) -> Recorded {
    let recorder = Recorder::start(arguments);
    let mut books = Books::of(recorder.pid(), recorder.path());
    for second in 1..=seconds {
        std::thread::sleep(Duration::from_secs(1));
        books = Books::of(recorder.pid(), recorder.path());
        let most_stacks = STACKS + STACKS_A_SECOND * second as f64;
        assert!(books.memory < MEMORY, "{what}, {second} s: {books:?}");
        assert!(books.files < FILES, "{what}, {second} s: {books:?}");
        assert!(books.maps < MAPS, "{what}, {second} s: {books:?}");
        assert!(
            (books.disk as f64) < most_stacks * BYTES_OF_A_STACK + BYTES_BESIDE,
            "{what}, {second} s: {books:?}"
        );
    }
    let recorded = recorder.stop();
    let quality = &recorded.meta.quality;
    say(&format!(
        "{what}: {books:?}; {} stacks, {} without room, {} lost, unwinding {}",
        recorded.stacks().count(),
        quality.stacks_without_room,
        quality.lost,
        quality.unwind_without_room
    ));
    assert_room_is_bounded(&recorded, seconds);
    recorded
}

fn assert_room_is_bounded(recorded: &Recorded, seconds: u64) {
    let stacks = recorded.stacks().count() as f64;
    assert!(
        stacks <= STACKS + STACKS_A_SECOND * (seconds + 2) as f64,
        "{stacks} stacks"
    );
    let without_room = recorded.meta.quality.stacks_without_room;
    let is_said = recorded.stacks().any(|frames| frames[0].symbol == NO_ROOM);
    assert_eq!(without_room > 0, is_said, "{without_room} stacks found no room");
    let text = recorded.text(&[]);
    assert_eq!(
        text.contains(&format!("says so: {without_room}")),
        is_said,
        "{text}"
    );
}

/// Time is not lost with its stacks.
fn assert_conserved(recorded: &Recorded, pid: u32) {
    let session = recorded.session(pid);
    session.assert_conserved();
    assert!(session.ns(None, &[State::User, State::Kernel]) > 0);
}

#[test]
fn recursion_whose_every_path_is_another_one_stays_within_bounds() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "explodes.c", "explodes", &[]);
    let running = Running::start(&program, &["recursion"]);
    let pid = running.pid().to_string();
    // In a minute a process may take half of the room: a hundred thousand stacks, which are reached in two thirds of this time.
    let recorded = record("recursion", &["--process", &pid, "-F", "4999"], 30);
    assert_conserved(&recorded, running.pid());
    // As far as there was room its stacks are whole.
    let stacks = recorded.user_stacks(running.pid());
    let whole = stacks
        .iter()
        .filter(|(frames, ..)| frames.iter().any(|frame| frame.symbol == "main"))
        .count();
    assert!(whole > 5_000, "{whole} stacks are whole");
    assert!(
        recorded.meta.quality.stacks_without_room > 0,
        "all found room: the bound was not reached"
    );
}

#[test]
fn code_at_ever_new_addresses_and_a_perf_map_that_grows_stay_within_bounds() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "explodes.c", "explodes", &[]);
    let running = Running::start(&program, &["compiled"]);
    let map = format!("/tmp/perf-{}.map", running.pid());
    let pid = running.pid().to_string();
    let recorded = record("compiled code", &["--process", &pid, "-F", "999"], 20);
    let written = std::fs::metadata(&map).expect("the program writes it").len();
    std::fs::remove_file(&map).expect("root may");
    assert!(written > 64 << 20, "only {written} bytes were written");
    assert_conserved(&recorded, running.pid());
    let notes = &recorded.meta.notes;
    assert!(
        notes
            .iter()
            .any(|note| note.text.contains("more functions than there is room for")),
        "{notes:?}"
    );
    let names = recorded
        .stacks()
        .flatten()
        .filter(|frame| frame.symbol.starts_with("compiled_"));
    assert!(names.count() > 10);
}

#[test]
fn code_of_ever_new_files_stays_within_bounds() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "explodes.c", "explodes", &["-ldl"]);
    let library = programs.compile(
        "gcc",
        "moment.c",
        "moment.so",
        &["-shared", "-fPIC", "-Wl,--build-id=none"],
    );
    let text = |path: &Path| path.to_str().expect("a plain path").to_string();
    let arguments = ["files".to_string(), text(&library), text(programs.folder())];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let running = Running::start(&program, &arguments);
    let pid = running.pid().to_string();
    let recorded = record("ever new files", &["--process", &pid, "-F", "499"], 10);
    assert_conserved(&recorded, running.pid());
    // Each file is there for less time than passes between two looks at what is mapped: their names are a matter of luck.
}

/// Two functions of PL/pgSQL that call each other by a path that is drawn, beside sessions whose stacks are as usual: these are
/// whole.
#[test]
fn deep_recursion_of_a_server_leaves_room_for_the_other_sessions() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    pgbench::initialise(&cluster, 1);
    cluster
        .psql(
            "CREATE FUNCTION deeper(depth int) RETURNS int LANGUAGE plpgsql AS $$
             DECLARE found int;
             BEGIN
                 IF depth = 0 THEN RETURN (SELECT count(*) FROM generate_series(1, 300)); END IF;
                 IF random() < 0.3 THEN RETURN deeper(depth - 1); END IF;
                 IF random() < 0.5 THEN SELECT deeper(depth - 1) INTO found; RETURN found; END IF;
                 EXECUTE 'SELECT deeper($1)' INTO found USING depth - 1;
                 RETURN found;
             END $$",
        )
        .expect("it can be made");
    let load = pgbench::Load::start(
        &cluster,
        &[
            "--select-only",
            "--no-vacuum",
            "--client=1",
            "--rate=500",
            "--time=100",
        ],
    );
    let mut session = Session::connect(&cluster);
    let deep = session.pid();
    // Until its server has gone.
    let recursion = std::thread::spawn(move || while session.try_run("SELECT deeper(40)").is_ok() {});
    let data_directory = cluster.data_dir().to_str().expect("a plain path");
    let recorded = record("PL/pgSQL", &["--postgres", data_directory, "-F", "1999"], 20);
    drop((load, cluster));
    recursion.join().expect("it ends with its server");
    assert_conserved(&recorded, deep);
    let others: Vec<_> = recorded
        .clients()
        .into_iter()
        .filter(|client| client.row.pid != deep)
        .collect();
    assert!(!others.is_empty());
    for other in &others {
        let refused = recorded
            .user_stacks(other.row.pid)
            .into_iter()
            .filter(|(frames, ..)| frames[0].symbol == NO_ROOM)
            .count();
        assert_eq!(refused, 0, "{:?} found no room", other.row);
    }
}
