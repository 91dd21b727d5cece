//! How recording begins: the database is found, programs are loaded, existing sessions are taken up.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use dbtime_model::recording::Quality;
use dbtime_model::{Rows, Windows};

use super::host_cpu::HostCpu;
use super::relations::Unnamed;
use super::versions::Versions;
use super::{Collector, Mechanism, Options, Target, WHOLE_SECONDS};
use crate::accounting::Pool;
use crate::alike::Alike;
use crate::bpf::{OracleProbes, Programs, Ring, Sampler, SamplerKind, Tier, Wanted};
use crate::causes::Causes;
use crate::clock::{Clock, monotonic_ns};
use crate::comments::Comments;
use crate::database::{Database, Texts};
use crate::ending::Ending;
use crate::engine::{BpfEngine, Engine};
use crate::latencies::Latencies;
use crate::left_out::LeftOut;
use crate::lock_requests::LockWatch;
use crate::lock_uses::LockCounter;
use crate::oracle::Instance;
use crate::postgres::{PostgresDatabase, Server};
use crate::priority::Priority;
use crate::proc_engine::{ProcEngine, Reads};
use crate::statements::Statements;
use crate::symbols::Symbolizer;
use crate::unwind::Unwinding;
use crate::{CollectError, host, priority, privilege};

/// If passes are rarer than this allows, recording begins before the first one.
const LONGEST_FIRST_PASS: Duration = Duration::from_millis(300);

/// The database of a target.
///
/// # Errors
/// There is none.
pub(crate) fn database_of(target: &Target) -> Result<Box<dyn Database>, CollectError> {
    database_with_standbys(target, &[])
}

/// The same, with the receiving and replaying processes of these standbys.
fn database_with_standbys(target: &Target, standbys: &[PathBuf]) -> Result<Box<dyn Database>, CollectError> {
    let whole =
        |database: PostgresDatabase| Ok::<_, CollectError>(Box::new(database.with_standbys(standbys)?));
    Ok(match target {
        Target::Oracle(_) if !standbys.is_empty() => return Err(CollectError::NoStandbyOf),
        Target::Oracle(map) => Box::new(Instance::read(map)?),
        Target::OnlyServer => whole(PostgresDatabase::whole(Server::only()?))?,
        Target::Server(directory) => whole(PostgresDatabase::whole(Server::on(directory)?))?,
        Target::Process(pid) => whole(PostgresDatabase::of_session(*pid)?)?,
        Target::AnyProcess(pid) => whole(PostgresDatabase::of_any_process(*pid)?)?,
    })
}

impl Collector {
    /// Finds the target, loads the programs and takes up the existing sessions. When it returns, sampling has begun. `ending`: when no more
    /// time is spent on names.
    ///
    /// # Errors
    /// Missing privileges or kernel features, no such server or session; the message says what to do.
    pub fn start(options: &Options, ending: &Ending) -> Result<Collector, CollectError> {
        let options = options.clone();
        match options.mechanism {
            Mechanism::Bpf => privilege::check().map_err(or_without_programs)?,
            Mechanism::Proc => privilege::check_processes()?,
        }
        let raised = Priority::raise(priority::BEGINNING);
        let cpu_at_start_ns = host::process_cpu_ns();
        let mut database = database_with_standbys(&options.target, &options.standbys)?;
        // Its process is started while there are no threads.
        let mut symbolizer = Symbolizer::new(ending);
        let mut unwinding = match options.mechanism {
            Mechanism::Bpf if options.stacks => {
                Some(Unwinding::start(database.parent(), &database.members())?)
            }
            Mechanism::Bpf | Mechanism::Proc => None,
        };
        if let Some(parent) = database.parent() {
            symbolizer.set_parent(parent);
        }
        let clock = Clock::start();
        // Reading names takes half a second, and so does the kernel's check of the programs: both at the same time.
        let (programs, mut reasons) = thread::scope(|scope| {
            let loading =
                (options.mechanism == Mechanism::Bpf).then(|| scope.spawn(|| load_programs(&options)));
            let reasons = match options.stacks {
                true => symbolizer.warm_up(),
                false => Vec::new(),
            };
            (
                loading.map(|loading| loading.join().unwrap_or_else(|panic| resume_unwind(panic))),
                reasons,
            )
        });
        let engine: Box<dyn Engine> = match programs {
            Some(programs) => Box::new(
                programs
                    .and_then(|programs| {
                        start_programs(programs, &options, clock, &mut reasons, unwinding.as_mut())
                    })
                    .map_err(or_without_programs)?,
            ),
            None => {
                let reads = Reads {
                    stacks: options.stacks,
                    task_counts: options.task_counts,
                    comments: options.texts != Texts::None,
                };
                let (engine, not_known) = ProcEngine::start(options.rate_hz, reads, clock)?;
                reasons.extend(not_known);
                Box::new(engine)
            }
        };
        let probes = match options.uprobes {
            true => {
                let pids: Vec<u32> = database.members().iter().map(|member| member.pid).collect();
                let (probes, told) = OracleProbes::attach(&pids)?;
                reasons.extend(told);
                Some(probes)
            }
            false => None,
        };
        let lock_counter = match options.lock_uses {
            true => Some(LockCounter::start(&*database)?),
            false => None,
        };
        if options.mechanism == Mechanism::Bpf {
            reasons.extend(host::too_few_samples(options.rate_hz));
        }
        let statistics = match &options.connect {
            Some(connect) => Some(
                database
                    .statistics(connect, clock, options.texts)
                    .map_err(CollectError::Statistics)?,
            ),
            None => None,
        };
        let first_window_us = clock.wall_us(monotonic_ns() + WHOLE_SECONDS.as_nanos() as u64);
        let mut collector = Collector {
            clock,
            // No row is from an earlier second: the accounts of sessions are opened from here on, all of them within some milliseconds.
            start_ns: monotonic_ns(),
            engine,
            probes,
            lock_counter,
            names: database.names(),
            titles: Rc::default(),
            held_locks: Rc::default(),
            joined: Rc::default(),
            lists_locks: database.describe().held_locks && options.mechanism == Mechanism::Bpf,
            locks: match options.mechanism {
                Mechanism::Bpf => LockWatch::new(options.locks, options.rate_hz),
                Mechanism::Proc => None,
            },
            alike: Alike::default(),
            statements: Statements::new(Instant::now()),
            comments: Comments::default(),
            causes: (options.causes && options.mechanism == Mechanism::Bpf)
                .then(|| Causes::new(options.rate_hz)),
            latencies: (options.tier != Tier::Sampled)
                .then(|| Latencies::new(database.at_files(), monotonic_ns())),
            noted: BTreeSet::new(),
            symbolizer,
            unwinding,
            sessions: HashMap::default(),
            nameless: BTreeSet::new(),
            uncounted: Vec::new(),
            ending: Vec::new(),
            next_id: 1,
            checkpointer_has_ended: false,
            newcomers: Vec::new(),
            free_slots: Vec::new(),
            ready_slots: BTreeSet::new(),
            used_slots: 0,
            waiting: VecDeque::new(),
            rows: Rows::default(),
            unnamed: Unnamed::default(),
            without_names: Rows::default(),
            windows: Windows::new(options.resolution_s, first_window_us),
            end_ns: None,
            pool: Pool::new(options.at_once),
            quality: Quality::default(),
            reasons,
            notes: Vec::new(),
            gone: None,
            looked_at_database: Instant::now(),
            cpu_at_start_ns,
            next_check_ns: 0,
            lost_at_check: 0,
            host_cpu: HostCpu::begin(),
            left_out: LeftOut::default(),
            accounted_ns: 0,
            reported_ns: 0,
            stood_still_until: 0,
            counted_transactions_ns: monotonic_ns(),
            statistics,
            to_ask: None,
            versions: Versions::begin(database.describe()),
            database,
            options,
        };
        // The first answer has the names of the sessions' applications.
        collector.take_told();
        collector.take_up_database()?;
        // Before the accounts of sessions are opened, and after they are closed: no transaction is missing.
        collector.count_transactions(monotonic_ns(), true);
        // After accounts are open and transactions counted: it may take a while.
        collector.find_locks();
        collector.wait_for_first_pass();
        drop(raised);
        Ok(collector)
    }

    /// The first pass that finds a session opens its account. Whoever is told that recording has begun may rely on it: what a session does
    /// from then on is in its account.
    pub(super) fn wait_for_first_pass(&self) {
        let passes = || self.engine.statistics().passes;
        // One may have begun before the sessions were known.
        let (enough, until) = (passes() + 2, Instant::now() + LONGEST_FIRST_PASS);
        while passes() < enough && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Gives up for good, in the calling thread, the privileges that are no longer needed. `gives_away`: whether what is written will be
    /// given to somebody else.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn give_up_privileges(&self, gives_away: bool) -> Result<(), CollectError> {
        let mut kept = privilege::READS_PROCESSES | privilege::WRITES;
        if gives_away {
            kept |= privilege::GIVES_AWAY;
        }
        if self.options.mechanism == Mechanism::Proc {
            kept |= privilege::READS_KERNEL_STACKS;
        }
        privilege::keep_only(kept)
    }
}

/// Loads the programs; the second value says why the sampler is not the wanted one, if it is not.
fn load_programs(options: &Options) -> Result<(Programs, Option<String>), CollectError> {
    let only = options.task_iterator.then_some(SamplerKind::Iterator);
    let wanted = Wanted {
        rate_hz: options.rate_hz,
        tier: options.tier,
        wakers: options.wakers,
        task_counts: options.task_counts,
        comments: options.texts != Texts::None,
        stacks: options.stacks,
        causes: options.causes,
    };
    Programs::load(wanted, only)
}

/// Starts the sampler; says what this kernel lacks.
fn start_programs(
    (mut programs, refused): (Programs, Option<String>),
    options: &Options,
    clock: Clock,
    reasons: &mut Vec<String>,
    unwinding: Option<&mut Unwinding>,
) -> Result<BpfEngine, CollectError> {
    let events =
        Ring::of_events(&programs.events).map_err(|e| CollectError::Kernel(format!("ring buffer: {e}")))?;
    if let (Some(unwinding), Some(maps)) = (unwinding, programs.unwind_maps.take()) {
        unwinding.attach(maps);
    }
    let sampler = Sampler::start(&programs, options.rate_hz, options.tier == Tier::Sampled, clock)?;
    if let Some(reason) = refused {
        reasons.push(format!(
            "this kernel rejects the pid-list sampler ({reason}): every pass visits all tasks of the host"
        ));
    }
    if let (Tier::Sampled, Err(reason)) = (options.tier, &programs.announcements) {
        let why = if reason.is_empty() {
            String::new()
        } else {
            format!(" ({reason})")
        };
        reasons.push(format!(
            "this kernel has no timer that notes what sessions do at the moment of a pass{why}: on a busy host, waits shorter than 0.2 ms are undersampled"
        ));
    }
    if let Some(reason) = &sampler.not_real_time {
        reasons.push(format!(
            "the sampler has no real-time priority ({reason}; it needs CAP_SYS_NICE): on a busy host it undersamples \
            time in the run queue"
        ));
    }
    Ok(BpfEngine {
        programs,
        events,
        sampler,
    })
}

/// What to do if the programs cannot be loaded.
fn or_without_programs(error: CollectError) -> CollectError {
    match error {
        CollectError::Kernel(what) => CollectError::Kernel(format!(
            "{what}\n'--collector proc' records without BPF programs (sampled, with less detail)"
        )),
        other => other,
    }
}
