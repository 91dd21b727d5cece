//! What pg_stat_statements counts for single statements, and how much that grew from one answer to the next.
//!
//! ```text
//! Found        where the extension is: in any database and schema, with the columns that its version has
//! Entries      the numbers of the last answer, and what they grew by since
//! ```
//!
//! Its function is queried, not its view, so that no statement text is read or sent. It counts for the whole server. Entries are
//! distinguished as the server does (user, database, query id, called by a client or inside another statement) and summed by query id.

use std::collections::HashMap;
use std::time::Duration;

use dbtime_model::counter::statement_counts as names;
use postgres::fallible_iterator::FallibleIterator;
use postgres::types::{ToSql, Type};
use postgres::{Client, Row};

use super::connection::{Reach, connected, described};
use super::statistics::Growth;
use crate::clock::monotonic_ns;

/// Statements of an answer that are reported one by one: those with the most time. The growth of all others is reported as one.
const MOST_STATEMENTS: usize = 200;
/// Entries read at most; the server has 5,000 unless `pg_stat_statements.max` says otherwise.
const MOST_ENTRIES: usize = 50_000;
/// Columns of an entry; PostgreSQL 18 has some fifty.
const MOST_COLUMNS: usize = 100;
/// How long it is looked for.
const FOUND_WITHIN: Duration = Duration::from_secs(4);
/// Answers may take one part in this many of the time, so that even many entries cost no server more than 2 % of a CPU.
const PART_OF_TIME: u64 = 50;
/// However long an answer takes, it is queried again after this.
const LONGEST_NS: u64 = 60_000_000_000;

/// Whether the library is loaded: the settings of one that is not are not listed, whatever the server's files say.
const IS_LOADED: &str = "SELECT count(*) > 0 FROM pg_settings WHERE name = 'pg_stat_statements.max'";
/// Other databases that this user may connect to, in which the extension is looked for.
const DATABASES: &str = "SELECT datname::text FROM pg_database WHERE datallowconn AND datname <> current_database() \
     AND has_database_privilege(oid, 'CONNECT') ORDER BY datistemplate, oid LIMIT 50";
/// The functions of the extension in this database, and what they return. Only those that belong to the extension count: others may have
/// functions of their own with these names.
const FUNCTIONS: &str = "SELECT p.proname::text, quote_ident(n.nspname), a.name, a.type \
     FROM pg_extension e \
     JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid \
          AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e' \
     JOIN pg_proc p ON p.oid = d.objid \
     JOIN pg_namespace n ON n.oid = p.pronamespace, \
     unnest(p.proargnames, p.proallargtypes, p.proargmodes) WITH ORDINALITY AS a(name, type, mode, number) \
     WHERE e.extname = 'pg_stat_statements' AND a.mode = 'o' \
       AND p.proname IN ('pg_stat_statements', 'pg_stat_statements_info') \
     ORDER BY p.proname, a.number LIMIT 200";

/// Columns that begin with these are not sums.
const NOT_SUMS: [&str; 4] = ["min_", "max_", "mean_", "stddev_"];
/// Columns that identify an entry.
const IDS: [&str; 3] = ["userid", "dbid", "queryid"];

/// Why there is no answer.
pub(super) enum Failed {
    /// The connection is gone: the server may come back.
    Gone,
    /// The server refuses, and will refuse later on.
    Refused(String),
}

impl From<postgres::Error> for Failed {
    fn from(error: postgres::Error) -> Failed {
        match error.code() {
            // 57P01 … 57P05: it is shut down, has crashed or does not accept connections yet.
            Some(code) if !code.code().starts_with("57P") => Failed::Refused(described(&error)),
            _ => Failed::Gone,
        }
    }
}

/// The extension in one database.
struct Found {
    /// The query for the entries: what identifies them, when they began, and the columns in order.
    entries: String,
    /// The query for what happened to the entries; extensions before 1.9 do not report that.
    info: Option<String>,
    columns: Vec<Column>,
}

/// A number of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    name: String,
    /// In fractional milliseconds.
    is_time: bool,
}

impl Column {
    /// With the SQL that selects it. None: it is not a number, or not one that grows.
    fn of(name: &str, kind: u32) -> Option<(Column, String)> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_sum = !IDS.contains(&name) && !NOT_SUMS.iter().any(|begin| name.starts_with(begin));
        if !is_sum || !name.bytes().all(is_plain) {
            return None;
        }
        let is_time = name.ends_with("_time");
        let sql = match Type::from_oid(kind)? {
            Type::FLOAT8 if is_time => name.to_string(),
            Type::INT8 if !is_time => name.to_string(),
            Type::NUMERIC if !is_time => format!("least({name}, {})::int8", i64::MAX),
            _ => return None,
        };
        let name = name.to_string();
        Some((Column { name, is_time }, sql))
    }
}

impl Found {
    /// None if it is not in this database.
    fn in_database(client: &mut Client) -> Result<Option<Found>, postgres::Error> {
        let of_functions = client.query_typed(FUNCTIONS, &[])?;
        let mut schema = None;
        let mut info = None;
        let mut all = Vec::new();
        let mut columns = Vec::new();
        for row in &of_functions {
            let (function, within): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
            let (name, kind): (&str, u32) = (row.try_get(2)?, row.try_get(3)?);
            if function == "pg_stat_statements_info" {
                info = Some(format!(
                    "SELECT dealloc, extract(epoch FROM stats_reset)::float8 FROM {within}.pg_stat_statements_info()"
                ));
                continue;
            }
            schema = Some(within);
            all.push(name);
            columns.extend(Column::of(name, kind));
        }
        columns.truncate(MOST_COLUMNS);
        let (columns, selected): (Vec<Column>, Vec<String>) = columns.into_iter().unzip();
        let Some(schema) = schema.filter(|_| all.contains(&"queryid") && all.contains(&"calls")) else {
            return Ok(None);
        };
        let top_level = match all.contains(&"toplevel") {
            true => "toplevel",
            false => "true",
        };
        let since = match all.contains(&"stats_since") {
            true => "extract(epoch FROM stats_since)::float8",
            false => "NULL::float8",
        };
        let selected = selected.join(", ");
        Ok(Some(Found {
            entries: format!(
                "SELECT userid, dbid, {top_level}, queryid, {since}, {selected} FROM {schema}.pg_stat_statements(false) \
                 LIMIT {}",
                MOST_ENTRIES + 1
            ),
            info,
            columns,
        }))
    }

    fn ask(&self, client: &mut Client) -> Result<Answer, postgres::Error> {
        let mut answer = Answer::default();
        // An answer with a reset in it cannot be used; resets are rare.
        for _ in 0..3 {
            let before = self.ask_info(client)?;
            answer.entries = self.ask_entries(client)?;
            answer.info = self.ask_info(client)?;
            if before.map(|info| info.reset) == answer.info.map(|info| info.reset) {
                break;
            }
        }
        Ok(answer)
    }

    fn ask_info(&self, client: &mut Client) -> Result<Option<Info>, postgres::Error> {
        let Some(info) = &self.info else {
            return Ok(None);
        };
        let rows = client.query_typed(info, &[])?;
        let info = rows.first().map(|row| {
            let (evicted, reset): (i64, f64) = (row.try_get(0)?, row.try_get(1)?);
            Ok(Info {
                evicted,
                reset: reset.to_bits(),
            })
        });
        info.transpose()
    }

    fn ask_entries(&self, client: &mut Client) -> Result<Vec<Entry>, postgres::Error> {
        // Row by row: only what is needed of an answer is kept.
        let no_parameters: [(&(dyn ToSql + Sync), Type); 0] = [];
        let rows = client.query_typed_raw(&self.entries, no_parameters)?;
        rows.map(|row| self.entry(&row)).collect()
    }

    fn entry(&self, row: &Row) -> Result<Entry, postgres::Error> {
        let numbers = self.columns.iter().enumerate().map(|(n, column)| {
            let at = n + 5;
            Ok(match column.is_time {
                true => row
                    .try_get::<_, Option<f64>>(at)?
                    .map_or(0, |ms| (ms * 1e6).round() as i64),
                false => row.try_get::<_, Option<i64>>(at)?.unwrap_or(0),
            })
        });
        Ok(Entry {
            key: Key {
                user: row.try_get(0)?,
                database: row.try_get(1)?,
                is_nested: !row.try_get::<_, bool>(2)?,
                query: row.try_get(3)?,
            },
            since: row.try_get::<_, Option<f64>>(4)?.map(f64::to_bits),
            numbers: numbers.collect::<Result<_, postgres::Error>>()?,
        })
    }
}

/// What the extension reports at one moment.
#[derive(Debug, Default)]
struct Answer {
    entries: Vec<Entry>,
    info: Option<Info>,
}

/// What happened to the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Info {
    /// How often entries were evicted to make room for others.
    evicted: i64,
    /// When all were reset; only compared for equality.
    reset: u64,
}

/// What identifies an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    user: u32,
    database: u32,
    /// It ran inside another statement.
    is_nested: bool,
    /// None: this user may not see it.
    query: Option<i64>,
}

/// Numbers of a statement.
#[derive(Debug, Clone)]
struct Entry {
    key: Key,
    /// When it was created, if the server reports that.
    since: Option<u64>,
    /// In the order of the columns; times in nanoseconds.
    numbers: Box<[i64]>,
}

/// How much entries grew.
#[derive(Debug, Default, PartialEq, Eq)]
struct Growths {
    /// By statement and whether nested; none: those that this user may not see.
    by_statement: HashMap<(Option<i64>, bool), Vec<i64>>,
    /// Some began anew: what was counted between the last answer and that is not known.
    begun_anew: bool,
}

/// The last answer.
#[derive(Debug, Default)]
struct Known {
    entries: HashMap<Key, Entry>,
    info: Option<Info>,
}

impl Known {
    /// How much the entries have grown since the last answer. A new one began at 0, as did one that is smaller now, or was created anew.
    fn grown(&mut self, answer: Answer) -> Growths {
        let is_reset = self.info.map(|info| info.reset) != answer.info.map(|info| info.reset);
        self.info = answer.info;
        let mut growths = Growths {
            begun_anew: is_reset,
            ..Growths::default()
        };
        let mut earlier = std::mem::take(&mut self.entries);
        for entry in answer.entries {
            // Entries without an id cannot be distinguished.
            match self.entries.get_mut(&entry.key) {
                Some(same) => add(&mut same.numbers, &entry.numbers),
                None => drop(self.entries.insert(entry.key, entry)),
            }
        }
        for (key, entry) in &self.entries {
            let before = earlier.remove(key).filter(|_| !is_reset);
            let has_shrunk = |before: &Entry| {
                entry
                    .numbers
                    .iter()
                    .zip(&before.numbers)
                    .any(|(now, then)| now < then)
            };
            let growth: Vec<i64> = match &before {
                None => entry.numbers.to_vec(),
                Some(before)
                    if has_shrunk(before) || (key.query.is_some() && before.since != entry.since) =>
                {
                    growths.begun_anew = true;
                    // If there are several, it is not known which one did.
                    if key.query.is_none() {
                        continue;
                    }
                    entry.numbers.to_vec()
                }
                Some(before) => entry
                    .numbers
                    .iter()
                    .zip(&before.numbers)
                    .map(|(now, then)| now - then)
                    .collect(),
            };
            if growth.iter().any(|number| *number != 0) {
                let sums = growths
                    .by_statement
                    .entry((key.query, key.is_nested))
                    .or_default();
                sums.resize(growth.len(), 0);
                add(sums, &growth);
            }
        }
        growths
    }
}

fn add(sums: &mut [i64], numbers: &[i64]) {
    for (sum, number) in sums.iter_mut().zip(numbers) {
        *sum = sum.saturating_add(*number);
    }
}

/// What has been reported; each is reported once.
#[derive(Debug, Default)]
struct Said {
    evicted: bool,
    reset: bool,
    hidden: bool,
    pooled: bool,
}

/// An answer, and notes on it.
pub(super) struct Grown {
    /// Between these moments, CLOCK_MONOTONIC.
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) growths: Vec<Growth>,
    pub(super) notes: Vec<String>,
}

/// See the module.
pub(super) struct StatementCounts {
    found: Found,
    /// The other database that it is in, if it is.
    elsewhere: Option<Reach>,
    /// Connection to that one.
    client: Option<Client>,
    user: String,
    known: Known,
    said: Said,
    asked_ns: u64,
    /// When it is queried again.
    due_ns: u64,
}

impl StatementCounts {
    /// Looks for the extension, in the database of this connection first, and gets the first answer.
    ///
    /// # Errors
    /// Why nothing is counted by statement.
    pub(super) fn find(client: &mut Client, reach: &Reach) -> Result<StatementCounts, String> {
        let user = reach.config.get_user().unwrap_or_default().to_string();
        let refused =
            |why: String| format!("the server's counts of single statements are not recorded: {why}");
        let failed = |error: postgres::Error| refused(described(&error));
        let is_loaded = client.query_typed(IS_LOADED, &[]).map_err(failed)?;
        if !is_loaded
            .first()
            .is_some_and(|row| row.try_get(0).unwrap_or(false))
        {
            return Err(refused(
                "pg_stat_statements is not loaded (shared_preload_libraries)".to_string(),
            ));
        }
        let place = match Found::in_database(client).map_err(failed)? {
            Some(found) => Some((found, None)),
            None => elsewhere(client, reach)
                .map_err(failed)?
                .map(|(found, there)| (found, Some(there))),
        };
        let Some((found, there)) = place else {
            return Err(refused(format!(
                "pg_stat_statements is in none of the databases that {user} may connect to, or older than PostgreSQL 14's \
                 (CREATE EXTENSION pg_stat_statements; ALTER EXTENSION pg_stat_statements UPDATE)"
            )));
        };
        let (elsewhere, own) = there.unzip();
        let mut counts = StatementCounts {
            found,
            elsewhere,
            client: own,
            user,
            known: Known::default(),
            said: Said::default(),
            asked_ns: 0,
            due_ns: 0,
        };
        match counts.ask(client) {
            Ok(answer) => counts.known.grown(answer),
            Err(Failed::Refused(why)) => return Err(refused(why)),
            Err(Failed::Gone) => return Err(refused("the connection was lost".to_string())),
        };
        Ok(counts)
    }

    /// Continues an earlier one, for the same server before it was restarted: what grew until then is reported with the next answer. If the
    /// columns differ, it begins anew.
    pub(super) fn go_on_from(&mut self, earlier: StatementCounts) {
        self.said = earlier.said;
        if self.found.columns == earlier.found.columns {
            self.known = earlier.known;
            self.asked_ns = earlier.asked_ns;
            self.due_ns = 0;
        }
    }

    /// Whether the next query is due.
    pub(super) fn is_due(&self) -> bool {
        monotonic_ns() >= self.due_ns
    }

    /// Queries, over this connection if the extension is in its database.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) fn grown(&mut self, client: &mut Client) -> Result<Grown, Failed> {
        let from_ns = self.asked_ns;
        let evicted = self.known.info.map(|info| info.evicted);
        let answer = self.ask(client)?;
        let growths = self.known.grown(answer);
        let evictions = match (evicted, self.known.info) {
            // As after a reset.
            (Some(before), Some(now)) if now.evicted < before => now.evicted,
            (Some(before), Some(now)) => now.evicted - before,
            _ => 0,
        };
        let has_hidden = self.known.entries.keys().any(|key| key.query.is_none());
        let (told, is_pooled) = told(&self.found.columns, growths.by_statement);
        let mut grown = Grown {
            from_ns,
            to_ns: self.asked_ns,
            growths: told,
            notes: Vec::new(),
        };
        let of_all = [
            (names::EVICTIONS, evictions),
            (names::RESETS, i64::from(growths.begun_anew)),
        ];
        for (name, value) in of_all.into_iter().filter(|(_, value)| *value != 0) {
            grown.growths.push(Growth {
                pid: None,
                statement: 0,
                name: name.to_string(),
                value,
            });
        }
        let user = &self.user;
        let mut say = |is_so: bool, is_said: &mut bool, text: String| {
            if is_so && !std::mem::replace(is_said, true) {
                grown.notes.push(text);
            }
        };
        say(
            evictions > 0,
            &mut self.said.evicted,
            "pg_stat_statements evicts statements to make room (pg_stat_statements.max): what was counted of them since they were \
             last read is missing"
                .to_string(),
        );
        say(
            growths.begun_anew,
            &mut self.said.reset,
            "pg_stat_statements was reset, or restarted for some statements: what it counted between the last answer and the reset is \
             missing"
                .to_string(),
        );
        say(
            has_hidden,
            &mut self.said.hidden,
            format!(
                "pg_stat_statements hides the statements of others from {user}, who is not a member of pg_read_all_stats: they are counted \
                 together"
            ),
        );
        say(
            is_pooled,
            &mut self.said.pooled,
            format!(
                "pg_stat_statements counted more than {MOST_STATEMENTS} statements at a time: those with the least time are counted \
                 together"
            ),
        );
        Ok(grown)
    }

    fn ask(&mut self, client: &mut Client) -> Result<Answer, Failed> {
        let begin_ns = monotonic_ns();
        let client = match (&self.elsewhere, &mut self.client) {
            (None, _) => client,
            (Some(_), Some(own)) => own,
            // The server itself has just answered: this failure is lasting.
            (Some(reach), none) => none.insert(connected(reach).map_err(Failed::Refused)?),
        };
        let answer = self.found.ask(client).inspect_err(|_| self.client = None)?;
        if answer.entries.len() > MOST_ENTRIES {
            return Err(Failed::Refused(format!(
                "it has more than {MOST_ENTRIES} entries (pg_stat_statements.max)"
            )));
        }
        self.asked_ns = monotonic_ns();
        let took_ns = self.asked_ns - begin_ns;
        self.due_ns = begin_ns + (took_ns * PART_OF_TIME).min(LONGEST_NS);
        Ok(answer)
    }
}

/// The extension in another database, and how it is reached there.
type Elsewhere = (Found, (Reach, Client));

/// The extension in one of the other databases, and a connection there.
fn elsewhere(client: &mut Client, reach: &Reach) -> Result<Option<Elsewhere>, postgres::Error> {
    let give_up_ns = monotonic_ns() + FOUND_WITHIN.as_nanos() as u64;
    for row in &client.query_typed(DATABASES, &[])? {
        if monotonic_ns() > give_up_ns {
            break;
        }
        let mut there = reach.clone();
        there.config.dbname(row.try_get::<_, &str>(0)?);
        // If this user is not let in, others are tried.
        let Ok(mut client) = connected(&there) else {
            continue;
        };
        if let Ok(Some(found)) = Found::in_database(&mut client) {
            return Ok(Some((found, (there, client))));
        }
    }
    Ok(None)
}

/// Growth of the statements with the most time one by one, and of all others together; whether the others include any that this user may
/// see.
fn told(columns: &[Column], by_statement: HashMap<(Option<i64>, bool), Vec<i64>>) -> (Vec<Growth>, bool) {
    let time = columns
        .iter()
        .position(|column| ["total_exec_time", "total_time"].contains(&column.name.as_str()));
    let mut seen: Vec<((i64, bool), Vec<i64>)> = Vec::new();
    let mut others: [Vec<i64>; 2] = Default::default();
    let mut pool = |is_nested: bool, numbers: &[i64]| {
        let sums = &mut others[usize::from(is_nested)];
        sums.resize(columns.len(), 0);
        add(sums, numbers);
    };
    for ((query, is_nested), numbers) in by_statement {
        match query {
            Some(query) => seen.push(((query, is_nested), numbers)),
            None => pool(is_nested, &numbers),
        }
    }
    seen.sort_unstable_by_key(|(key, numbers)| (time.map(|time| std::cmp::Reverse(numbers[time])), *key));
    let rest = seen.split_off(seen.len().min(MOST_STATEMENTS));
    for ((_, is_nested), numbers) in &rest {
        pool(*is_nested, numbers);
    }
    let [others, nested] = others;
    let of_statements = seen
        .into_iter()
        .map(|((query, is_nested), numbers)| (query.cast_unsigned(), is_nested, numbers));
    let all = of_statements.chain([(0, false, others), (0, true, nested)]);
    let growths = all.flat_map(|(statement, is_nested, numbers)| {
        let begin = if is_nested { names::NESTED } else { names::PREFIX };
        let grown = columns.iter().zip(numbers).filter(|(_, value)| *value != 0);
        let grown = grown.map(move |(column, value)| Growth {
            pid: None,
            statement,
            name: format!(
                "{begin}{}{}",
                column.name,
                if column.is_time { "_ns" } else { "" }
            ),
            value,
        });
        grown.collect::<Vec<Growth>>()
    });
    (growths.collect(), !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(query: Option<i64>, since: Option<u64>, numbers: &[i64]) -> Entry {
        let key = Key {
            user: 10,
            database: 5,
            is_nested: false,
            query,
        };
        let numbers = numbers.into();
        Entry { key, since, numbers }
    }

    fn answer(reset: u64, entries: Vec<Entry>) -> Answer {
        let info = Some(Info { evicted: 0, reset });
        Answer { entries, info }
    }

    fn of(growths: &Growths, query: Option<i64>) -> Option<&[i64]> {
        growths.by_statement.get(&(query, false)).map(Vec::as_slice)
    }

    #[test]
    fn statements_grow_begin_anew_and_come_back() {
        let mut known = Known::default();
        known.grown(answer(
            1,
            vec![entry(Some(7), None, &[10, 100]), entry(Some(8), None, &[3, 4])],
        ));
        let grown = known.grown(answer(
            1,
            vec![entry(Some(7), None, &[12, 100]), entry(Some(9), None, &[1, 2])],
        ));
        assert_eq!(
            (of(&grown, Some(7)), of(&grown, Some(9))),
            (Some(&[2, 0][..]), Some(&[1, 2][..]))
        );
        assert!(!grown.begun_anew && grown.by_statement.len() == 2);
        // It was evicted before, and begins at 0.
        let grown = known.grown(answer(1, vec![entry(Some(8), None, &[5, 6])]));
        assert_eq!(of(&grown, Some(8)), Some(&[5, 6][..]));
        // One of its numbers is smaller: all of them begin anew.
        let grown = known.grown(answer(1, vec![entry(Some(8), None, &[6, 1])]));
        assert_eq!((of(&grown, Some(8)), grown.begun_anew), (Some(&[6, 1][..]), true));
        // All were reset, and it already has more than before.
        let grown = known.grown(answer(2, vec![entry(Some(8), None, &[9, 9])]));
        assert_eq!((of(&grown, Some(8)), grown.begun_anew), (Some(&[9, 9][..]), true));
    }

    #[test]
    fn one_that_was_made_anew_is_told_by_its_time() {
        let mut known = Known::default();
        known.grown(answer(1, vec![entry(Some(7), Some(50), &[10])]));
        let grown = known.grown(answer(1, vec![entry(Some(7), Some(60), &[11])]));
        assert_eq!((of(&grown, Some(7)), grown.begun_anew), (Some(&[11][..]), true));
    }

    #[test]
    fn statements_that_cannot_be_seen_are_one() {
        let mut known = Known::default();
        known.grown(answer(
            1,
            vec![entry(None, Some(1), &[10]), entry(None, Some(2), &[20])],
        ));
        let grown = known.grown(answer(
            1,
            vec![entry(None, Some(2), &[21]), entry(None, Some(1), &[12])],
        ));
        assert_eq!((of(&grown, None), grown.begun_anew), (Some(&[3][..]), false));
        // One of them is gone: how much the others grew is not known.
        let grown = known.grown(answer(1, vec![entry(None, Some(2), &[25])]));
        assert_eq!((of(&grown, None), grown.begun_anew), (None, true));
    }

    #[test]
    fn columns_are_taken_by_their_names_and_types() {
        let name = |name, kind: Type| Column::of(name, kind.oid()).map(|(column, sql)| (column.is_time, sql));
        assert_eq!(name("calls", Type::INT8), Some((false, "calls".to_string())));
        assert_eq!(
            name("total_exec_time", Type::FLOAT8),
            Some((true, "total_exec_time".to_string()))
        );
        assert_eq!(
            name("wal_bytes", Type::NUMERIC),
            Some((false, "least(wal_bytes, 9223372036854775807)::int8".to_string()))
        );
        for (column, kind) in [
            ("queryid", Type::INT8),
            ("mean_exec_time", Type::FLOAT8),
            ("query", Type::TEXT),
            ("stats_since", Type::TIMESTAMPTZ),
            ("calls, (SELECT 1)", Type::INT8),
        ] {
            assert_eq!(name(column, kind), None, "{column}");
        }
    }

    #[test]
    fn those_with_the_most_time_are_told_and_the_rest_is_one() {
        let columns: Vec<Column> = [("calls", Type::INT8), ("total_exec_time", Type::FLOAT8)]
            .into_iter()
            .filter_map(|(name, kind)| Some(Column::of(name, kind.oid())?.0))
            .collect();
        let more = 50;
        let all = MOST_STATEMENTS as i64 + more;
        let mut by_statement: HashMap<_, _> = (1..=all).map(|n| ((Some(n), false), vec![1, n])).collect();
        by_statement.insert((None, false), vec![1_000, 0]);
        by_statement.insert((Some(-1), true), vec![2, all + 1]);
        let (growths, is_pooled) = told(&columns, by_statement);
        let of = |statement: i64, name: &str| {
            let is_it =
                |growth: &&Growth| growth.statement == statement.cast_unsigned() && growth.name == name;
            growths.iter().find(is_it).map(|growth| growth.value)
        };
        assert!(is_pooled);
        assert_eq!(of(all, "pg_stat_statements.total_exec_time_ns"), Some(all));
        assert_eq!(of(-1, "pg_stat_statements.nested.calls"), Some(2));
        // The nested one is among the 200, so 51 of the others are not.
        assert_eq!(of(more + 1, "pg_stat_statements.calls"), None);
        assert_eq!(of(more + 2, "pg_stat_statements.calls"), Some(1));
        assert_eq!(of(0, "pg_stat_statements.calls"), Some(1_000 + more + 1));
    }
}
