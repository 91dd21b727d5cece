//! What if something took a different time: loads whose throughput can be worked out with pencil and paper.

use dbtime_model::recording::Meta;
use dbtime_model::{
    ActivityRow, CauseKind, CauseRow, CounterRow, Rows, SessionId, SessionState, State, counter,
};
use dbtime_report::{Filter, Prediction, Source, WhatIfOptions, WhatIfReport, json, text, what_if};

use crate::hand_made::waits::{SECOND, activity, cause, link};
use crate::hand_made::{row, session};

const SECONDS: i64 = 12;
const MS: u64 = 1_000_000;
const SLEEP: (&str, &str) = ("Timeout", "PgSleep");

fn meta() -> Meta {
    let mut meta = Meta {
        schema: "1.12".into(),
        start_us: 0,
        end_us: (SECONDS + 1) * SECOND,
        ..Meta::default()
    };
    meta.collector.engine = "bpf".into();
    meta.host.cpus = 2;
    meta
}

fn transactions(second: i64, client: u64, value: i64) -> CounterRow {
    CounterRow {
        time: second * SECOND,
        session: SessionId(client),
        source: counter::SESSION_MEMORY.into(),
        name: counter::TRANSACTIONS.into(),
        value,
        ..CounterRow::default()
    }
}

/// Clients that each do this in every second, in `each` transactions.
fn load(clients: u64, each: i64, does: impl Fn(i64, u64) -> (Vec<ActivityRow>, Vec<CauseRow>)) -> Rows {
    let mut rows = Rows::default();
    for client in 1..=clients {
        rows.sessions
            .push(session(client, 100 + client as u32, "client backend", "u", "d"));
        for second in 0..=SECONDS {
            rows.counters
                .push(transactions(second, client, if second == 0 { 0 } else { each }));
            // The first row says from when on transactions are counted.
            if second == 0 {
                continue;
            }
            let (activity, causes) = does(second, client);
            rows.activity.extend(activity);
            rows.causes.extend(causes);
        }
    }
    rows
}

fn asked(rows: Rows, change: &str) -> WhatIfReport {
    let options = WhatIfOptions {
        filter: Filter::default(),
        changes: vec![change.parse().expect("it is right")],
    };
    what_if(&Source::memory(meta(), rows), &options).expect("nothing is wrong")
}

fn said(rows: Rows, change: &str) -> Prediction {
    let report = asked(rows, change);
    let text = text::render_what_if(&report, 100);
    assert!(text.contains(&format!("What if {change}?")), "{text}");
    report.answer.unwrap_or_else(|why| panic!("{change}: {why}"))
}

fn cannot_say(rows: Rows, change: &str) -> String {
    let report = asked(rows, change);
    assert!(text::render_what_if(&report, 100).contains("Cannot say"));
    assert!(json::render_what_if(&report).contains("\"prediction\": null"));
    report.answer.expect_err("nobody can tell")
}

#[track_caller]
fn close(found: f64, truth: f64) {
    assert!((found / truth - 1.0).abs() < 0.03, "{found} is not {truth}");
}

/// Four clients that never think; each holds the lock for 10 ms, sleeping, and waits 30 ms for the other three.
fn in_line() -> Rows {
    load(4, 25, |second, client| {
        let sampled = |wait, ms: u64| ActivityRow {
            samples: ms / 10,
            ..activity(second, client, wait, State::Sleep, ms * MS)
        };
        let activity = vec![sampled(SLEEP, 250), sampled(("Lock", "transactionid"), 750)];
        let holder = link(client % 4 + 1, SLEEP, State::Sleep, SessionState::Active);
        let cause = CauseRow {
            wait_event: "transactionid".into(),
            ..cause(second, client, 75, CauseKind::Timer, vec![holder])
        };
        (activity, vec![cause])
    })
}

/// Two clients: of 20 ms they think 10, sleep 6 and compute 4 (in statement 7).
fn alone() -> Rows {
    load(2, 50, |second, client| {
        let at = |row: ActivityRow| ActivityRow {
            time: second * SECOND,
            ..row
        };
        let computes = ActivityRow {
            statement: 7,
            ..row(client, ("CPU", "CPU", false), State::User, 200)
        };
        let thinks = row(client, ("Client", "ClientRead", true), State::Sleep, 500);
        let sleeps = row(client, (SLEEP.0, SLEEP.1, false), State::Sleep, 300);
        ([computes, thinks, sleeps].map(at).into(), vec![])
    })
}

#[test]
fn whoever_never_thinks_has_twice_as_much_of_a_lock_that_is_held_for_half_as_long() {
    let of = said(in_line(), "hold:transactionid=0.5");
    close(of.now.transactions_per_s, 100.0);
    close(of.now.db_time_per_transaction_s, 0.040);
    close(of.now.aas, 4.0);
    close(of.predicted.transactions_per_s, 200.0);
    close(of.predicted.db_time_per_transaction_s, 0.020);
    close(of.predicted.aas, 4.0);
    assert!(
        of.low.transactions_per_s <= 200.0 && of.high.transactions_per_s >= 200.0,
        "{of:?}"
    );
    // The lock is held for as long as this lasts.
    let of = said(in_line(), "event:Timeout:PgSleep=0.5");
    close(of.predicted.transactions_per_s, 200.0);
}

#[test]
fn what_nobody_waits_for_is_taken_off_the_transaction() {
    // 10 + 6 + 4 ms: 50 a second each.
    let of = said(alone(), "event:PgSleep=0");
    close(of.now.transactions_per_s, 100.0);
    close(of.predicted.transactions_per_s, 2.0 / 0.014);
    close(of.predicted.db_time_per_transaction_s, 0.004);
    let of = said(alone(), "query:7=0.5");
    close(of.predicted.transactions_per_s, 2.0 / 0.018);
    close(of.predicted.db_time_per_transaction_s, 0.008);
    let of = said(alone(), "query:7=1");
    close(of.predicted.transactions_per_s, 100.0);
}

#[test]
fn twice_the_work_is_more_than_the_cpus_can_do() {
    // Ten times 4 ms by two clients on two CPUs fits: 10 + 6 + 40 ms.
    close(
        said(alone(), "query:7=10").predicted.transactions_per_s,
        2.0 / 0.056,
    );
}

/// Five clients that think for 20 ms and then hold the lock for 10, so that it is never free. `ended`: how many transactions end in a
/// second.
fn never_free(ended: impl Fn(i64) -> i64) -> Rows {
    let mut rows = load(5, 20, |second, client| {
        let sampled = |wait, ms: u64| ActivityRow {
            samples: ms / 10,
            ..activity(second, client, wait, State::Sleep, ms * MS)
        };
        let thinks = ActivityRow {
            time: second * SECOND,
            ..row(client, ("Client", "ClientRead", true), State::Sleep, 400)
        };
        let activity = vec![
            thinks,
            sampled(SLEEP, 200),
            sampled(("Lock", "transactionid"), 400),
        ];
        let holder = link(client % 5 + 1, SLEEP, State::Sleep, SessionState::Active);
        let cause = CauseRow {
            wait_event: "transactionid".into(),
            ..cause(second, client, 40, CauseKind::Timer, vec![holder])
        };
        (activity, vec![cause])
    });
    for row in rows.counters.iter_mut().filter(|row| row.time > 0) {
        row.value = ended(row.time / SECOND);
    }
    rows
}

#[test]
fn the_more_evenly_transactions_end_the_more_even_is_what_they_take() {
    // 5 clients, 20 + 5 ms: just under 200 a second if everything takes the same time. By mean value analysis 161 if each takes a random
    // time.
    let even = said(never_free(|_| 20), "hold:transactionid=0.5");
    close(even.now.transactions_per_s, 100.0);
    let predicted = even.predicted.transactions_per_s;
    assert!((183.0..202.0).contains(&predicted), "{even:?}");
    assert!(
        even.assumes
            .iter()
            .any(|of| of.contains("100 % even and 0 % random")),
        "{even:?}"
    );
    // As many in total, but 50 in one second and 150 in the next.
    let uneven = said(
        never_free(|second| 10 + 20 * (second % 2)),
        "hold:transactionid=0.5",
    );
    close(uneven.now.transactions_per_s, 100.0);
    let predicted = uneven.predicted.transactions_per_s;
    assert!((168.0..183.0).contains(&predicted), "{uneven:?}");
    assert!(
        uneven
            .assumes
            .iter()
            .any(|of| of.contains("50 % even and 50 % random")),
        "{uneven:?}"
    );
    // Either is within the interval of the other.
    for of in [&even, &uneven] {
        let (low, high) = (of.low.transactions_per_s, of.high.transactions_per_s);
        assert!(low < 170.0 && high > 185.0, "{of:?}");
    }
}

#[test]
fn a_device_that_is_always_busy_may_not_take_more_and_the_answer_says_so() {
    // One client: it thinks for 1 ms and flushes for 9.
    let flushing = || {
        load(1, 100, |second, client| {
            let flushes = ActivityRow {
                samples: 90,
                ..activity(second, client, ("IO", "WALSync"), State::Disk, 900 * MS)
            };
            let thinks = ActivityRow {
                time: second * SECOND,
                ..row(client, ("Client", "ClientRead", true), State::Sleep, 100)
            };
            (vec![thinks, flushes], vec![])
        })
    };
    let said_of = |of: &Prediction, words: &str| of.assumes.iter().any(|sentence| sentence.contains(words));
    let faster = said(flushing(), "event:IO:WALSync=0.5");
    close(faster.now.transactions_per_s, 100.0);
    close(faster.predicted.transactions_per_s, 1.0 / 0.005_5);
    assert!(said_of(&faster, "busy nearly all the time"), "{faster:?}");
    assert!(said_of(&faster, "times a second instead of 100"), "{faster:?}");
    assert!(faster.low.transactions_per_s < 150.0, "{faster:?}");
    // Half of its thinking may have been the time to it and back.
    assert!(faster.high.transactions_per_s > 195.0, "{faster:?}");
    // Without a flush there is no device that could limit it.
    let gone = said(flushing(), "event:IO:WALSync=0");
    close(gone.predicted.transactions_per_s, 1_000.0);
    assert!(!said_of(&gone, "times a second instead of"), "{gone:?}");
    assert!(gone.low.transactions_per_s > 900.0, "{gone:?}");
}

/// One client: of 100 ms it thinks 10 and sleeps 86, after which it is in the run queue for 1; it computes for 2, and is in the run queue
/// for another 1.
fn woken() -> Rows {
    load(1, 10, |second, client| {
        let at = |row: ActivityRow| ActivityRow {
            time: second * SECOND,
            ..row
        };
        let rows = [
            row(client, ("Client", "ClientRead", true), State::Sleep, 100),
            row(client, (SLEEP.0, SLEEP.1, false), State::Sleep, 860),
            row(client, (SLEEP.0, SLEEP.1, false), State::Runnable, 10),
            row(client, ("CPU", "CPU", false), State::User, 20),
            row(client, ("CPU", "CPU", false), State::Runnable, 10),
        ];
        (rows.map(at).into(), vec![])
    })
}

#[test]
fn the_interval_has_what_a_denser_load_may_not_need() {
    let said_of = |of: &Prediction, words: &str| of.assumes.iter().any(|sentence| sentence.contains(words));
    let of = said(woken(), "event:PgSleep=0");
    close(of.now.transactions_per_s, 10.0);
    // The prediction stays: 10 ms of thinking, 2 of CPU, and 2 in the run queue.
    close(of.predicted.transactions_per_s, 1.0 / 0.014);
    close(of.predicted.db_time_per_transaction_s, 0.004);
    assert!(of.low.transactions_per_s > 65.0, "{of:?}");
    // Without the millisecond in the run queue that comes with the sleep, and with one of CPU (caches give no more than that) and half of
    // the other queueing: 10 + 1 + 0.5. Half a millisecond of that may have been the way to the client.
    let high = of.high.transactions_per_s;
    assert!((88.0..101.0).contains(&high), "{of:?}");
    assert!(of.low.db_time_per_transaction_s < 0.001_6, "{of:?}");
    assert!(of.low.db_time_per_transaction_s > 0.001_2, "{of:?}");
    assert!(
        said_of(
            &of,
            "1.00 ms in the run queue and 0.00 ms of CPU for wakeups from waits that no longer happen"
        ),
        "{of:?}"
    );
    assert!(
        said_of(&of, "up to 1.00 ms of its other 2.00 ms of CPU"),
        "{of:?}"
    );
    assert!(said_of(&of, "demand for CPU is"), "{of:?}");
    // A session that sleeps half as long has to be woken as often: 10 + 43 + 4 ms. At 1.75 times the rate the 2 ms of CPU may become 1.14,
    // and so may the queueing.
    let of = said(woken(), "event:PgSleep=0.5");
    close(of.predicted.transactions_per_s, 1.0 / 0.057);
    assert!(!said_of(&of, "waits that no longer happen"), "{of:?}");
    assert!(
        said_of(&of, "up to 0.86 ms of its other 2.00 ms of CPU"),
        "{of:?}"
    );
    let high = of.high.transactions_per_s;
    assert!((18.1..19.8).contains(&high), "{of:?}");
    // A statement that needs half of the CPU does not make caches any warmer.
    let of = said(alone(), "query:7=0.5");
    assert!(!said_of(&of, "demand for CPU is"), "{of:?}");
    // Nor does a load that becomes less dense.
    let of = said(woken(), "event:PgSleep=2");
    assert!(!said_of(&of, "denser"), "{of:?}");
    // If nothing is computed, there is nothing to allow for.
    let of = said(in_line(), "hold:transactionid=0.5");
    assert!(!said_of(&of, "denser"), "{of:?}");
}

#[test]
fn what_the_recording_does_not_carry_nobody_says() {
    for (rows, change, why) in [
        (
            alone(),
            "hold:transactionid=0.5",
            "no session waited for or held transactionid",
        ),
        (
            alone(),
            "event:IO:WALSync=0.5",
            "this recording has Timeout:PgSleep, CPU",
        ),
        (alone(), "query:8=0", "this recording has 7"),
        (
            in_line(),
            "event:Lock:transactionid=0.5",
            "use hold:transactionid",
        ),
        (in_line(), "hold:tuple=0.5", "use hold:transactionid"),
        (
            Rows {
                counters: vec![],
                ..alone()
            },
            "query:7=0",
            "no counted transaction ended",
        ),
    ] {
        let said = cannot_say(rows, change);
        assert!(said.contains(why), "{change}: {said}");
    }
    // The sessions that have transactions wait for another lock.
    let mut others = in_line();
    others.counters.retain(|row| row.session.0 == 1);
    for row in others.activity.iter_mut().filter(|row| row.session.0 == 1) {
        if row.wait_class == "Lock" {
            row.wait_event = "relation".into();
        }
    }
    let said = cannot_say(others, "hold:transactionid=0.5");
    assert!(
        said.contains("Lock:transactionid (56 % of DB time) are of sessions with no counted transaction"),
        "{said}"
    );
    // A session that blocks others but has no transactions.
    let mut strange = in_line();
    for row in &mut strange.causes {
        row.chain[0].session = SessionId(9);
    }
    let said = cannot_say(strange, "hold:transactionid=0.5");
    assert!(said.contains("the blocker was no client of the load"), "{said}");
    // Half of the time nothing happened.
    let mut ends = alone();
    ends.counters
        .retain(|row| row.time <= 8 * SECOND || row.session.0 == 1);
    for row in &mut ends.counters {
        if row.time > 6 * SECOND {
            row.value = 1;
        }
    }
    let said = cannot_say(ends, "query:7=0");
    assert!(
        said.contains("began or ended") || said.contains("was not constant"),
        "{said}"
    );
}
