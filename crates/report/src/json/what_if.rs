//! The predicted effect of a change.

use serde::Serialize;

use super::Head;
use crate::what_if::{Prediction, WhatIf, WhatIfReport};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    /// The changes, as typed.
    what_if: Vec<String>,
    /// None: it cannot be said.
    prediction: Option<&'a Prediction>,
    /// Why not.
    cannot_say: Option<&'a str>,
    problems: &'a [String],
}

impl<'a> From<&'a WhatIfReport> for Document<'a> {
    fn from(report: &'a WhatIfReport) -> Document<'a> {
        Document {
            head: Head::of(&report.meta, report.period),
            what_if: report.changes.iter().map(WhatIf::to_string).collect(),
            prediction: report.answer.as_ref().ok(),
            cannot_say: report.answer.as_ref().err().map(String::as_str),
            problems: &report.problems,
        }
    }
}
