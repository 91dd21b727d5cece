//! How much text is in a row: rows are encoded, and files finished, before there is more of it than a reader accepts.

use dbtime_model::{
    ActivityRow, CauseRow, CommentRow, CounterRow, HeldLockRow, LatencyRow, LockRow, SessionRow, SpanRow,
    StackRow, StatementRow, SwitchRow,
};

/// Bytes for the names of enumerated values in a row, or in a link of a chain.
const WORDS: usize = 40;

/// A row with text in it.
pub(crate) trait Text {
    /// Bytes of it, or somewhat more.
    fn text(&self) -> usize;
}

/// Rows of a fixed number of texts.
macro_rules! texts {
    ($($row:ty: $($text:ident)+;)+) => {$(
        impl Text for $row {
            fn text(&self) -> usize {
                WORDS $(+ self.$text.len())+
            }
        }
    )+};
}

texts! {
    ActivityRow: wait_class wait_event;
    LatencyRow: kind name device source file relation;
    CounterRow: source name;
    SpanRow: kind name;
    SwitchRow: wait_class wait_event waker;
    HeldLockRow: lock file relation wait_class wait_event;
    LockRow: kind relation_name virtualxid mode;
    CommentRow: trace_id span_id application controller action route;
    SessionRow: backend_type user database client title service module action client_id sid application;
}

impl Text for CauseRow {
    fn text(&self) -> usize {
        let links = self.chain.iter();
        let links = links.map(|link| WORDS + link.wait_class.len() + link.wait_event.len());
        WORDS + self.wait_class.len() + self.wait_event.len() + links.sum::<usize>()
    }
}

impl Text for StatementRow {
    fn text(&self) -> usize {
        let steps = self.plan_steps.iter().map(|step| step.operation.len());
        self.text.len() + self.sql_id.len() + steps.sum::<usize>()
    }
}

impl Text for StackRow {
    fn text(&self) -> usize {
        let frames = self.frames.iter();
        frames
            .map(|frame| frame.symbol.len() + frame.module.len() + frame.build_id.len())
            .sum()
    }
}
