//! A put is killed, objects are lost or damaged, and what is in a store is made to do harm.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use dbtime_tests::{dbtime, dbtime_as_nobody, dbtime_binary, files};

use super::made::{HOUR_S, Made, START_S, as_json, moment, plain, record, scratch};

#[test]
fn killed_at_any_moment_it_is_put_whole_by_the_next_one() {
    let home = scratch();
    let made = Made::two_hosts(&home);
    let whole = made.put(&home);
    let relative = |store: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        let strip = |(path, bytes): (PathBuf, Vec<u8>)| {
            (path.strip_prefix(store).expect("below").to_path_buf(), bytes)
        };
        files(store).into_iter().map(strip).collect()
    };
    let store = home.path().join("killed");
    let [one, other] = made.recordings().map(|(_, path)| plain(path));
    for after_ms in (0..60).step_by(3) {
        let mut child = Command::new(dbtime_binary())
            .args(["store", "put", one, other, plain(&store)])
            .stderr(Stdio::null())
            .spawn()
            .expect("the command can be run");
        std::thread::sleep(Duration::from_millis(after_ms));
        // It may have ended by itself.
        let _ = child.kill();
        child.wait().expect("it ends");
        if !store.join("dbtime-store.json").exists() {
            continue;
        }
        // Whatever is there is there whole.
        for (host, path) in made.recordings() {
            let report = dbtime(&["report", plain(&store), "--host", host, "--format", "json"]);
            if report.code == 0 {
                let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
                assert_eq!(report["ledger"], as_json(&["report", plain(path)])["ledger"]);
            }
        }
    }
    // Two by mistake.
    let both = [(); 2].map(|()| {
        Command::new(dbtime_binary())
            .args(["store", "put", one, other, plain(&store)])
            .stderr(Stdio::null())
            .spawn()
            .expect("the command can be run")
    });
    for mut child in both {
        assert!(child.wait().expect("it ends").success());
    }
    let hidden = |(path, _): &(PathBuf, Vec<u8>)| !path.to_string_lossy().contains("/.dbtime-");
    let found: Vec<_> = relative(&store).into_iter().filter(hidden).collect();
    assert!(found == relative(&whole), "the same objects with the same bytes");
}

#[test]
fn an_object_that_is_missing_or_damaged_is_named_and_the_rest_is_reported() {
    let home = scratch();
    let made = Made::two_hosts(&home);
    let store = made.put(&home);
    let (host, recording) = made.recordings()[0];
    let activity = files(&store.join("table=activity"));
    let (object, bytes) = activity
        .iter()
        .find(|(path, _)| plain(path).contains("hour=22") && plain(path).contains("host=db1"))
        .expect("an object");
    let damaged = [bytes[..bytes.len() / 2].to_vec(), {
        let mut bytes = bytes.clone();
        bytes[100] ^= 1;
        bytes
    }];
    for content in [None].into_iter().chain(damaged.into_iter().map(Some)) {
        match content {
            None => fs::remove_file(object).expect("it is there"),
            Some(bytes) => fs::write(object, bytes).expect("a file"),
        }
        let report = as_json(&["report", plain(&store), "--host", host]);
        let problems = report["quality"]["problems"].to_string();
        assert!(problems.contains(plain(object)), "{problems}");
        assert!(problems.contains("rows of the table activity"), "{problems}");
        assert!(
            report["db_time_ns"].as_u64() < as_json(&["report", plain(recording)])["db_time_ns"].as_u64()
        );
        let listed = dbtime(&["store", "list", plain(&store)]).expect_code(0).stdout;
        // A list looks at lengths, not into files.
        assert!(
            listed.contains("hour=22") || fs::metadata(object).is_ok_and(|m| m.len() == bytes.len() as u64)
        );
        // Another hour needs none of it.
        let [from, to] = [START_S, START_S + HOUR_S].map(moment);
        let part = ["--from", from.as_str(), "--to", &to];
        let hour = as_json(&[&["report", plain(&store), "--host", host], &part[..]].concat());
        assert_eq!(
            hour["ledger"],
            as_json(&[&["report", plain(recording)], &part[..]].concat())["ledger"]
        );
    }
    // Removed, it is put again with its recording.
    fs::remove_file(object).expect("it is there");
    dbtime(&["store", "put", plain(recording), plain(&store)]).expect_code(0);
    assert_eq!(&fs::read(object).expect("it is there again"), bytes);
}

#[test]
fn a_damaged_recording_is_put_only_when_that_is_asked_for_and_is_marked() {
    let home = scratch();
    let recording = record(&home, "a.dbt", "db1", START_S, 3, true);
    let segment = recording.join("activity/000002.parquet");
    let whole = fs::read(&segment).expect("a segment");
    fs::write(&segment, &whole[..whole.len() / 2]).expect("our own file");
    let store = home.path().join("store");
    dbtime(&["store", "put", plain(&recording), plain(&store)])
        .expect_code(1)
        .expect_stderr(&[plain(&segment), "--damaged"]);
    dbtime(&["report", plain(&store)]).expect_code(3);
    dbtime(&["store", "put", plain(&recording), plain(&store), "--damaged"])
        .expect_code(0)
        .expect_stderr(&["missing", plain(&segment)]);
    let report = as_json(&["report", plain(&store)]);
    assert_eq!(
        report["ledger"],
        as_json(&["report", plain(&recording)])["ledger"]
    );
    assert!(
        report["quality"]["notes"].to_string().contains(plain(&segment)),
        "{}",
        report["quality"]
    );
    let listed = dbtime(&["store", "list", plain(&store)]).expect_code(0).stdout;
    assert!(listed.contains(plain(&segment)), "{listed}");
    // Mended, it takes the place of what there was.
    fs::write(&segment, whole).expect("our own file");
    dbtime(&["store", "put", plain(&recording), plain(&store)]).expect_code(0);
    let report = as_json(&["report", plain(&store)]);
    assert_eq!(
        report["ledger"],
        as_json(&["report", plain(&recording)])["ledger"]
    );
    assert_eq!(report["quality"]["notes"], serde_json::Value::Array(vec![]));
}

/// The manifest of a store of one recording.
fn manifest(store: &Path) -> PathBuf {
    let (path, _) = files(&store.join("recordings")).pop().expect("a manifest");
    path
}

#[test]
fn names_in_manifests_lead_nowhere_else() {
    let home = scratch();
    let recording = record(&home, "a.dbt", "db1", START_S, 1, true);
    let store = home.path().join("store");
    dbtime(&["store", "put", plain(&recording), plain(&store)]).expect_code(0);
    let path = manifest(&store);
    let good = fs::read_to_string(&path).expect("a manifest");
    let secret = home.path().join("secret.parquet");
    fs::write(&secret, "secret").expect("a file");
    for (what, with) in [
        ("\"date\":\"2026-10-10\"", "\"date\":\"../../../../2026-10-10\""),
        ("\"hour\":21", "\"hour\":99"),
        (
            "\"host\":\"db1\",\"recording\"",
            "\"host\":\"../db1\",\"recording\"",
        ),
        ("\"recording\":\"", "\"recording\":\"../../../secret"),
        ("\"store\":\"1.1\"", "\"store\":\"2.0\""),
        ("\"bytes\":", "\"bytes\":-"),
        ("{\"store\"", "[{\"store\""),
        ("\"schema\":\"1.", "\"schema\":\"9."),
    ] {
        assert!(good.contains(what), "{what} in {good}");
        fs::write(&path, good.replace(what, with)).expect("a file");
        dbtime(&["report", plain(&store)])
            .expect_code(1)
            .expect_stderr(&[plain(&path)]);
        let list = dbtime(&["store", "list", plain(&store), "--format", "json"])
            .expect_code(1)
            .expect_stderr(&[plain(&path)]);
        assert!(list.stdout.contains(plain(&path)), "{list:?}");
    }
    // A table that is not known yet is none of our business.
    let newer = good.replace("\"table\":\"held_locks\"", "\"table\":\"../secret\"");
    fs::write(&path, newer).expect("a file");
    dbtime(&["report", plain(&store)]).expect_code(0);
    fs::write(&path, "x".repeat(1 << 20)).expect("a file");
    dbtime(&["report", plain(&store)])
        .expect_code(1)
        .expect_stderr(&[plain(&path)]);
    assert_eq!(fs::read(&secret).expect("it is as it was"), b"secret");
    // A manifest that cannot be understood does not prevent the recording from being put again.
    dbtime(&["store", "put", plain(&recording), plain(&store)]).expect_code(0);
    assert_eq!(fs::read_to_string(&path).expect("a manifest"), good);
}

#[test]
fn links_and_fifos_in_a_store_are_neither_read_nor_written() {
    let home = scratch();
    let recording = record(&home, "a.dbt", "db1", START_S, 2, true);
    let store = home.path().join("store");
    dbtime(&["store", "put", plain(&recording), plain(&store)]).expect_code(0);
    let (object, bytes) = files(&store.join("table=activity")).pop().expect("an object");
    let elsewhere = home.path().join("elsewhere");
    fs::write(&elsewhere, &bytes).expect("a file");
    fs::remove_file(&object).expect("it is there");
    symlink(&elsewhere, &object).expect("a link");
    let report = as_json(&["report", plain(&store)]);
    assert!(
        report["quality"]["problems"]
            .to_string()
            .contains("symbolic link"),
        "{}",
        report["quality"]
    );
    fs::remove_file(&object).expect("it is there");
    let name = std::ffi::CString::new(plain(&object)).expect("a name");
    // SAFETY: a plain call with a name that ends in a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let report = as_json(&["report", plain(&store)]);
    assert!(
        report["quality"]["problems"].to_string().contains("FIFO"),
        "{}",
        report["quality"]
    );
    // A folder that leads elsewhere is not written through.
    let folder = store.join("table=sessions");
    fs::remove_dir_all(&folder).expect("it is there");
    let trap = home.path().join("trap");
    fs::create_dir(&trap).expect("a folder");
    symlink(&trap, &folder).expect("a link");
    dbtime(&["store", "put", plain(&recording), plain(&store)]).expect_code(1);
    assert_eq!(fs::read_dir(&trap).expect("a folder").count(), 0);
}

#[test]
fn objects_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let home = scratch();
    let recording = record(&home, "a.dbt", "db1", START_S, 1, true);
    let store = home.path().join("store");
    dbtime(&["store", "put", plain(&recording), plain(&store)]).expect_code(0);
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&store), 0o700);
    for (path, _) in files(&store) {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        assert_eq!(
            mode(path.parent().expect("a folder")),
            0o700,
            "{}",
            path.display()
        );
    }
}

#[test]
fn one_recording_that_is_broken_keeps_no_other_from_being_put_or_listed() {
    let home = scratch();
    let made = Made::two_hosts(&home);
    let [one, other] = made.recordings().map(|(_, path)| plain(path));
    let bad = home.path().join("bad.dbt");
    fs::create_dir(&bad).expect("a folder");
    fs::write(bad.join("meta.json"), "{").expect("a file");
    let nowhere = home.path().join("nowhere.dbt");
    let store = home.path().join("store");
    // Nothing to be put: no store is made.
    dbtime(&["store", "put", plain(&bad), plain(&nowhere), plain(&store)])
        .expect_code(1)
        .expect_stderr(&[plain(&bad), plain(&nowhere)]);
    assert!(!store.exists());
    dbtime(&["store", "put", one, plain(&bad), other, plain(&store)])
        .expect_code(1)
        .expect_stderr(&[plain(&bad), one, other]);
    let hosts = |list: &str| -> Vec<String> {
        let list: serde_json::Value = serde_json::from_str(list).expect("JSON");
        let hosts = list["hosts"].as_array().expect("hosts");
        hosts
            .iter()
            .map(|host| host["host"].as_str().expect("a name").to_string())
            .collect()
    };
    let list = ["store", "list", plain(&store), "--format", "json"];
    assert_eq!(hosts(&dbtime(&list).expect_code(0).stdout), ["db1", "db2"]);
    let (broken, text) = files(&store.join("recordings/host=db1"))
        .pop()
        .expect("a manifest");
    fs::write(&broken, &text[..text.len() / 2]).expect("our own file");
    let listed = dbtime(&list)
        .expect_code(1)
        .expect_stderr(&[plain(&broken), "put its recording again"]);
    assert_eq!(hosts(&listed.stdout), ["db2"]);
    assert!(listed.stdout.contains("\"left_files\": 0"), "{}", listed.stdout);
    dbtime(&["report", plain(&store), "--host", "db2"]).expect_code(0);
    dbtime(&["store", "put", one, plain(&store)]).expect_code(0);
    assert_eq!(hosts(&dbtime(&list).expect_code(0).stdout), ["db1", "db2"]);
}

#[test]
fn what_cannot_be_looked_at_is_named_and_is_not_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let home = scratch();
    let made = Made::two_hosts(&home);
    let store = made.put(&home);
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own file");
    };
    let open = |path: &Path| {
        for (file, _) in files(path) {
            mode(&file, 0o644);
            for folder in file
                .ancestors()
                .take_while(|folder| folder.starts_with(path))
                .skip(1)
            {
                mode(folder, 0o755);
            }
        }
    };
    mode(home.path(), 0o755);
    open(&store);
    let report = ["report", plain(&store), "--host", "db1"];
    let list = ["store", "list", plain(&store)];
    for command in [&report[..], &list] {
        dbtime_as_nobody(command).expect_code(0);
    }
    for (closed, commands) in [
        (store.join("table=activity/date=2026-10-10"), &[&list[..]][..]),
        (store.join("recordings/host=db1"), &[&list[..], &report]),
        (manifest(&store), &[&list[..], &["report", plain(&store)]]),
    ] {
        mode(&closed, 0o000);
        for command in commands {
            let said = dbtime_as_nobody(command)
                .expect_code(1)
                .expect_stderr(&["Permission denied"]);
            let name = closed.file_name().and_then(|name| name.to_str()).expect("a name");
            assert!(said.stderr.contains(name), "{said:?}");
        }
        mode(&closed, 0o755);
    }
    // An unreadable file is a problem only for what needs it.
    let (object, _) = files(&store.join("table=activity")).pop().expect("a file");
    mode(&object, 0o000);
    let said = dbtime_as_nobody(&["report", plain(&store)]).expect_code(0);
    assert!(said.stdout.contains(plain(&object)), "{said:?}");
    // The store itself.
    mode(&store, 0o000);
    for command in [
        &report[..],
        &list,
        &["store", "put", plain(made.recordings()[0].1), plain(&store)],
    ] {
        let said = dbtime_as_nobody(command).expect_code(1);
        assert!(
            said.stderr.contains("Permission denied") && !said.stderr.contains("no store is there"),
            "{said:?}"
        );
    }
}
