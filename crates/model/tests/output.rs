//! What others plant where output is written: nothing is ever written through it. Tests that need another user run as root.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dbtime_model::output::{Directory, Owner, Place, Readers};
use tempfile::TempDir;

/// `nobody`: somebody else.
const MALLORY: u32 = 65534;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    assert!(
        is_root || std::env::var_os("CI").is_none(),
        "CI runs this as root"
    );
    if !is_root {
        let _ = writeln!(
            io::stderr(),
            "SKIPPED: only root can make what belongs to another user"
        );
    }
    is_root
}

/// A directory of ours with a file that must stay as it is, and one of mallory's.
struct Scene {
    home: TempDir,
    victim: PathBuf,
    hers: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let home = TempDir::new().expect("a temporary directory");
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).expect("ours");
        let victim = home.path().join("victim");
        fs::write(&victim, "precious").expect("room");
        let hers = home.path().join("hers");
        fs::create_dir(&hers).expect("room");
        if rustix::process::geteuid().is_root() {
            chown(&hers, Some(MALLORY), Some(MALLORY)).expect("root may");
        }
        Scene { home, victim, hers }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn victim_is_untouched(&self) {
        assert_eq!(fs::read_to_string(&self.victim).expect("it is there"), "precious");
    }
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    Place::of(path)?.write(Readers::Owner, |out| out.write_all(text.as_bytes()))
}

fn refused(path: &Path) -> String {
    put(path, "x").expect_err("it is refused").to_string()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
}

fn hidden(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it can be read");
    let names = entries.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn a_file_is_its_owners_whatever_was_there() {
    let scene = Scene::new();
    let path = scene.path("x.svg");
    put(&path, "one").expect("a new file");
    assert_eq!(
        (mode(&path), fs::read_to_string(&path).unwrap().as_str()),
        (0o600, "one")
    );
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    put(&path, "two").expect("a file is replaced");
    assert_eq!(
        (mode(&path), fs::read_to_string(&path).unwrap().as_str()),
        (0o600, "two")
    );
    let place = Place::of(&path).unwrap();
    place
        .write(Readers::Everyone, |out| out.write_all(b"three"))
        .expect("for all to read");
    assert_eq!(mode(&path), 0o644);
    assert!(hidden(scene.home.path()).is_empty());
}

#[test]
fn whoever_reads_an_old_file_does_not_see_the_new_one() {
    let scene = Scene::new();
    let path = scene.path("x.svg");
    fs::write(&path, "old").unwrap();
    let mut open = File::open(&path).unwrap();
    let also = scene.path("also");
    fs::hard_link(&path, &also).unwrap();
    put(&path, "new").expect("it is replaced");
    let mut seen = String::new();
    open.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "old");
    assert_eq!(fs::read_to_string(&also).unwrap(), "old");
}

#[test]
fn what_cannot_be_written_to_its_end_leaves_the_old_file_and_nothing_else() {
    let scene = Scene::new();
    let path = scene.path("x.svg");
    fs::write(&path, "old").unwrap();
    let failed = Place::of(&path).unwrap().write(Readers::Owner, |out| {
        out.write_all(&[0; 100_000])?;
        Err(io::Error::from_raw_os_error(28))
    });
    assert!(failed.is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(
        fs::read_dir(scene.home.path()).unwrap().count(),
        3,
        "victim, hers, x.svg"
    );
}

#[test]
fn nothing_is_written_through_a_link() {
    let scene = Scene::new();
    for target in [
        scene.victim.clone(),
        scene.path("new"),
        PathBuf::from("/dev/stdout"),
    ] {
        let link = scene.path("link");
        symlink(&target, &link).unwrap();
        let why = refused(&link);
        assert!(why.contains("symbolic link"), "{why}");
        assert!(Place::of(&link).unwrap().is_taken().unwrap());
        assert!(Place::of(&link).unwrap().new_file().is_err());
        assert!(Place::of(&link).unwrap().create_directory().is_err());
        fs::remove_file(&link).unwrap();
    }
    scene.victim_is_untouched();
    assert!(!scene.path("new").exists());
}

#[test]
fn a_fifo_of_ours_is_written_to_and_that_of_another_is_not() {
    let scene = Scene::new();
    let fifo = scene.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read_to_string(fifo).expect("a FIFO")
    });
    put(&fifo, "through").expect("it is ours");
    assert_eq!(reader.join().unwrap(), "through");
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    if is_root() {
        chown(&fifo, Some(MALLORY), None).unwrap();
        // Opening it would wait forever for a reader.
        let why = refused(&fifo);
        assert!(why.contains("FIFO of another user (uid 65534)"), "{why}");
    }
}

#[test]
fn devices_directories_and_sockets() {
    put(Path::new("/dev/null"), "gone").expect("it takes everything");
    let scene = Scene::new();
    assert!(refused(&scene.hers).contains("a directory"));
    let socket = scene.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(refused(&socket).contains("a socket"));
    assert!(put(Path::new("/"), "").is_err());
    assert!(put(&scene.path(".."), "").is_err());
    assert!(put(&scene.path("absent/x"), "").is_err());
    if is_root() {
        let device = scene.path("disk");
        let status = std::process::Command::new("mknod")
            .arg(&device)
            .args(["b", "7", "200"])
            .status()
            .unwrap();
        assert!(status.success());
        assert!(refused(&device).contains("a block device"));
    }
}

#[test]
fn links_on_the_way_are_followed_only_when_they_are_ours() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    fs::create_dir(scene.path("real")).unwrap();
    // Ours, relative, absolute and with steps back.
    symlink("real", scene.path("relative")).unwrap();
    symlink(scene.path("real"), scene.path("absolute")).unwrap();
    symlink("hers/../relative", scene.path("back")).unwrap();
    for (n, name) in ["relative", "absolute", "back"].iter().enumerate() {
        put(&scene.path(name).join(format!("{n}")), name).expect("a link of our own");
        assert_eq!(
            fs::read_to_string(scene.path(&format!("real/{n}"))).unwrap(),
            *name
        );
    }
    // Hers, in our directory and in hers; a link of ours in her directory, which she may have put there.
    symlink("real", scene.path("planted")).unwrap();
    lchown(scene.path("planted"), Some(MALLORY), Some(MALLORY)).unwrap();
    symlink("../real", scene.hers.join("planted")).unwrap();
    lchown(scene.hers.join("planted"), Some(MALLORY), Some(MALLORY)).unwrap();
    symlink("../real", scene.hers.join("moved")).unwrap();
    for path in ["planted/x", "hers/planted/x", "hers/moved/x", "planted/../real/x"] {
        let why = refused(&scene.path(path));
        assert!(why.contains("link of another user"), "{path}: {why}");
    }
    assert!(!scene.path("real/x").exists());
    // One that leads to itself.
    symlink("loop", scene.path("loop")).unwrap();
    assert!(put(&scene.path("loop/x"), "").is_err());
}

#[test]
fn a_world_writable_directory_is_used_but_what_others_put_into_it_is_not() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let open = scene.path("open");
    for permissions in [0o777, 0o1777] {
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(permissions)).unwrap();
        put(&open.join("mine"), "mine").expect("anybody may write here");
        assert_eq!(mode(&open.join("mine")), 0o600);
        for (name, target) in [("to-file", scene.victim.clone()), ("to-dir", scene.path("hers"))] {
            symlink(target, open.join(name)).unwrap();
            lchown(open.join(name), Some(MALLORY), Some(MALLORY)).unwrap();
        }
        refused(&open.join("to-file"));
        refused(&open.join("to-dir/x"));
        // A file of another user is replaced: what is in it is ours, and only we can read it.
        fs::write(open.join("hers"), "hers").unwrap();
        fs::set_permissions(open.join("hers"), Permissions::from_mode(0o666)).unwrap();
        chown(open.join("hers"), Some(MALLORY), None).unwrap();
        let mut hers = File::open(open.join("hers")).unwrap();
        put(&open.join("hers"), "ours").expect("a file is replaced");
        assert_eq!(fs::metadata(open.join("hers")).unwrap().uid(), 0);
        assert_eq!(mode(&open.join("hers")), 0o600);
        let mut seen = String::new();
        hers.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "hers");
        fs::remove_dir_all(&open).unwrap();
    }
    scene.victim_is_untouched();
}

#[test]
fn what_is_renamed_away_is_written_to_and_what_takes_its_name_is_not() {
    let scene = Scene::new();
    let place = Place::of(&scene.path("hers/x")).unwrap();
    let directory = place.create_directory().unwrap();
    assert_eq!(mode(&scene.path("hers/x")), 0o700);
    assert_eq!(place.moved(&directory), None);
    // Mallory renames what is hers and puts links in its place.
    fs::rename(scene.path("hers/x"), scene.path("hers/away")).unwrap();
    fs::create_dir(scene.path("hers/x")).unwrap();
    for name in ["meta.json", "meta.tmp", "000001.parquet", "000001.tmp"] {
        symlink(&scene.victim, scene.path("hers/x").join(name)).unwrap();
        directory
            .replace(OsStr::new(name), |file| file.write_all(b"new"))
            .expect("our directory is still ours");
        assert_eq!(fs::read(scene.path("hers/away").join(name)).unwrap(), b"new");
    }
    scene.victim_is_untouched();
    let now = place.moved(&directory).expect("it is elsewhere");
    assert_eq!(now, scene.path("hers/away").canonicalize().unwrap());
    // The parent of an output too.
    let place = Place::of(&scene.path("hers/y")).unwrap();
    fs::rename(&scene.hers, scene.path("moved")).unwrap();
    symlink(scene.home.path(), &scene.hers).unwrap();
    place
        .write(Readers::Owner, |out| out.write_all(b"y"))
        .expect("the directory is still open");
    assert_eq!(fs::read(scene.path("moved/y")).unwrap(), b"y");
    assert!(!scene.path("y").exists());
}

#[test]
fn links_inside_a_directory_are_replaced_or_removed_and_never_followed() {
    let scene = Scene::new();
    let directory = Place::of(&scene.path("x")).unwrap().create_directory().unwrap();
    symlink(&scene.victim, scene.path("x/meta.json")).unwrap();
    assert!(directory.open_file(OsStr::new("meta.json")).is_err());
    directory
        .replace(OsStr::new("meta.json"), |file| file.write_all(b"new"))
        .expect("a link is replaced");
    assert!(
        !fs::symlink_metadata(scene.path("x/meta.json"))
            .unwrap()
            .is_symlink()
    );
    symlink(&scene.hers, scene.path("x/activity")).unwrap();
    assert!(directory.open_directory(OsStr::new("activity")).is_err());
    fs::write(scene.hers.join("kept"), "kept").unwrap();
    let place = Place::of(&scene.path("x")).unwrap();
    assert!(
        Directory::open(&scene.path("x"))
            .unwrap()
            .remove_directory(OsStr::new("activity"))
            .is_err()
    );
    place.remove_directory().expect("it is removed with its links");
    assert!(!scene.path("x").exists());
    assert_eq!(fs::read_to_string(scene.hers.join("kept")).unwrap(), "kept");
    scene.victim_is_untouched();
}

#[test]
fn giving_a_directory_away_gives_links_and_not_what_they_lead_to() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let directory = Place::of(&scene.path("x")).unwrap().create_directory().unwrap();
    directory
        .replace(OsStr::new("a"), |file| file.write_all(b"a"))
        .unwrap();
    directory.create_directory(OsStr::new("inner")).unwrap();
    symlink(&scene.victim, scene.path("x/to-victim")).unwrap();
    symlink(scene.home.path(), scene.path("x/to-home")).unwrap();
    directory
        .give(Owner {
            uid: MALLORY,
            gid: MALLORY,
        })
        .expect("root may");
    for name in ["x", "x/a", "x/inner", "x/to-victim", "x/to-home"] {
        assert_eq!(
            fs::symlink_metadata(scene.path(name)).unwrap().uid(),
            MALLORY,
            "{name}"
        );
    }
    assert_eq!(fs::metadata(&scene.victim).unwrap().uid(), 0);
    assert_eq!(fs::metadata(scene.home.path()).unwrap().uid(), 0);
}

#[test]
fn only_regular_files_are_read() {
    let scene = Scene::new();
    let directory = Directory::open_to_read(scene.home.path()).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        scene.path("fifo"),
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    symlink("/dev/zero", scene.path("zero")).unwrap();
    for name in ["fifo", "zero", "hers"] {
        let error = directory.open_file(OsStr::new(name)).expect_err(name);
        assert!(error.to_string().contains("not a file"), "{error}");
    }
    assert!(directory.open_file(OsStr::new("victim")).is_ok());
    assert_eq!(
        directory.open_file(OsStr::new("absent")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

#[test]
fn missing_directories_are_made_where_that_is_asked_for() {
    let scene = Scene::new();
    let folder = Directory::open_or_make(&scene.path("a/b/c")).expect("they are made");
    assert_eq!(mode(&scene.path("a/b/c")) & 0o700, 0o700);
    Place::inside(Arc::new(folder), OsStr::new("f"))
        .write(Readers::Everyone, |out| out.write_all(b"f"))
        .unwrap();
    assert_eq!(fs::read(scene.path("a/b/c/f")).unwrap(), b"f");
}

#[test]
fn nobody_else_can_enter_a_directory_of_ours() {
    let scene = Scene::new();
    let directory = Place::of(&scene.path("x")).unwrap().create_directory().unwrap();
    let inner = directory.create_directory(OsStr::new("inner")).unwrap();
    inner
        .replace(OsStr::new("f"), |file| file.write_all(b"f"))
        .unwrap();
    assert_eq!(mode(&scene.path("x")), 0o700);
    assert_eq!(mode(&scene.path("x/inner")), 0o700);
    assert_eq!(mode(&scene.path("x/inner/f")), 0o600);
    let taken = Place::of(&scene.path("x"))
        .unwrap()
        .create_directory()
        .unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
}
