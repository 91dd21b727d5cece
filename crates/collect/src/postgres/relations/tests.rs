use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::catalogue::Catalogue;
use super::{RelationFile, directory_of};
use crate::target_file::TargetDirectory;

const PAGE: usize = 8_192;
const COMMITTED: u32 = 100;
const ABORTED: u32 = 101;
const IN_PROGRESS: u32 = 102;

/// A row version: the transactions that inserted and deleted it, its flags, its columns.
type Row = (u32, u32, u16, Vec<u8>);

/// Pages of a table with these rows, four on each.
fn table(rows: &[Row]) -> Vec<u8> {
    let pages = rows.chunks(4).map(|rows| {
        let mut page = vec![0; PAGE];
        let mut end = PAGE;
        for (number, (xmin, xmax, infomask, columns)) in rows.iter().enumerate() {
            let length = 24 + columns.len();
            end -= length.next_multiple_of(8);
            page[end..end + 4].copy_from_slice(&xmin.to_ne_bytes());
            page[end + 4..end + 8].copy_from_slice(&xmax.to_ne_bytes());
            page[end + 20..end + 22].copy_from_slice(&infomask.to_ne_bytes());
            page[end + 22] = 24;
            page[end + 24..end + length].copy_from_slice(columns);
            let item = end as u32 | 1 << 15 | (length as u32) << 17;
            page[24 + 4 * number..28 + 4 * number].copy_from_slice(&item.to_ne_bytes());
        }
        for (at, value) in [(12, 24 + 4 * rows.len()), (14, end), (16, PAGE), (18, PAGE | 4)] {
            page[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
        }
        page
    });
    pages.collect::<Vec<_>>().concat()
}

fn name(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(64, 0);
    bytes
}

/// A row of pg_class.
fn relation(id: u32, called: &str, schema: u32, file: u32, tablespace: u32) -> Vec<u8> {
    let mut columns = [&id.to_ne_bytes()[..], &name(called), &schema.to_ne_bytes()].concat();
    columns.resize(88, 0);
    columns.extend([file, tablespace].map(u32::to_ne_bytes).concat());
    columns.resize(140, 0);
    columns
}

fn frozen(columns: Vec<u8>) -> Row {
    (1, 0, 0x0b00, columns)
}

/// The files of a database 5, with these rows of pg_class in addition to those that are always there.
fn data_directory(home: &Path, rows: Vec<Row>) -> TargetDirectory {
    let database = home.join("data/base/5");
    fs::create_dir_all(&database).expect("an own folder");
    fs::create_dir_all(home.join("data/pg_xact")).expect("an own folder");
    let map = [0x0059_2717, 1, 1259, 1259_u32].map(u32::to_ne_bytes).concat();
    fs::write(database.join("pg_filenode.map"), map).expect("an own file");
    let mut all = vec![
        frozen(relation(1259, "pg_class", 11, 0, 0)),
        frozen(relation(2615, "pg_namespace", 11, 2615, 0)),
    ];
    all.extend(rows);
    fs::write(database.join("1259"), table(&all)).expect("an own file");
    let schemas = [(11, "pg_catalog"), (2200, "public"), (99, "pg_toast")]
        .map(|(id, called)| frozen([&u32::to_ne_bytes(id)[..], &name(called)].concat()));
    fs::write(database.join("2615"), table(&schemas)).expect("an own file");
    // Two bits each: 100 has committed, 101 has not.
    let mut log = vec![0; PAGE];
    log[25] = 0b1001;
    fs::write(home.join("data/pg_xact/0000"), log).expect("an own file");
    TargetDirectory::below(home, Path::new("/data")).expect("it is there")
}

fn read(home: &TargetDirectory) -> std::io::Result<Catalogue> {
    let transactions = home.subdirectory(c"pg_xact").ok();
    Catalogue::read(&directory_of(home, 5)?, transactions.as_ref())
}

fn catalogue(rows: Vec<Row>) -> Catalogue {
    let home = tempfile::tempdir().expect("a folder");
    read(&data_directory(home.path(), rows)).expect("it is a database")
}

fn named(catalogue: &Catalogue, id: u32) -> Option<&str> {
    catalogue.name(id).map(AsRef::as_ref)
}

#[test]
fn the_version_of_a_row_counts_that_has_committed() {
    let of = |id, called| relation(id, called, 2200, id + 10_000, 0);
    let found = catalogue(vec![
        // Renamed: the change has committed; has not; is still running; has committed according to the rows' own flags.
        (COMMITTED, COMMITTED, 0, of(1, "old")),
        (COMMITTED, 0, 0x0800, of(1, "new")),
        (COMMITTED, ABORTED, 0, of(2, "old")),
        (ABORTED, 0, 0x0800, of(2, "new")),
        (COMMITTED, IN_PROGRESS, 0, of(3, "old")),
        (IN_PROGRESS, 0, 0x0800, of(3, "new")),
        (IN_PROGRESS, IN_PROGRESS, 0x0500, of(4, "old")),
        (IN_PROGRESS, 0, 0x0900, of(4, "new")),
        // Inserted and not committed; locked only; updated by one of several, so that it is not known which version is valid.
        (ABORTED, 0, 0x0800, of(5, "never")),
        (COMMITTED, COMMITTED, 0x0080, of(6, "locked")),
        (COMMITTED, 7, 0x1000, of(7, "one")),
        (COMMITTED, 0, 0x0800, of(7, "other")),
    ]);
    let names: Vec<_> = (1..=7).map(|id| named(&found, id)).collect();
    assert_eq!(
        names,
        [
            Some("public.new"),
            Some("public.old"),
            Some("public.old"),
            Some("public.new"),
            None,
            Some("public.locked"),
            None
        ]
    );
    assert_eq!(
        found.name_of_file(0, 10_001).map(AsRef::as_ref),
        Some("public.new")
    );
    assert_eq!(found.name_of_file(0, 10_005), None);
}

#[test]
fn names_are_those_of_statements_and_what_is_long_belongs_to_its_table() {
    let found = catalogue(vec![
        frozen(relation(16_384, "Order \"x\"", 2200, 16_384, 0)),
        frozen(relation(16_390, "pg_toast_16384", 99, 16_390, 0)),
        frozen(relation(16_391, "pg_toast_16384_index", 99, 16_391, 0)),
        frozen(relation(16_392, "pg_toast_9", 99, 16_392, 0)),
        // Its schema does not exist.
        frozen(relation(16_393, "lost", 4_711, 16_393, 0)),
        // The same number in two tablespaces.
        frozen(relation(16_394, "here", 2200, 20_000, 0)),
        frozen(relation(16_395, "there", 2200, 20_000, 77)),
    ]);
    let names: Vec<_> = [1_259, 16_384, 16_390, 16_391, 16_392, 16_393]
        .map(|id| named(&found, id))
        .to_vec();
    assert_eq!(
        names,
        [
            Some("pg_catalog.pg_class"),
            Some("public.\"Order \"\"x\"\"\""),
            Some("public.\"Order \"\"x\"\"\" (toast)"),
            Some("public.\"Order \"\"x\"\"\" (toast index)"),
            Some("pg_toast.pg_toast_9"),
            None
        ]
    );
    let of_file = |tablespace, number| found.name_of_file(tablespace, number).map(AsRef::as_ref);
    assert_eq!(of_file(0, 1_259), Some("pg_catalog.pg_class"));
    assert_eq!(of_file(0, 20_000), Some("public.here"));
    assert_eq!(of_file(77, 20_000), Some("public.there"));
    assert_eq!(of_file(78, 20_000), None);
}

#[test]
fn another_layout_and_missing_files_are_errors() {
    for (file, content) in [
        ("pg_filenode.map", vec![1; 512]),
        ("1259", Vec::new()),
        ("1259", table(&[frozen(relation(1259, "pg_other", 11, 0, 0))])),
        ("1259", table(&[frozen(relation(1259, "pg_class", 11, 0, 0))])),
        ("2615", table(&[frozen(relation(11, "x", 0, 0, 0))])),
    ] {
        let home = tempfile::tempdir().expect("a folder");
        let directory = data_directory(home.path(), Vec::new());
        assert!(read(&directory).is_ok());
        fs::write(home.path().join("data/base/5").join(file), content).expect("an own file");
        assert!(read(&directory).is_err(), "{file}");
        fs::remove_file(home.path().join("data/base/5").join(file)).expect("it is there");
        assert!(read(&directory).is_err(), "{file}");
    }
}

#[test]
fn a_link_to_the_catalogue_of_another_is_not_followed() {
    let home = tempfile::tempdir().expect("a folder");
    let directory = data_directory(home.path(), Vec::new());
    let database = home.path().join("data/base/5");
    fs::rename(database.join("1259"), home.path().join("elsewhere")).expect("an own file");
    std::os::unix::fs::symlink("../../../elsewhere", database.join("1259")).expect("an own link");
    assert!(read(&directory).is_err());
}

#[test]
fn the_directory_of_a_database_may_be_that_of_a_tablespace() {
    let home = tempfile::tempdir().expect("a folder");
    let directory = data_directory(home.path(), vec![frozen(relation(16_384, "t", 2200, 16_384, 0))]);
    let data = home.path().join("data");
    fs::write(data.join("PG_VERSION"), "17\n").expect("an own file");
    for version in ["PG_16_1", "PG_17_2"] {
        fs::create_dir_all(home.path().join("mnt").join(version).join("5")).expect("an own folder");
    }
    fs::create_dir(data.join("pg_tblspc")).expect("an own folder");
    std::os::unix::fs::symlink("/mnt", data.join("pg_tblspc/77")).expect("an own link");
    // What an older version left is not read.
    let old = home.path().join("mnt/PG_16_1/5");
    fs::remove_dir(&old).expect("it is empty");
    fs::rename(data.join("base/5"), &old).expect("an own folder");
    assert!(read(&directory).is_err());
    let new = home.path().join("mnt/PG_17_2/5");
    fs::remove_dir(&new).expect("it is empty");
    fs::rename(&old, &new).expect("an own folder");
    assert_eq!(
        read(&directory)
            .ok()
            .as_ref()
            .and_then(|found| named(found, 16_384)),
        Some("public.t")
    );
}

#[test]
fn paths_tell_database_tablespace_and_file() {
    let file = |database, tablespace, number| {
        Some(RelationFile {
            database,
            tablespace,
            number,
        })
    };
    for (path, expected) in [
        ("base/5/16384", file(5, 0, 16_384)),
        ("base/5/16384.12", file(5, 0, 16_384)),
        ("base/5/16384_fsm", file(5, 0, 16_384)),
        ("base/5/16384_vm.1", file(5, 0, 16_384)),
        ("base/5/t3_16384", file(5, 0, 16_384)),
        ("base/5/t3_16384_vm", file(5, 0, 16_384)),
        ("global/1260", file(0, 0, 1_260)),
        ("pg_tblspc/77/PG_17_202406281/5/16384.1", file(5, 77, 16_384)),
        ("base/5/PG_VERSION", None),
        ("base/5/pg_filenode.map", None),
        ("base/5/16384x", None),
        ("base/5/tx_16384", None),
        ("base/5/99999999999", None),
        ("base/pgsql_tmp/pgsql_tmp1.0", None),
        ("pg_wal/000000010000000000000001", None),
        ("global/pg_control", None),
        ("", None),
    ] {
        assert_eq!(RelationFile::at(path), expected, "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The owner of the files can write anything into them.
    #[test]
    fn damaged_files_are_no_harm(
        changes in prop::collection::vec((0_usize..3 * PAGE, any::<u8>()), 0..200),
        length in 0_usize..3 * PAGE,
    ) {
        let home = tempfile::tempdir().expect("a folder");
        let rows = (0..8).map(|n| frozen(relation(16_384 + n, "t", 2200, 16_384 + n, 0)));
        let directory = data_directory(home.path(), rows.collect());
        for file in ["1259", "2615", "pg_filenode.map"] {
            let path = home.path().join("data/base/5").join(file);
            let before = fs::read(&path).expect("an own file");
            let mut content = before.clone();
            for (at, byte) in &changes {
                if let Some(there) = content.get_mut(*at) {
                    *there = *byte;
                }
            }
            content.truncate(length);
            fs::write(&path, content).expect("an own file");
            let _ = read(&directory);
            fs::write(&path, before).expect("an own file");
        }
    }
}
