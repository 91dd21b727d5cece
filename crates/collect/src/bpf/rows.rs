//! What a program of a dive puts into its ring buffer, taken in steps.

use std::cell::RefCell;
use std::rc::Rc;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};

use crate::CollectError;

/// The rows that have come and were not taken yet.
pub(super) struct Rows<T> {
    ring: RingBuffer<'static>,
    come: Rc<RefCell<Vec<T>>>,
    of: &'static str,
}

impl<T: 'static> Rows<T> {
    /// The rows of this map; `read` makes one of its bytes. `of`: what they are, for errors.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn of(
        of: &'static str,
        map: &dyn MapCore,
        read: impl Fn(&[u8]) -> Option<T> + 'static,
    ) -> libbpf_rs::Result<Rows<T>> {
        let come = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&come);
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |bytes| {
            into.borrow_mut().extend(read(bytes));
            0
        })?;
        Ok(Rows {
            ring: builder.build()?,
            come,
            of,
        })
    }

    /// Takes the rows since the last time, in their order.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn take(&mut self) -> Result<Vec<T>, CollectError> {
        self.ring
            .consume()
            .map_err(|e| CollectError::Kernel(format!("ring buffer of {}: {e}", self.of)))?;
        Ok(self.come.take())
    }
}
