//! The engine for when ftrace's own tracer is not to be had: BPF programs at entry and return of a bounded number of
//! functions (kprobe.multi, or kprobes one by one), whose steps are written down as function_graph would.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::time::Instant;

use super::tracefs::TraceFs;
use super::{Armed, DiveOptions};
use crate::bpf::{CallFunctions, FunctionRow, FunctionStep};
use crate::{CollectError, privilege, process};

/// Functions at most: each costs every process that calls it.
const MOST: usize = 300;

/// What is worth knowing inside of calls, where the kernel has it and nothing else is asked for. Not what gives up the CPU:
/// the kernel watches for the return of a few tasks at a time only, and in those functions all tasks of the host sleep.
const FUNCTIONS: &str = "
    vfs_read vfs_write vfs_readv vfs_writev vfs_fsync_range rw_verify_area security_file_permission do_iter_readv_writev
    filemap_read filemap_get_pages filemap_get_read_batch filemap_create_folio filemap_add_folio filemap_fault
    filemap_read_folio filemap_write_and_wait_range filemap_fdatawait_range folio_wait_bit_common folio_alloc
    page_cache_ra_unbounded page_cache_ra_order page_cache_sync_ra page_cache_async_ra force_page_cache_ra ondemand_readahead
    copy_page_to_iter copy_folio_to_iter _copy_to_iter touch_atime generic_file_read_iter generic_perform_write
    balance_dirty_pages_ratelimited_flags mark_page_accessed folio_mark_accessed
    ext4_file_read_iter ext4_file_write_iter ext4_buffered_write_iter ext4_map_blocks ext4_mpage_readpages ext4_iomap_begin
    ext4_es_lookup_extent ext4_da_write_begin ext4_da_write_end ext4_sync_file ext4_writepages jbd2_log_wait_commit
    jbd2_complete_transaction xfs_file_read_iter xfs_file_write_iter xfs_file_fsync xfs_ilock xfs_iunlock
    xfs_read_iomap_begin xfs_log_force_seq btrfs_file_read_iter btrfs_sync_file nfs_file_read nfs_file_write
    iomap_dio_rw __iomap_dio_rw iomap_dio_bio_iter iomap_dio_submit_bio iomap_dio_complete iomap_readahead iomap_iter
    blkdev_read_iter blkdev_write_iter blkdev_direct_IO __blkdev_direct_IO_simple __blkdev_direct_IO_async
    bio_iov_iter_get_pages bio_alloc_bioset bio_set_pages_dirty bio_endio submit_bio submit_bio_wait submit_bio_noacct
    blk_mq_submit_bio blk_mq_get_tag __blk_mq_alloc_requests blk_mq_try_issue_directly blk_mq_flush_plug_list
    __blk_flush_plug blk_mq_dispatch_rq_list blk_mq_start_request blk_mq_end_request blk_finish_plug wbt_wait rq_qos_wait
    nvme_queue_rq nvme_queue_rqs virtio_queue_rq virtio_queue_rqs scsi_queue_rq dm_submit_bio md_submit_bio
    gup_fast get_user_pages_fast internal_get_user_pages_fast pin_user_pages_fast handle_mm_fault
    io_submit_one aio_read aio_write aio_read_events read_events io_submit_sqes io_issue_sqe io_cqring_wait
    hrtimer_nanosleep do_nanosleep hrtimer_start_range_ns hrtimer_cancel hrtimer_try_to_cancel
    do_futex futex_wait __futex_wait futex_wait_queue futex_wake futex_wake_op do_epoll_wait ep_poll ep_send_events
    do_sys_poll do_select core_sys_select sock_poll do_semtimedop try_to_wake_up wake_up_q
    sock_sendmsg sock_recvmsg __sys_sendto __sys_recvfrom unix_stream_sendmsg unix_stream_recvmsg unix_stream_read_generic
    tcp_sendmsg tcp_sendmsg_locked tcp_recvmsg tcp_recvmsg_locked tcp_push tcp_write_xmit __tcp_transmit_skb ip_queue_xmit
    __ip_queue_xmit ip_finish_output2 dev_queue_xmit __dev_queue_xmit sock_def_readable skb_copy_datagram_iter
    pipe_read pipe_write sk_wait_data lock_sock_nested release_sock mutex_lock down_read down_write
    rwsem_down_read_slowpath rwsem_down_write_slowpath __mutex_lock_slowpath";

/// A function that was entered.
struct Open {
    function: u32,
    begin_ns: u64,
}

/// The programs, and where in the call the task is.
pub(super) struct Probes {
    programs: CallFunctions,
    functions: Vec<String>,
    pid: u32,
    command: String,
    open: Vec<Open>,
    /// Returns whose entry was not seen, and entries whose return was not.
    missing: u64,
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes")
            .field("functions", &self.functions)
            .finish_non_exhaustive()
    }
}

/// Attaches the programs.
///
/// # Errors
/// The kernel refuses.
pub(super) fn arm(fs: &TraceFs, options: &DiveOptions) -> Result<(Probes, Armed), CollectError> {
    privilege::check_programs()?;
    let begin = Instant::now();
    let entry = options.call.entry_function()?;
    let (functions, left_out) = choose(fs, &entry, &options.functions)?;
    let mut notes = Vec::new();
    let (programs, refused, means) = match CallFunctions::attach(options.pid, &functions, true) {
        Ok((programs, refused)) => (programs, refused, "kprobe.multi"),
        Err(e) => {
            notes.push(format!(
                "the functions are probed one by one, which costs more: {e}"
            ));
            let (programs, refused) = CallFunctions::attach(options.pid, &functions, false)?;
            (programs, refused, "kprobes")
        }
    };
    let traced = functions.len() - refused.len();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} more functions are not traced: {MOST} is the most"
        ));
    }
    let command = fs::read_to_string(process::path(options.pid, "comm")).unwrap_or_default();
    let armed = Armed {
        engine: format!("{means} on {traced} functions"),
        functions: Some(traced as u64),
        took: begin.elapsed(),
        notes,
        ends: vec![format!("}} /* {entry} */")],
    };
    let probes = Probes {
        programs,
        functions,
        pid: options.pid,
        // As ftrace shows it: without what would end the column.
        command: command
            .trim()
            .chars()
            .map(|c| if c.is_ascii_graphic() && c != '|' { c } else { '_' })
            .take(7)
            .collect(),
        open: Vec::new(),
        missing: 0,
    };
    Ok((probes, armed))
}

/// The functions to trace, the entry of the call first, and how many more would have been.
fn choose(fs: &TraceFs, entry: &str, patterns: &[String]) -> Result<(Vec<String>, usize), CollectError> {
    let path = fs.path("available_filter_functions");
    let text = fs::read_to_string(&path).map_err(|e| CollectError::io(&path, e))?;
    // `name [module]`: a name that is there twice cannot be meant.
    let mut times: HashMap<&str, u32> = HashMap::new();
    let names = || text.lines().filter_map(|line| line.split_whitespace().next());
    for name in names() {
        *times.entry(name).or_default() += 1;
    }
    let known: HashSet<&str> = FUNCTIONS.split_whitespace().collect();
    let is_wanted = |name: &str| match patterns {
        [] => known.contains(name),
        patterns => patterns
            .iter()
            .any(|pattern| is_like(name.as_bytes(), pattern.as_bytes())),
    };
    if times.get(entry) != Some(&1) {
        return Err(CollectError::Kernel(format!(
            "{}: has no {entry}",
            path.display()
        )));
    }
    let wanted: Vec<&str> = names()
        .filter(|name| times.get(name) == Some(&1) && *name != entry && is_wanted(name))
        .collect();
    let left_out = wanted.len().saturating_sub(MOST - 1);
    let chosen = [entry].into_iter().chain(wanted).take(MOST);
    Ok((chosen.map(str::to_string).collect(), left_out))
}

/// Whether a name is like a pattern: `*` stands for anything, `?` for one character.
fn is_like(name: &[u8], pattern: &[u8]) -> bool {
    match (name, pattern) {
        ([], []) => true,
        (_, [b'*', rest @ ..]) => (0..=name.len()).any(|skipped| is_like(&name[skipped..], rest)),
        ([_, name @ ..], [b'?', rest @ ..]) => is_like(name, rest),
        ([a, name @ ..], [b, rest @ ..]) if a == b => is_like(name, rest),
        _ => false,
    }
}

impl Probes {
    /// What stands above the text.
    pub(super) fn header() -> String {
        "# tracer: function_graph\n\
         #\n\
         #     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS\n\
         #      |          |     |    |           |   |                     |   |   |   |\n"
            .to_string()
    }

    /// What has happened since the last time, as text.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn text(&mut self) -> Result<String, CollectError> {
        let mut text = String::new();
        for row in self.programs.take()? {
            self.line(&row, &mut text);
        }
        Ok(text)
    }

    /// Takes no more steps.
    pub(super) fn detach(&mut self) {
        self.programs.detach();
    }

    /// Steps that are missing.
    pub(super) fn lost(&self) -> u64 {
        self.programs.lost() + self.missing
    }

    fn line(&mut self, row: &FunctionRow, text: &mut String) {
        let (duration, what) = match row.step {
            FunctionStep::Entry(function) => {
                if function == 0 {
                    // The end of the call before was not seen.
                    self.missing += self.open.len() as u64;
                    self.open.clear();
                }
                let depth = self.open.len();
                self.open.push(Open {
                    function,
                    begin_ns: row.time_ns,
                });
                (
                    String::new(),
                    format!("{}{}() {{", indent(depth), self.name(function)),
                )
            }
            FunctionStep::Return(function) => {
                let Some(depth) = self.open.iter().rposition(|open| open.function == function) else {
                    self.missing += 1;
                    return;
                };
                self.missing += (self.open.len() - depth - 1) as u64;
                let ns = row.time_ns.saturating_sub(self.open[depth].begin_ns);
                self.open.truncate(depth);
                (
                    duration(ns),
                    format!("{}}} /* {} */", indent(depth), self.name(function)),
                )
            }
            FunctionStep::LeftCpu { next, state } => {
                let event = format!(
                    "prev_comm={} prev_pid={} prev_prio=0 prev_state={} ==> next_comm=? next_pid={next} next_prio=0",
                    self.command,
                    self.pid,
                    letter(state)
                );
                (String::new(), format!("  /* sched_switch: {event} */"))
            }
            FunctionStep::BackOnCpu { previous } => {
                let event = format!(
                    "prev_comm=? prev_pid={previous} prev_prio=0 prev_state=R ==> next_comm={} next_pid={} next_prio=0",
                    self.command, self.pid
                );
                (String::new(), format!("  /* sched_switch: {event} */"))
            }
        };
        let (seconds, us) = (row.time_ns / 1_000_000_000, row.time_ns / 1_000 % 1_000_000);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{seconds:5}.{us:06} | {:3}) {:>7}-{:<7} | {duration:13} |{what}",
            row.cpu, self.command, self.pid
        );
    }

    fn name(&self, function: u32) -> &str {
        self.functions.get(function as usize).map_or("?", String::as_str)
    }
}

fn indent(depth: usize) -> String {
    " ".repeat(2 * (depth + 1))
}

/// As ftrace writes durations, with its marks for long ones.
fn duration(ns: u64) -> String {
    const MARKS: [(u64, char); 6] = [
        (1_000_000_000, '$'),
        (100_000_000, '@'),
        (10_000_000, '*'),
        (1_000_000, '#'),
        (100_000, '!'),
        (10_000, '+'),
    ];
    let mark = MARKS
        .iter()
        .find(|(least, _)| ns > *least)
        .map_or(' ', |(_, mark)| *mark);
    format!("{mark} {}.{:03} us", ns / 1_000, ns % 1_000)
}

/// Letter of a raw state (`include/linux/sched.h`).
fn letter(state: u32) -> char {
    match state & 0x7f {
        0 => 'R',
        state if state & 0x1 != 0 => 'S',
        state if state & 0x2 != 0 => 'D',
        state if state & 0x4 != 0 => 'T',
        state if state & 0x8 != 0 => 't',
        _ => 'X',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_ftrace() {
        for (pattern, name, is) in [
            ("vfs_*", "vfs_read", true),
            ("vfs_*", "kvfs_read", false),
            ("*_read", "vfs_read", true),
            ("*a?s*", "vfs_abs_x", true),
            ("vfs_read", "vfs_read", true),
            ("vfs_read", "vfs_readv", false),
            ("", "x", false),
        ] {
            assert_eq!(
                is_like(name.as_bytes(), pattern.as_bytes()),
                is,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn long_durations_are_marked() {
        let written = [4_716, 50_625, 127_122, 1_985_274, 2_000_000_000].map(duration);
        let expected = [
            "  4.716 us",
            "+ 50.625 us",
            "! 127.122 us",
            "# 1985.274 us",
            "$ 2000000.000 us",
        ];
        assert_eq!(written, expected);
    }
}
