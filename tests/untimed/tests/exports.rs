//! Every export is opened with its own reader, which finds what went in.
//!
//! pprof and speedscope are the programs themselves; Perfetto traces are decoded with Perfetto's own protos (its
//! trace_processor is a program that its package would download). The Firefox Profiler has no reader that runs without
//! a browser: its file is walked through table by table, as the format is described.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dbtime_model::recording::{Meta, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, Fidelity, Frame, NO_STACK, Rows, SessionId, SessionRow, StackRow, State, stack_id,
};
use dbtime_tests::{dbtime, repository, skip};
use serde_json::Value;
use tempfile::TempDir;

/// Two tasks, two seconds. Microseconds: a in kernel 1000, a in user 2000 + 4000, b 500; 7500 in all.
const PERF: &str = "\
a 7 10.1: 1000000 cpu-clock: \n\tffffffff81000000 k+0x1 ([kernel.kallsyms])\n\t 10 f+0x4 (/bin/a)\n\t 20 main (/bin/a)\n\n\
a 7 10.2: 2000000 cpu-clock: \n\t 10 f+0x4 (/bin/a)\n\t 20 main (/bin/a)\n\n\
a 7 11.5: 4000000 cpu-clock: \n\t 14 f+0x8 (/bin/a)\n\t 20 main (/bin/a)\n\n\
b 8 11.5: 500000 cpu-clock: \n\t 10 g (/bin/b)\n\n";

/// Nanoseconds of each stack with the usual levels.
const STACKS: [(&str, u64); 3] = [
    ("a;kernel;main;f;k_[k]", 1_000_000),
    ("a;user;main;f", 6_000_000),
    ("b;user;g", 500_000),
];

/// Three samples without a known interval.
const SAMPLES: &str = "State:\tD (disk sleep)\nevent#=158 (Oracle state)\n3\n\n";

/// A program that `make test` installs.
fn installed(path: &str, by: &str) -> Option<PathBuf> {
    let path = repository().join(path);
    if path.exists() {
        return Some(path);
    }
    skip(&format!("{} is not there: run {by}", path.display()));
    None
}

/// The export of `text` under a name with this ending.
fn export(home: &TempDir, text: &str, ending: &str) -> PathBuf {
    let file = home.path().join("in.txt");
    fs::write(&file, text).expect("a file of our own");
    let out = home.path().join(format!("out.{ending}"));
    dbtime(&[
        "flame",
        file.to_str().expect("a plain path"),
        "-o",
        out.to_str().expect("a plain path"),
    ])
    .expect_code(0);
    out
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn scratch() -> TempDir {
    TempDir::with_prefix("dbtime-test-").expect("a temporary directory")
}

fn expected() -> BTreeMap<String, u64> {
    STACKS.map(|(stack, ns)| (stack.to_string(), ns)).into()
}

#[test]
fn pprof_opens_its_export() {
    let Some(pprof) = installed("target/readers/pprof/pprof", "scripts/readers.sh") else {
        return;
    };
    let home = scratch();
    let file = export(&home, PERF, "pb.gz");
    let ask = |arguments: &[&str]| run(Command::new(&pprof).args(arguments).arg(&file));
    let top = ask(&["-top", "-unit=ns", "-sample_index=time"]);
    let line = |name: &str| {
        let lines = top
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut found = lines.filter(|words| words.last() == Some(&name));
        found.next().unwrap_or_else(|| panic!("{name}: {top}"))
    };
    assert!(top.contains("of 7500000ns total"), "{top}");
    assert_eq!((line("f")[0], line("f")[3]), ("6000000ns", "7000000ns"));
    assert_eq!((line("k")[0], line("main")[3]), ("1000000ns", "7000000ns"));
    let tags = ask(&["-tags", "-unit=ns", "-sample_index=time"]);
    for words in [
        "state: Total 7500000ns",
        "6500000ns (86.67%): user",
        "program: Total",
        "500000ns ( 6.67%): 8",
        "session: Total",
    ] {
        let squeezed = tags
            .replace(".0ns", "ns")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(squeezed.contains(words), "{words}: {tags}");
    }
    let count = ask(&["-top", "-sample_index=samples"]);
    assert!(count.contains("of 4 total"), "{count}");
    let below = ask(&["-tagroot=program,state", "-traces", "-unit=ns"]);
    assert!(below.contains("kernel"), "{below}");

    let file = export(&home, SAMPLES, "pprof");
    let raw = run(Command::new(&pprof).arg("-raw").arg(&file));
    assert!(
        raw.contains("samples/count") && !raw.contains("nanoseconds"),
        "{raw}"
    );
}

#[test]
fn speedscope_opens_its_export() {
    let Some(package) = installed("target/readers/speedscope", "scripts/readers.sh") else {
        return;
    };
    let home = scratch();
    let open = |file: &Path| {
        let script = repository().join("tests/readers/speedscope.js");
        json(&run(Command::new("node").arg(script).arg(&package).arg(file)))
    };
    let found = open(&export(&home, PERF, "speedscope.json"));
    assert_eq!(
        (&found["profiles"], &found["unit"]),
        (&Value::from(1), &Value::from("nanoseconds"))
    );
    assert_eq!(found["total"], 7_500_000);
    let stacks: BTreeMap<String, u64> = serde_json::from_value(found["stacks"].clone()).expect("numbers");
    assert_eq!(stacks, expected());
    let found = open(&export(&home, SAMPLES, "speedscope.json"));
    assert_eq!(
        (&found["unit"], &found["total"]),
        (&Value::from("none"), &Value::from(3))
    );
}

#[test]
fn perfettos_own_protos_decode_its_export() {
    let Some(python) = installed("target/venv/bin/python", "scripts/python-env.sh") else {
        return;
    };
    let home = scratch();
    let open = |file: &Path| {
        let script = repository().join("tests/readers/perfetto_slices.py");
        json(&run(Command::new(&python).arg(script).arg(file)))
    };
    let found = open(&export(&home, PERF, "pftrace"));
    assert_eq!(
        found["tracks"],
        serde_json::json!(["dbtime", "session 7", "session 8"])
    );
    let mut stacks = BTreeMap::new();
    for of_session in found["stacks"].as_object().expect("sessions").values() {
        for (stack, ns) in of_session.as_object().expect("stacks") {
            *stacks.entry(stack.clone()).or_default() += ns.as_u64().expect("nanoseconds");
        }
    }
    assert_eq!(stacks, expected());
    // A sample of unknown length is drawn as a millisecond.
    let found = open(&export(&home, SAMPLES, "perfetto-trace"));
    let of_session = found["stacks"].as_object().expect("sessions").values().next();
    assert_eq!(
        of_session.expect("one session"),
        &serde_json::json!({"unclassified:event#=158;disk;[no stack]": 3_000_000})
    );
}

#[test]
fn opentelemetrys_own_protos_decode_its_export() {
    let Some(python) = installed("target/venv/bin/python", "scripts/python-env.sh") else {
        return;
    };
    let home = scratch();
    let open = |file: &Path| {
        let script = repository().join("tests/readers/otlp_profiles.py");
        json(&run(Command::new(&python).arg(script).arg(file)))
    };
    let found = open(&export(&home, PERF, "otlp"));
    assert_eq!(
        found["resource"],
        serde_json::json!({"service.name": "unknown_service", "os.type": "linux"})
    );
    assert_eq!(
        found["profiles"]["time"]["stacks"],
        serde_json::json!({
            "dbtime.session=7;dbtime.program=a;dbtime.state=kernel;main;f;k_[k]": 1_000_000,
            "dbtime.session=7;dbtime.program=a;dbtime.state=user;main;f": 6_000_000,
            "dbtime.session=8;dbtime.program=b;dbtime.state=user;g": 500_000,
        })
    );
    let samples = found["profiles"]["samples"]["stacks"]
        .as_object()
        .expect("stacks");
    let count: u64 = samples.values().filter_map(Value::as_u64).sum();
    assert_eq!(
        (count, &found["profiles"]["time"]["unit"]),
        (4, &Value::from("ns"))
    );
    // What counts samples has no time of day.
    let found = open(&export(&home, SAMPLES, "otlp"));
    assert_eq!(found["profiles"]["samples"]["seconds"], serde_json::json!({}));
    let samples = found["profiles"]["samples"]["stacks"]
        .as_object()
        .expect("stacks");
    assert_eq!(samples.values().collect::<Vec<_>>(), [&Value::from(3)]);
    assert_eq!(found["profiles"].as_object().map(|of| of.len()), Some(1));

    // Of a recording: who and when, and each second as the report has it.
    let recording = repository().join("tests/untimed/tests/unchanged/recordings/sampled.dbt");
    let recording = recording.to_str().expect("a plain path");
    let out = home.path().join("recorded.otlp");
    let by = ["--by", "wait,database,statement"];
    let flame = ["flame", recording, "-o", out.to_str().expect("a plain path")];
    dbtime(&[&flame[..], &by].concat()).expect_code(0);
    let found = open(&out);
    let meta: Value = json(&fs::read_to_string(Path::new(recording).join("meta.json")).expect("its header"));
    for (key, value) in [
        ("service.name", &Value::from("postgresql")),
        ("db.system.name", &Value::from("postgresql")),
        ("service.version", &meta["database"]["version"]),
        ("host.name", &meta["host"]["name"]),
    ] {
        assert_eq!(&found["resource"][key], value, "{key}");
    }
    let report = dbtime(&["report", recording, "--by", "second", "--format", "json"]).expect_code(0);
    let report = json(&report.stdout);
    let seconds = found["profiles"]["time"]["seconds"].as_object().expect("seconds");
    let sum: u64 = seconds.values().filter_map(Value::as_u64).sum();
    assert_eq!(Some(sum), report["db_time_ns"].as_u64());
    assert!(seconds.len() > 1, "{seconds:?}");
    let stacks = found["profiles"]["time"]["stacks"].as_object().expect("stacks");
    assert!(
        stacks
            .keys()
            .any(|stack| stack.contains("db.namespace=postgres;db.query.text=")),
        "{stacks:?}"
    );
}

#[test]
fn the_tables_of_the_firefox_export_lead_to_the_stacks() {
    let home = scratch();
    let text = fs::read_to_string(export(&home, PERF, "firefox.json")).expect("text");
    let profile = json(&text);
    assert!(
        profile["meta"]["version"]
            .as_u64()
            .is_some_and(|version| version > 20)
    );
    assert_eq!(firefox_stacks(&profile), expected());
    let threads = profile["threads"].as_array().expect("threads");
    let names: Vec<&str> = threads
        .iter()
        .filter_map(|thread| thread["name"].as_str())
        .collect();
    assert_eq!(names, ["session 7", "session 8"]);
    let mut times = Vec::new();
    for thread in threads {
        assert_eq!(thread["samples"]["weightType"], "tracing-ms");
        times.extend(samples_times(&thread["samples"]));
    }
    // Laid end to end: in second 10 first the kernel's millisecond, then user code; second 11 begins a second later.
    assert_eq!(times, [0.0, 1.0, 1_000.0, 1_000.0]);
    let samples = json(&fs::read_to_string(export(&home, SAMPLES, "firefox.json")).expect("text"));
    assert_eq!(samples["threads"][0]["samples"]["weightType"], "samples");
    assert_eq!(samples["threads"][0]["samples"]["weight"], serde_json::json!([3]));
}

/// Nanoseconds of each stack of a profile, table by table.
fn firefox_stacks(profile: &Value) -> BTreeMap<String, u64> {
    let threads = profile["threads"].as_array().expect("threads");
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for thread in threads {
        let strings = match thread["stringArray"].as_array() {
            Some(own) => own,
            None => profile["shared"]["stringArray"].as_array().expect("strings"),
        };
        let column = |table: &str, column: &str, row: u64| &thread[table][column][row as usize];
        let weights = thread["samples"]["weight"].as_array().expect("weights");
        let of_samples = thread["samples"]["stack"].as_array().expect("stacks");
        assert_eq!(
            (weights.len(), thread["samples"]["length"].as_u64()),
            (of_samples.len(), Some(weights.len() as u64))
        );
        for (weight, stack) in weights.iter().zip(of_samples) {
            let mut frames = Vec::new();
            let mut at = stack.as_u64();
            while let Some(row) = at {
                let frame = column("stackTable", "frame", row).as_u64().expect("a frame");
                let function = column("frameTable", "func", frame).as_u64().expect("a function");
                let name = column("funcTable", "name", function).as_u64().expect("a name");
                let category = column("frameTable", "category", frame)
                    .as_u64()
                    .expect("a category");
                let category = &profile["meta"]["categories"][category as usize]["name"];
                let mark = if category == "Kernel" { "_[k]" } else { "" };
                frames.push(format!(
                    "{}{mark}",
                    strings[name as usize].as_str().expect("text")
                ));
                at = column("stackTable", "prefix", row).as_u64();
            }
            frames.reverse();
            let ns = (weight.as_f64().expect("milliseconds") * 1e6).round() as u64;
            *stacks.entry(frames.join(";")).or_default() += ns;
        }
    }
    stacks
}

/// Moments of samples in milliseconds, which the format has as they are or as differences.
fn samples_times(samples: &Value) -> Vec<f64> {
    let numbers = |name: &str| -> Option<Vec<f64>> {
        let numbers = samples[name].as_array()?.iter();
        numbers.map(Value::as_f64).collect()
    };
    numbers("time").unwrap_or_else(|| {
        let differences = numbers("timeDeltas").expect("moments");
        let mut now = 0.0;
        let sum = |difference: f64| {
            now += difference;
            now
        };
        differences.into_iter().map(sum).collect()
    })
}

#[test]
fn an_ending_that_is_no_format_lists_those_there_are() {
    let home = scratch();
    let file = home.path().join("in.txt");
    fs::write(&file, PERF).expect("a file of our own");
    for ending in ["json", "gz", "xpb.gz", "exe"] {
        let out = home.path().join(format!("out.{ending}"));
        let (file, out_text) = (file.to_str().expect("a path"), out.to_str().expect("a path"));
        let answer = dbtime(&["flame", file, "-o", out_text]);
        if ending == "xpb.gz" {
            // `out.xpb.gz` does not end in `.pb.gz`.
            answer.expect_code(2).expect_stderr(&[".pb.gz"]);
        } else {
            answer.expect_code(2).expect_stderr(&[
                ".svg",
                ".folded",
                ".pb.gz",
                ".speedscope.json",
                ".firefox.json",
                ".pftrace",
                ".otlp",
            ]);
        }
        assert!(!out.exists());
    }
}

/// Names that mean something to a terminal, a browser, a parser or a reader of right-to-left text.
fn hostile_names() -> Vec<String> {
    [
        "</script><script>alert(1)</script>",
        "\"',;\\\\u0000\\\"}]}",
        "\u{1b}[2J\u{9b}31m\u{7}",
        "\u{202e}\u{2066}txt.exe\u{2069}\u{200f}",
        "line\r\nbreak\u{2028}and\u{85}more",
        "<title>&lt;&#10;]]><!-- -->",
        "a\u{0}b\u{fffd}\u{feff}",
        "%s%n$(id)`id`${id} 12",
        // Was not UTF-8 before it was recorded.
        &String::from_utf8_lossy(b"\xff\xfe\xed\xa0\x80"),
        &"long ".repeat(2_048),
    ]
    .iter()
    .zip(0..)
    .map(|(name, n): (_, u32)| format!("n{n}_{name}_end"))
    .collect()
}

/// A recording with these names as functions, each with as many microseconds as its place in the list, and as all else that has a name.
fn hostile_recording(home: &TempDir) -> String {
    let path = home.path().join("hostile.dbt");
    let hostile = format!("all_{}", hostile_names().concat());
    let meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        start_us: 10_000_000,
        end_us: 11_000_000,
        ..Meta::default()
    };
    let mut rows = Rows::default();
    for (name, n) in hostile_names().iter().zip(1..) {
        let frames: Vec<Frame> = ["main", name.as_str()]
            .map(|symbol| Frame {
                symbol: symbol.to_string(),
                module: hostile.clone(),
                build_id: hostile.clone(),
                offset: 1,
            })
            .into();
        let id = stack_id(&frames);
        rows.stacks.push(StackRow { id, frames });
        rows.activity.push(ActivityRow {
            time: 10_000_000,
            session: SessionId(1),
            statement: 0,
            plan: 0,
            wait_class: "IO".into(),
            wait_event: hostile.clone().into(),
            idle: false,
            state: State::User,
            kernel_stack: NO_STACK,
            user_stack: id,
            comment: 0,
            ns: n * 1_000,
            count: 0,
            samples: 1,
            fidelity: Fidelity::Exact,
            pooled: false,
            session_state: dbtime_model::SessionState::None,
        });
    }
    rows.sessions.push(SessionRow {
        id: SessionId(1),
        pid: 7,
        backend_type: "client backend".into(),
        user: hostile.clone(),
        database: hostile.clone(),
        client: hostile.clone(),
        title: hostile.clone(),
        ..SessionRow::default()
    });
    let mut writer = RecordingWriter::create(&path, meta).expect("a new directory");
    writer.write(&rows).expect("there is room");
    writer.finish().expect("there is room");
    path.to_string_lossy().into_owned()
}

/// Asserts that each function is there once, whole, with its time, and without characters that have an effect.
fn check_hostile(format: &str, found: impl IntoIterator<Item = (String, u64)>) {
    let mut times: BTreeMap<usize, u64> = BTreeMap::new();
    for (name, ns) in found {
        let does_something = |c: char| {
            c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        };
        assert!(!name.contains(does_something), "{format}: {name:?}");
        let Some(number) = name.strip_prefix('n').and_then(|rest| rest.split_once('_')) else {
            continue;
        };
        let n: usize = number.0.parse().expect("our own number");
        assert!(name.ends_with("_end"), "{format}: {name:?}");
        let long = hostile_names()[n].chars().count();
        assert!(
            n != 9 || name.chars().count() == long,
            "{format}: {} of {long}",
            name.len()
        );
        *times.entry(n).or_default() += ns;
    }
    let expected: BTreeMap<usize, u64> = (0..hostile_names().len())
        .map(|n| (n, (n as u64 + 1) * 1_000))
        .collect();
    assert_eq!(times, expected, "{format}");
}

/// The leaf of a stack in one text.
fn leaf(stack: &str) -> String {
    stack.rsplit(';').next().unwrap_or_default().to_string()
}

#[test]
fn hostile_names_are_names_to_every_reader() {
    let home = scratch();
    let recording = hostile_recording(&home);
    let export = |ending: &str| {
        let out = home.path().join(format!("hostile.{ending}"));
        let path = out.to_str().expect("a plain path");
        dbtime(&[
            "flame",
            &recording,
            "--by",
            "user,database,client,wait",
            "-o",
            path,
        ])
        .expect_code(0);
        out
    };
    let read = |file: &Path| fs::read_to_string(file).expect("text");

    let folded = read(&export("folded"));
    check_hostile(
        "folded",
        folded.lines().map(|line| {
            let (stack, ns) = line.rsplit_once(' ').expect("a stack and its value");
            (leaf(stack), ns.parse().expect("a number"))
        }),
    );

    // Python's XML parser: what is shown, and what would be run.
    let script = "import sys, json, xml.etree.ElementTree as tree\n\
                  all = list(tree.parse(sys.argv[1]).iter())\n\
                  of = lambda name: [e for e in all if e.tag.endswith('}' + name)]\n\
                  print(json.dumps([[t.text for t in of('title')], len(of('script')), [k for e in all for k in e.attrib]]))";
    let svg = json(&run(Command::new("python3")
        .args(["-c", script])
        .arg(export("svg"))));
    let titles: Vec<String> = serde_json::from_value(svg[0].clone()).expect("texts");
    check_hostile(
        "svg",
        titles.iter().filter_map(|title| {
            // NAME (1 us, 1.82%)
            let (name, time) = title.rsplit_once(" (")?;
            let us: u64 = time.split_once(" us")?.0.parse().ok()?;
            Some((name.to_string(), us * 1_000))
        }),
    );
    assert_eq!(svg[1], 1, "inferno's own script");

    if let Some(pprof) = installed("target/readers/pprof/pprof", "scripts/readers.sh") {
        let file = export("pb.gz");
        let top = run(Command::new(&pprof)
            .args([
                "-top",
                "-unit=ns",
                "-sample_index=time",
                "-nodecount=1000",
                "-nodefraction=0",
            ])
            .arg(&file));
        assert!(top.contains("of 55000ns total"), "{top}");
        check_hostile(
            "pprof",
            top.lines().filter_map(|line| {
                let at = line
                    .find(" n")
                    .filter(|at| line[at + 2..].starts_with(|c: char| c.is_ascii_digit()))?;
                let flat = line.split_whitespace().next()?.strip_suffix("ns")?;
                Some((line[at + 1..].to_string(), flat.parse().ok()?))
            }),
        );
    }
    if let Some(package) = installed("target/readers/speedscope", "scripts/readers.sh") {
        let script = repository().join("tests/readers/speedscope.js");
        let file = export("speedscope.json");
        let found = json(&run(Command::new("node").arg(script).arg(&package).arg(file)));
        let stacks: BTreeMap<String, u64> = serde_json::from_value(found["stacks"].clone()).expect("numbers");
        // Its own separator may be in a name there.
        let of_name = |stack: &str| {
            stack
                .rfind(";main;n")
                .map_or(String::new(), |at| stack[at + 6..].to_string())
        };
        check_hostile(
            "speedscope",
            stacks.iter().map(|(stack, ns)| (of_name(stack), *ns)),
        );
    }
    if let Some(python) = installed("target/venv/bin/python", "scripts/python-env.sh") {
        let script = repository().join("tests/readers/perfetto_slices.py");
        let found = json(&run(Command::new(&python).arg(script).arg(export("pftrace"))));
        let mut stacks = Vec::new();
        for of_session in found["stacks"].as_object().expect("sessions").values() {
            for (stack, ns) in of_session.as_object().expect("stacks") {
                let at = stack.rfind(";main;n").expect("a function");
                stacks.push((stack[at + 6..].to_string(), ns.as_u64().expect("nanoseconds")));
            }
        }
        check_hostile("perfetto", stacks);
        let script = repository().join("tests/readers/otlp_profiles.py");
        let found = json(&run(Command::new(&python).arg(script).arg(export("otlp"))));
        let stacks = found["profiles"]["time"]["stacks"].as_object().expect("stacks");
        check_hostile(
            "otlp",
            stacks.iter().map(|(stack, ns)| {
                let at = stack.rfind(";main;n").expect("a function");
                (stack[at + 6..].to_string(), ns.as_u64().expect("nanoseconds"))
            }),
        );
    }
    let profile = json(&read(&export("firefox.json")));
    check_hostile(
        "firefox",
        firefox_stacks(&profile).into_iter().map(|(stack, ns)| {
            let at = stack.rfind(";main;n").expect("a function");
            (stack[at + 6..].to_string(), ns)
        }),
    );
    // The JSON itself, which others may put into a page, has none either.
    for ending in ["speedscope.json", "firefox.json"] {
        assert!(!read(&export(ending)).contains("\u{202e}"), "{ending}");
    }
}
