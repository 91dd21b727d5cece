//! What a session reports about its statement, its state and its application: its entry in the server's status array (`PgBackendStatus` in
//! src/include/utils/backend_status.h), which pg_stat_activity shows. Read from the session's memory, without a connection.
//!
//! `MyBEEntry` points to the entry. The offset of the query id follows from the code of `pgstat_get_my_query_id`, which is exported and
//! does nothing but return it; it is the same in PostgreSQL 14 to 18 on 64-bit machines, and so is all that comes before it. If it differs,
//! or entries contradict what is known of their processes (status_check.rs), the layout is taken from the server's debug information
//! (status_layout.rs) and checked in the same ways. What matches neither is refused.

use super::Server;
use super::encoding::{DatabaseEncoding, decoded};
use super::portal::Portals;
use super::query_ids::gives_query_ids;
use super::several::one_of_several;
use super::status_check::check;
use super::status_layout::{CHANGE_COUNT, StatusLayout};
use crate::database::StatusRecord;
use crate::executable::Executable;
use crate::fingerprint::fingerprint;
use crate::memory;
use crate::small_code::{Operand, operands_of};
use crate::statements::StatementText;

/// Bytes of a name: NAMEDATALEN.
pub(super) const MOST_NAME: usize = 64;
/// Minimum of `track_activity_query_size`, less the terminating zero: shorter texts are complete.
const LEAST_CUT: usize = 99;
/// Bytes of a text that are read at most.
const MOST_TEXT: usize = 64 << 10;

/// Where the sessions of one server have their entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct BackendStatus {
    /// Address of `MyBEEntry`, the same in all processes.
    pointer: u64,
    pub(super) layout: StatusLayout,
    /// The layout is from the server's debug information.
    pub(super) is_of_debug_information: bool,
    /// The server computes no query ids: statements have the fingerprint of their text instead. If it does, only some have one (see
    /// [`id_of_text`](crate::fingerprint::id_of_text)).
    pub(super) fingerprints: bool,
    /// Offset of `st_plan_id` in an entry: since PostgreSQL 18.
    plan: Option<u16>,
    /// Address of `debug_query_string`, the pointer to the whole text that a client has sent.
    whole_text: Option<u64>,
    /// Bytes of a text in an entry at most: `track_activity_query_size` less the terminating zero.
    most_shown: u32,
    /// Processes whose entries agree with what is known of them.
    pub(super) checked: u32,
    /// None = the encoding of texts is not known.
    encoding: Option<DatabaseEncoding>,
    /// None = it is not known which part of a text with several statements is executed.
    portals: Option<Portals>,
}

impl BackendStatus {
    /// For a server with this executable, checked in these of its processes.
    ///
    /// # Errors
    /// Why entries cannot be read.
    pub(super) fn of(
        server: &Server,
        executable: &Executable,
        processes: &[u32],
    ) -> Result<BackendStatus, &'static str> {
        let with = |layout, is_of_debug_information| {
            BackendStatus::with(layout, is_of_debug_information, server, executable, processes)
        };
        with(StatusLayout::USUAL, false).or_else(|why| {
            // Slow to read: only if nothing else is known.
            let layout = StatusLayout::of_debug_information(server.postmaster).ok_or(why)?;
            with(layout, true)
                .map_err(|_| "its debug information does not match what its sessions have in memory")
        })
    }

    /// The same, if entries have this layout.
    fn with(
        layout: StatusLayout,
        is_of_debug_information: bool,
        server: &Server,
        executable: &Executable,
        processes: &[u32],
    ) -> Result<BackendStatus, &'static str> {
        let postmaster = server.postmaster;
        let [whole, size, own] = executable
            .symbols([
                "debug_query_string",
                "pgstat_track_activity_query_size",
                "MyBEEntry",
            ])
            .unwrap_or_default();
        let pointer = match operands_of(executable, "pgstat_get_my_query_id").as_deref() {
            Some(
                &[
                    Operand::Static { address, bytes: 8 },
                    Operand::Field { offset, bytes: 8 },
                ],
            ) if offset == layout.query_id => address,
            Some(_) => return Err("this build of the server keeps them in an unknown place"),
            // With debug information the code is not needed.
            None => {
                own.filter(|_| is_of_debug_information)
                    .ok_or("the server's code does not show where they are")?
                    .address
            }
        };
        let text_bytes = size.and_then(|size| memory::read_u32(postmaster, size.address).ok());
        let mut status = BackendStatus {
            pointer,
            layout,
            is_of_debug_information,
            fingerprints: gives_query_ids(postmaster, executable) == Some(false),
            plan: place_of_plan(executable, pointer),
            whole_text: whole.map(|symbol| symbol.address),
            // If that is not known, any longer text may have been cut.
            most_shown: text_bytes.map_or(LEAST_CUT as u32, |size| size.saturating_sub(1)),
            checked: 0,
            encoding: DatabaseEncoding::of(executable),
            portals: Portals::of(executable, server.major),
        };
        status.checked = check(status, executable, processes, text_bytes)?;
        Ok(status)
    }

    /// Where to read what a session executes.
    pub(super) fn record(self) -> StatusRecord {
        StatusRecord {
            pointer: self.pointer,
            statement: self.layout.query_id as u16,
            plan: self.plan.unwrap_or_default(),
            session_state: self.layout.state as u16,
            process: self.layout.process as u16,
            kind: self.layout.kind as u16,
            whose: self.layout.whose as u16,
            text: self.layout.activity as u16,
            gives_ids: !self.fingerprints,
            since: self.layout.since as u16,
            comment: self.layout.activity as u16,
            most_text: self.most_shown,
            whole_text: self.whole_text.unwrap_or_default(),
        }
    }

    /// The text of what a session executes, as long as it is this statement. The entry has it truncated (`track_activity_query_size`); the
    /// session's own copy is complete. Cut at [`MOST_TEXT`].
    pub(super) fn text(self, pid: u32, statement: u64) -> Option<StatementText> {
        let read = self.read(pid, |entry| {
            let (address, id) = self.text_and_id(pid, entry)?;
            if id != statement && id != 0 {
                return None;
            }
            let shown = memory::read_text(pid, address, MOST_TEXT).ok()?;
            if id == 0 && fingerprint(&shown) != statement {
                return None;
            }
            let whole = || {
                let address = memory::read_u64(pid, self.whole_text?).ok()?;
                memory::read_text(pid, address, MOST_TEXT).ok()
            };
            let text = match shown.len() < LEAST_CUT {
                true => shown,
                false => whole().filter(|whole| whole.starts_with(&shown)).unwrap_or(shown),
            };
            let part = self.portals.and_then(|portals| portals.part(pid, id));
            Some((text, id, part))
        });
        let (text, id, part) = read?;
        let encoding = self.encoding.and_then(|encoding| encoding.number(pid));
        let found = match id {
            // A fingerprint covers all statements that were sent at once.
            0 => StatementText {
                text: decoded(&text, encoding),
                is_fingerprint: true,
                ..StatementText::default()
            },
            _ => one_of_several(&text, encoding, part),
        };
        Some(found).filter(|found| !found.text.is_empty())
    }

    /// The id of what a session executes or executed last, or what stands in for it. None: there is none.
    pub(super) fn executing(self, pid: u32) -> Option<u64> {
        let id = self.read(pid, |entry| match self.text_and_id(pid, entry)? {
            (address, 0) => memory::read_text(pid, address, MOST_TEXT)
                .ok()
                .map(|text| fingerprint(&text)),
            (_, id) => Some(id),
        });
        id.filter(|id| *id != 0)
    }

    /// The address of an entry's statement text, and the statement's id; 0 = it has none.
    fn text_and_id(self, pid: u32, entry: u64) -> Option<(u64, u64)> {
        let (mut address, mut id) = ([0; 8], [0; 8]);
        memory::read(
            pid,
            &mut [
                (entry + self.layout.activity, &mut address),
                (entry + self.layout.query_id, &mut id),
            ],
        )
        .ok()?;
        Some((u64::from_ne_bytes(address), u64::from_ne_bytes(id)))
    }

    /// The name that a session's application has given itself, if any. None until the session has filled in its entry.
    pub(super) fn application(self, pid: u32) -> Option<String> {
        self.read(pid, |entry| {
            let (mut process, mut address) = ([0; 4], [0; 8]);
            memory::read(
                pid,
                &mut [
                    (entry + self.layout.process, &mut process),
                    (entry + self.layout.application, &mut address),
                ],
            )
            .ok()?;
            let is_filled_in = u32::from_ne_bytes(process) != 0;
            let name =
                is_filled_in.then(|| memory::read_text(pid, u64::from_ne_bytes(address), MOST_NAME))?;
            // The server keeps only ASCII.
            Some(String::from_utf8_lossy(&name.ok()?).into_owned())
        })
    }

    /// Bytes of a text in an entry at most.
    pub(super) fn most_shown(self) -> u32 {
        self.most_shown
    }

    /// The id of the database that a session is in, 0 = in none. None until the session has filled in its entry.
    pub(super) fn database(self, pid: u32) -> Option<u32> {
        self.read(pid, |entry| {
            let (mut process, mut database) = ([0; 4], [0; 4]);
            memory::read(
                pid,
                &mut [
                    (entry + self.layout.process, &mut process),
                    (entry + self.layout.whose, &mut database),
                ],
            )
            .ok()?;
            let is_filled_in = u32::from_ne_bytes(process) != 0;
            is_filled_in.then(|| u32::from_ne_bytes(database))
        })
    }

    /// Reads a session's entry: `fields` gets its address. None if the session writes to it meanwhile.
    pub(super) fn read<T>(self, pid: u32, fields: impl Fn(u64) -> Option<T>) -> Option<T> {
        let entry = self.entry(pid)?;
        let count = || memory::read_u32(pid, entry + CHANGE_COUNT).ok();
        let before = count().filter(|count| count & 1 == 0)?;
        let read = fields(entry)?;
        (count()? == before).then_some(read)
    }

    /// Address of a session's entry.
    pub(super) fn entry(self, pid: u32) -> Option<u64> {
        memory::read_u64(pid, self.pointer)
            .ok()
            .filter(|entry| *entry != 0)
    }
}

/// Offset of the plan id in an entry to which this pointer leads, from the code of `pgstat_get_my_plan_id`, like that of the query id. None
/// if the server has no such function, or it does something else.
fn place_of_plan(executable: &Executable, pointer: u64) -> Option<u16> {
    match operands_of(executable, "pgstat_get_my_plan_id")?.as_slice() {
        &[
            Operand::Static { address, bytes: 8 },
            Operand::Field { offset, bytes: 8 },
        ] if address == pointer => offset.try_into().ok(),
        _ => None,
    }
}
