//! What libbpf says when the kernel refuses something.

use std::sync::Mutex;

use libbpf_rs::PrintLevel;

use crate::CollectError;

/// The one line of a refusal that says why: the verifier's last message comes before its statistics.
pub(super) fn verdict(refusal: &str) -> String {
    let lines: Vec<&str> = refusal.lines().map(str::trim).collect();
    let statistics = lines.iter().position(|line| line.starts_with("processed "));
    let line = match statistics {
        Some(at) if at > 0 => lines[at - 1],
        _ => lines.first().copied().unwrap_or_default(),
    };
    line.to_string()
}

/// What libbpf has reported since the last call: the verifier's reason, in most cases.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Turns libbpf's errors from now on into ours, with the kernel's reasons.
pub(super) fn refusals(of: &'static str) -> impl Fn(&str, libbpf_rs::Error) -> CollectError + Copy {
    collect_messages();
    move |what, e| CollectError::Kernel(format!("{of} ({what}: {e:#}){}", messages()))
}

/// Drops earlier messages, and keeps later ones.
fn collect_messages() {
    fn keep(_: PrintLevel, text: String) {
        if let Ok(mut messages) = MESSAGES.lock() {
            messages.push(text.trim_end().to_string());
        }
    }
    messages();
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep)));
}

/// The last few messages: the verifier's log may have thousands of lines, its reason is at the end.
fn messages() -> String {
    let taken = MESSAGES
        .lock()
        .map(|mut m| std::mem::take(&mut *m))
        .unwrap_or_default();
    let lines: Vec<&str> = taken.iter().flat_map(|m| m.lines()).collect();
    lines[lines.len().saturating_sub(12)..]
        .iter()
        .map(|line| format!("\n  {line}"))
        .collect()
}
