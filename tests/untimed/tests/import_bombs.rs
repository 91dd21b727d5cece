//! Files of other tools that were made to do harm: endless lines, compressed nothing, more distinct values than fit into memory. All else
//! in them is understood as without these, within a bound of memory.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dbtime_tests::{Outcome, dbtime_binary, dbtime_with_memory, repository};
use tempfile::TempDir;

/// A line that no memory of the bound holds.
const GIGABYTE: usize = 1 << 30;
/// Longer than any line that is passed on whole, so that all readers see the same as of a gigabyte.
const LONG: usize = 2 << 20;
/// Bound of memory.
const MEMORY: &str = "256M";

/// Starts of files of every format, each a whole sample or more.
fn formats() -> Vec<(&'static str, String)> {
    let fixtures = repository().join("crates/import/tests/fixtures");
    let fixture = |name: &str| fs::read_to_string(fixtures.join(name)).expect("it is there");
    let classic = "a+0x1/0x2\nb+0x3/0x40\n0xffffffffffffffff\nuser_f\nmain\nState:\tS (sleeping)\n\nevent#=158 (Oracle state)\n1\n\n";
    let short = "SQL> oradebug setorapid 30\nOracle pid: 30, Unix process pid: 4711, image: oracle@h\nSQL> oradebug short_stack\n\
                 ksedsts()+380<-ksdxcb()+1782<-sspuser()+223<-__sighandler()<-sskgpwwait()+99<-main()+262\n";
    let perf = "x y 1/2 [001] 2.5: 1001001 cpu-clock: \n\tffffffff81000000 f+0x1 ([kernel.kallsyms])\n\t 10 g+0x5 (/bin/a)\n\n";
    let off_cpu = "Tracing off-CPU time (us) of PID 7 by user + kernel stack for 10 secs.\n\n    schedule\n    main\n    -                x (7)\n        1234\n\n";
    let dtrace = "CPU     ID                    FUNCTION:NAME\n  0  64091                        :tick-60s \n\n\n   unix`f+0x1\n   unix`g\n   12\n\n";
    let perf_trace = "     0.000 ( 0.005 ms): tb/7 read(fd: 3, buf: 0x7f, count: 8) = 8\n     0.100 ( 0.010 ms): tb/7 write(fd: 1, buf: 0x7f, count: 8) = 8\n";
    let ended = |text: String| if text.ends_with('\n') { text } else { text + "\n" };
    [
        ("SQL trace", fixture("statements.trc")),
        ("ftrace", fixture("kernel.fgraph")),
        ("oracle-snap", fixture("oracle_snap.csv")),
        ("oracle-latch", fixture("oracle_latch.csv")),
        ("LatchProfX", fixture("latchprof.txt")),
        ("Snapper", fixture("snapper.txt")),
        ("stack samples", classic.repeat(3)),
        ("short_stack", short.to_string()),
        ("strace", fixture("tasks.strace")),
        ("perf trace", perf_trace.to_string()),
        ("offcputime", off_cpu.repeat(2)),
        ("timehist", fixture("perf_sched/timehist.txt")),
        ("perf sched script", fixture("perf_sched/script.txt")),
        ("perf script", perf.repeat(3)),
        ("DTrace", dtrace.repeat(2)),
        ("folded", "a;b;c_[k] 123\nd 4\n".to_string()),
    ]
    .map(|(name, text)| (name, ended(text)))
    .to_vec()
}

/// What the command says of a stream that is written to it. It may stop reading early.
fn of_stream(arguments: &[&str], write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Outcome {
    let mut child = Command::new("timeout")
        .arg("300")
        .arg(dbtime_binary())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("timeout can be run");
    let mut stdin = child.stdin.take().expect("a pipe");
    let said = std::thread::scope(|scope| {
        let said = scope.spawn(|| child.wait_with_output());
        match write(&mut stdin) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => panic!("{e}"),
            _ => drop(stdin),
        }
        said.join().expect("it does not panic")
    });
    said.expect("it ends").into()
}

fn line_of(length: usize, out: &mut dyn Write) -> io::Result<()> {
    let part = vec![b'x'; 1 << 20];
    for _ in 0..length / part.len() {
        out.write_all(&part)?;
    }
    out.write_all(b"\n")
}

#[test]
fn a_line_of_a_gigabyte_is_as_one_that_is_too_long() {
    for (name, text) in formats() {
        let report = |length| {
            of_stream(
                &["report", "-", "--format", "json", "--max-memory", MEMORY],
                |out| {
                    out.write_all(text.as_bytes())?;
                    line_of(length, out)?;
                    out.write_all(text.as_bytes())
                },
            )
            .expect_code(0)
            .stdout
        };
        let (long, endless) = (report(LONG), report(GIGABYTE));
        assert!(
            long.contains(name) && long == endless,
            "{name}: {long}\n{endless}"
        );
    }
}

#[test]
fn what_decompresses_to_nothing_but_one_line_is_as_one_that_is_too_long() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let text = b"a;b;c_[k] 123\nd 4\n";
    let plain = home.path().join("long");
    let mut file = fs::File::create(&plain).expect("room");
    file.write_all(text)
        .and_then(|()| line_of(LONG, &mut file))
        .expect("room");
    let total = |path: &Path| {
        let path = path.to_str().expect("a plain path");
        let report = of_stream(
            &["report", path, "--format", "json", "--max-memory", MEMORY],
            |_| Ok(()),
        );
        let report: serde_json::Value = serde_json::from_str(&report.expect_code(0).stdout).expect("JSON");
        (
            report["db_time"].clone(),
            report["ledger"].clone(),
            report["stacks"].clone(),
        )
    };
    let expected = total(&plain);
    assert!(expected.1.to_string().contains("127"), "{expected:?}");
    for (command, ending) in [
        (&["gzip", "-1", "-c"][..], "gz"),
        (&["bzip2", "-1", "-c"], "bz2"),
        (&["xz", "-0", "-c"], "xz"),
        (&["xz", "-0", "--format=lzma", "-c"], "lzma"),
        (&["zstd", "-q", "-c"], "zst"),
        (&["zip", "-q", "-1", "-", "-"], "zip"),
    ] {
        let bomb: PathBuf = home.path().join(format!("bomb.{ending}"));
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(fs::File::create(&bomb).expect("room"))
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", command[0]));
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin
            .write_all(text)
            .and_then(|()| line_of(GIGABYTE / 2, &mut stdin))
            .expect("it reads");
        drop(stdin);
        assert!(child.wait().expect("our child").success());
        let size = fs::metadata(&bomb).expect("it was written").len();
        assert!(size < 16 << 20, "{ending}: {size}");
        assert_eq!(total(&bomb), expected, "{ending}");
    }
}

/// One in each way of compressing, in one command line.
#[test]
fn bombs_side_by_side_have_one_bound_of_memory() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let (_, text) = formats().swap_remove(0);
    let report = |files: &[PathBuf]| {
        let files = files.iter().map(|file| file.to_str().expect("a plain path"));
        let arguments: Vec<&str> = ["report"].into_iter().chain(files).collect();
        let (outcome, memory) =
            dbtime_with_memory(&[arguments, vec!["--format", "json", "--max-memory", MEMORY]].concat());
        assert!(memory < (256 + 64) << 20, "{memory} bytes");
        let report: serde_json::Value = serde_json::from_str(&outcome.expect_code(0).stdout).expect("JSON");
        (report["db_time_ns"].clone(), report["ledger"].clone())
    };
    let commands = [
        (&["gzip", "-1"][..], "gz"),
        (&["bzip2", "-1"], "bz2"),
        (&["xz", "-0"], "xz"),
        (&["zstd", "-q"], "zst"),
    ];
    let of = |length: usize| {
        commands.map(|(command, ending)| {
            let path = home.path().join(format!("{length}.trc.{ending}"));
            let mut child = Command::new(command[0])
                .args(&command[1..])
                .arg("-c")
                .stdin(Stdio::piped())
                .stdout(fs::File::create(&path).expect("room"))
                .spawn()
                .unwrap_or_else(|e| panic!("{}: {e}", command[0]));
            let mut stdin = child.stdin.take().expect("a pipe");
            stdin
                .write_all(text.as_bytes())
                .and_then(|()| line_of(length, &mut stdin))
                .expect("it reads");
            drop(stdin);
            assert!(child.wait().expect("our child").success());
            path
        })
    };
    let (plain, bombs) = (report(&of(LONG)), report(&of(GIGABYTE / 2)));
    assert!(plain.0.as_u64() > Some(0), "{plain:?}");
    assert_eq!(plain, bombs);
}

/// So many stacks, all different.
fn distinct_stacks(lines: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    for n in 0..lines {
        writeln!(text, "main;exec_{};leaf_{n} 1", n % 1_000).expect("memory");
        if text.len() > 1 << 20 {
            out.write_all(text.as_bytes())?;
            text.clear();
        }
    }
    out.write_all(text.as_bytes())
}

/// Statements of an SQL trace, all different.
fn distinct_statements(number: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut text = "*** 2025-01-01 00:00:00.000\n".to_string();
    for n in 0..number {
        let tim = 1_000_000_000 + n * 100;
        let sql = format!("select /* {n} */ * from t where a = {n}");
        writeln!(
            text,
            "=====================\nPARSING IN CURSOR #1 len={} dep=0 uid=1 oct=3 lid=1 tim={tim} hv={n} ad='0' sqlid='s{n}'\n{sql}\nEND OF STMT\n\
             EXEC #1:c=10,e=20,p=0,cr=1,cu=0,mis=0,r=1,dep=0,og=1,plh=1,tim={}",
            sql.len(),
            tim + 50
        )
        .expect("memory");
        if text.len() > 1 << 20 {
            out.write_all(text.as_bytes())?;
            text.clear();
        }
    }
    out.write_all(text.as_bytes())
}

/// Ten million, far more than the bound holds: stacks end with a message; of statements, as many as are useful are kept, and the others are
/// counted as one.
#[test]
fn more_that_is_distinct_than_fits_into_memory_is_a_clear_message_or_counted_as_one() {
    const MOST: u64 = 10_000_000;
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let output = home.path().join("x.dbt");
    let plain = output.to_str().expect("a plain path");
    for arguments in [vec!["import", "-", "-o", plain], vec!["report", "-"]] {
        let arguments = [arguments, vec!["--max-memory", "128M"]].concat();
        of_stream(&arguments, |out| distinct_stacks(MOST, out))
            .expect_code(1)
            .expect_stderr(&["more than 128 MB", "--max-memory"]);
        let outcome = of_stream(&arguments, |out| distinct_statements(MOST, out)).expect_code(0);
        let said = [outcome.stderr, outcome.stdout].concat();
        assert!(said.contains("further statements"), "{arguments:?}: {said}");
    }
}

/// What an import could hold, its readers may not be able to: the same message.
#[test]
fn a_recording_of_many_distinct_stacks_is_a_clear_message_too() {
    const STACKS: u64 = 400_000;
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let output = home.path().join("x.dbt");
    let plain = output.to_str().expect("a plain path");
    of_stream(&["import", "-", "-o", plain], |out| distinct_stacks(STACKS, out)).expect_code(0);
    for arguments in [
        vec!["report", plain],
        vec!["flame", plain, "-o", "-"],
        vec!["report", plain, "--tree"],
        vec!["diff", plain, plain],
    ] {
        let bounded = [arguments.clone(), vec!["--max-memory", "64M"]].concat();
        of_stream(&bounded, |_| Ok(()))
            .expect_code(1)
            .expect_stderr(&["more than 64 MB", "--max-memory"]);
    }
    of_stream(&["report", plain], |_| Ok(())).expect_code(0);
}

/// Stacks that have next to nothing in common, so that their call tree has a hundred times as many nodes as there are stacks: two
/// recordings of them are compared within twice what one recording may need to be reported.
#[test]
fn a_comparison_of_deep_stacks_needs_no_more_than_they_do() {
    const STACKS: u64 = 10_000;
    const FUNCTIONS: u64 = 12_000;
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let paths = [1, 2].map(|seed: u64| {
        // Xorshift: the same stacks in every run, others on each side.
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let path = home.path().join(format!("{seed}.dbt"));
        let plain = path.to_str().expect("a plain path").to_string();
        of_stream(&["import", "-", "-o", &plain], |out| {
            for _ in 0..STACKS {
                let mut line = String::new();
                for frame in 0..60 + random(68) {
                    let separator = if frame == 0 { "" } else { ";" };
                    write!(line, "{separator}function_{:05}", random(FUNCTIONS)).expect("memory");
                }
                writeln!(out, "{line} 1")?;
            }
            Ok(())
        })
        .expect_code(0);
        plain
    });
    let [good, bad] = paths.each_ref().map(String::as_str);
    for (arguments, most) in [
        (vec!["report", good], 100),
        (vec!["diff", good, good], 150),
        (vec!["diff", good, bad], 250),
    ] {
        let (outcome, memory) = dbtime_with_memory(&arguments);
        let outcome = outcome.expect_code(0);
        assert!(!outcome.stdout.is_empty());
        assert!(memory < most << 20, "{arguments:?}: {memory} bytes");
    }
}
