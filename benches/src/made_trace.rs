//! Generated SQL traces for measurements: nobody gives away a gigabyte of a real one.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;

/// What the trace is full of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shape {
    /// Executions of twenty statements, each with two hundred reads
    Reads,
    /// Short calls of forty statements with a wait for the client between them, as of a busy application
    Calls,
    /// Statements that are parsed and executed once
    Statements,
}

/// Writes a trace of about this size; for [`Shape::Statements`], with at most this many statements.
pub(crate) fn make(path: &Path, shape: Shape, bytes: u64, statements: u64) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(
        out,
        "Trace file made.trc\nOracle Database 19c Enterprise Edition Release 19.0.0.0.0 - Production\n\n\
         *** 2024-05-01T10:00:00.000000+00:00\n*** SESSION ID:(1.2) 2024-05-01T10:00:00.000000+00:00\n"
    )?;
    let mut made = Made {
        random: fastrand::Rng::with_seed(10_046),
        tim: 1_000_000_000_000,
        text: String::new(),
    };
    let (mut written, mut count) = (0, 0);
    while written < bytes && (shape != Shape::Statements || count < statements) {
        made.text.clear();
        match shape {
            Shape::Reads => made.reads(),
            Shape::Calls => made.short_call(),
            Shape::Statements => made.new_statement(count),
        }
        out.write_all(made.text.as_bytes())?;
        written += made.text.len() as u64;
        count += 1;
    }
    out.flush()?;
    Ok(())
}

struct Made {
    random: fastrand::Rng,
    tim: u64,
    text: String,
}

impl Made {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.text.push_str(&line.to_string());
        self.text.push('\n');
    }

    fn parsing(&mut self, cursor: u64, sql_id: &str, sql: &str) {
        let (len, tim) = (sql.len(), self.tim);
        self.line(format_args!(
            "=====================\n\
             PARSING IN CURSOR #{cursor} len={len} dep=0 uid=9 oct=3 lid=9 tim={tim} hv=1 ad='1' sqlid='{sql_id}'\n\
             {sql}\nEND OF STMT"
        ));
    }

    /// A call that ends now.
    fn call(&mut self, kind: &str, cursor: u64, c: u64, e: u64, rows: u64, plan: u64) {
        let tim = self.tim;
        self.line(format_args!(
            "{kind} #{cursor}:c={c},e={e},p=0,cr={},cu=0,mis=0,r={rows},dep=0,og=1,plh={plan},tim={tim}",
            rows + 2
        ));
    }

    /// A wait that ends now.
    fn wait(&mut self, cursor: u64, event: &str, ela: u64, parameters: &str) {
        let tim = self.tim;
        self.line(format_args!(
            "WAIT #{cursor}: nam='{event}' ela= {ela} {parameters} tim={tim}"
        ));
    }

    fn round_trip(&mut self, cursor: u64, object: u64) {
        let parameters = format!("driver id=1413697536 #bytes=1 p3=0 obj#={object}");
        self.tim += 3;
        self.wait(cursor, "SQL*Net message to client", 1, &parameters);
        let ela = self.random.u64(150..600);
        self.tim += ela + 5;
        self.wait(cursor, "SQL*Net message from client", ela, &parameters);
    }

    fn reads(&mut self) {
        let statement = self.random.u64(1..=20);
        let cursor = 139_623_166_535_000 + statement * 8;
        self.parsing(
            cursor,
            &format!("made{statement:09}"),
            &format!("select {statement} from t"),
        );
        self.call("EXEC", cursor, 20, 25, 0, 7);
        let begin = self.tim;
        for block in 0..200 {
            let ela = 10_u64 << self.random.u32(0..11);
            self.tim += ela + self.random.u64(5..50);
            self.wait(
                cursor,
                "db file sequential read",
                ela,
                &format!("file#=7 block#={block} blocks=1 obj#=82008"),
            );
        }
        self.tim += 20;
        self.call("FETCH", cursor, 9_000, self.tim - begin, 10, 7);
        self.round_trip(cursor, 82_008);
    }

    fn short_call(&mut self) {
        let statement = self.random.u64(1..=40);
        let cursor = 139_623_166_535_000 + statement * 8;
        let (object, plan) = (82_000 + statement, 2_725_028_000 + statement);
        if self.random.u32(0..50) == 0 {
            let sql = format!("select a, b, c from t{statement} where id = :1 and state = :2");
            self.parsing(cursor, &format!("made{statement:09}"), &sql);
            self.tim += 30;
            self.call("PARSE", cursor, 28, 30, 0, 0);
        }
        let (c, e) = (self.random.u64(20..80), self.random.u64(30..120));
        self.tim += e;
        self.call("EXEC", cursor, c, e, 0, plan);
        let (c, mut e) = (self.random.u64(10..60), self.random.u64(20..90));
        if self.random.u32(0..4) == 0 {
            let ela = 10_u64 << self.random.u32(0..9);
            self.tim += ela + 5;
            e += ela + 5;
            let block = self.random.u32(..);
            self.wait(
                cursor,
                "db file sequential read",
                ela,
                &format!("file#=7 block#={block} blocks=1 obj#={object}"),
            );
        }
        self.tim += e;
        self.call("FETCH", cursor, c, e, 1, plan);
        self.round_trip(cursor, object);
        if self.random.u32(0..10) == 0 {
            self.tim += 20;
            self.wait(
                cursor,
                "log file sync",
                15,
                &format!("buffer#=7 sync scn=1 p3=0 obj#={object}"),
            );
            let tim = self.tim + 2;
            self.line(format_args!("XCTEND rlbk=0, rd_only=0, tim={tim}"));
        }
        self.tim += 5;
        let tim = self.tim;
        self.line(format_args!("CLOSE #{cursor}:c=3,e=4,dep=0,type=3,tim={tim}"));
    }

    fn new_statement(&mut self, number: u64) {
        let cursor = 139_623_166_535_000 + number % 64 * 8;
        let sql = format!(
            "select name, value, changed from parameters where id = {number} and kind = 'kind of {number}' order by changed"
        );
        self.parsing(cursor, &format!("{number:013}"), &sql);
        self.tim += 230;
        self.call("PARSE", cursor, 220, 230, 0, 7);
        self.tim += 60;
        self.call("EXEC", cursor, 55, 60, 0, 7);
        self.tim += 40;
        self.call("FETCH", cursor, 35, 40, 1, 7);
        self.round_trip(cursor, 82_008);
    }
}
