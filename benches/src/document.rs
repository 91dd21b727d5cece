//! The result as Markdown: on standard output, and as a page of the documentation.

use std::fmt::Write;
use std::time::Duration;

use crate::arguments::Part;
use crate::cost::Cost;
use crate::cost_table;
use crate::host::{Before, Machine};
use crate::server::Server;
use crate::setup::Setup;
use crate::throughput::Throughput;
use crate::throughput_table;

/// With less than this share of the data in the page cache, reads were not what they should be.
const CACHED_SHARE: f64 = 0.99;

/// The page, written part by part.
#[derive(Debug)]
pub(crate) struct Document {
    text: String,
}

impl Document {
    /// Begins with the machine.
    pub(crate) fn new(setup: &Setup, machine: &Machine, before: &Before) -> Document {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC");
        let mut text = String::new();
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            text,
            "# What recording costs\n\n\
             Measured by `make bench` ({now}); the command was `{command}`, the seed {seed}.\n\n\
             - {dbtime}; {perf}\n\
             - {cpu}, {cpus} CPUs, {memory:.1} GiB of memory\n\
             - {system}, Linux {kernel}\n\
             - before the start: load {load}, {busy} of all CPUs in use\n",
            command = command_line(),
            seed = setup.seed,
            dbtime = setup.dbtime_version,
            perf = setup.perf_version.as_deref().unwrap_or("perf is not installed"),
            cpu = machine.cpu,
            cpus = machine.cpus,
            memory = machine.memory_bytes as f64 / f64::from(1 << 30),
            system = machine.system,
            kernel = machine.kernel,
            load = before.load,
            busy = percent(before.busy_share),
        );
        let mut document = Document { text };
        if !before.idle {
            document.warn(&not_idle(before));
        }
        document
    }

    /// Says how throughput is measured.
    pub(crate) fn throughput_method(&mut self, setup: &Setup) {
        let arguments = &setup.arguments;
        let _ = write!(
            self.text,
            "\n## Throughput of the server\n\n\
             One run of `pgbench -S -M prepared` with {clients} clients over a Unix socket{beside}, and inside it observers that \
             are attached and detached as a user would, at most one at a time. A pair is off – on – off: {half} s \
             without, {phase} s with, {half} s without the observer, each in whole reports of pgbench (1 s); the {settle} s \
             after each attach and detach are left out, and so are start-up and end of the observer. The ratio is the \
             throughput with over that without. In each round every observer has one pair, in random order. The control \
             attaches nothing: its spread is the noise of the host. *Of control* is the median over the control's; \
             intervals are 95 %, by bootstrap.\n",
            clients = arguments.clients,
            beside = match arguments.idle {
                0 => String::new(),
                idle => format!(" beside {idle} idle sessions"),
            },
            half = arguments.phase.div_ceil(2),
            phase = arguments.phase,
            settle = arguments.settle.as_secs_f64(),
        );
    }

    /// Adds what was measured on a server.
    pub(crate) fn throughput(&mut self, server: &Server, result: &Throughput, setup: &Setup) {
        let _ = write!(self.text, "\n### {}\n", server.name);
        self.settings(server);
        self.cached(result.cached_share);
        let _ = write!(
            self.text,
            "\n{table}{verdicts}\n\
             {elapsed}; meanwhile other programs used {others} of all CPUs, and the hypervisor took {stolen}.\n\n\
             Ratios of all pairs, in order of time:\n\n{pairs}",
            table = throughput_table::table(result, setup.seed).render(),
            verdicts = throughput_table::verdicts(result, setup.seed),
            elapsed = minutes(result.elapsed),
            others = percent(result.others_share),
            stolen = percent(result.stolen_share),
            pairs = throughput_table::all_pairs(result),
        );
        if result.was_shared() {
            self.warn("the host was shared while this was measured");
        }
    }

    /// Adds what the recorder itself used.
    pub(crate) fn cost(&mut self, server: &Server, costs: &[Cost], cached_share: (f64, f64), setup: &Setup) {
        let arguments = &setup.arguments;
        let _ = write!(
            self.text,
            "\n## The recorder itself\n\n\
             Recordings of {seconds} s of {server}, while {clients} clients run `pgbench -S -M prepared`; other sessions are idle. What \
             the timer takes in the context of a running session is not the recorder's CPU: throughput shows it.\n",
            seconds = arguments.recording.as_secs_f64(),
            server = server.name,
            clients = arguments.clients,
        );
        // One of the servers described above, unless throughput was not asked for.
        if !arguments.wants(Part::Throughput) {
            self.settings(server);
        }
        self.cached(cached_share);
        let _ = write!(
            self.text,
            "\n{table}\n{verdict}",
            table = cost_table::table(costs).render(),
            verdict = cost_table::verdict(costs, arguments.clients),
        );
    }

    /// The page.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn settings(&mut self, server: &Server) {
        let settings: Vec<String> = server
            .settings
            .iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        let _ = write!(
            self.text,
            "\n{megabytes} MB of data, in the page cache; {settings}, fsync = off.\n",
            megabytes = server.data_bytes / 1_000_000,
            settings = settings.join(", "),
        );
    }

    fn cached(&mut self, (before, after): (f64, f64)) {
        if before.min(after) < CACHED_SHARE {
            let (before, after) = (percent(before), percent(after));
            self.warn(&format!(
                "{before} of the data was in the page cache before this was measured, {after} after"
            ));
        }
    }

    fn warn(&mut self, text: &str) {
        let _ = write!(self.text, "\n> **Doubtful:** {text}.\n");
    }
}

/// Why a host is not fit to measure on.
pub(crate) fn not_idle(before: &Before) -> String {
    format!(
        "the host was not idle before the start (load {}, {} of all CPUs in use)",
        before.load,
        percent(before.busy_share)
    )
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The command line; paths below the current directory are made relative.
fn command_line() -> String {
    let mut command = "overhead".to_string();
    let here = std::env::current_dir().map(|path| format!("{}/", path.display()));
    for argument in std::env::args().skip(1) {
        command.push(' ');
        command.push_str(&match &here {
            Ok(here) => argument.replace(here.as_str(), ""),
            Err(_) => argument,
        });
    }
    command
}

fn minutes(time: Duration) -> String {
    format!("It took {} min {} s", time.as_secs() / 60, time.as_secs() % 60)
}
