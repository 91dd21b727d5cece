//! Lines that are recognised in one thread and counted in another.
//!
//! What a line counts for depends on the lines before it; what it says does not. So one thread finds lines, reads the numbers of the usual
//! ones, and hands on some hundreds of them at a time, with their text. The counting thread looks at the text if a line is not usual, has
//! numbers that are too large for a piece, or is not what it looks like, as in the text of a statement.

use super::events::{EventId, Events};
use super::record::{CallKind, CallLine, WaitLine, Where};
use super::usual::Usual;
use crate::lines::Line;

/// Text of a piece: it stays in the caches of a CPU until it is counted.
const BYTES: usize = 64 * 1024;

/// Most lines of a piece: they may be empty.
const LINES: usize = 4_096;

/// Most cursors kept apart in a piece.
const CURSORS: usize = 64;

/// Some consecutive lines. Moving data from one CPU to another is what costs, so it is small.
#[derive(Debug, Default)]
pub(super) struct Piece {
    text: Vec<u8>,
    lines: Vec<Found>,
    waits: Vec<FoundWait>,
    calls: Vec<FoundCall>,
    cursors: Vec<u64>,
    /// The number of its first line.
    first: u64,
    /// Every `tim` is counted from here.
    tim: u64,
}

/// A line: its length, shifted left by [`LENGTH_SHIFT`], whether it ended, and what it is.
#[derive(Debug, Clone, Copy)]
struct Found(u32);

const LENGTH_SHIFT: u32 = 3;
const ENDED: u32 = 4;
const WHAT: u32 = 3;
const OTHER: u32 = 0;
const WAIT: u32 = 1;
const CALL: u32 = 2;

/// A usual wait.
#[derive(Debug, Clone, Copy)]
struct FoundWait {
    tim: u32,
    ela: u32,
    /// Object, or where unread parameters are: start, and length shifted left by 16.
    object: u32,
    file: u16,
    blocks: u16,
    /// The recogniser's own number of the event.
    event: u16,
    cursor: u8,
    is_placed: bool,
}

/// A usual call.
#[derive(Debug, Clone, Copy)]
struct FoundCall {
    tim: u32,
    c: u32,
    e: u32,
    p: u32,
    cr: u32,
    cu: u32,
    r: u32,
    plh: u32,
    mis: u8,
    /// None is the largest number.
    dep: u8,
    kind: CallKind,
    cursor: u8,
}

/// What a line says, as far as it is usual.
#[derive(Debug)]
pub(super) enum Recognised<'a> {
    /// With the number of its event in place of the name.
    Wait(WaitLine<'a>, usize),
    Call(CallLine<'static>),
    Other,
}

impl Piece {
    fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
        self.waits.clear();
        self.calls.clear();
        self.cursors.clear();
    }

    /// Hands on its lines in their order.
    pub(super) fn each(&self, mut take: impl FnMut(Line<'_>, Recognised<'_>)) {
        let (mut waits, mut calls) = (self.waits.iter(), self.calls.iter());
        let mut rest = self.text.as_slice();
        for (number, Found(found)) in (self.first..).zip(&self.lines) {
            let Some((bytes, behind)) = rest.split_at_checked((found >> LENGTH_SHIFT) as usize) else {
                return;
            };
            rest = behind;
            let line = Line {
                number,
                bytes,
                ended: found & ENDED != 0,
            };
            let recognised = match found & WHAT {
                WAIT => waits.next().and_then(|wait| self.wait(wait, bytes)),
                CALL => calls.next().and_then(|call| self.call(call)),
                _ => None,
            };
            take(line, recognised.unwrap_or(Recognised::Other));
        }
    }

    #[inline]
    fn wait<'a>(&self, found: &FoundWait, line: &'a [u8]) -> Option<Recognised<'a>> {
        let (parameters, at) = if found.is_placed {
            let at = Where {
                file: Some(found.file.into()),
                object: Some(found.object.into()),
                blocks: Some(found.blocks.into()),
            };
            (&[][..], Some(at))
        } else {
            let (start, length) = (found.object & 0xffff, found.object >> 16);
            (line.get(start as usize..(start + length) as usize)?, None)
        };
        let wait = WaitLine {
            cursor: *self.cursors.get(usize::from(found.cursor))?,
            event: &[],
            ela: found.ela.into(),
            tim: Some(self.tim.wrapping_add(found.tim.into())),
            rest: &[],
            parameters,
            at,
        };
        Some(Recognised::Wait(wait, found.event.into()))
    }

    #[inline]
    fn call<'a>(&self, found: &FoundCall) -> Option<Recognised<'a>> {
        Some(Recognised::Call(CallLine {
            kind: found.kind,
            cursor: *self.cursors.get(usize::from(found.cursor))?,
            c: found.c.into(),
            e: found.e.into(),
            p: found.p.into(),
            cr: found.cr.into(),
            cu: found.cu.into(),
            mis: found.mis.into(),
            r: found.r.into(),
            plh: found.plh.into(),
            dep: (found.dep != u8::MAX).then(|| found.dep.into()),
            tim: Some(self.tim.wrapping_add(found.tim.into())),
            rest: &[],
        }))
    }

    /// The number of a cursor in this piece; none if there are too many.
    #[inline]
    fn cursor(&mut self, cursor: u64) -> Option<u8> {
        let known = self.cursors.iter().rposition(|known| *known == cursor);
        let number = match known {
            Some(number) => number,
            None if self.cursors.len() >= CURSORS => return None,
            None => {
                self.cursors.push(cursor);
                self.cursors.len() - 1
            }
        };
        u8::try_from(number).ok()
    }

    /// A moment as it is stored.
    #[inline]
    fn tim(&mut self, tim: u64) -> Option<u32> {
        if self.waits.is_empty() && self.calls.is_empty() {
            // Lines may be out of order.
            self.tim = tim.saturating_sub(1 << 20);
        }
        u32::try_from(tim.checked_sub(self.tim)?).ok()
    }

    /// Keeps a wait; none if its numbers are larger than usual.
    #[inline]
    fn keep_wait(&mut self, wait: &WaitLine<'_>, event: EventId, line: &[u8]) -> Option<()> {
        let event = u16::try_from(event.number())
            .ok()
            .filter(|_| event != Events::OTHER)?;
        let mut found = FoundWait {
            tim: self.tim(wait.tim?)?,
            ela: u32::try_from(wait.ela).ok()?,
            object: 0,
            file: 0,
            blocks: 0,
            event,
            cursor: self.cursor(wait.cursor)?,
            is_placed: wait.at.is_some(),
        };
        match wait.at {
            Some(at) => {
                found.object = u32::try_from(at.object?).ok()?;
                found.file = u16::try_from(at.file?).ok()?;
                found.blocks = u16::try_from(at.blocks?).ok()?;
            }
            None => {
                let start = wait
                    .parameters
                    .as_ptr()
                    .addr()
                    .checked_sub(line.as_ptr().addr())?;
                let (start, length) = (
                    u16::try_from(start).ok()?,
                    u16::try_from(wait.parameters.len()).ok()?,
                );
                found.object = u32::from(start) | u32::from(length) << 16;
            }
        }
        self.waits.push(found);
        Some(())
    }

    /// Keeps a call; none if its numbers are larger than usual.
    #[inline]
    fn keep_call(&mut self, call: &CallLine<'static>) -> Option<()> {
        let small = |n: u64| u32::try_from(n).ok();
        let found = FoundCall {
            tim: self.tim(call.tim?)?,
            c: small(call.c)?,
            e: small(call.e)?,
            p: small(call.p)?,
            cr: small(call.cr)?,
            cu: small(call.cu)?,
            r: small(call.r)?,
            plh: small(call.plh)?,
            mis: u8::try_from(call.mis).ok()?,
            dep: match call.dep {
                Some(dep) => u8::try_from(dep).ok().filter(|dep| *dep != u8::MAX)?,
                None => u8::MAX,
            },
            kind: call.kind,
            cursor: self.cursor(call.cursor)?,
        };
        self.calls.push(found);
        Some(())
    }
}

/// Recognises lines.
#[derive(Debug)]
pub(super) struct Recogniser {
    usual: Usual,
    events: Events,
    piece: Piece,
    bytes: usize,
}

impl Recogniser {
    pub(super) fn new() -> Recogniser {
        Recogniser::of_pieces(BYTES)
    }

    /// `bytes`: approximate size of the text of a piece.
    pub(super) fn of_pieces(bytes: usize) -> Recogniser {
        Recogniser {
            usual: Usual::default(),
            events: Events::new(),
            piece: Piece::default(),
            bytes,
        }
    }

    /// True if the piece is large enough to be handed on.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.piece.text.len() >= self.bytes || self.piece.lines.len() >= LINES
    }

    /// Takes the piece; the memory of `used` is reused.
    pub(super) fn take(&mut self, mut used: Piece) -> Piece {
        used.clear();
        std::mem::replace(&mut self.piece, used)
    }

    /// Adds a line.
    #[inline]
    pub(super) fn line(&mut self, line: Line<'_>) {
        let piece = &mut self.piece;
        if piece.lines.is_empty() {
            piece.first = line.number;
        }
        piece.text.extend_from_slice(line.bytes);
        let (event, name) = self.events.expected();
        let what = if let Some((wait, is_expected)) = self.usual.wait(line.bytes, name) {
            let event = match is_expected {
                true => {
                    self.events.came(event);
                    event
                }
                false => self.events.id(wait.event),
            };
            piece.keep_wait(&wait, event, line.bytes).map(|()| WAIT)
        } else {
            let call = self.usual.call(line.bytes);
            call.and_then(|call| piece.keep_call(&call)).map(|()| CALL)
        };
        // A line has 1 MB at most.
        let length = u32::try_from(line.bytes.len()).unwrap_or(0) << LENGTH_SHIFT;
        let ended = if line.ended { ENDED } else { 0 };
        piece.lines.push(Found(length | ended | what.unwrap_or(OTHER)));
    }
}
