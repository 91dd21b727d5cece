//! The throw-away server itself: it starts, it leaves nothing behind, and it keeps to its own files.

use std::fs;
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options, Shutdown, page_cache};
use dbtime_tests::{Session, children, distribution, processes_in, schedstat};

#[test]
fn a_dropped_cluster_leaves_no_process_and_no_file() {
    let cluster = distribution().start(Options::default());
    let home = cluster.home().to_path_buf();
    let mut session = Session::connect(&cluster);
    let endless = std::thread::spawn(move || session.try_run("SELECT pg_sleep(600)"));
    drop(cluster);
    assert!(
        endless.join().expect("no panic").is_err(),
        "the session was ended"
    );
    assert!(!home.exists(), "{} is still there", home.display());
    assert_eq!(processes_in(&home), Vec::<u32>::new());
}

#[test]
fn a_killed_server_leaves_no_process_and_can_be_started_again() {
    let mut cluster = distribution().start(Options::default());
    let pid = cluster.postmaster_pid();
    let home = cluster.home().to_path_buf();
    assert!(!children(pid).is_empty(), "a server has background processes");
    cluster.stop(Shutdown::Kill).expect("it ran");
    assert!(schedstat(pid).is_none(), "the postmaster is gone");
    assert_eq!(processes_in(&home), Vec::<u32>::new());
    cluster.launch().expect("it starts again");
    assert_eq!(cluster.psql("SELECT 1").expect("it answers"), "1");
}

#[test]
fn the_resources_of_all_its_processes_are_known_at_the_end() {
    let mut cluster = distribution().start(Options::default());
    let mut session = Session::connect(&cluster);
    session.burn(Duration::from_secs(1));
    let truth = session.end();
    assert!(truth.elapsed >= Duration::from_secs(1), "{truth:?}");
    let usage = cluster.stop(Shutdown::Fast).expect("it ran");
    assert!(
        usage.user + usage.system >= truth.cpu,
        "{usage:?} for a session with {truth:?}"
    );
}

#[test]
fn a_server_that_cannot_start_says_what_its_log_says() {
    let options = distribution().options().set("shared_buffers", "nonsense");
    let error = Cluster::start(&options).expect_err("it cannot start");
    assert!(format!("{error:#}").contains("shared_buffers"), "{error:#}");
}

#[test]
fn a_long_temporary_directory_does_not_break_the_socket() {
    let long = tempfile::tempdir().expect("a temporary directory");
    let parent = long.path().join("a-rather-long-name-".repeat(6));
    fs::create_dir(&parent).expect("a folder of our own");
    for directory in [long.path(), &parent] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(directory, open).expect("a folder of our own");
    }
    let mut options = distribution().options();
    options.parent_dir = Some(parent);
    let cluster = Cluster::start(&options).expect("it starts");
    assert_eq!(cluster.psql("SELECT 1").expect("it answers"), "1");
    let socket_dir = cluster.socket_dir().to_path_buf();
    drop(cluster);
    assert!(!socket_dir.exists(), "{} is still there", socket_dir.display());
}

#[test]
fn its_files_can_be_taken_out_of_the_page_cache_and_put_back() {
    let cluster = distribution().start(Options::default());
    cluster
        .psql("CREATE TABLE big AS SELECT i, repeat('x', 500) AS filler FROM generate_series(1, 60000) i; CHECKPOINT")
        .expect("it works");
    let files = cluster.relation_files("big").expect("it has files");
    page_cache::evict(&files).expect("its own files");
    let cold = page_cache::residency(&files).expect("its own files");
    assert!(cold.total > 5_000 && cold.share() < 0.01, "{cold:?}");
    page_cache::warm(&files).expect("its own files");
    let warm = page_cache::residency(&files).expect("its own files");
    assert!(warm.share() > 0.99, "{warm:?}");

    let keep_out = page_cache::KeepOut::start(&files, Duration::from_millis(20)).expect("its own files");
    page_cache::warm(&files).expect("its own files");
    let give_up = Instant::now() + Duration::from_secs(5);
    while page_cache::residency(&files).expect("its own files").share() > 0.01 {
        assert!(Instant::now() < give_up, "the files are still in the page cache");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(keep_out);
}
