//! Which kernel functions are worth a program of their own in a call: those that the call reaches.
//!
//! Direct calls, and those of the functions called, are read from the kernel's code. Code does not show what is called through a
//! table of functions (`file_operations`, `blk_mq_ops`, `proto_ops`): known members of such tables, and what they call, are used
//! instead. Of all functions reached, the well-known ones come first, then the nearest.

use std::collections::{HashMap, HashSet};
use std::fs;

use super::kernel_code::KernelCode;
use super::tracefs::TraceFs;
use crate::CollectError;

/// Levels of calls that are followed below the entry of the system call, and below a function of a table.
const DEPTHS: [usize; 2] = [5, 4];

/// Functions in tables, where the kernel has them.
const IN_TABLES: &str = "
    generic_file_read_iter ext4_file_read_iter ext4_file_write_iter ext4_sync_file ext4_writepages ext4_readahead
    ext4_read_folio ext4_da_write_begin ext4_da_write_end ext4_iomap_begin ext4_dirty_inode
    xfs_file_read_iter xfs_file_write_iter xfs_file_fsync xfs_vm_readahead xfs_read_iomap_begin
    xfs_buffered_write_iomap_begin xfs_direct_write_iomap_begin
    btrfs_file_read_iter btrfs_file_write_iter btrfs_sync_file btrfs_readahead nfs_file_read nfs_file_write nfs_file_fsync
    shmem_file_read_iter shmem_file_write_iter blkdev_read_iter blkdev_write_iter blkdev_fsync blkdev_readahead
    nvme_queue_rq nvme_queue_rqs virtio_queue_rq virtio_queue_rqs scsi_queue_rq dm_submit_bio md_submit_bio
    sock_read_iter sock_write_iter sock_poll unix_stream_sendmsg unix_stream_recvmsg inet_sendmsg inet_recvmsg inet6_sendmsg
    inet6_recvmsg tcp_sendmsg tcp_recvmsg tcp_poll unix_poll ip_queue_xmit inet6_csk_xmit pipe_read pipe_write
    anon_pipe_read anon_pipe_write eventfd_read eventfd_write ep_eventpoll_poll";

/// Functions worth knowing inside of calls, where the kernel has them. None that give up the CPU: all tasks of the host sleep in
/// those, and without fexit the kernel watches for the return of only a few tasks at a time.
const KNOWN: &str = "
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

/// What there is to trace.
#[derive(Debug)]
pub(super) struct Chosen {
    /// The entry of the call first, then the most valuable ones.
    pub(super) functions: Vec<String>,
    /// Why it is not known what the call reaches.
    pub(super) unknown: Option<String>,
}

/// Chooses functions: those like the patterns, or those that the call reaches.
///
/// # Errors
/// It cannot be read which functions can be traced, or the entry of the call is not among them.
pub(super) fn choose(
    fs: &TraceFs,
    entry: &str,
    patterns: &[String],
    can_be_traced: impl Fn(&str) -> bool,
) -> Result<Chosen, CollectError> {
    let path = fs.path("available_filter_functions");
    let text = fs::read_to_string(&path).map_err(|e| CollectError::io(&path, e))?;
    // `name [module]`: a name that occurs twice is ambiguous.
    let mut times: HashMap<&str, u32> = HashMap::new();
    let names = || text.lines().filter_map(|line| line.split_whitespace().next());
    for name in names() {
        *times.entry(name).or_default() += 1;
    }
    let is_traceable = |name: &str| times.get(name) == Some(&1) && can_be_traced(name);
    if !is_traceable(entry) {
        return Err(CollectError::Kernel(format!(
            "{}: has no {entry}",
            path.display()
        )));
    }
    let mut unknown = None;
    let wanted: Vec<&str> = if patterns.is_empty() {
        match KernelCode::open() {
            Ok(code) => reached(&code, entry),
            Err(e) => {
                unknown = Some(e.to_string());
                KNOWN.split_whitespace().map(str::to_string).collect()
            }
        }
        .iter()
        // As slices of the text above.
        .filter_map(|name| times.get_key_value(name.as_str()))
        .map(|(name, _)| *name)
        .collect()
    } else {
        let is_wanted = |name: &&str| {
            patterns
                .iter()
                .any(|pattern| is_like(name.as_bytes(), pattern.as_bytes()))
        };
        names().filter(is_wanted).collect()
    };
    let others = wanted
        .into_iter()
        .filter(|name| *name != entry && is_traceable(name));
    let functions = [entry].into_iter().chain(others).map(str::to_string).collect();
    Ok(Chosen { functions, unknown })
}

/// What the call reaches: through calls that its code shows, then through tables; the well-known functions first.
fn reached(code: &KernelCode, entry: &str) -> Vec<String> {
    let [from_entry, from_tables] = DEPTHS;
    let in_tables: Vec<&str> = IN_TABLES.split_whitespace().collect();
    let known: HashSet<&str> = KNOWN
        .split_whitespace()
        .chain(in_tables.iter().copied())
        .collect();
    let mut found = code.below(&[entry], from_entry);
    found.extend(in_tables.iter().map(|name| name.to_string()));
    found.extend(code.below(&in_tables, from_tables));
    let mut seen = HashSet::new();
    found.retain(|name| seen.insert(name.clone()));
    // Stable: within both groups the nearest come first.
    found.sort_by_key(|name| !known.contains(name.as_str()));
    found
}

/// Whether a name matches a pattern: `*` stands for anything, `?` for one character.
fn is_like(name: &[u8], pattern: &[u8]) -> bool {
    match (name, pattern) {
        ([], []) => true,
        (_, [b'*', rest @ ..]) => (0..=name.len()).any(|skipped| is_like(&name[skipped..], rest)),
        ([_, name @ ..], [b'?', rest @ ..]) => is_like(name, rest),
        ([a, name @ ..], [b, rest @ ..]) if a == b => is_like(name, rest),
        _ => false,
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
}
