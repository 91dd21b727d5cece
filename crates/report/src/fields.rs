//! How fields of answers are serialised where their type does not define it: functions for `serialize_with`.

use std::fmt::Display;

use dbtime_model::recording::Meta;
use dbtime_model::{SessionId, Wait};
use serde::{Serialize, Serializer};

use crate::group::known_query_id;
use crate::json::MetaJson;
use crate::scan::Period;

/// RFC 3339 in UTC; none for a moment outside of the calendar.
pub(crate) fn timestamp(us: i64) -> Option<String> {
    jiff::Timestamp::from_microsecond(us).ok().map(|t| t.to_string())
}

/// What the recording says about itself.
pub(crate) fn meta<S: Serializer>(meta: &Meta, to: S) -> Result<S::Ok, S::Error> {
    MetaJson::from(meta).serialize(to)
}

/// From when to when, and how long, beside the other fields. For answers that have timestamps whatever the recording's
/// clock is.
pub(crate) fn period<S: Serializer>(period: &Period, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Bounds {
        from: Option<String>,
        to: Option<String>,
        elapsed_ns: u128,
    }
    let bounds = Bounds {
        from: timestamp(period.from_us),
        to: timestamp(period.to_us),
        elapsed_ns: period.elapsed_ns(),
    };
    bounds.serialize(to)
}

/// A moment by its microseconds since the Unix epoch; see [`timestamp`].
pub(crate) fn moment<S: Serializer>(us: &i64, to: S) -> Result<S::Ok, S::Error> {
    timestamp(*us).serialize(to)
}

/// Nanoseconds as microseconds.
pub(crate) fn us<S: Serializer>(ns: &u128, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(ns_as_us(*ns))
}

/// Nanoseconds as microseconds, if known.
pub(crate) fn us_if_known<S: Serializer>(ns: &Option<u128>, to: S) -> Result<S::Ok, S::Error> {
    ns.map(ns_as_us).serialize(to)
}

/// See [`us`].
pub(crate) fn ns_as_us(ns: u128) -> f64 {
    ns as f64 / 1e3
}

/// The default, 0 or an empty text, means unknown.
pub(crate) fn known<T: Serialize + Default + PartialEq, S: Serializer>(
    value: &T,
    to: S,
) -> Result<S::Ok, S::Error> {
    Some(value).filter(|value| **value != T::default()).serialize(to)
}

/// A number as text, because not every reader keeps all 64 bits; other values as they are displayed.
pub(crate) fn text<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// A number as text; 0 means unknown.
pub(crate) fn id_if_known<S: Serializer>(id: &u64, to: S) -> Result<S::Ok, S::Error> {
    (*id != 0).then(|| id.to_string()).serialize(to)
}

/// A session's id as text.
pub(crate) fn session_id<S: Serializer>(session: &SessionId, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&session.0)
}

/// A query id as PostgreSQL prints it: signed; none when no statement was known.
pub(crate) fn query_id<S: Serializer>(statement: &u64, to: S) -> Result<S::Ok, S::Error> {
    known_query_id(*statement).serialize(to)
}

/// One value per side, each under its own name, beside the other fields.
pub(crate) fn pair<T: Serialize, S: Serializer>(
    names: [&'static str; 2],
    values: &[T; 2],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(names.into_iter().zip(values))
}

/// Class and event, beside the other fields.
pub(crate) fn wait<S: Serializer>(wait: &Wait, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Names<'a> {
        wait_class: &'a str,
        wait_event: &'a str,
    }
    let names = Names {
        wait_class: &wait.class,
        wait_event: &wait.event,
    };
    names.serialize(to)
}

/// Serialises values as their names.
macro_rules! by_name {
    ($($named:ty),*) => {
        $(impl Serialize for $named {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        })*
    };
}

by_name!(crate::sums::FidelityMix, crate::diff::Verdict);
