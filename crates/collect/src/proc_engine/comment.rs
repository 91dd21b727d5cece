//! The comment of the statement that a session executes: which execution it belongs to, and its text, read once per execution. As the
//! BPF programs do it (bpf/comment.bpf.h).

use crate::database::StatusRecord;
use crate::memory;

/// Maximum bytes of texts read in a pass: long texts of many sessions at once must not make it late.
pub(super) const ROOM: usize = 1 << 20;
/// Maximum bytes of a text: longer ones are not read.
const MOST_TEXT: usize = 64 << 10;

/// A text that a session shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// Address of the session's record.
    pub(super) record: u64,
    /// When the statement began, by the database's clock; 0 = there is none, or its comment is not wanted.
    pub(super) since: u64,
}

impl Shown {
    /// The text, if the session still shows it. One that may be truncated there is read from the session's own copy. `room`: bytes
    /// that may still be read.
    pub(super) fn text(self, pid: u32, places: &StatusRecord, room: &mut usize) -> Option<Vec<u8>> {
        let field = |offset: u16| self.record.checked_add(u64::from(offset));
        let (mut before, mut since, mut address) = ([0; 4], [0; 8], [0; 8]);
        memory::read(
            pid,
            &mut [
                (self.record, &mut before),
                (field(places.since)?, &mut since),
                (field(places.comment)?, &mut address),
            ],
        )
        .ok()?;
        let before = u32::from_ne_bytes(before);
        if before & 1 != 0 || u64::from_ne_bytes(since) != self.since {
            return None;
        }
        let text = read_text(pid, u64::from_ne_bytes(address), room)?;
        let text = match text.len() < places.most_text as usize {
            true => text,
            false => {
                let pointer = Some(places.whole_text).filter(|pointer| *pointer != 0)?;
                let whole = read_text(pid, memory::read_u64(pid, pointer).ok()?, room)?;
                Some(whole).filter(|whole| whole.starts_with(&text))?
            }
        };
        (memory::read_u32(pid, self.record).ok()? == before).then_some(text)
    }
}

/// None: it cannot be read, it is too long, or there is no room for it.
fn read_text(pid: u32, address: u64, room: &mut usize) -> Option<Vec<u8>> {
    if *room == 0 {
        return None;
    }
    let text = memory::read_text(pid, address, MOST_TEXT).ok()?;
    *room = room.saturating_sub(text.len());
    (text.len() < MOST_TEXT).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record in this process: a number that is odd while it is written, when a statement began, the address of its text.
    #[repr(C)]
    struct Record {
        changes: u32,
        since: u64,
        text: *const u8,
    }

    /// What is read of a text that is shown up to 20 bytes; `own`: the session's own copy.
    fn read(record: &Record, since: u64, own: Option<&[u8]>, room: &mut usize) -> Option<String> {
        let own = own.map(<[u8]>::as_ptr);
        let places = StatusRecord {
            pointer: 0,
            statement: 0,
            plan: 0,
            session_state: 0,
            process: 0,
            kind: 0,
            whose: 0,
            text: 0,
            gives_ids: true,
            since: std::mem::offset_of!(Record, since) as u16,
            comment: std::mem::offset_of!(Record, text) as u16,
            most_text: 20,
            whole_text: own.as_ref().map_or(0, |own| std::ptr::from_ref(own) as u64),
        };
        let record = std::ptr::from_ref(record) as u64;
        let text = Shown { record, since }.text(std::process::id(), &places, room)?;
        Some(String::from_utf8(text).expect("it was text"))
    }

    fn record(text: &[u8]) -> Record {
        Record {
            changes: 6,
            since: 77,
            text: text.as_ptr(),
        }
    }

    #[test]
    fn a_text_is_read_as_long_as_it_is_of_this_execution() {
        let mut shown = record(b"select 1 /*a*/\0");
        let read = |shown: &Record, since| read(shown, since, None, &mut { ROOM });
        assert_eq!(read(&shown, 77).as_deref(), Some("select 1 /*a*/"));
        assert_eq!(read(&shown, 78), None);
        shown.changes = 7;
        assert_eq!(read(&shown, 77), None);
        shown.changes = 8;
        shown.text = std::ptr::without_provenance(8);
        assert_eq!(read(&shown, 77), None);
    }

    #[test]
    fn one_that_may_be_cut_is_read_where_it_is_whole() {
        let shown = record(b"select 4711, a, b, c\0");
        let whole = b"select 4711, a, b, c, d /*a*/\0";
        let read = |own: Option<&[u8]>| read(&shown, 77, own, &mut { ROOM });
        assert_eq!(
            read(Some(whole)).as_deref(),
            Some("select 4711, a, b, c, d /*a*/")
        );
        assert_eq!(read(None), None);
        // A different text, or the beginning of one that is too long to be read.
        assert_eq!(read(Some(b"select 0815, a, b, c, d /*a*/\0")), None);
        let long = "select 4711, a, b, c".repeat(MOST_TEXT / 20 + 1) + "\0";
        assert_eq!(read(Some(long.as_bytes())), None);
    }

    #[test]
    fn no_more_is_read_than_there_is_room_for() {
        let shown = record(b"select 1 /*a*/\0");
        let mut room = 20;
        assert!(read(&shown, 77, None, &mut room).is_some());
        assert_eq!(room, 6);
        assert!(read(&shown, 77, None, &mut room).is_some());
        assert_eq!(room, 0);
        assert!(read(&shown, 77, None, &mut room).is_none());
    }
}
