//! What to ask next: commands that can be copied, and why.

use super::page::Page;
use crate::next_step::NextStep;

pub(super) fn render(steps: &[NextStep], recording: &str, page: &mut Page) {
    if steps.is_empty() {
        return;
    }
    page.line("");
    for step in steps {
        page.line(&format!("Next: {}   {}", step.command_line(recording), step.why));
    }
}
