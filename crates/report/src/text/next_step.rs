//! Suggested next steps: commands to copy, and why.

use super::page::Page;
use crate::next_step::NextStep;

pub(super) fn render(steps: &[NextStep], recordings: &[&str], page: &mut Page) {
    if steps.is_empty() {
        return;
    }
    page.line("");
    for step in steps {
        let command = format!("Next: {}", step.command_line(recordings));
        let line = format!("{command}   {}", step.why);
        if line.chars().count() <= page.width() {
            page.line(&line);
        } else {
            // Not wrapped: a broken command could not be copied.
            page.line(&command);
            page.line(&format!("      {}", step.why));
        }
    }
}
