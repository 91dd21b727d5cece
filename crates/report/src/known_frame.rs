//! Frames of stacks, each stored once: in a recording, frames in stacks outnumber functions a thousand to one.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use arcstr::ArcStr;
use dbtime_model::Frame;

/// A frame that is stored once, however many stacks it is in. As large as a pointer.
#[derive(Debug, Clone)]
pub struct KnownFrame(Arc<Named>);

#[derive(Debug)]
struct Named {
    frame: Frame,
    label: ArcStr,
}

impl KnownFrame {
    /// See [`Frame::label`].
    pub fn label(&self) -> ArcStr {
        ArcStr::clone(&self.0.label)
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

// By the frame alone, as `Borrow` requires.
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
    labels: HashSet<ArcStr>,
}

impl KnownFrames {
    /// The shared copy of this frame.
    pub(crate) fn keep(&mut self, frame: &Frame) -> KnownFrame {
        if let Some(known) = self.frames.get(frame) {
            return known.clone();
        }
        // Many functions share a name: operators, constructors, frames without a name.
        let label = frame.label();
        let label = match self.labels.get(label.as_str()) {
            Some(known) => ArcStr::clone(known),
            None => {
                let label: ArcStr = label.into();
                self.labels.insert(ArcStr::clone(&label));
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

    /// Forgets frames that nobody else refers to any more.
    pub(crate) fn forget_unused(&mut self) {
        self.frames.retain(|frame| Arc::strong_count(&frame.0) > 1);
        self.labels
            .retain(|label| ArcStr::strong_count(label).is_some_and(|count| count > 1));
    }
}
