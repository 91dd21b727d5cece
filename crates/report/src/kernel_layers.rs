//! Which layer of the kernel a stack is in, derived from the names of functions and modules.
//!
//! A stack belongs to the layer of its leaf-most function that is in the table. Functions that serve every layer (locks, string
//! functions, radix trees, return thunks) are not in the table, so their time is that of their caller. Leading underscores of a name
//! are ignored, and the longest matching prefix decides. Functions of a module that is in the table belong to the layer of the module,
//! even when they have no symbol.

use dbtime_model::Frame;

/// Layer of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelLayer {
    /// Entry, exit, and what every system call does.
    SystemCall,
    /// What all file systems share: permissions, access times, notification.
    Vfs,
    /// ext4, XFS, …: from a place in a file to a place on a device.
    FileSystem,
    /// Finding, waiting for and reading ahead cached pages.
    PageCache,
    /// Requests to devices: queues, merging, scheduling, completion, device mapper.
    Block,
    /// Driver and bus: handing a request to the device.
    Driver,
    /// Copying between the page cache and the process.
    CopyToUser,
    /// Falling asleep, waking others, switching.
    Scheduler,
    /// Interrupts and timers that hit the session.
    Interrupt,
    /// Page faults, allocation, accounting of memory.
    Memory,
    /// Sockets and what is below them.
    Network,
    /// perf, ftrace and BPF: the cost of looking.
    Tracing,
    /// No function of the stack is known.
    Other,
}

use KernelLayer::{
    Block, CopyToUser, Driver, FileSystem, Interrupt, Memory, Network, Other, PageCache, Scheduler,
    SystemCall, Tracing, Vfs,
};

impl KernelLayer {
    /// The words used in reports and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            SystemCall => "system call",
            Vfs => "VFS",
            FileSystem => "file system",
            PageCache => "page cache",
            Block => "block layer",
            Driver => "driver",
            CopyToUser => "copy to user",
            Scheduler => "scheduler",
            Interrupt => "interrupt",
            Memory => "memory management",
            Network => "network",
            Tracing => "tracing",
            Other => "other",
        }
    }
}

/// Root of the paths of interrupts in a kernel trace: they are not the work of the calls that they interrupt.
pub(crate) const INTERRUPT_ROOT: &str = "[interrupt]";
/// Root of the paths of preemption in a kernel trace.
pub(crate) const PREEMPTION_ROOT: &str = "[preemption]";

/// Root of the paths of timer samples that hit the tracer at work.
pub(crate) const TRACING_ROOT: &str = "[tracing]";

/// True for the root of a call: not for interrupts, preemption and tracing, nor for the end of a switch that was under way when tracing
/// began.
pub(crate) fn is_call_root(symbol: &str) -> bool {
    !is_foreign_root(symbol) && !symbol.starts_with("finish_task_switch")
}

/// True for the three roots above.
pub(crate) fn is_foreign_root(symbol: &str) -> bool {
    [INTERRUPT_ROOT, PREEMPTION_ROOT, TRACING_ROOT].contains(&symbol)
}

/// Prefixes of function names, separated by spaces, without leading underscores.
const FUNCTIONS: &[(KernelLayer, &str)] = &[
    (
        SystemCall,
        "entry_SYSCALL do_syscall syscall_ x64_sys_ x86_sys_ ia32_sys_ arm64_sys_ se_sys_ el0_ \
         invoke_syscall ksys_ do_sys_ exit_to_user_mode seccomp_ audit_ io_uring_ do_io_getevents aio_ rseq_ read_events \
         do_io_submit io_submit_one sys_io_ system_call_fastpath",
    ),
    (
        Vfs,
        "vfs_ new_sync_ do_iter_read do_iter_write do_readv do_preadv rw_verify_area touch_atime \
         atime_needs_update fsnotify security_ selinux_ apparmor_ bpf_lsm_ fdget fget fput file_ inode_ \
         generic_update_time mnt_ dput path_ kiocb_ io_read io_write io_issue_sqe io_submit_sqe io_wq_",
    ),
    (
        FileSystem,
        "ext4_ ext2_ jbd2_ xfs_ btrfs_ f2fs_ nfs_ nfs4_ fuse_ ovl_ shmem_ iomap_ mpage_ do_mpage buffer_ \
         bh_ submit_bh block_read_full block_write get_block zfs_ zpl_ dmu_ gfs2_ ocfs2_ fscrypt_ \
         fsverity_ dio_ blockdev_direct_IO",
    ),
    (
        PageCache,
        "filemap_ generic_file_ page_cache_ pagecache_ folio_ find_get_ find_lock_ ondemand_readahead \
         do_page_cache_ra force_page_cache_ra ra_ read_pages readahead_ workingset_ wake_up_page \
         wait_on_page unlock_page lock_page mark_page_accessed balance_dirty_pages wake_page_function",
    ),
    (
        Block,
        "blk_ blkcg_ blkg_ blkdev_ blockdev_ submit_bio bio_ bvec_ elv_ dd_ bfq_ kyber_ wbt_ rq_qos_ \
         ioc_ iocg_ throtl_ sbitmap_ disk_ part_ bdev_ dm_ md_ raid flush_plug get_request queue_rq rq_ \
         update_io_ticks end_bio_ kblockd_",
    ),
    (
        Driver,
        "nvme_ virtblk_ virtqueue_ vring_ virtio_ vp_ vm_notify scsi_ sd_ ata_ ahci_ iowrite ioread pci_ \
         dma_ iommu_ intel_iommu_ amd_iommu_ swiotlb_ iova_ sg_ blkif_ nbd_ loop_ lo_ mmc_ zram_ ublk_ \
         rbd_ pvscsi_ storvsc_ hv_",
    ),
    (
        CopyToUser,
        "copy_to_ copy_from_user copy_from_iter copy_page_to_iter copy_folio_ copy_user_ copy_mc_ \
         raw_copy_ copyout copyin rep_movs_alternative fault_in_ iov_iter_ import_iovec import_ubuf \
         arch_copy_to_user clear_user",
    ),
    (
        Scheduler,
        "schedule io_schedule sched_ try_to_wake_up ttwu_ finish_task_switch pick_next_ pick_task_ \
         enqueue_ dequeue_ update_curr update_load_ update_se update_rq_clock context_switch switch_mm \
         switch_to prepare_to_wait finish_wait wake_up_ wake_up wakeup_ autoremove_wake \
         default_wake_function preempt_schedule select_task_rq select_idle_ set_next_ put_prev_ psi_ \
         delayacct_ load_balance newidle_balance sched_balance_ cpuacct_ resched_ \
         native_smp_send_reschedule check_preempt_ place_entity",
    ),
    (
        Interrupt,
        "asm_ sysvec_ common_interrupt irq_ handle_irq handle_edge_irq handle_fasteoi_ handle_softirqs \
         do_softirq softirq_ generic_handle_ hrtimer_ enqueue_hrtimer tick_ update_process_times \
         update_wall_time timekeeping_ run_timer_ rcu_core rcu_sched_clock exc_nmi gic_ el1_interrupt \
         el1h_ flush_smp_call_function apic_ native_apic_ idtentry",
    ),
    (
        Memory,
        "asm_exc_page_fault exc_page_fault do_user_addr_fault handle_mm_fault do_anonymous_page do_fault \
         do_read_fault do_shared_fault do_cow_fault do_wp_page wp_page_ finish_fault do_swap_page \
         do_mem_abort do_page_fault alloc_pages alloc_frozen_pages folio_alloc filemap_alloc_folio \
         vma_alloc_folio rmqueue get_page_from_freelist free_unref_ free_pages free_frozen_pages \
         kmem_cache_ kmalloc kfree slab_ mempool_ mem_cgroup_ memcg_ try_charge charge_memcg lru_ \
         folio_add_lru folio_batch_move_lru lruvec_ mod_memcg_ mod_lruvec_ mod_node_ shrink_ \
         try_to_free_ clear_page clear_huge_page get_user_pages pin_user_pages gup_ flush_tlb_ \
         native_flush_tlb compact_ migrate_ lock_vma_ find_vma vm_normal_ prep_new_page post_alloc_hook \
         zap_ unmap_ obj_cgroup_ refill_obj_stock consume_obj_stock memcg1_ page_counter_ get_mem_cgroup",
    ),
    (
        Network,
        "sock_ sys_sendto sys_recvfrom sys_sendmsg sys_recvmsg unix_ tcp_ udp_ ip_ ip6_ inet_ inet6_ skb_ \
         alloc_skb consume_skb kfree_skb net_ netif_ dev_queue_ dev_hard_ napi_ nf_ nft_ qdisc_ sch_direct_",
    ),
    (
        Tracing,
        "bpf_ perf_ trace_ ftrace_ kprobe_ uprobe_ kretprobe_ fprobe_ copy_from_user_nofault \
         copy_to_user_nofault copy_from_kernel_nofault",
    ),
];

/// Prefixes of module names, separated by spaces.
const MODULES: &[(KernelLayer, &str)] = &[
    (
        FileSystem,
        "ext4 jbd2 mbcache xfs btrfs f2fs zfs spl nfs sunrpc lockd fuse overlay gfs2 ocfs2 cifs ceph",
    ),
    (Block, "dm_ md_mod raid bcache bfq kyber mq_deadline"),
    (
        Driver,
        "nvme virtio scsi sd_mod ahci libahci libata ata_ mpt3sas megaraid vmw_pvscsi hv_storvsc \
         hv_vmbus xen_blkfront nbd loop ublk rbd libceph zram mmc_ usb uas iscsi libiscsi qla2xxx lpfc \
         hpsa smartpqi aacraid",
    ),
];

/// The layer of a kernel stack (frames root first), and the function that decided.
pub fn kernel_layer<F: AsRef<Frame>>(frames: &[F]) -> (KernelLayer, Option<&Frame>) {
    frames
        .iter()
        .map(AsRef::as_ref)
        .rev()
        .find_map(|frame| layer_of_frame(frame).map(|layer| (layer, Some(frame))))
        .unwrap_or((Other, None))
}

/// The layer of one function; none when it is not in the tables.
pub fn layer_of_frame(frame: &Frame) -> Option<KernelLayer> {
    let module = frame.module.trim_matches(['[', ']']);
    longest_match(MODULES, module)
        .or_else(|| longest_match(FUNCTIONS, frame.symbol.trim_start_matches('_')))
        .map(|(layer, _)| layer)
}

/// Modules that are built into many kernels: functions with these prefixes are named after them, as if the module had been loaded.
const BUILT_IN: &[(&str, &str)] = &[
    ("ext4_", "ext4"),
    ("ext2_", "ext2"),
    ("jbd2_", "jbd2"),
    ("xfs_", "xfs"),
    ("btrfs_", "btrfs"),
    ("f2fs_", "f2fs"),
    ("nfs_", "nfs"),
    ("nfs4_", "nfs"),
    ("fuse_", "fuse"),
    ("ovl_", "overlay"),
    ("shmem_", "shmem"),
    ("zfs_", "zfs"),
    ("zpl_", "zfs"),
    ("dmu_", "zfs"),
    ("gfs2_", "gfs2"),
    ("ocfs2_", "ocfs2"),
    ("dm_", "dm"),
    ("md_", "md"),
    ("nvme_", "nvme"),
    ("virtblk_", "virtio"),
    ("virtqueue_", "virtio"),
    ("vring_", "virtio"),
    ("virtio_", "virtio"),
    ("vp_", "virtio"),
    ("scsi_", "scsi"),
    ("sd_", "scsi"),
    ("ata_", "ata"),
    ("ahci_", "ata"),
    ("nbd_", "nbd"),
    ("loop_", "loop"),
    ("lo_", "loop"),
    ("io_uring_", "io_uring"),
    ("aio_", "aio"),
    ("do_io_getevents", "aio"),
    ("read_events", "aio"),
    ("do_io_submit", "aio"),
    ("io_submit_one", "aio"),
    ("bpf_", "bpf"),
    ("perf_", "perf"),
];

/// Name of the part of the kernel that a function belongs to: its module, or the subsystem if it is built in (`ext4`, `block`, `mm`,
/// `net` …); none when it serves all of them or is not known.
pub(crate) fn subsystem<'a>(module: &'a str, symbol: &str) -> Option<&'a str> {
    let module = module.trim_matches(['[', ']']);
    if !matches!(module, "" | "kernel" | "vmlinux" | "kernel.kallsyms") {
        return Some(module);
    }
    let (layer, beginning) = longest_match(FUNCTIONS, symbol.trim_start_matches('_'))?;
    let built_in = BUILT_IN.iter().find(|(name, _)| *name == beginning);
    Some(match (built_in, layer) {
        (Some((_, name)), _) => name,
        (None, SystemCall) => "syscall",
        (None, Vfs) => "vfs",
        (None, FileSystem) => "fs",
        (None, PageCache) => "page cache",
        (None, Block) => "block",
        (None, Driver) => "driver",
        (None, CopyToUser) => "copy to user",
        (None, Scheduler) => "sched",
        (None, Interrupt) => "irq",
        (None, Memory) => "mm",
        (None, Network) => "net",
        (None, Tracing) => "tracing",
        (None, Other) => return None,
    })
}

/// The layer of the longest matching prefix, and that prefix.
fn longest_match(table: &[(KernelLayer, &'static str)], name: &str) -> Option<(KernelLayer, &'static str)> {
    table
        .iter()
        .flat_map(|(layer, beginnings)| {
            beginnings
                .split_whitespace()
                .map(move |beginning| (beginning, *layer))
        })
        .filter(|(beginning, _)| name.starts_with(*beginning))
        .max_by_key(|(beginning, _)| beginning.len())
        .map(|(beginning, layer)| (layer, beginning))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn frame(symbol: &str, module: &str) -> Frame {
        Frame {
            symbol: symbol.into(),
            module: module.into(),
            build_id: String::new(),
            offset: 0,
        }
    }

    fn layer(symbols: &[&str]) -> KernelLayer {
        let frames: Vec<Frame> = symbols.iter().map(|symbol| frame(symbol, "[kernel]")).collect();
        kernel_layer(&frames).0
    }

    /// A cached and a device read, a fault and an interrupt, as Linux 6.12 shows them.
    #[test]
    fn stacks_of_reads_are_in_the_layer_of_their_leaf_most_known_function() {
        const READ: [&str; 6] = [
            "entry_SYSCALL_64_after_hwframe",
            "do_syscall_64",
            "__x64_sys_pread64",
            "vfs_read",
            "ext4_file_read_iter",
            "filemap_read",
        ];
        let read = |leaf: &[&str]| layer(&[&READ[..], leaf].concat());
        assert_eq!(layer(&READ[..1]), SystemCall);
        assert_eq!(layer(&READ[..2]), SystemCall);
        assert_eq!(layer(&READ[..4]), Vfs);
        assert_eq!(layer(&READ[..5]), FileSystem);
        assert_eq!(read(&[]), PageCache);
        assert_eq!(
            read(&["filemap_get_pages", "filemap_get_read_batch", "xas_load"]),
            PageCache
        );
        assert_eq!(read(&["copy_page_to_iter", "_copy_to_iter"]), CopyToUser);
        assert_eq!(read(&["_copy_to_iter", "rep_movs_alternative"]), CopyToUser);
        assert_eq!(read(&["touch_atime", "atime_needs_update"]), Vfs);
        let ahead = ["filemap_get_pages", "page_cache_ra_unbounded"];
        let ahead = |leaf: &[&str]| read(&[&ahead[..], leaf].concat());
        assert_eq!(
            ahead(&["filemap_add_folio", "__filemap_add_folio", "xas_store"]),
            PageCache
        );
        assert_eq!(
            ahead(&["alloc_pages_mpol", "get_page_from_freelist", "clear_page_erms"]),
            Memory
        );
        assert_eq!(ahead(&["read_pages", "ext4_mpage_readpages"]), FileSystem);
        assert_eq!(
            ahead(&["read_pages", "submit_bio_noacct", "blk_mq_submit_bio"]),
            Block
        );
        assert_eq!(
            ahead(&[
                "blk_mq_flush_plug_list",
                "virtio_queue_rq",
                "vp_notify",
                "iowrite16"
            ]),
            Driver
        );
        assert_eq!(
            read(&[
                "filemap_update_page",
                "folio_wait_bit_common",
                "io_schedule",
                "schedule",
                "__schedule"
            ]),
            Scheduler
        );
        assert_eq!(
            read(&["asm_sysvec_apic_timer_interrupt", "sysvec_apic_timer_interrupt"]),
            Interrupt
        );
        assert_eq!(
            read(&[
                "_copy_to_iter",
                "asm_exc_page_fault",
                "exc_page_fault",
                "handle_mm_fault",
                "_raw_spin_lock"
            ]),
            Memory
        );
        assert_eq!(read(&["bpf_prog_6deef7357e7b4530_done"]), Tracing);
        assert_eq!(
            read(&["bpf_trace_run2", "bpf_probe_read_user", "copy_from_user_nofault"]),
            Tracing
        );
        assert_eq!(layer(&["_raw_spin_lock", "nobody_knows"]), Other);
        assert_eq!(layer(&[]), Other);
    }

    #[test]
    fn functions_of_a_module_are_in_its_layer_with_and_without_symbol() {
        for module in ["nvme", "[nvme_core]", "virtio_blk"] {
            assert_eq!(layer_of_frame(&frame("", module)), Some(Driver));
            assert_eq!(layer_of_frame(&frame("filemap_read", module)), Some(Driver));
        }
        assert_eq!(layer_of_frame(&frame("", "xfs")), Some(FileSystem));
        assert_eq!(layer_of_frame(&frame("clone_endio", "dm_mod")), Some(Block));
        assert_eq!(layer_of_frame(&frame("", "kvm_intel")), None);
        assert_eq!(layer_of_frame(&frame("", "[kernel]")), None);
    }

    #[test]
    fn what_is_built_into_the_kernel_is_told_apart_by_subsystem() {
        for (symbol, name) in [
            ("ext4_file_read_iter", "ext4"),
            ("xfs_file_read_iter", "xfs"),
            ("blk_mq_submit_bio", "block"),
            ("nvme_queue_rq", "nvme"),
            ("tcp_sendmsg_locked", "net"),
            ("get_page_from_freelist", "mm"),
            ("__schedule", "sched"),
            ("_copy_to_iter", "copy to user"),
            ("read_events", "aio"),
        ] {
            assert_eq!(subsystem("[kernel]", symbol), Some(name), "{symbol}");
        }
        assert_eq!(subsystem("xfs", ""), Some("xfs"));
        assert_eq!(subsystem("[nvme_core]", "nvme_setup_cmd"), Some("nvme_core"));
        assert_eq!(subsystem("[kernel]", "_raw_spin_lock"), None);
        assert_eq!(subsystem("[kernel]", ""), None);
    }

    #[test]
    fn every_built_in_name_is_a_beginning_of_the_table() {
        for (beginning, _) in BUILT_IN {
            assert!(
                FUNCTIONS
                    .iter()
                    .any(|(_, all)| all.split_whitespace().any(|one| one == *beginning)),
                "{beginning}"
            );
        }
    }

    #[test]
    fn no_beginning_is_in_the_tables_twice() {
        for table in [FUNCTIONS, MODULES] {
            let mut seen = HashSet::new();
            for beginning in table
                .iter()
                .flat_map(|(_, beginnings)| beginnings.split_whitespace())
            {
                assert!(seen.insert(beginning), "{beginning}");
            }
        }
    }
}
