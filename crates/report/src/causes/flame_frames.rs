//! Who was waited for, as frames above the waiter's stack.

use arcstr::ArcStr;
use dbtime_model::recording::Problem;
use dbtime_model::{StateGroup, Wait};

use super::divide::{Blocked, Divided, Samples};
use super::words::no_session;
use crate::dimensions::Dimensions;
use crate::load::Source;
use crate::stacks::{frames, kernel_frames};

/// The frame below those of each link of a chain.
pub(crate) const WAITED_FOR: &str = "[waited for]";

/// Divides blocked time by causes.
#[derive(Default)]
pub(crate) struct CauseFrames(Samples);

impl CauseFrames {
    /// The followed samples of a recording, and what could not be read.
    pub(crate) fn read(source: &Source) -> (CauseFrames, Vec<Problem>) {
        let (samples, problems) = Samples::read(source);
        (CauseFrames(samples), problems)
    }

    /// Passes on parts of these amounts, each with its frames; they sum to them.
    pub(crate) fn divide(
        &self,
        of: &Blocked,
        amounts: (u128, u128),
        dimensions: &mut Dimensions,
        mut take: impl FnMut(Vec<(bool, ArcStr)>, u128, u128),
    ) {
        self.0.divide(of, amounts, |part| {
            if part.ns > 0 || part.samples > 0 {
                take(chain(&part, dimensions), part.ns, part.samples);
            }
        });
    }
}

/// Frames, root first, each with whether it is the kernel's.
fn chain(part: &Divided<'_>, dimensions: &mut Dimensions) -> Vec<(bool, ArcStr)> {
    let word = |text: &str| (false, text.into());
    let mut all: Vec<(bool, ArcStr)> = Vec::new();
    for link in part.chain {
        let backend_type = dimensions.session(link.session).backend_type.0.clone();
        let does = match link.state.group() {
            Some(StateGroup::Blocked) => Wait::event(&link.wait_class, &link.wait_event, false).to_string(),
            Some(StateGroup::RunQueue) => "waiting for a CPU".to_string(),
            _ => "on a CPU".to_string(),
        };
        all.extend([word(WAITED_FOR), word(&format!("{backend_type}: {does}"))]);
        let user = frames(link.user_stack, dimensions)
            .into_iter()
            .map(|name| (false, name));
        all.extend(user);
        let kernel = kernel_frames(link.kernel_stack, link.state, dimensions);
        all.extend(kernel.into_iter().map(|name| (true, name)));
    }
    if part.chain.is_empty() {
        all.extend([word(WAITED_FOR), word(no_session(part.kind))]);
    }
    all
}
