//! Who held Oracle's latches, in spools of known holds: what is shown is what samples of these holds give by LatchProfX's rules, which are
//! applied here to the holds, not to the spool.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use dbtime_tests::dbtime;
use serde_json::Value;
use tempfile::TempDir;

/// 2026-01-02 03:04:05.9 UTC, by `date -u +%s`.
const BEGIN_US: i64 = 1_767_323_045_900_000;

/// Somebody holds a latch.
struct Hold {
    sid: u64,
    latch: usize,
    code: usize,
    sql: usize,
    begin_us: i64,
    end_us: i64,
    get: u64,
}

/// Name, address, number among those of its name, mode.
const LATCHES: [(&str, &str, u32, &str); 4] = [
    ("cache buffers chains", "00000000A1B2C3D0", 17, "EXCLUSIVE"),
    ("cache buffers chains", "00000000A1B2C3D8", 18, "SHARED"),
    ("shared pool", "0000000060001000", 1, "EXCLUSIVE"),
    ("row cache objects", "0000000060002000", 9, "MAYBE-SHARED"),
];
const CODES: [(&str, &str); 3] = [
    ("kcbgtcr: fast path (cr pin)", "buffer header"),
    ("kghalo", ""),
    ("kcbrls: \"fast\" release", ""),
];
const SQL_IDS: [&str; 3] = ["8f1sjvfxuup9w", "0w26sk6t6gq98", ""];
const SIDS: [u64; 3] = [12, 146, 777];

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("small")
    }
}

/// Each latch is held by one session after another, often too briefly to be met.
fn holds(numbers: &mut Numbers) -> Vec<Hold> {
    let mut holds = Vec::new();
    for latch in 0..LATCHES.len() {
        let (mut now, mut get) = (BEGIN_US, 1000 * latch as u64);
        while now < BEGIN_US + 3_500_000 {
            now += i64::try_from(numbers.below(400)).expect("small");
            let end_us = now + 1 + i64::try_from(numbers.below(350)).expect("small");
            get += 1;
            holds.push(Hold {
                sid: SIDS[numbers.index(3)],
                latch,
                code: numbers.index(3),
                sql: numbers.index(3),
                begin_us: now,
                end_us,
                get,
            });
            now = end_us;
        }
    }
    holds
}

/// Begins of the looks, each of which ends where the next one begins; and stretches of them, as the script ends them: at each second and
/// at the gap, which has no looks.
struct Looks {
    begins_us: Vec<i64>,
    stretches: Vec<(i64, i64)>,
}

fn looks(numbers: &mut Numbers) -> Looks {
    let mut looks = Looks {
        begins_us: Vec::new(),
        stretches: Vec::new(),
    };
    let (mut now, mut begin) = (BEGIN_US, BEGIN_US);
    for n in 0..30_000 {
        if n == 12_345 {
            // Nobody looks for a quarter of a second.
            looks.stretches.push((begin, now));
            now += 250_000;
            begin = now;
        }
        looks.begins_us.push(now);
        let next = now + 80 + i64::try_from(numbers.below(50)).expect("small");
        if next.div_euclid(1_000_000) != begin.div_euclid(1_000_000) {
            looks.stretches.push((begin, next));
            begin = next;
        }
        now = next;
    }
    if begin < now {
        looks.stretches.push((begin, now));
    }
    looks
}

impl Looks {
    fn elapsed_us(&self) -> i64 {
        self.stretches.iter().map(|(begin, end)| end - begin).sum()
    }

    /// Looks that met it.
    fn of(&self, hold: &Hold) -> u64 {
        let until = |us: i64| self.begins_us.partition_point(|at| *at < us);
        (until(hold.end_us) - until(hold.begin_us)) as u64
    }
}

fn moment(us: i64) -> String {
    let timestamp = jiff::Timestamp::from_microsecond(us).expect("a moment");
    timestamp.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// What the script prints of them, as SYS or as anyone else.
fn spool(holds: &[Hold], looks: &Looks, is_sys: bool) -> String {
    let mut text = "dbtime-oracle-latch 1\ninstance,\"ORCL\",\"19.0.0.0.0\",.\n".to_string();
    // The holds of a latch follow each other.
    let mut begins = vec![0; LATCHES.len()];
    let by_latch: Vec<Vec<&Hold>> = (0..LATCHES.len())
        .map(|latch| holds.iter().filter(|hold| hold.latch == latch).collect())
        .collect();
    let mut all = 0;
    for (begin, end) in &looks.stretches {
        let (mut samples, mut lines) = (0, 0);
        for at in looks.begins_us.iter().filter(|at| (*begin..*end).contains(*at)) {
            samples += 1;
            for (latch, of_latch) in by_latch.iter().enumerate() {
                while of_latch.get(begins[latch]).is_some_and(|hold| hold.end_us <= *at) {
                    begins[latch] += 1;
                }
                let Some(hold) = of_latch.get(begins[latch]).filter(|hold| hold.begin_us <= *at) else {
                    continue;
                };
                let (name, address, _, mode) = LATCHES[latch];
                let (mode, (code, label)) = match is_sys {
                    true => (mode, CODES[hold.code]),
                    false => ("", ("", "")),
                };
                lines += 1;
                writeln!(
                    text,
                    "held,{},{},{},{address},{},\"{name}\",\"{mode}\",\"{}\",\"{label}\",\"{}\",\"\",\"\",.",
                    moment(*at),
                    hold.sid,
                    hold.sid + 1,
                    hold.get,
                    code.replace('"', "\"\""),
                    SQL_IDS[hold.sql],
                )
                .expect("a string takes all");
            }
        }
        all += lines;
        writeln!(
            text,
            "taken,{},{},{samples},{lines},.",
            moment(*begin),
            moment(*end)
        )
        .expect("a string takes all");
    }
    for (_, address, number, _) in LATCHES {
        writeln!(text, "child,{address},{number},.").expect("a string takes all");
    }
    writeln!(text, "sampled,{},{all},.", looks.begins_us.len()).expect("a string takes all");
    for sid in SIDS {
        writeln!(text, "session,{sid},{},\"USER\",\"HR\",\"app\",.", sid + 1).expect("a string takes all");
    }
    text + "end,.\n"
}

/// Held, gets, held %, held ms and avg hold ms, to the last digit.
fn printed(held: u64, gets: u64, looks: &Looks) -> [String; 5] {
    let [held_, gets_, samples] = [held, gets, looks.begins_us.len() as u64].map(u128::from);
    let us = u128::from(looks.elapsed_us().unsigned_abs());
    let rounded = |a: u128, b: u128| (2 * a + b) / (2 * b);
    let percent = rounded(held_ * 10_000, samples);
    let thousandths = |us: u128| format!("{}.{:03}", us / 1000, us % 1000);
    [
        held.to_string(),
        gets.to_string(),
        format!("{}.{:02}", percent / 100, percent % 100),
        thousandths(rounded(us * held_, samples)),
        thousandths(rounded(us * held_, samples * gets_)),
    ]
}

/// What is expected of the holds with the same label, if they were met.
fn expected(
    holds: &[Hold],
    looks: &Looks,
    label: impl Fn(&Hold) -> Vec<String>,
) -> BTreeMap<Vec<String>, [String; 5]> {
    let mut sums: BTreeMap<Vec<String>, (u64, u64)> = BTreeMap::new();
    for hold in holds {
        let met = looks.of(hold);
        if met > 0 {
            let sum = sums.entry(label(hold)).or_default();
            sum.0 += met;
            sum.1 += 1;
        }
    }
    let sums = sums.into_iter();
    sums.map(|(label, (held, gets))| (label, printed(held, gets, looks)))
        .collect()
}

/// Rows of the table of a report in text: cells have two blanks or more between them.
fn shown(report: &str, columns: usize) -> BTreeMap<Vec<String>, [String; 5]> {
    let lines = report
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("---"));
    let rows = lines.skip(1).take_while(|line| !line.trim().is_empty());
    let cells = rows.map(|line| {
        let cells = line
            .trim()
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty());
        cells.map(str::to_string).collect::<Vec<String>>()
    });
    cells
        .map(|cells| {
            let numbers: Vec<String> = cells[columns..]
                .iter()
                .flat_map(|cell| cell.split(' '))
                .map(str::to_string)
                .collect();
            (
                cells[..columns].to_vec(),
                numbers.try_into().expect("five numbers"),
            )
        })
        .collect()
}

fn report(path: &str, options: &[&str]) -> String {
    let all = [&["report", path, "--latches", "--top", "100"], options].concat();
    dbtime(&all).expect_code(0).stdout
}

#[test]
fn holds_that_samples_met_are_shown_to_the_digit() {
    let mut numbers = Numbers(7);
    let (holds, looks) = (holds(&mut numbers), looks(&mut numbers));
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let path = home.path().join("latch.csv");
    fs::write(&path, spool(&holds, &looks, true)).expect("a directory of our own");
    let recording = home.path().join("latch.dbt");
    let [path, recording] = [&path, &recording].map(|path| path.to_str().expect("a plain path"));
    dbtime(&["import", path, "-o", recording]).expect_code(0);
    for source in [path, recording] {
        let name = |hold: &Hold| LATCHES[hold.latch].0.to_string();
        let by_name = report(source, &["--columns", "name"]);
        assert_eq!(
            shown(&by_name, 1),
            expected(&holds, &looks, |hold| vec![name(hold)]),
            "{by_name}"
        );
        let text = report(source, &["--columns", "name,lock,session,sql_id"]);
        let label = |hold: &Hold| {
            let sql_id = SQL_IDS[hold.sql];
            vec![
                name(hold),
                format!("[{}]", LATCHES[hold.latch].2),
                format!("{}.{}", hold.sid, hold.sid + 1),
                if sql_id.is_empty() { "[unknown]" } else { sql_id }.to_string(),
            ]
        };
        assert_eq!(shown(&text, 4), expected(&holds, &looks, label), "{text}");
        let text = report(source, &["--columns", "mode,where"]);
        let label = |hold: &Hold| {
            let mode = match LATCHES[hold.latch].3 {
                "MAYBE-SHARED" => "[unknown]".to_string(),
                mode => mode.to_lowercase(),
            };
            let place = match CODES[hold.code] {
                (code, "") => code.to_string(),
                (code, label) => format!("{code} [{label}]"),
            };
            vec![mode, place]
        };
        assert_eq!(shown(&text, 2), expected(&holds, &looks, label), "{text}");
        // Without a question it is the same, whole.
        let document: Value = serde_json::from_str(
            &dbtime(&["report", source, "--format", "json"])
                .expect_code(0)
                .stdout,
        )
        .expect("JSON");
        assert_eq!(document["looked"]["samples"], 30_000);
        assert_eq!(document["looked"]["ns"], 1000 * looks.elapsed_us());
        let of_name = expected(&holds, &looks, |hold| vec![name(hold)]);
        for latch in document["latches"].as_array().expect("latches") {
            let expected = &of_name[&vec![latch["name"].as_str().expect("a name").to_string()]];
            let number = |field: &str| latch[field].as_u64().unwrap_or(0);
            assert_eq!(
                [number("samples"), number("gets")].map(|n| n.to_string()),
                expected[..2]
            );
            let parts = ["exclusive_ns", "shared_ns", "mode_unknown_ns"].map(number);
            assert_eq!(parts.iter().sum::<u64>(), number("held_ns"));
            let is_chains = latch["name"] == "cache buffers chains";
            assert_eq!(
                parts.map(|ns| ns > 0),
                match latch["name"].as_str() {
                    Some("shared pool") => [true, false, false],
                    Some("row cache objects") => [false, false, true],
                    _ => [true, true, false],
                }
            );
            assert_eq!(
                latch["single"].as_array().expect("locks").len(),
                if is_chains { 2 } else { 1 }
            );
            let holders = latch["holders"].as_array().expect("holders");
            let sum = |field: &str| {
                holders
                    .iter()
                    .map(|of| of[field].as_u64().unwrap_or(0))
                    .sum::<u64>()
            };
            assert_eq!(
                [sum("ns"), sum("samples"), sum("gets")],
                ["held_ns", "samples", "gets"].map(number)
            );
        }
        let said = dbtime(&["report", source]).expect_code(0).stdout;
        assert!(
            said.contains("gaps of more than 0.1 s") && said.contains("0.250 s in all"),
            "{said}"
        );
        // A filter chooses among holds.
        let one = report(source, &["--where", "sid=146.147", "--columns", "name"]);
        let of_146: Vec<Hold> = holds_again().into_iter().filter(|hold| hold.sid == 146).collect();
        assert_eq!(
            shown(&one, 1),
            expected(&of_146, &looks, |hold| vec![name(hold)]),
            "{one}"
        );
    }
}

fn holds_again() -> Vec<Hold> {
    holds(&mut Numbers(7))
}

#[test]
fn without_sys_it_is_not_known_how_and_where() {
    let mut numbers = Numbers(11);
    let (holds, looks) = (holds(&mut numbers), looks(&mut numbers));
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let path = home.path().join("latch.csv");
    fs::write(&path, spool(&holds, &looks, false)).expect("a directory of our own");
    let path = path.to_str().expect("a plain path");
    let text = report(path, &["--columns", "name,mode,where"]);
    let label = |hold: &Hold| {
        let unknown = || "[unknown]".to_string();
        vec![LATCHES[hold.latch].0.to_string(), unknown(), unknown()]
    };
    assert_eq!(shown(&text, 3), expected(&holds, &looks, label), "{text}");
    let wrong = dbtime(&["report", path, "--latches", "--state", "disk"]);
    wrong.expect_code(1);
}

/// As the script prints it, from numbers that it does not print.
#[test]
fn tables_of_latchprofx_are_shown_to_the_printed_digit() {
    let mut numbers = Numbers(3);
    let (holds, looks) = (holds(&mut numbers), looks(&mut numbers));
    // V$TIMER has hundredths: 3.11 s here.
    let hsecs = looks.elapsed_us() / 10_000;
    let samples = looks.begins_us.len() as u64;
    let rule = "---------- ----------------------------------- ------------ ---------- ---------- ------- ----------- -----------";
    let mut table = format!(
        "SQL> @latchprofx sid,name,hmode % % {samples}\r\n\r\n-- LatchProfX 2.02 by Tanel Poder ( http://www.tanelpoder.com )\r\n\r\n       \
         SID NAME                                HMODE              Held       Gets  Held %     Held ms Avg hold ms\r\n{rule}\r\n"
    );
    let mut all: BTreeMap<(u64, usize), (u64, u64)> = BTreeMap::new();
    for hold in &holds {
        let met = looks.of(hold);
        if met > 0 {
            let sum = all.entry((hold.sid, hold.latch)).or_default();
            *sum = (sum.0 + met, sum.1 + 1);
        }
    }
    let mut truth = BTreeMap::new();
    for ((sid, latch), (held, gets)) in &all {
        let rounded = |a: u128, b: u128| (2 * a + b) / (2 * b);
        let [held_, gets_, samples, hsecs] =
            [*held, *gets, samples, u64::try_from(hsecs).expect("positive")].map(u128::from);
        let percent = rounded(held_ * 10_000, samples);
        let us = rounded(hsecs * 10_000 * held_, samples);
        let average = rounded(hsecs * 10_000 * held_, samples * gets_);
        // SQL*Plus prints no zero before the point.
        let fixed = |number: u128, one: u128, digits: usize| match number / one {
            0 => format!(".{:0digits$}", number % one),
            whole => format!("{whole}.{:0digits$}", number % one),
        };
        let name = format!("{} of a name that is too long", LATCHES[*latch].0);
        let mode = LATCHES[*latch].3.to_lowercase();
        write!(
            table,
            "{sid:>10} {:<35} {mode:<12} {held:>10} {gets:>10} {:>7} {:>11} {:>11}\r\n           {}\r\n",
            &name[..35],
            fixed(percent, 100, 2),
            fixed(us, 1000, 3),
            fixed(average, 1000, 3),
            &name[35..],
        )
        .expect("a string takes all");
        let whole =
            |number: u128, one: u128, digits: usize| format!("{}.{:0digits$}", number / one, number % one);
        let mode = if mode == "maybe-shared" {
            "[unknown]".to_string()
        } else {
            mode
        };
        truth.insert(
            vec![sid.to_string(), name, mode],
            [
                held.to_string(),
                gets.to_string(),
                whole(percent, 100, 2),
                whole(us, 1000, 3),
                whole(average, 1000, 3),
            ],
        );
    }
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let path = home.path().join("spool.lst");
    let path = path.to_str().expect("a plain path");
    // The command says how many samples there were; without it, the numbers say enough.
    for text in [table.clone(), table.replace("SQL> @latchprofx", "SQL> @x")] {
        fs::write(path, &text).expect("a directory of our own");
        // Two latches have the same name.
        let shown_rows = shown(&report(path, &["--columns", "session,name,mode"]), 3);
        assert_eq!(shown_rows, truth, "{text}");
    }
}
