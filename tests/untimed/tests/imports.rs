//! Files of other tools through the command: import, report, flame; and what is none of them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use dbtime_tests::{Outcome, Screen, dbtime, dbtime_binary, repository, say};
use serde_json::Value;
use tempfile::TempDir;

const SAMPLE: &str = "blkdev_aio_read+0x51/0x80\nsys_io_submit+0x10/0x20\n0xffffffffffffffff\nio_submit\nmain\n\
                      State:\tR (running)\n\nevent#=158 (Oracle state)\n1\n\n";
const ON_CPU: &str = "0xffffffffffffffff\nState:\tS (sleeping)\n\nOn CPU (Oracle state)\n1\n\n";

fn scratch() -> TempDir {
    TempDir::with_prefix("dbtime-test-").expect("a temporary directory")
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn write(home: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = home.path().join(name);
    fs::write(&path, text).expect("a file of our own");
    path
}

fn classic(home: &TempDir) -> PathBuf {
    write(home, "classic.txt", SAMPLE.repeat(30) + &ON_CPU.repeat(10))
}

fn json(arguments: &[&str]) -> Value {
    let answer = dbtime(&[arguments, &["--format", "json"]].concat()).expect_code(0);
    serde_json::from_str(&answer.stdout).expect("JSON")
}

#[test]
fn samples_without_an_interval_are_counted_and_never_called_seconds() {
    let home = scratch();
    let file = classic(&home);
    let recording = home.path().join("x.dbt");
    dbtime(&["import", plain(&file), "-o", plain(&recording)]).expect_code(0);
    for what in [&file, &recording] {
        let text = dbtime(&["report", plain(what)]).expect_code(0).stdout;
        for expected in [
            "DB time 40 samples",
            "does not say how much time",
            "does not say when",
            "unclassified:event#=158",
            "running or runnable",
            "75.0",
        ] {
            assert!(text.contains(expected), "'{expected}' is missing in\n{text}");
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let seconds =
            |pair: &[&str]| pair[0].ends_with(|c: char| c.is_ascii_digit()) && pair[1].starts_with('s');
        let mut pairs = words.windows(2).filter(|pair| seconds(pair));
        assert!(
            pairs.all(|pair| pair[1].starts_with("samples")) && !text.contains("seconds"),
            "{text}"
        );
        assert!(!text.contains("1970"), "{text}");
        let document = json(&["report", plain(what)]);
        assert_eq!(document["meta"]["unit"], "samples");
        assert_eq!(document["db_time_samples"], 40);
        assert_eq!(document["from"], Value::Null);
        assert_eq!(document["aas"], Value::Null);
        assert!(document.get("db_time_ns").is_none());
        let ledger = document["ledger"].as_array().expect("a ledger");
        let sums: Vec<_> = ledger
            .iter()
            .map(|row| (row["wait_event"].as_str(), row["total_samples"].as_u64()))
            .collect();
        assert_eq!(sums, [(Some("event#=158"), Some(30)), (Some("CPU"), Some(10))]);
        let folded = dbtime(&["flame", plain(what), "-o", "-"]).expect_code(0).stdout;
        assert_eq!(
            folded,
            "CPU;sleep;[no stack] 10\n\
             unclassified:event#=158;cpu;main;io_submit;sys_io_submit_[k];blkdev_aio_read_[k] 30\n"
        );
    }
    let svg = home.path().join("x.svg");
    dbtime(&["flame", plain(&file), "-o", plain(&svg)]).expect_code(0);
    let svg = fs::read_to_string(svg).expect("an SVG");
    assert!(svg.contains("40 samples") && svg.contains("30 samples"), "{svg}");
    assert!(!svg.contains("1970"), "no time of day is known");
}

#[test]
fn the_database_is_compared_with_the_operating_system_only_where_both_are_known() {
    const SECTION: &str = "What the database says, and what happened";
    let home = scratch();
    let explained = |file: &Path| {
        let report = json(&["report", plain(file)]);
        report["database_view"]["explanation"]
            .as_str()
            .expect("a sentence")
            .to_string()
    };
    // Oracle's wait event and the process's state.
    let both = classic(&home);
    let text = dbtime(&["report", plain(&both)]).expect_code(0).stdout;
    assert!(text.contains(SECTION), "{text}");
    for (name, content, missing) in [
        (
            "folded.txt",
            "main;work 3\nmain;rest 1\n",
            "No wait events were recorded",
        ),
        (
            "calls.strace",
            "4711 1705456323.000100 read(3, \"\", 8) = 0 <0.000020>\n",
            "No wait events were recorded",
        ),
    ] {
        let file = write(&home, name, content);
        let text = dbtime(&["report", plain(&file)]).expect_code(0).stdout;
        assert!(!text.contains(SECTION) && !text.contains("getrusage"), "{text}");
        let explanation = explained(&file);
        assert!(explanation.starts_with(missing), "{name}: {explanation}");
    }
}

#[test]
fn an_interval_and_event_names_are_taken_from_the_command_line() {
    let home = scratch();
    let file = classic(&home);
    let names = write(
        &home,
        "events.csv",
        "EVENT#,NAME,WAIT_CLASS\n158,db file parallel read,User I/O\n",
    );
    let arguments = [
        "report",
        plain(&file),
        "--interval",
        "500ms",
        "--event-names",
        plain(&names),
    ];
    let document = json(&arguments);
    assert_eq!(document["db_time_ns"], 20_000_000_000u64);
    assert_eq!(document["ledger"][0]["wait_event"], "db file parallel read");
    let text = dbtime(&arguments).expect_code(0).stdout;
    assert!(
        text.contains("DB time 20.000 s") && text.contains("Sampled: all times"),
        "{text}"
    );
    let nothing = write(&home, "none.csv", "hello\n");
    dbtime(&["report", plain(&file), "--event-names", plain(&nothing)])
        .expect_code(1)
        .expect_stderr(&[plain(&nothing), "v$event_name"]);
    dbtime(&["report", plain(&file), "--interval", "soon"])
        .expect_code(2)
        .expect_stderr(&["soon", "10ms"]);
    let recording = home.path().join("x.dbt");
    dbtime(&["import", plain(&file), "-o", plain(&recording)]).expect_code(0);
    dbtime(&["report", plain(&recording), "--interval", "1s"])
        .expect_code(1)
        .expect_stderr(&[plain(&recording), "dbtime import"]);
}

#[test]
fn standard_input_is_a_file_like_any_other() {
    let mut child = Command::new(dbtime_binary())
        .args(["flame", "-", "-o", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command can be run");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"main;f;g_[k] 12\n").expect("it reads");
    drop(stdin);
    let outcome: Outcome = child.wait_with_output().expect("it ends").into();
    assert_eq!(outcome.expect_code(0).stdout, "[none];unknown;main;f;g_[k] 12\n");
}

#[test]
fn what_is_no_file_of_samples_is_named() {
    let home = scratch();
    let output = home.path().join("x.dbt");
    let empty = write(&home, "empty", "");
    let text = write(&home, "text", "once upon a time\nthere was a file\n");
    let binary: Vec<u8> = (0..40_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let binary = write(&home, "binary", binary);
    let cut = write(&home, "cut.gz", [0x1f, 0x8b, 8, 0, 0]);
    for (path, code, words) in [
        (&empty, 3, "empty"),
        (&text, 1, "perf script"),
        (&binary, 1, "not a format"),
        (&cut, 1, "cut.gz"),
    ] {
        for arguments in [
            vec!["import", plain(path), "-o", plain(&output)],
            vec!["report", plain(path)],
            vec!["flame", plain(path), "-o", "-"],
        ] {
            dbtime(&arguments)
                .expect_code(code)
                .expect_stderr(&[plain(path), words]);
        }
    }
    dbtime(&["import", plain(home.path()), "-o", plain(&output)])
        .expect_code(2)
        .expect_stderr(&[plain(home.path()), "is a directory: name the files in it"]);
    dbtime(&["report", plain(home.path())])
        .expect_code(1)
        .expect_stderr(&[plain(home.path()), "meta.json"]);
    assert!(!output.exists());
    // A format that is known, with nothing in it.
    let nothing = write(&home, "nothing", "State:\tR (running)\nvfs_read+0x1/0x2\n");
    dbtime(&["import", plain(&nothing), "-o", plain(&output)]).expect_code(3);
}

#[test]
fn lines_that_are_not_understood_are_counted_and_located() {
    let home = scratch();
    let file = write(
        &home,
        "x.txt",
        "main;f 1\n".repeat(25) + "what is this\nmain;g two\nmain;h 3",
    );
    let output = home.path().join("x.dbt");
    dbtime(&["import", plain(&file), "-o", plain(&output)])
        .expect_code(0)
        .expect_stderr(&["3 of 28 lines", "x.txt:26: what is this", "x.txt:27"]);
    let document = json(&["report", plain(&output)]);
    assert_eq!(document["db_time_counts"], 25);
}

#[test]
fn hostile_names_reach_no_terminal_and_break_no_format() {
    let home = scratch();
    let frame = "\t    10 evil\u{1b}]0;owned\u{7}<script>alert(1)</script>;x (/tmp/\u{202e}lib)\n";
    let file = write(
        &home,
        "perf.txt",
        format!("e\u{1b}[2Jvil;name 7 1.5: 1000000 cpu-clock: \n{frame}\t    20 main (/bin/a)\n\n"),
    );
    for arguments in [
        vec!["report", plain(&file)],
        vec!["report", plain(&file), "--format", "json"],
        vec!["flame", plain(&file), "-o", "-"],
    ] {
        let text = dbtime(&arguments).expect_code(0).stdout;
        assert!(
            !text.contains(['\u{1b}', '\u{7}', '\u{202e}']) || arguments.contains(&"json"),
            "{text:?}"
        );
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
    let folded = dbtime(&["flame", plain(&file), "-o", "-"]).expect_code(0).stdout;
    assert_eq!(folded.lines().count(), 1);
    assert_eq!(folded.matches(';').count(), 3, "{folded}");
    let svg = home.path().join("x.svg");
    dbtime(&["flame", plain(&file), "-o", plain(&svg)]).expect_code(0);
    let svg = fs::read_to_string(svg).expect("an SVG");
    assert!(!svg.contains("<script>alert") && !svg.contains('\u{1b}'));
}

#[test]
fn the_published_samples_have_their_counts_through_the_command() {
    let folder = repository().join("../shared/data/stack_profiling");
    let Ok(entries) = fs::read_dir(&folder) else {
        say("SKIPPED: ../shared/data/stack_profiling is not there");
        return;
    };
    let mut seen = 0;
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let expected = match plain(&path) {
            name if name.ends_with("ora_stack_fastio.txt") => [725, 141, 134],
            name if name.ends_with("slowio.txt") => [888, 106, 6],
            _ => [366, 74, 60],
        };
        let document = json(&["report", plain(&path)]);
        let ledger = document["ledger"].as_array().expect("a ledger");
        let sums: Vec<u64> = ledger
            .iter()
            .filter_map(|row| row["total_samples"].as_u64())
            .collect();
        assert_eq!(sums, expected, "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 3);
}

/// What Snapper prints of samples: of ten seconds with 3.35 active sessions, and twenty seconds later of five with 1.75.
pub(super) fn samples_of_snapper(home: &TempDir) -> PathBuf {
    let samples = |end: &str, seconds: u32, active: [&str; 2]| {
        format!(
            "\
  ActSes   %Thread | EVENT                               | WAIT_CLASS
    {}    (235%) | direct path read                    | User I/O
    {}    (100%) | ON CPU                              | ON CPU

--  End of ASH snap 1, end={end}, seconds={seconds}, samples_taken=100, AAS=3.4
",
            active[0], active[1]
        )
    };
    let text = "-- Session Snapper v4.33 - by Tanel Poder\n".to_string()
        + &samples("2015-04-29 08:25:20", 10, ["2.35", "1.00"])
        + &samples("2015-04-29 08:25:45", 5, [" .50", "1.25"]);
    write(home, "ash.txt", text)
}

#[test]
fn samples_that_snapper_printed_are_average_active_sessions_of_all_of_their_time() {
    let home = scratch();
    let file = samples_of_snapper(&home);
    let answer = json(&["report", plain(&file), "--timeline=1s"]);
    let timeline = &answer["timeline"];
    let rate = |of: &Value| of.as_f64().map(|rate| (rate * 1e6).round() / 1e6);
    let buckets = timeline["buckets"].as_array().expect("buckets");
    let rates: Vec<Option<f64>> = buckets.iter().map(|bucket| rate(&bucket["rate"])).collect();
    // Nothing is known of the twenty seconds between them.
    let expected = [vec![Some(3.35); 10], vec![None; 20], vec![Some(1.75); 5]].concat();
    assert_eq!(rates, expected, "{timeline}");
    let gaps = timeline["gaps"].as_array().expect("gaps");
    assert_eq!(gaps.len(), 1, "{timeline}");
    assert_eq!(gaps[0]["elapsed_ns"], 20_000_000_000u64);
    assert_eq!(rate(&timeline["peak"]), Some(3.35));
    // 33.5 s and 8.75 s, in fifteen seconds.
    let whole = json(&["report", plain(&file)]);
    assert_eq!(whole["db_time_ns"], 42_250_000_000u64);
    assert_eq!(rate(&timeline["rate"]), rate(&whole["aas"]));
}

/// A row of Snapper's table, and the same row as the command shows it: type, name, and cells.
type SnapperRow = (String, String, Vec<String>);

/// Rows between two texts, cut by their columns' commas: no name in the file has one.
fn snapper_rows(text: &str) -> Vec<Vec<SnapperRow>> {
    let mut snapshots = Vec::new();
    let mut rows = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if let [
            _,
            _,
            kind,
            name,
            delta,
            per_second,
            percent,
            graph,
            waits,
            waits_per_second,
            average,
        ] = cells[..]
            && ["STAT", "TIME", "WAIT"].contains(&kind)
        {
            // For waits, the words repeat the heading.
            let average = average.trim_end_matches(" average wait");
            let cells = [
                delta,
                per_second,
                percent,
                graph,
                waits,
                waits_per_second,
                average,
            ];
            // Blanks are collapsed: in a bar only their number is lost.
            let cells = cells.map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" "));
            rows.push((kind.to_string(), name.to_string(), cells.to_vec()));
        } else if line.starts_with("--  End of Stats snap") {
            rows.sort();
            snapshots.push(std::mem::take(&mut rows));
        }
    }
    snapshots
}

#[test]
fn snappers_own_numbers_come_back_to_the_printed_digit() {
    let file =
        repository().join("../shared/data/snapper/tanelpoder__tpt-oracle__im_inmemory_cpu_counters.txt");
    let Ok(text) = fs::read_to_string(&file) else {
        say("SKIPPED: ../shared/data/snapper is not there");
        return;
    };
    let printed = snapper_rows(&text);
    let shown = dbtime(&["report", plain(&file), "--snapshot", "--format", "json"]).expect_code(0);
    let shown: Vec<Value> = shown
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!((printed.len(), shown.len()), (6, 6));
    let mut expected = Vec::new();
    for (printed, shown) in printed.iter().zip(&shown) {
        let lines = shown["sessions"][0]["lines"].as_array().expect("lines");
        assert_eq!(lines.len(), printed.len(), "every row is there, and no other");
        for (kind, name, cells) in printed {
            let line = lines
                .iter()
                .find(|line| line["type"] == **kind && line["name"] == **name);
            let line = line.unwrap_or_else(|| panic!("{kind} {name}"));
            let growth = line["growth"].as_i64().expect("a number");
            let delta = if line["unit"] == "ns" {
                growth / 1_000
            } else {
                growth
            };
            assert_eq!(delta.to_string(), cells[0], "{name}");
            // The words of the line as text: blanks are how columns are laid out.
            let words: Vec<&str> = [name.as_str()]
                .into_iter()
                .chain(cells.iter().map(String::as_str))
                .filter(|cell| !cell.is_empty())
                .collect();
            expected.push(format!("{kind} {}", words.join(" ")));
        }
    }
    // So wide that no name is broken.
    let columns = "delta,hdelta/s,%time,graph,waits,waits/s,average";
    let arguments = ["report", plain(&file), "--snapshot", "--columns", columns];
    let mut screen = Screen::start(&arguments, (300, 1_000));
    screen.wait_for_end();
    screen.wait_for("all rows", Duration::from_secs(10), |text| {
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let is_there = |row: &String| lines.iter().any(|line| line.ends_with(row));
        expected.iter().all(is_there)
    });
    let csv = dbtime(&["report", plain(&file), "--snapshot", "--format", "csv"]).expect_code(0);
    let rows: usize = printed.iter().map(Vec::len).sum();
    assert_eq!(csv.stdout.lines().count(), rows + 1, "{}", csv.stdout);
    // It is of four minutes in all, spread over hours.
    let whole = json(&["report", plain(&file)]);
    let elapsed = whole["elapsed_ns"].as_f64().expect("a number") / 1e9;
    let told: f64 = text
        .lines()
        .filter_map(|line| line.split_once(", seconds=")?.1.trim().parse::<f64>().ok())
        .sum();
    assert!((elapsed - told).abs() < 0.4, "{elapsed} and {told}");
}
