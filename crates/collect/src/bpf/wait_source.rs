//! Where a session reports what it does, as the BPF programs have it (bpf/wait_source.bpf.h), and back.

use super::recorder::types::{dbt_size, dbt_source_kind, dbt_wait_source};
use crate::database::{LockList, PageLocks, RoutineList, StatusRecord, WaitSource};

const SOURCE_NONE: u32 = dbt_source_kind::SOURCE_NONE.0;
const SOURCE_POINTER: u32 = dbt_source_kind::SOURCE_POINTER.0;
const SOURCE_NUMBERS: u32 = dbt_source_kind::SOURCE_NUMBERS.0;

pub(super) fn source_to(source: WaitSource) -> dbt_wait_source {
    match source {
        WaitSource::None => dbt_wait_source {
            kind: SOURCE_NONE,
            ..dbt_wait_source::default()
        },
        WaitSource::Pointer {
            event,
            status,
            locks,
            routines,
        } => {
            let pages = locks.and_then(|locks| locks.pages);
            dbt_wait_source {
                kind: SOURCE_POINTER,
                event,
                statement: status.map_or(0, |record| record.pointer),
                statement_offset: status.map_or(0, |record| record.statement),
                plan_offset: status.map_or(0, |record| record.plan),
                state_offset: status.map_or(0, |record| record.session_state),
                process_offset: status.map_or(0, |record| record.process),
                type_offset: status.map_or(0, |record| record.kind),
                whose_offset: status.map_or(0, |record| record.whose),
                text_offset: status.map_or(0, |record| record.text),
                since_offset: status.map_or(0, |record| record.since),
                comment_offset: status.map_or(0, |record| record.comment),
                most_text: status.map_or(0, |record| record.most_text),
                whole_text: status.map_or(0, |record| record.whole_text),
                gives_ids: status.map_or(0, |record| record.gives_ids.into()),
                record_bytes: status.map_or(0, bytes_in_one_piece),
                lock_count: locks.map_or(0, |locks| locks.count),
                lock_list: locks.map_or(0, |locks| locks.list),
                page_locks: pages.map_or(0, |pages| pages.first),
                page_lock_count: pages.map_or(0, |pages| pages.count),
                page_lock_step: pages.map_or(0, |pages| pages.step),
                page_lock_offset: pages.map_or(0, |pages| pages.offset),
                contexts: routines.map_or(0, |list| list.contexts),
                routine_id: routines.map_or(0, |list| list.id),
                routine_statement: routines.map_or(0, |list| list.statement),
                ..dbt_wait_source::default()
            }
        }
        WaitSource::Numbers {
            event,
            on_cpu,
            statement,
        } => dbt_wait_source {
            kind: SOURCE_NUMBERS,
            event,
            on_cpu,
            statement,
            ..dbt_wait_source::default()
        },
    }
}

/// Bytes from the start of the record to the end of what a pass of the sampler reads there; 0 if a field is too far away, or not aligned as
/// in every known build.
fn bytes_in_one_piece(record: StatusRecord) -> u16 {
    let longs = [
        record.statement,
        record.plan,
        record.since,
        record.text,
        record.comment,
    ];
    let longs = longs.map(|offset| (offset, 8));
    let ints = [record.process, record.session_state].map(|offset| (offset, 4));
    let fields = || longs.iter().chain(&ints);
    let end = fields().map(|(offset, size)| offset.saturating_add(*size)).max();
    let is_aligned = fields().all(|(offset, size)| offset % size == 0);
    end.filter(|end| is_aligned && u32::from(*end) < dbt_size::RECORD_BYTES.0)
        .unwrap_or_default()
}

pub(super) fn source_from(source: &dbt_wait_source) -> WaitSource {
    match source.kind {
        SOURCE_POINTER => WaitSource::Pointer {
            event: source.event,
            status: (source.statement != 0).then_some(StatusRecord {
                pointer: source.statement,
                statement: source.statement_offset,
                plan: source.plan_offset,
                session_state: source.state_offset,
                process: source.process_offset,
                kind: source.type_offset,
                whose: source.whose_offset,
                text: source.text_offset,
                since: source.since_offset,
                comment: source.comment_offset,
                most_text: source.most_text,
                whole_text: source.whole_text,
                gives_ids: source.gives_ids != 0,
            }),
            locks: (source.lock_count != 0).then_some(LockList {
                count: source.lock_count,
                list: source.lock_list,
                pages: (source.page_locks != 0).then_some(PageLocks {
                    first: source.page_locks,
                    count: source.page_lock_count,
                    step: source.page_lock_step,
                    offset: source.page_lock_offset,
                }),
            }),
            routines: (source.contexts != 0).then_some(RoutineList {
                contexts: source.contexts,
                id: source.routine_id,
                statement: source.routine_statement,
            }),
        },
        SOURCE_NUMBERS => WaitSource::Numbers {
            event: source.event,
            on_cpu: source.on_cpu,
            statement: source.statement,
        },
        _ => WaitSource::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The usual layout: postgres/status_layout.rs.
    const RECORD: StatusRecord = StatusRecord {
        pointer: 0x1000,
        statement: 424,
        plan: 0,
        session_state: 232,
        process: 4,
        kind: 8,
        whose: 48,
        text: 248,
        gives_ids: false,
        since: 32,
        comment: 248,
        most_text: 1_024,
        whole_text: 0,
    };

    #[test]
    fn a_source_comes_back_as_it_was_given() {
        let pages = PageLocks {
            first: 5,
            count: 6,
            step: 7,
            offset: 8,
        };
        let locks = LockList {
            count: 3,
            list: 4,
            pages: Some(pages),
        };
        let routines = RoutineList {
            contexts: 9,
            id: 10,
            statement: 11,
        };
        for source in [
            WaitSource::None,
            WaitSource::Pointer {
                event: 1,
                status: Some(RECORD),
                locks: Some(locks),
                routines: Some(routines),
            },
            WaitSource::Pointer {
                event: 1,
                status: None,
                locks: None,
                routines: None,
            },
            WaitSource::Numbers {
                event: 1,
                on_cpu: 2,
                statement: 3,
            },
        ] {
            assert_eq!(source_from(&source_to(source)), source);
        }
    }

    #[test]
    fn a_record_is_read_in_one_piece_where_its_numbers_lie_as_the_kernel_reads_them() {
        assert_eq!(bytes_in_one_piece(RECORD), 432);
        assert_eq!(bytes_in_one_piece(StatusRecord { plan: 432, ..RECORD }), 440);
        for other in [
            StatusRecord {
                statement: 428,
                ..RECORD
            },
            StatusRecord {
                session_state: 234,
                ..RECORD
            },
            StatusRecord {
                statement: 504,
                ..RECORD
            },
            StatusRecord {
                plan: u16::MAX - 7,
                ..RECORD
            },
        ] {
            assert_eq!(bytes_in_one_piece(other), 0, "{other:?}");
        }
    }
}
