//! What programs read does not change unnoticed: every answer as JSON, and every export, of a small recording of each kind and of
//! files of other tools, by its digest.
//!
//! `DBTIME_ACCEPT_ANSWERS=1` takes over what has changed on purpose. `DBTIME_KEEP_ANSWERS=DIR` writes the answers themselves: those of
//! two builds are compared by `diff -r`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use dbtime_tests::{dbtime_binary, repository};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_128;

/// One second or two of `pgbench -c 3 -R 150` beside a session that locks a table, and four calls of pwrite64.
const RECORDINGS: [&str; 5] = ["sampled.dbt", "switch.dbt", "calls.dbt", "dive.dbt", "sched.dbt"];

/// A file for each importer.
const FILES: [&str; 14] = [
    "two_sessions.trc",
    "statements.trc",
    "release_8.trc",
    "snapper.txt",
    "oracle_snap.csv",
    "oracle_latch.csv",
    "latchprof.txt",
    "kernel.fgraph",
    "tasks.strace",
    "perf_sched/script.txt",
    "perf_sched/timehist.txt",
    "perf_script.txt",
    "folded.txt",
    "bcc.txt",
];

/// Made here: too short for files of their own.
const SHORT_FILES: [(&str, &str); 3] = [
    (
        "perf_script.txt",
        "a 7 10.1: 1000000 cpu-clock: \n\tffffffff81000000 k+0x1 ([kernel.kallsyms])\n\t 10 f+0x4 (/bin/a)\n\t 20 main (/bin/a)\n\n\
         b 8 11.5: 500000 cpu-clock: \n\t 10 g (/bin/b)\n\n",
    ),
    ("folded.txt", "main;f;g 3\nmain;f 4\nmain;h_[k] 5\n"),
    (
        "bcc.txt",
        "Sampling at 49 Hertz of all threads by user + kernel stack... Hit Ctrl-C to end.\n\n    f_in_kernel\n    --\n    g\n    main\n    -                postgres (7)\n        12\n\n",
    ),
];

const QUESTIONS: [&str; 37] = [
    "",
    "--by session,wait,state",
    "--by query",
    "--by application,user,database,client",
    "--by session_state,backend_type",
    "--by cause",
    "--by root",
    "--by second,wait_class",
    "--where backend_type=walwriter",
    "--wait IO:WALSync",
    "--state disk",
    "--from 0.3s --to 1.2s",
    "--latency",
    "--latency --by kind,name",
    "--latency --by device,io_size",
    "--latency --kind wait --by session",
    "--timeline",
    "--timeline=20 --by wait",
    "--tail",
    "--causes",
    "--causes --depth 3",
    "--blockers",
    "--chain",
    "--chain --at 1",
    "--latches",
    "--latches --columns name,mode,session,where",
    "--snapshot",
    "--io",
    "--stacks",
    "--tree",
    "--functions",
    "--functions --sort total",
    "--modules",
    "--call slowest",
    "--switches",
    "--plans",
    "--each-literal",
];

/// Endings that choose the format of an export.
const EXPORTS: [&str; 7] = [
    "folded",
    "svg",
    "pb.gz",
    "speedscope.json",
    "firefox.json",
    "perfetto-trace",
    "otlp",
];

/// Two recordings or files each.
const COMPARISONS: [(&str, &str); 5] = [
    ("sampled.dbt", "sampled.dbt"),
    ("switch.dbt", "calls.dbt"),
    ("sched.dbt", "calls.dbt"),
    ("two_sessions.trc", "statements.trc"),
    ("folded.txt", "perf_script.txt"),
];

/// What a command has to say: its arguments, and the ending of the file it writes, if it does.
struct Asked {
    arguments: String,
    ending: Option<&'static str>,
}

fn asked() -> Vec<Asked> {
    let mut asked = Vec::new();
    for source in RECORDINGS.iter().chain(&FILES) {
        for question in QUESTIONS {
            let arguments = format!("report {source} --format json {question}");
            asked.push(Asked {
                arguments: arguments.trim_end().to_string(),
                ending: None,
            });
        }
        for ending in EXPORTS {
            asked.push(Asked {
                arguments: format!("flame {source}"),
                ending: Some(ending),
            });
        }
    }
    for (good, bad) in COMPARISONS {
        asked.push(Asked {
            arguments: format!("diff {good} {bad} --format json"),
            ending: None,
        });
        asked.push(Asked {
            arguments: format!("report --compare {good} {bad} --format json"),
            ending: None,
        });
    }
    asked
}

/// Recordings and files under short names, so that no answer has a path of this machine.
fn sources() -> TempDir {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let link = |from: PathBuf, name: &str| {
        std::os::unix::fs::symlink(from, home.path().join(name)).expect("a directory of our own");
    };
    for name in RECORDINGS {
        link(
            repository()
                .join("tests/untimed/tests/unchanged/recordings")
                .join(name),
            name,
        );
    }
    fs::create_dir(home.path().join("perf_sched")).expect("a directory of our own");
    for name in FILES {
        match SHORT_FILES.iter().find(|(short, _)| *short == name) {
            Some((_, text)) => fs::write(home.path().join(name), text).expect("a directory of our own"),
            None => link(repository().join("crates/import/tests/fixtures").join(name), name),
        }
    }
    home
}

/// The answer; none to a question that the source cannot be asked.
fn answer(home: &Path, number: usize, asked: &Asked) -> Option<Vec<u8>> {
    let mut command = Command::new(dbtime_binary());
    command.current_dir(home).args(asked.arguments.split(' '));
    let output = asked.ending.map(|ending| format!("{number}.{ending}"));
    if let Some(output) = &output {
        command.args(["-o", output]);
    }
    let ended = command.output().expect("dbtime runs");
    let mut answer = ended.stdout;
    if let Some(output) = &output {
        answer = fs::read(home.join(output)).unwrap_or_default();
        let _ = fs::remove_file(home.join(output));
    }
    // 3: there was nothing of that sort, which the answer says too.
    matches!(ended.status.code(), Some(0 | 3)).then_some(answer)
}

/// Answers by the question; two at a time.
fn answers() -> BTreeMap<String, Vec<u8>> {
    let (home, asked) = (sources(), asked());
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(question) = asked.get(number) else { break };
                    let Some(answer) = answer(home.path(), number, question) else {
                        continue;
                    };
                    let name = match question.ending {
                        Some(ending) => format!("{} -o .{ending}", question.arguments),
                        None => question.arguments.clone(),
                    };
                    answers
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(name, answer);
                }
            });
        }
    });
    answers.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn what_programs_read_is_what_it_was() {
    let answers = answers();
    if let Some(folder) = std::env::var_os("DBTIME_KEEP_ANSWERS") {
        for (question, answer) in &answers {
            fs::create_dir_all(&folder).expect("there is room");
            let name = question.replace(['/', ' '], "_");
            fs::write(Path::new(&folder).join(name), answer).expect("there is room");
        }
    }
    let digests: BTreeMap<&str, String> = answers
        .iter()
        .map(|(question, answer)| (question.as_str(), format!("{:032x}", xxh3_128(answer))))
        .collect();
    let file = repository().join("tests/untimed/tests/unchanged/digests.txt");
    if std::env::var_os("DBTIME_ACCEPT_ANSWERS").is_some() {
        let mut text = String::new();
        for (question, digest) in &digests {
            writeln!(text, "{digest} {question}").expect("a string takes all");
        }
        fs::write(&file, text).expect("the repository can be written to");
    }
    let text = fs::read_to_string(&file).expect("it is checked in");
    let known: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(digest, question)| (question, digest))
        .collect();
    let changed: Vec<&str> = digests
        .iter()
        .filter(|(question, digest)| known.get(*question) != Some(&digest.as_str()))
        .map(|(question, _)| *question)
        .collect();
    assert!(
        changed.is_empty() && known.len() == digests.len(),
        "{} of {} answers changed (see the top of this file): {changed:#?}",
        changed.len(),
        digests.len()
    );
}
