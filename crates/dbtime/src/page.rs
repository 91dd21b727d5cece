//! A recording, a dive, or two recordings, as one page: `dbtime html`, and `dbtime record --html`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use dbtime_report::{Diff, DiveDiff, Filter, Source, has_kernel_trace};

use crate::output::{self, say, say_problems};
use crate::working;

/// Writes the page; false, without a page, if there is nothing to show.
///
/// # Errors
/// There is no such part of the recording, or the file cannot be written.
pub fn write(source: &Source, filter: &Filter, output: &Path) -> anyhow::Result<bool> {
    working::begin(&format!("making {}", output.display()));
    if has_kernel_trace(source.meta()) {
        let page = dbtime_report::html::dive_page(source, filter)?;
        say_problems(page.problems());
        if !page.is_empty() {
            output::to_file(output, |out| dbtime_report::html::write_dive(&page, out))?;
        }
        return Ok(!page.is_empty());
    }
    let page = dbtime_report::html(source, filter)?;
    say_problems(page.problems());
    if page.is_empty() {
        return Ok(false);
    }
    output::to_file(output, |out| dbtime_report::html::write(&page, out))?;
    Ok(true)
}

/// Writes what changed from one recording to another.
///
/// # Errors
/// The file cannot be written.
pub fn write_difference(answer: Diff, output: &Path) -> anyhow::Result<()> {
    say_problems(&answer.problems);
    let page = dbtime_report::html::difference(answer);
    output::to_file(output, |out| dbtime_report::html::write_difference(&page, out))
}

/// Writes what changed from one dive to another.
///
/// # Errors
/// The file cannot be written.
pub fn write_dive_difference(answer: DiveDiff, output: &Path) -> anyhow::Result<()> {
    say_problems(&answer.problems);
    let page = dbtime_report::html::dive_difference(answer);
    output::to_file(output, |out| {
        dbtime_report::html::write_dive_difference(&page, out)
    })
}

/// Default name of a page about two recordings: `bad-against-good.html`, next to the bad one.
///
/// # Errors
/// Standard input has no name.
pub fn beside_two(good: &Path, bad: &Path) -> Result<PathBuf, String> {
    let [good, bad] = [output::sibling(good, "html")?, output::sibling(bad, "html")?];
    let mut name = OsString::from(bad.file_stem().unwrap_or_default());
    name.push("-against-");
    name.push(good.file_stem().unwrap_or_default());
    name.push(".html");
    Ok(bad.with_file_name(name))
}

/// Says where the page is, for users who did not choose its name.
pub fn say_where(output: &Path) {
    say(format_args!("wrote {}: open it in a browser", output.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_two_lies_beside_the_bad_one() {
        let page = beside_two(Path::new("/good/fast.dbt"), Path::new("bad/slow.dbt/"));
        assert_eq!(page, Ok(PathBuf::from("bad/slow-against-fast.html")));
        let traces = beside_two(Path::new("a.trc.gz"), Path::new("b.trc"));
        assert_eq!(traces, Ok(PathBuf::from("b.trc-against-a.trc.gz.html")));
    }
}
