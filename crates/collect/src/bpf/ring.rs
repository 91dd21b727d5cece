//! Records that BPF programs put into a ring buffer, taken in steps.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};

use crate::CollectError;

/// The kernel puts a header before each record, and pads the record to a multiple of its size.
const HEADER: usize = 8;

/// Records that have arrived and were not taken yet.
pub(crate) struct Ring<T> {
    ring: RingBuffer<'static>,
    come: Rc<RefCell<Vec<T>>>,
    /// Bytes that may still be taken in this step.
    left: Rc<Cell<usize>>,
    bytes: usize,
    of: &'static str,
}

impl<T: 'static> Ring<T> {
    /// The ring buffer of this map; `read` decodes a record. `of`: what the records are, for errors.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn of(
        of: &'static str,
        map: &dyn MapCore,
        read: impl Fn(&[u8]) -> Option<T> + 'static,
    ) -> libbpf_rs::Result<Ring<T>> {
        let come = Rc::new(RefCell::new(Vec::new()));
        let left = Rc::new(Cell::new(0_usize));
        let (into, room) = (Rc::clone(&come), Rc::clone(&left));
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |bytes| {
            into.borrow_mut().extend(read(bytes));
            room.set(
                room.get()
                    .saturating_sub(HEADER + bytes.len().next_multiple_of(HEADER)),
            );
            // A negative value ends the step.
            if room.get() == 0 { -1 } else { 0 }
        })?;
        Ok(Ring {
            ring: builder.build()?,
            come,
            left,
            bytes: map.max_entries() as usize,
            of,
        })
    }

    /// Takes the records since the last call, in order: all that are there, and of those that arrive meanwhile no more than the ring buffer
    /// has room for. If they arrive as fast as they are taken there would be no end.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn take(&self) -> Result<Vec<T>, CollectError> {
        self.left.set(self.bytes);
        let taken = self.ring.consume();
        if self.left.get() > 0 {
            taken.map_err(|e| CollectError::Kernel(format!("ring buffer of {}: {e}", self.of)))?;
        }
        Ok(self.come.take())
    }

    /// Waits at most this long for a record, then takes what has arrived, as [`Ring::take`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn wait(&self, longest: Duration) -> Result<Vec<T>, CollectError> {
        // One record ends the wait, and the step; a signal ends it early. What has arrived is taken all the same.
        self.left.set(1);
        let _ = self.ring.poll(longest);
        self.take()
    }
}
