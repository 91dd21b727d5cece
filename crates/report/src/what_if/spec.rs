//! Changes, as typed: `hold:LOCK=0.5`, `event:IO:WALSync=0.3`, `query:42=0`.

use std::fmt;
use std::str::FromStr;

/// More than this is a typing error.
const MOST: f64 = 100.0;

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIf {
    /// What changes.
    pub what: Changed,
    /// How many times as long it takes; 0 = it is gone.
    pub factor: f64,
}

/// What takes longer or shorter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// What is done while this lock is held; its name, or its wait event.
    Hold(String),
    /// Each wait in this event, as `Class:Event` or `Event`.
    Event(String),
    /// Everything done in this statement.
    Query(u64),
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Changed::Hold(lock) => write!(f, "hold:{lock}"),
            Changed::Event(event) => write!(f, "event:{event}"),
            Changed::Query(id) => write!(f, "query:{}", id.cast_signed()),
        }?;
        write!(f, "={}", self.factor)
    }
}

impl FromStr for WhatIf {
    type Err = String;

    fn from_str(text: &str) -> Result<WhatIf, String> {
        let examples = "as in hold:transactionid=0.5, event:IO:WALSync=0.3 or query:42=0";
        let Some((name, factor)) = text.rsplit_once('=') else {
            return Err(format!(
                "'{text}' has no factor: it must end in one, {examples} (0.5 = half as long, 0 = gone)"
            ));
        };
        let factor = match factor.parse::<f64>() {
            Ok(factor) if (0.0..=MOST).contains(&factor) => factor,
            _ => {
                return Err(format!(
                    "the factor '{factor}' is not a number from 0 to {MOST}: 0.5 = half as long, 0 = gone"
                ));
            }
        };
        let Some((kind, name)) = name.split_once(':').filter(|(_, name)| !name.is_empty()) else {
            return Err(format!("'{text}' does not say what to change, {examples}"));
        };
        let what = match kind {
            "hold" => Changed::Hold(name.to_string()),
            "event" => Changed::Event(name.to_string()),
            "query" => match name.parse::<i64>() {
                Ok(id) => Changed::Query(id.cast_unsigned()),
                Err(_) => match name.parse::<u64>() {
                    Ok(id) => Changed::Query(id),
                    Err(_) => {
                        return Err(format!(
                            "'{name}' is not a query id, which is a number: see 'dbtime report --by query'"
                        ));
                    }
                },
            },
            // A wait event typed as it is printed is obviously an event.
            _ => {
                return Err(format!(
                    "unknown kind '{kind}': choose hold, event or query, {examples}; did you mean 'event:{kind}:{name}={factor}'?"
                ));
            }
        };
        Ok(WhatIf { what, factor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_read_and_written_alike() {
        for text in ["hold:transactionid=0.5", "event:IO:WALSync=0.3", "query:-42=0"] {
            let read: WhatIf = text.parse().expect("it is right");
            assert_eq!(read.to_string(), text);
        }
        let unsigned: WhatIf = "query:18446744073709551574=0".parse().expect("it is right");
        assert_eq!(unsigned.what, Changed::Query((-42_i64).cast_unsigned()));
    }

    #[test]
    fn what_is_wrong_is_refused_with_what_is_right() {
        for (text, why) in [
            ("hold:x", "has no factor"),
            ("hold:x=fast", "not a number from 0 to 100"),
            ("hold:x=-1", "not a number from 0 to 100"),
            ("hold:x=NaN", "not a number from 0 to 100"),
            ("hold:=1", "does not say what"),
            ("0.5=0.5", "does not say what"),
            ("query:select=0", "not a query id"),
            ("IO:WALSync=0.3", "did you mean 'event:IO:WALSync=0.3'"),
        ] {
            let refused = text.parse::<WhatIf>().expect_err("it is wrong");
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
