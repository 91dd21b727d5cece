//! Frames of stacks, each kept once: a recording has a thousand times as many places in stacks as it has functions.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use dbtime_model::Frame;

/// A frame that is kept once, however many stacks it is in. As large as a pointer.
#[derive(Debug, Clone)]
pub struct KnownFrame(Arc<Named>);

#[derive(Debug)]
struct Named {
    frame: Frame,
    label: Arc<str>,
}

impl KnownFrame {
    /// See [`Frame::label`].
    pub fn label(&self) -> Arc<str> {
        Arc::clone(&self.0.label)
    }
}

impl Deref for KnownFrame {
    type Target = Frame;

    fn deref(&self) -> &Frame {
        &self.0.frame
    }
}

impl AsRef<Frame> for KnownFrame {
    fn as_ref(&self) -> &Frame {
        self
    }
}

impl Borrow<Frame> for KnownFrame {
    fn borrow(&self) -> &Frame {
        self
    }
}

// As `Borrow` demands: by the frame alone.
impl Hash for KnownFrame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let frame: &Frame = self;
        frame.hash(state);
    }
}

impl PartialEq for KnownFrame {
    fn eq(&self, other: &KnownFrame) -> bool {
        let (frame, other): (&Frame, &Frame) = (self, other);
        frame == other
    }
}

impl Eq for KnownFrame {}

/// All frames of a recording.
#[derive(Debug, Default, Clone)]
pub(crate) struct KnownFrames {
    frames: HashSet<KnownFrame>,
    labels: HashSet<Arc<str>>,
}

impl KnownFrames {
    /// The one frame that is equal to this.
    pub(crate) fn keep(&mut self, frame: &Frame) -> KnownFrame {
        if let Some(known) = self.frames.get(frame) {
            return known.clone();
        }
        // Functions of the same name are many more than names: operators, constructors, frames without a name.
        let label = frame.label();
        let label = match self.labels.get(label.as_str()) {
            Some(known) => Arc::clone(known),
            None => {
                let label: Arc<str> = label.into();
                self.labels.insert(Arc::clone(&label));
                label
            }
        };
        let known = KnownFrame(Arc::new(Named {
            frame: frame.clone(),
            label,
        }));
        self.frames.insert(known.clone());
        known
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().map(Deref::deref)
    }

    /// Forgets frames that nobody else has any more.
    pub(crate) fn forget_unused(&mut self) {
        self.frames.retain(|frame| Arc::strong_count(&frame.0) > 1);
        self.labels.retain(|label| Arc::strong_count(label) > 1);
    }
}
