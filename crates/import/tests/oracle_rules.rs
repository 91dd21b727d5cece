//! Rules of time, statements and damage, shown by small traces of a few lines each; the numbers were worked out by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::whole::{Whole, of_files, of_text, of_text_with};
use dbtime_import::Options;
use dbtime_model::counter::oracle;
use dbtime_model::{Rows, StatementRow};

fn imported(text: &str) -> Whole {
    of_text(text).unwrap_or_else(|e| panic!("{e}"))
}

fn counter(rows: &Rows, name: &str) -> i64 {
    rows.counters
        .iter()
        .filter(|row| row.name == name)
        .map(|row| row.value)
        .sum()
}

/// Microseconds of activity by event.
fn activity(rows: &Rows) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::new();
    for row in &rows.activity {
        *sums.entry(row.wait_event.as_str()).or_default() += row.ns / 1_000;
    }
    sums
}

fn parsing(cursor: u64, dep: u32, tim: u64, sql_id: &str, text: &str) -> String {
    format!(
        "=====================\nPARSING IN CURSOR #{cursor} len={} dep={dep} uid=5 oct=3 lid=5 tim={tim} hv=77 ad='1' \
         sqlid='{sql_id}'\n{text}\nEND OF STMT\n",
        text.len()
    )
}

fn call(kind: &str, cursor: u64, c: u64, e: u64, dep: u32, tim: u64) -> String {
    format!("{kind} #{cursor}:c={c},e={e},p=0,cr=1,cu=0,mis=0,r=1,dep={dep},og=1,plh=9,tim={tim}\n")
}

fn wait(cursor: u64, event: &str, ela: u64, tim: u64) -> String {
    format!("WAIT #{cursor}: nam='{event}' ela= {ela} file#=4 block#=2 blocks=1 obj#=61 tim={tim}\n")
}

#[test]
fn cpu_in_steps_of_a_millisecond_goes_to_the_neighbours_and_never_into_waits() {
    // Nine calls of 180 µs without CPU, and a tenth in which the step of the clock falls; ten times.
    let mut text = String::new();
    let mut tim = 5_000_000;
    for n in 1..=100 {
        tim += 200;
        text += &wait(1, "db file sequential read", 10, tim - 20);
        text += &call("EXEC", 1, if n % 10 == 0 { 1_000 } else { 0 }, 180, 0, tim);
    }
    let whole = imported(&text);
    let sums = activity(&whole.rows);
    assert_eq!(sums["CPU"], 10_000, "the sum of c");
    assert_eq!(sums["unaccounted"], 100 * 180 - 100 * 10 - 10_000);
    assert_eq!(counter(&whole.rows, oracle::CPU_INSIDE_WAITS_NS), 0);
    assert_eq!(counter(&whole.rows, oracle::CPU_BEYOND_CALLS_NS), 0);
    assert_eq!(whole.trace().cpu_step_us, 1_000);
    // Alone, it has no neighbour: nothing is made up.
    let alone = imported(&call("EXEC", 1, 1_000, 180, 0, 5_000_000));
    assert_eq!(activity(&alone.rows)["CPU"], 180);
    assert_eq!(counter(&alone.rows, oracle::CPU_INSIDE_WAITS_NS), 0);
    assert_eq!(counter(&alone.rows, oracle::CPU_BEYOND_CALLS_NS), 820_000);
}

#[test]
fn cpu_inside_waits_is_never_more_than_the_waits_of_its_call() {
    let text = wait(1, "db file sequential read", 30, 5_000_090) + &call("EXEC", 1, 151, 100, 0, 5_000_100);
    let whole = imported(&text);
    assert_eq!(activity(&whole.rows)["CPU"], 70);
    assert_eq!(counter(&whole.rows, oracle::CPU_INSIDE_WAITS_NS), 30_000);
    assert_eq!(counter(&whole.rows, oracle::CPU_BEYOND_CALLS_NS), 51_000);
    assert_eq!(whole.trace().cpu_step_us, 1);
}

#[test]
fn recursive_calls_that_ended_count_though_their_outer_call_is_not_there() {
    let text = parsing(7, 1, 5_000_000, "aaaaaaaaaaaa1", "select 1")
        + &call("PARSE", 7, 10, 20, 1, 5_000_100)
        + &wait(7, "db file sequential read", 500, 5_000_700)
        + &call("EXEC", 7, 300, 1_000, 1, 5_001_000);
    let whole = imported(&text);
    assert_eq!(counter(&whole.rows, oracle::CALL_ELAPSED_US), 1_020);
    assert_eq!(counter(&whole.rows, oracle::CALL_CPU_US), 310);
    assert_eq!(counter(&whole.rows, oracle::INTERVAL_CPU_US), 310);
    let sums = activity(&whole.rows);
    assert_eq!(
        (sums["CPU"], sums["unaccounted"], sums["db file sequential read"]),
        (310, 210, 500)
    );
    let [flight] = whole.trace().in_flight.as_slice() else {
        panic!("{:?}", whole.trace().in_flight)
    };
    assert_eq!(
        (flight.depth, flight.calls, flight.call_us, flight.waits),
        (Some(0), 2, 1_020, 0)
    );
    // A call of depth 0 that does not hold them follows: their outer call is missing, and nothing is in flight.
    let whole = imported(&(text + &call("CLOSE", 7, 0, 4, 0, 5_002_000)));
    assert_eq!(counter(&whole.rows, oracle::CALL_ELAPSED_US), 1_020);
    assert_eq!(
        (
            whole.trace().calls_without_outer,
            whole.trace().calls_without_outer_us
        ),
        (2, 1_020)
    );
    assert!(whole.trace().in_flight.is_empty());
}

#[test]
fn cpu_and_time_belong_to_the_statement_whose_call_used_them() {
    let text = parsing(1, 0, 5_000_000, "bbbbbbbbbbbb1", "begin p; end;")
        + &parsing(2, 1, 5_000_010, "bbbbbbbbbbbb2", "update t set n = 1")
        + &wait(2, "db file sequential read", 100, 5_600_000)
        + &call("EXEC", 2, 649_000, 800_001, 1, 5_900_000)
        + &call("EXEC", 1, 694_007, 1_000_000, 0, 6_000_000);
    let rows = imported(&text).rows;
    let cpu = |sql_id: &str| {
        let id = rows
            .statements
            .iter()
            .find(|row| row.sql_id == sql_id)
            .expect("a statement")
            .id;
        let of_statement = rows
            .activity
            .iter()
            .filter(|row| row.statement == id && row.wait_event == "CPU");
        let own = rows
            .counters
            .iter()
            .filter(|row| row.statement == id && row.name == oracle::OWN_CPU_US);
        (
            of_statement.map(|row| row.ns / 1_000).sum::<u64>(),
            own.map(|row| row.value).sum::<i64>(),
        )
    };
    assert_eq!(cpu("bbbbbbbbbbbb1"), (45_007, 45_007));
    assert_eq!(cpu("bbbbbbbbbbbb2"), (649_000, 649_000));
}

#[test]
fn the_interval_begins_with_the_earliest_begin_of_a_call_or_wait() {
    let text =
        wait(1, "SQL*Net message from client", 3_000_000, 9_000_000) + &call("EXEC", 1, 7, 50, 0, 9_000_100);
    let whole = imported(&text);
    assert_eq!(
        (whole.trace().begin_us, whole.trace().last_tim_us),
        (Some(6_000_000), Some(9_000_100))
    );
    assert_eq!(counter(&whole.rows, oracle::INTERVAL_DURATION_US), 3_000_100);
}

#[test]
fn a_trace_without_a_banner_is_one_of_oracle() {
    let whole = imported(&call("EXEC", 1, 7, 50, 0, 9_000_100));
    assert_eq!(whole.meta.database.product, "Oracle Database");
    assert_eq!(whole.meta.database.version, "");
}

#[test]
fn a_close_that_comes_later_is_not_the_caller_of_what_was_before() {
    let text = parsing(3, 1, 5_000_000, "cccccccccccc1", "select 3")
        + &call("EXEC", 3, 90, 200, 1, 5_000_300)
        + &call("CLOSE", 3, 1, 3, 0, 5_000_305);
    let rows = imported(&text).rows;
    assert!(rows.statements.iter().all(|row| row.callers.is_empty()));
}

#[test]
fn a_clock_of_1024_nanoseconds_is_corrected_but_for_cpu() {
    // 2008-08-19 08:16:25 UTC is 1,219,133,785 s after 1970.
    let tim = 1_219_133_785_000_000u64 * 1_000 / 1_024;
    let text = format!(
        "*** 2008-08-19 08:16:25.000\n{}",
        call("EXEC", 1, 7_001, 1_000_000, 0, tim + 1_000_000)
    );
    let whole = imported(&text);
    assert!(whole.trace().counts_1024_ns);
    assert_eq!(counter(&whole.rows, oracle::CALL_ELAPSED_US), 1_024_000);
    assert_eq!(counter(&whole.rows, oracle::CALL_CPU_US), 7_001);
    assert_eq!(counter(&whole.rows, oracle::INTERVAL_DURATION_US), 1_024_000);
    assert!(
        (whole.meta.start_us - 1_219_133_785_000_000).abs() < 5,
        "{}",
        whole.meta.start_us
    );
}

#[test]
fn a_clock_that_wraps_or_goes_back_goes_on() {
    let wrapped = call("EXEC", 1, 7, 50, 0, 4_294_967_200) + &call("EXEC", 1, 7, 50, 0, 904);
    let whole = imported(&wrapped);
    assert_eq!((whole.trace().clock_wraps, whole.trace().clock_steps), (1, 0));
    assert_eq!(counter(&whole.rows, oracle::INTERVAL_DURATION_US), 96 + 904 + 50);
    assert!(
        whole.problems.iter().any(|told| told.contains("32 bits")),
        "{:?}",
        whole.problems
    );
    let back = call("EXEC", 1, 7, 50, 0, 9_000_000_000)
        + &call("EXEC", 1, 7, 50, 0, 5_400_000_000)
        + &call("EXEC", 1, 7, 50, 0, 5_400_001_000);
    let whole = imported(&back);
    assert_eq!(
        (whole.trace().clock_steps, whole.trace().clock_steps_us),
        (1, 3_600_000_000)
    );
    assert_eq!(counter(&whole.rows, oracle::INTERVAL_DURATION_US), 1_050);
    assert!(
        whole
            .problems
            .iter()
            .any(|told| told.contains("goes back once, by 3600.000000 s")),
        "{:?}",
        whole.problems
    );
}

#[test]
fn a_cut_in_a_line_is_told_and_no_cut_number_counts() {
    let first = wait(1, "db file sequential read", 800, 5_000_000_000);
    let last = wait(1, "db file sequential read", 1_234, 5_000_002_000);
    for at in 1..last.len() {
        for end in ["", "\n*** DUMP FILE SIZE IS LIMITED TO 1024 BYTES ***\n"] {
            let whole = imported(&format!("{first}{}{end}", &last[..at]));
            let waited = counter(&whole.rows, oracle::CALL_WAIT_US);
            let is_whole = at >= last.len() - 1;
            assert_eq!(waited, if is_whole { 2_034 } else { 800 }, "{}{end}", &last[..at]);
            let told = whole
                .problems
                .iter()
                .any(|told| told.contains("truncated") || told.contains("not understood"));
            assert!(
                told || is_whole && !end.is_empty(),
                "{}: {:?}",
                &last[..at],
                whole.problems
            );
        }
    }
    let text = parsing(1, 0, 5_000_000_100, "dddddddddddd1", "select 1 from dual");
    let whole = imported(&format!("{first}{}", &text[..text.len() - 20]));
    assert!(
        whole.problems.iter().any(|told| told.contains("inside the text")),
        "{:?}",
        whole.problems
    );
}

#[test]
fn recursive_calls_of_cursors_that_were_not_parsed_count_once() {
    let text = call("EXEC", 8, 40, 100, 1, 5_000_500) + &call("EXEC", 9, 100, 1_000, 0, 5_001_000);
    let rows = imported(&text).rows;
    assert_eq!(counter(&rows, oracle::CALL_ELAPSED_US), 1_000);
    assert_eq!(counter(&rows, oracle::CALL_CPU_US), 100);
}

#[test]
fn waits_of_no_cursor_go_to_the_one_before_and_say_so_unless_its_next_call_holds_them() {
    let text = parsing(4, 0, 5_000_000, "eeeeeeeeeeee1", "commit")
        + &wait(0, "log file sync", 300, 5_000_900)
        + &call("EXEC", 4, 100, 1_000, 0, 5_001_000)
        + &wait(0, "SQL*Net message to client", 2, 5_001_010)
        + &wait(0, "SQL*Net message from client", 700, 5_002_000)
        + &call("EXEC", 4, 9, 10, 0, 5_002_100);
    let rows = imported(&text).rows;
    let of_statement = |name: &str| -> i64 {
        let rows = rows
            .counters
            .iter()
            .filter(|row| row.name == name && row.statement == rows.statements[0].id);
        rows.map(|row| row.value).sum()
    };
    assert_eq!(of_statement(oracle::WAIT_US), 302);
    assert_eq!(of_statement(oracle::IDLE_US), 700);
    assert_eq!(of_statement(oracle::ASSUMED_WAIT_US), 702);
}

#[test]
fn waits_in_the_values_of_bind_variables_are_no_waits_and_values_are_kept_only_if_asked_for() {
    let inner = wait(5, "db file sequential read", 9_999, 5_000_100);
    let value = format!("one\n{}\ntwo", inner.trim_end());
    let section = format!(
        "BINDS #5:\n Bind#0\n  oacdty=01 mxl=128(94)\n  bln=128  avl={}  flg=05\n  value=\"{value}\"\n",
        value.len()
    );
    let text = parsing(5, 0, 5_000_000, "ffffffffffff1", "select :1 from t")
        + &section
        + &call("EXEC", 5, 7, 100, 0, 5_000_300)
        + &call("FETCH", 5, 7, 50, 0, 5_000_400);
    let whole = imported(&text);
    assert_eq!(counter(&whole.rows, oracle::CALL_WAIT_US), 0);
    assert!(whole.rows.statements[0].binds.is_empty());
    let options = Options {
        binds: true,
        ..Options::default()
    };
    let kept = of_text_with(&options, text).expect("rows");
    let [set] = kept.rows.statements[0].binds.as_slice() else {
        panic!("{:?}", kept.rows.statements)
    };
    assert_eq!(
        (&set.values, set.executions, set.elapsed_us, set.rows),
        (&vec![value], 1, 150, 2)
    );
}

#[test]
fn values_of_each_execution_are_kept_by_position_and_beyond_a_bound_executions_are_counted() {
    const EXECUTIONS: u64 = 1_005;
    let mut text = "*** 2024-05-01T10:00:00.000000+00:00\n".to_string()
        + &parsing(5, 0, 5_000_000, "ffffffffffff1", "select :1, :2, :3 from t");
    for n in 0..EXECUTIONS {
        // The second variable is null, and the third one a text.
        text += &format!(
            "BINDS #5:\n\n Bind#0\n  oacdty=02 mxl=22(22)\n  bln=22  avl=02  flg=05\n  value={n}\n Bind#1\n  \
             oacdty=01 mxl=32(02)\n  bln=32  avl=00  flg=05\n Bind#2\n  oacdty=01 mxl=32(02)\n  bln=32  avl=04  \
             flg=05\n  value=\"a, b\"\n"
        );
        // Another cursor is executed, without values, before this one.
        text += &call("EXEC", 6, 1, 2, 1, 5_000_100 + n * 100);
        text += &call("EXEC", 5, 1, 10 + n, 0, 5_000_150 + n * 100);
    }
    let options = Options {
        binds: true,
        ..Options::default()
    };
    let rows = of_text_with(&options, text).expect("rows").rows;
    let [statement] = rows.statements.as_slice() else {
        panic!("{:?}", rows.statements)
    };
    assert_eq!(statement.bound_execution_count, EXECUTIONS);
    assert_eq!(statement.bound_executions.len(), 1_000);
    assert_eq!((statement.binds.len(), statement.binds[7].executions), (1_000, 1));
    assert_eq!(statement.binds[7].values, ["7", "", "a, b"]);
    let eighth = &statement.bound_executions[7];
    // 2024-05-01 10:00:00 is the moment of the first line with a time, at 5,000,000 µs of the trace's clock.
    assert_eq!((eighth.time_us, eighth.elapsed_us), (1_714_557_600_000_850, 17));
    let values: Vec<_> = eighth
        .values
        .iter()
        .map(|of| (of.position, of.value.as_str()))
        .collect();
    assert_eq!(values, [(0, "7"), (2, "\"a, b\"")]);
}

#[test]
fn calls_and_waits_of_an_action_are_of_the_one_that_was_on_when_they_ended() {
    let text = "*** ACTION NAME:(one) 2024-05-01T10:00:00.000000+00:00\n".to_string()
        + &wait(1, "db file sequential read", 400, 5_000_500)
        + "*** ACTION NAME:(two) 2024-05-01T10:00:00.000500+00:00\n"
        + &wait(1, "db file sequential read", 100, 5_000_900)
        + &call("EXEC", 1, 101, 1_000, 0, 5_001_000);
    let rows = imported(&text).rows;
    let of_action = |action: &str, name: &str| -> i64 {
        let session = rows
            .sessions
            .iter()
            .find(|row| row.action == action)
            .expect("a session")
            .id;
        let of_session = rows
            .counters
            .iter()
            .filter(|row| row.session == session && row.name == name);
        of_session.map(|row| row.value).sum()
    };
    for (action, elapsed, waited) in [("one", 400, 400), ("two", 600, 100)] {
        assert_eq!(of_action(action, oracle::CALL_ELAPSED_US), elapsed, "{action}");
        assert_eq!(of_action(action, oracle::CALL_WAIT_US), waited, "{action}");
        assert_eq!(of_action(action, oracle::WAIT_US), waited, "{action}");
    }
}

#[test]
fn the_same_trace_twice_and_parts_that_are_elsewhere_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = call("EXEC", 1, 7, 50, 0, 9_000_100)
        + "*** 2024-05-01 10:00:00.000\n*** TRACE CONTINUED FROM FILE /u01/x_ora_1.trc ***\n";
    let paths: Vec<PathBuf> = ["a.trc", "b.trc"]
        .iter()
        .map(|name| folder.path().join(name))
        .collect();
    for path in &paths {
        std::fs::write(path, &text).expect("a file");
    }
    let whole = of_files(&paths).expect("rows");
    let told = whole.problems.join("\n");
    assert!(
        told.contains("a.trc and") && told.contains("are the same trace"),
        "{told}"
    );
    assert!(told.contains("what came before is in /u01/x_ora_1.trc"), "{told}");
}

#[test]
fn a_banner_of_several_lines_is_understood() {
    let text = "Trace file /tmp/a.trc\nOracle Database 11g Enterprise Edition Release 11.2.0.3.0 - 64bit Production\n\
                With the Partitioning, OLAP,\nData Mining and Real Application Testing options\n"
        .to_string()
        + &call("EXEC", 1, 7, 50, 0, 9_000_100);
    let whole = imported(&text);
    assert_eq!(whole.file().unknown_lines, 0, "{:?}", whole.problems);
    assert_eq!(whole.meta.database.version, "11.2.0.3.0");
}

#[test]
fn files_in_a_tar_archive_are_read_one_behind_the_other() {
    let file = |pid: u32, tim: u64| {
        format!("*** [ Unix process pid: {pid} ]\n*** 2024-05-01 10:00:00.000\n")
            + &call("EXEC", 1, 7, 50, 0, tim)
    };
    let filled_up = |bytes: &[u8]| {
        let mut blocks = bytes.to_vec();
        blocks.resize(bytes.len().next_multiple_of(512), 0);
        blocks
    };
    let mut archive = Vec::new();
    for (pid, tim) in [(9_850, 9_000_000), (9_854, 9_500_000)] {
        let mut head = format!("ora_{pid}.trc").into_bytes();
        head.resize(257, 0);
        head.extend_from_slice(b"ustar\x0000");
        archive.extend(filled_up(&head));
        archive.extend(filled_up(file(pid, tim).as_bytes()));
    }
    archive.resize(archive.len() + 1_024, 0);
    let whole = of_text(archive).unwrap_or_else(|e| panic!("{e}"));
    let pids: BTreeSet<u32> = whole.rows.sessions.iter().map(|row| row.pid).collect();
    assert_eq!(pids, BTreeSet::from([9_850, 9_854]));
    assert_eq!(counter(&whole.rows, oracle::CALL_ELAPSED_US), 100);
    assert_eq!((whole.file().unknown_lines, &whole.problems), (0, &Vec::new()));
}

#[test]
fn errors_and_ends_of_transactions_are_counted() {
    let text = parsing(6, 0, 5_000_000, "gggggggggggg1", "select 1/0 from dual")
        + &call("EXEC", 6, 7, 50, 0, 5_000_100)
        + "ERROR #6:err=1476 tim=500010\n"
        + "=====================\nPARSE ERROR #6:len=15 dep=0 uid=5 oct=3 lid=5 tim=5000200 err=942\nselect * from x\n"
        + "XCTEND rlbk=0, rd_only=0, tim=5000300\nXCTEND rlbk=1, rd_only=0, tim=5000400\n\
           XCTEND rlbk=0, rd_only=1, tim=5000500\nXCTEND rlbk=0, rd_only=1, tim=5000600\n";
    let whole = imported(&text);
    let rows = &whole.rows;
    let text_of = |name: &str| -> Vec<&str> {
        let counted = rows
            .counters
            .iter()
            .filter(|row| row.name == name && row.value == 1);
        let row = |id: u64| {
            rows.statements
                .iter()
                .find(|row| row.id == id)
                .map_or("", |row| row.text.as_str())
        };
        counted.map(|row_of| row(row_of.statement)).collect()
    };
    assert_eq!(text_of("errors:1476"), ["select 1/0 from dual"]);
    assert_eq!(text_of("parse_errors:942"), ["select * from x"]);
    let ends = [oracle::COMMITS, oracle::ROLLBACKS, oracle::READ_ONLY_ENDS].map(|name| counter(rows, name));
    assert_eq!(ends, [1, 1, 2]);
    // The time of an error is in other units, which must not look like a clock going back.
    assert_eq!(whole.trace().clock_steps, 0);
}

#[test]
fn waits_for_blocks_say_their_object_and_file() {
    let text = wait(1, "db file sequential read", 30, 5_000_000)
        + &wait(1, "db file sequential read", 12, 5_000_100)
        + "WAIT #1: nam='db file scattered read' ela= 7 p1=9 p2=1 p3=8 obj#=-1 tim=5000200\n"
        + &wait(1, "log file sync", 5, 5_000_300);
    let rows = imported(&text).rows;
    for (name, value) in [
        ("object_waits:61:db file sequential read", 2),
        ("object_wait_us:61:db file sequential read", 42),
        ("object_blocks:61:db file sequential read", 2),
        ("object_wait_us:-1:db file scattered read", 7),
        ("file_wait_us:4:db file sequential read", 42),
        ("file_blocks:9:db file scattered read", 8),
        ("object_waits:61:log file sync", 0),
    ] {
        assert_eq!(counter(&rows, name), value, "{name}");
    }
}

#[test]
fn rows_that_are_added_up_over_seconds_keep_the_first_second_the_last_one_and_the_io_of_each() {
    let waits = |from: u64| -> String {
        (0..10)
            .map(|n| wait(1, "db file sequential read", 100, from + n * 1_000_000))
            .collect()
    };
    let text = parsing(1, 0, 4_900_000, "hhhhhhhhhhhh1", "select 1") + &waits(5_000_100);
    let options = Options {
        summed: true,
        ..Options::default()
    };
    let rows = of_text_with(&options, text)
        .unwrap_or_else(|e| panic!("{e}"))
        .rows;
    let times: Vec<(i64, u64, u64)> = rows
        .activity
        .iter()
        .map(|row| (row.time, row.ns, row.count))
        .collect();
    assert_eq!(times, [(5_000_000, 100_000, 1), (14_000_000, 900_000, 9)]);
    let reads: Vec<(i64, i64)> = rows
        .counters
        .iter()
        .filter(|row| row.name == oracle::READS)
        .map(|row| (row.time, row.value))
        .collect();
    let expected: Vec<(i64, i64)> = (5..15).map(|second| (second * 1_000_000, 1)).collect();
    assert_eq!(reads, expected);
}

#[test]
fn every_second_has_the_waits_and_calls_that_ended_in_it() {
    let mut text = parsing(1, 0, 5_000_000, "hhhhhhhhhhhh1", "select 1");
    for second in 5..25 {
        for n in 0..=second {
            let tim = second * 1_000_000 + 10_000 + n * 1_000;
            text += &wait(1, "db file sequential read", second, tim - 100);
            text += &call("EXEC", 1, 3, 400 + second, 0, tim);
        }
    }
    let rows = imported(&text).rows;
    for second in 5..25 {
        let time = second * 1_000_000;
        let waits = rows.latency.iter().filter(|row| row.time == time);
        let (count, us) = waits.fold((0, 0), |(count, us), row| {
            (count + row.count, us + row.sum_ns / 1_000)
        });
        let calls = second as u64 + 1;
        assert_eq!((count, us), (calls, calls * second as u64), "{second}");
        for (name, value) in [
            (oracle::EXECUTIONS, second + 1),
            (oracle::ELAPSED_US, (second + 1) * (400 + second)),
            (oracle::WAIT_US, (second + 1) * second),
            ("object_wait_us:61:db file sequential read", (second + 1) * second),
        ] {
            let of_second = rows
                .counters
                .iter()
                .filter(|row| row.time == time && row.name == name);
            assert_eq!(
                of_second.map(|row| row.value).sum::<i64>(),
                value,
                "{name} in {second}"
            );
        }
    }
}

#[test]
fn a_trace_that_says_no_time_of_day_says_that() {
    let told = |text: &str| {
        let problems = imported(text).problems;
        problems
            .iter()
            .any(|told| told.contains("no line gives a time of day"))
    };
    let text = call("EXEC", 1, 7, 50, 0, 9_000_100);
    assert!(told(&text));
    assert!(!told(&format!("*** 2024-05-01 10:00:00.000\n{text}")));
    assert!(!told(&call("EXEC", 1, 7, 50, 0, 1_714_557_600_000_000)));
}

#[test]
fn records_that_share_a_line_are_all_counted_however_many_they_are() {
    const ALL: u64 = 5_000;
    let mut text = String::new();
    for n in 0..ALL {
        text += wait(1, "db file sequential read", 3, 5_000_000 + n).trim_end();
    }
    text.push('\n');
    let whole = imported(&text);
    assert_eq!(whole.trace().waits, ALL);
    assert_eq!(activity(&whole.rows)["db file sequential read"], 3 * ALL);
}

/// A statement that is parsed and executed once, in 40 µs.
fn executed_once(number: u64, text: &str) -> String {
    executed_at(5_000_000 + 100 * number, number, text)
}

fn executed_at(tim: u64, number: u64, text: &str) -> String {
    parsing(number % 50 + 1, 0, tim, &format!("{number:013}"), text)
        + &call("EXEC", number % 50 + 1, 7, 40, 0, tim + 50)
}

#[test]
fn of_very_many_statements_those_that_differ_in_literals_are_one() {
    const ALL: u64 = 5_300;
    let mut text = String::new();
    for number in 1..=ALL {
        text += &executed_once(number, &format!("select a from t where id = {number}"));
    }
    text += &executed_once(ALL + 1, "select b from t");
    // Parsed again: it is known which one it counts with.
    text += &executed_at(6_000_000, ALL, &format!("select a from t where id = {ALL}"));
    let whole = imported(&text);
    let rows = &whole.rows;
    assert_eq!(rows.statements.len(), 5_001);
    let alike: Vec<u64> = rows
        .statements
        .iter()
        .map(|row| row.alike)
        .filter(|n| *n > 0)
        .collect();
    assert_eq!(alike, [300]);
    assert!(rows.statements.iter().any(|row| row.text == "select b from t"));
    assert_eq!(counter(rows, oracle::EXECUTIONS), 5_302);
    assert_eq!(counter(rows, oracle::ELAPSED_US), 5_302 * 40);
    assert_eq!(
        (whole.trace().statements_alike, whole.trace().further_statements),
        (300, 0)
    );
    assert!(
        whole
            .problems
            .iter()
            .any(|told| told.contains("300 statements beyond the first 5000")),
        "{:?}",
        whole.problems
    );
}

#[test]
fn of_very_many_statements_that_differ_in_more_the_last_are_one_and_long_texts_are_left_out() {
    let mut text = String::new();
    for number in 1..=20_007 {
        text += &executed_once(number, &format!("select c{number} from t"));
    }
    let whole = imported(&text);
    let rows = &whole.rows;
    assert_eq!(rows.statements.len(), 20_001);
    let further = rows
        .statements
        .iter()
        .find(|row| row.text == "[further statements]");
    let further = further.expect("what stands for the rest");
    assert_eq!(further.alike, 7);
    let of_them = rows
        .counters
        .iter()
        .filter(|row| row.statement == further.id && row.name == oracle::EXECUTIONS);
    assert_eq!(of_them.map(|row| row.value).sum::<i64>(), 7);
    assert_eq!(counter(rows, oracle::EXECUTIONS), 20_007);
    assert_eq!(whole.trace().further_statements, 7);

    let long = "x".repeat(60_000);
    let text: String = (1..=1_200)
        .map(|number| executed_once(number, &format!("select '{long}', {number} from t")))
        .collect();
    let whole = imported(&text);
    let kept: usize = whole.rows.statements.iter().map(|row| row.text.len()).sum();
    assert!(kept <= 64 << 20, "{kept}");
    let without = whole
        .rows
        .statements
        .iter()
        .filter(|row| row.text.is_empty())
        .count();
    assert_eq!(whole.trace().texts_left_out, without as u64);
    assert!(without > 0 && whole.rows.statements.len() == 1_200);
}

#[test]
fn what_a_parse_says_of_a_statement_is_kept() {
    let text = parsing(2, 2, 5_000_000, "hhhhhhhhhhhh1", "select 1") + &call("EXEC", 2, 7, 50, 2, 5_000_100);
    let rows = imported(&text).rows;
    let StatementRow {
        hash_value,
        user_id,
        depth,
        command,
        ..
    } = rows.statements[0];
    assert_eq!(
        (hash_value, user_id, depth, command),
        (77, Some(5), Some(2), Some(3))
    );
}

/// A parse waits before the trace says what is parsed, as under contention in the library cache.
#[test]
fn waits_of_a_parse_are_its_statements_whoever_had_the_cursor_before() {
    let of_one = parsing(7, 0, 5_000_000, "aaaaaaaaaaaa1", "select 1")
        + &call("PARSE", 7, 10, 20, 0, 5_000_020)
        + &call("EXEC", 7, 10, 20, 0, 5_000_100)
        + &wait(7, "SQL*Net message from client", 300, 5_000_500)
        + &call("CLOSE", 7, 0, 4, 0, 5_000_510);
    let waits = wait(7, "cursor: pin S wait on X", 300, 5_000_900)
        + &wait(7, "library cache lock", 2_600_000, 7_700_000)
        + &wait(7, "cursor: pin S wait on X", 100_000, 7_900_000);
    let of_other = parsing(7, 0, 7_950_000, "aaaaaaaaaaaa2", "select 2")
        + &call("PARSE", 7, 9, 2_900_000, 0, 8_000_000)
        + &call("EXEC", 7, 10, 200, 0, 8_000_300)
        + &call("CLOSE", 7, 0, 4, 0, 8_000_400);
    for text in [of_one.clone() + &waits + &of_other, waits + &of_other] {
        for summed in [false, true] {
            let options = Options {
                summed,
                ..Options::default()
            };
            let whole = of_text_with(&options, text.as_str()).expect("rows");
            let id = |sql_id: &str| {
                let row = whole.rows.statements.iter().find(|row| row.sql_id == sql_id);
                row.map_or(0, |row| row.id)
            };
            let other = id("aaaaaaaaaaaa2");
            let us_of = |statement: u64| -> u64 {
                let rows = whole.rows.activity.iter();
                let waits = rows.filter(|row| row.statement == statement);
                waits
                    .filter(|row| {
                        ["library cache lock", "cursor: pin S wait on X"].contains(&row.wait_event.as_str())
                    })
                    .map(|row| row.ns / 1_000)
                    .sum()
            };
            let counted = |statement: u64, name: &str| -> i64 {
                let rows = whole.rows.counters.iter();
                rows.filter(|row| row.statement == statement && row.name == name)
                    .map(|row| row.value)
                    .sum()
            };
            let latencies = |statement: u64| -> (u64, u64) {
                let rows = whole.rows.latency.iter().filter(|row| row.statement == statement);
                let rows = rows.filter(|row| !row.name.ends_with("from client"));
                rows.fold((0, 0), |sum, row| (sum.0 + row.count, sum.1 + row.sum_ns / 1_000))
            };
            // The one that ended before the call began is in no call: it stays with the previous statement of the cursor.
            assert_eq!(us_of(other), 2_700_000, "summed: {summed}");
            assert_eq!(counted(other, oracle::WAIT_US), 2_700_000, "summed: {summed}");
            assert_eq!(latencies(other), (2, 2_700_000), "summed: {summed}");
            let before = id("aaaaaaaaaaaa1");
            assert_eq!(us_of(before), 300, "summed: {summed}");
            assert_eq!(counted(before, oracle::WAIT_US), 300, "summed: {summed}");
            assert_eq!(latencies(before), (1, 300), "summed: {summed}");
            // A wait is in the second in which it ended, whoever's it is.
            let seconds: BTreeSet<i64> = whole
                .rows
                .activity
                .iter()
                .map(|row| row.time % 60_000_000)
                .collect();
            if !summed {
                assert!(seconds.contains(&7_000_000), "{seconds:?}");
            }
        }
    }
}

#[test]
fn a_trace_ends_with_its_last_moment_not_with_its_last_line() {
    let text = call("EXEC", 1, 7, 50, 0, 5_000_000)
        + &call("EXEC", 1, 0, 80_000, 0, 5_090_000)
        + &wait(1, "SQL*Net message to client", 2, 5_001_000);
    let whole = imported(&text);
    assert_eq!(whole.meta.end_us - whole.meta.start_us, 90_050);
}

/// One call of 40 s with a wait each second, in a trace that its size limit split into parts that name each other.
#[test]
fn parts_of_a_trace_are_one_trace_in_whatever_order_they_are_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = |part: u64| match part {
        0 => "orcl_ora_9.trc".to_string(),
        part => format!("orcl_ora_9_{part}.trc"),
    };
    let parts: Vec<String> = (0..4)
        .map(|part| {
            let mut text = format!(
                "Trace file /u01/diag/{}\nUnix process pid: 9, image: oracle@h\n",
                name(part)
            );
            if part > 0 {
                text += &format!("*** TRACE CONTINUED FROM FILE /u01/diag/{} ***\n", name(part - 1));
            }
            text += "*** 2024-05-01 10:00:00.000\n*** SESSION ID:(1.2) 2024-05-01 10:00:00.000\n";
            if part == 0 {
                text += &parsing(7, 0, 5_000_000, "aaaaaaaaaaaa1", "begin p; end;");
            }
            for second in 10 * part + 1..=10 * part + 10 {
                text += &wait(
                    8,
                    "db file sequential read",
                    100_000,
                    5_000_000 + 1_000_000 * second - 500_000,
                );
                text += &call(
                    "EXEC",
                    8,
                    10_000,
                    400_000,
                    1,
                    5_000_000 + 1_000_000 * second - 400_000,
                );
            }
            match part {
                3 => text + &call("EXEC", 7, 500_000, 40_000_000, 0, 45_000_000),
                _ => text + &format!("*** TRACE CONTINUES IN FILE /u01/diag/{} ***\n", name(part + 1)),
            }
        })
        .collect();
    let path = |part: u64| folder.path().join(name(part));
    for (part, text) in (0..).zip(&parts) {
        std::fs::write(path(part), text).expect("a file");
    }
    let elapsed = |whole: &Whole| counter(&whole.rows, oracle::CALL_ELAPSED_US);
    let cat = imported(&parts.concat());
    assert_eq!(elapsed(&cat), 40_000_000);
    assert!(
        !cat.problems.join("\n").contains("give both"),
        "{:?}",
        cat.problems
    );
    for order in [[0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0]] {
        let whole = of_files(&order.map(path)).expect("rows");
        assert_eq!(elapsed(&whole), 40_000_000, "{order:?}");
        assert_eq!(activity(&whole.rows), activity(&cat.rows), "{order:?}");
        let told = whole.problems.join("\n");
        assert!(
            !told.contains("give both") && !told.contains("had begun"),
            "{told}"
        );
        assert_eq!(whole.meta.files.len(), 1);
        assert!(
            whole.meta.files[0]
                .path
                .ends_with("orcl_ora_9.trc and 3 files that continue it"),
            "{}",
            whole.meta.files[0].path
        );
    }
    // If some are given, missing ones are named; a call that had begun before is reported.
    let whole = of_files(&[path(2), path(3)]).expect("rows");
    let told = whole.problems.join("\n");
    assert!(
        told.contains("what came before is in /u01/diag/orcl_ora_9_1.trc"),
        "{told}"
    );
    assert!(!told.contains("what came later"), "{told}");
    assert!(
        told.contains("had begun 20.400 s before the first line"),
        "{told}"
    );
    // One that continues a missing file, and one that says it continues itself, are read alone.
    let other = folder.path().join("other.trc");
    std::fs::write(&other, parts[1].replace("_ora_9.trc", "_ora_8.trc")).expect("a file");
    let circle = folder.path().join("circle.trc");
    std::fs::write(&circle, parts[1].replace("orcl_ora_9.trc", "circle.trc")).expect("a file");
    let whole = of_files(&[other, circle, path(0)]).expect("rows");
    assert_eq!(whole.meta.files.len(), 3);
    // Compressed, and from an archive.
    let mut paths = Vec::new();
    for part in 0..4 {
        let packed = folder.path().join(format!("{}.gz", name(part)));
        let file = std::fs::File::create(&packed).expect("a file");
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, parts[part as usize].as_bytes()).expect("written");
        encoder.finish().expect("written");
        paths.push(packed);
    }
    assert_eq!(elapsed(&of_files(&paths).expect("rows")), 40_000_000);
}
