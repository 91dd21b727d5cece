//! What a statement's text says about the request it belongs to: a comment at its end, or its beginning, in the format of
//! sqlcommenter (<https://google.github.io/sqlcommenter/spec/>): `/*key='value',key='value'*/`, keys and values URL-encoded, quotes
//! in values escaped by a backslash. `traceparent` is that of W3C Trace Context.
//!
//! Anybody who can send a statement can write anything into it. A comment that is not entirely of this form is an ordinary comment; a
//! value that is invalid, too long or has control characters is left out, and so is one whose key occurs twice.

use dbtime_model::CommentRow;

use super::ends::{Ends, is_blank};

/// Maximum bytes of a value: longer ones are left out, as a truncated one would be a different value.
const MOST_VALUE: usize = 256;
/// Maximum number of leading comments tried.
const MOST_AT_BEGIN: usize = 4;

/// What the comments of a text say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    Nothing,
    /// A comment begins, or ends, in the part of the text that is missing.
    NotKnown,
    Values(CommentRow),
}

/// See the module. A comment at the end takes precedence over one at the beginning.
pub(crate) fn parse(ends: Ends<'_>) -> Said {
    match at_end(ends.end) {
        Some(None) if !ends.is_whole => return Said::NotKnown,
        Some(Some(values)) => return Said::Values(values),
        _ => {}
    }
    let mut rest = ends.begin;
    for _ in 0..MOST_AT_BEGIN {
        let Some(inside) = trimmed(rest).strip_prefix(b"/*") else {
            return Said::Nothing;
        };
        let Some(length) = memchr::memmem::find(inside, b"*/") else {
            return if ends.is_whole {
                Said::Nothing
            } else {
                Said::NotKnown
            };
        };
        if let Some(values) = values(&inside[..length]) {
            return Said::Values(values);
        }
        rest = &inside[length + 2..];
    }
    Said::Nothing
}

/// The values of a comment at the end. `Some(None)`: a comment ends there whose beginning is missing. `None`: there is none.
fn at_end(text: &[u8]) -> Option<Option<CommentRow>> {
    let inside = trimmed(text).strip_suffix(b"*/")?;
    match memchr::memmem::rfind(inside, b"/*") {
        Some(begin) => values(&inside[begin + 2..]).map(Some),
        None => Some(None),
    }
}

/// Without leading and trailing blanks and semicolons.
fn trimmed(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = text
        .split_last()
        .and_then(|(last, rest)| is_blank(*last).then_some(rest))
    {
        text = rest;
    }
    while let Some(rest) = text
        .split_first()
        .and_then(|(first, rest)| is_blank(*first).then_some(rest))
    {
        text = rest;
    }
    text
}

/// The values between the delimiters of a comment; None if it is not a list of keys and values, or has nothing that is kept.
fn values(comment: &[u8]) -> Option<CommentRow> {
    let mut found: [Option<String>; 5] = Default::default();
    let mut is_twice = [false; 5];
    let mut rest = trimmed(comment);
    loop {
        let equals = memchr::memchr(b'=', rest)?;
        let key = decoded(trimmed(&rest[..equals]))?;
        if key.is_empty() {
            return None;
        }
        let (value, behind) = quoted(&rest[equals + 1..])?;
        let places = ["traceparent", "application", "controller", "action", "route"];
        if let Some(place) = places.iter().position(|name| *name == key) {
            is_twice[place] |= found[place].is_some();
            // An invalid one still counts as present.
            found[place] = Some(value.filter(|value| is_valid(value)).unwrap_or_default());
        }
        let behind = trimmed(behind);
        if behind.is_empty() {
            break;
        }
        rest = behind.strip_prefix(b",")?;
    }
    for (value, is_twice) in found.iter_mut().zip(is_twice) {
        value.take_if(|_| is_twice);
    }
    let [traceparent, application, controller, action, route] = found.map(Option::unwrap_or_default);
    let (trace_id, span_id) = trace(&traceparent).unwrap_or_default();
    CommentRow::of(CommentRow {
        id: 0,
        trace_id: trace_id.to_string(),
        span_id: span_id.to_string(),
        application,
        controller,
        action,
        route,
    })
}

/// A quoted value, and what follows it. Inner `None`: it cannot be decoded. `None`: there is no such value.
fn quoted(text: &[u8]) -> Option<(Option<String>, &[u8])> {
    let mut rest = trimmed(text).strip_prefix(b"'")?;
    let mut value = Vec::new();
    loop {
        let at = memchr::memchr2(b'\'', b'\\', rest)?;
        value.extend(&rest[..at]);
        if rest[at] == b'\'' {
            return Some((decoded(&value), &rest[at + 1..]));
        }
        value.push(*rest.get(at + 1)?);
        rest = &rest[at + 2..];
    }
}

/// URL-decoded. None: the encoding is broken, or the result is not UTF-8.
fn decoded(text: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(*rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn is_valid(value: &str) -> bool {
    value.len() <= MOST_VALUE && !value.chars().any(char::is_control)
}

/// Trace and span of a `traceparent` of any version: `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
fn trace(traceparent: &str) -> Option<(&str, &str)> {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_id = |text: &str, digits: usize| {
        text.len() == digits && is_hex(text) && text.bytes().any(|byte| byte != b'0')
    };
    let mut parts = traceparent.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_of_version = version.len() == 2 && is_hex(version) && version != "ff";
    // Later versions may have more after the flags.
    let ends = version != "00" || parts.next().is_none();
    let has_flags = flags.len() == 2 && is_hex(flags);
    (is_of_version && ends && has_flags && is_id(trace, 32) && is_id(span, 16)).then_some((trace, span))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn of(text: &str) -> Said {
        parse(Ends {
            begin: text.as_bytes(),
            end: text.as_bytes(),
            is_whole: true,
        })
    }

    fn values_of(text: &str) -> CommentRow {
        match of(text) {
            Said::Values(values) => values,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn route_of(text: &str) -> String {
        values_of(text).route
    }

    #[test]
    fn the_example_of_the_specification() {
        let text = "SELECT * FROM FOO /*action='%2Fparam*d',controller='index,'framework='spring',\
                    traceparent='00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01',\
                    tracestate='congo%3Dt61rcWkgMzE%2Crojo%3D00f067aa0ba902b7'*/";
        // As printed there: the quote of its second value closes after the comma, so that the list is invalid.
        assert_eq!(of(text), Said::Nothing);
        let text = text.replace("'index,'", "'index',");
        assert_eq!(
            values_of(&text),
            CommentRow {
                id: values_of(&text).id,
                trace_id: "5bd66ef5095369c7b0d1f8f4bd33716a".to_string(),
                span_id: "c532cb4098ac3dd2".to_string(),
                controller: "index".to_string(),
                action: "/param*d".to_string(),
                ..CommentRow::default()
            }
        );
    }

    #[test]
    fn a_comment_stands_at_the_end_or_at_the_begin() {
        for text in [
            "select 1 /*route='%2Fa'*/",
            "select 1 /*route='%2Fa'*/;",
            "select 1 /*route='%2Fa'*/ ; \n",
            "select 1/* route = '%2Fa' , db_driver='x' */",
            "/*route='%2Fa'*/ select 1",
            "  /*route='%2Fa'*/select 1",
            "/*+ SeqScan(t) */ /*route='%2Fa'*/ select 1",
            "/*route='%2Fb'*/ select 1 /*route='%2Fa'*/",
            "/*route='%2Fa'*/ select 1 /* the end */",
            "select '/*' /*route='%2Fa'*/",
            "/*route='%2Fa'*/",
        ] {
            assert_eq!(route_of(text), "/a", "{text}");
        }
        for text in [
            "select 1",
            "select 1 /* route */",
            "select /*route='a'*/ 1",
            "select '/*route=''a''*/'",
            "select 1 /*route=a*/",
            "select 1 /*route='a*/",
            "select 1 /*route='a\\'*/",
            "select 1 /*route='a' action='b'*/",
            "select 1 /*route='a',*/",
            "select 1 /*='a'*/",
            "select 1 /*%zz='a'*/",
            "select 1 /*db_driver='x',framework='y'*/",
            "select 1 /*application:shop,controller:cart*/",
            "select 1 /*route=''*/",
            "*/",
            "/*/",
            "",
        ] {
            assert_eq!(of(text), Said::Nothing, "{text}");
        }
    }

    #[test]
    fn quotes_are_decoded_and_invalid_values_are_left_out() {
        assert_eq!(route_of("select 1 /*route='it%27s'*/"), "it's");
        assert_eq!(route_of("select 1 /*route='it\\'s'*/"), "it's");
        assert_eq!(
            route_of("select 1 /*route='%E2%80%AE%3C%2Fscript%3E'*/"),
            "\u{202e}</script>"
        );
        assert_eq!(route_of("select 1 /*r%6Fute='a+b'*/"), "a+b");
        let long = "x".repeat(MOST_VALUE);
        assert_eq!(route_of(&format!("select 1 /*route='{long}'*/")), long);
        for value in [
            &format!("{long}x"),
            "%",
            "%4",
            "%zz",
            "%ff",
            "%00",
            "a%0Ab",
            "%1B[31m",
            "a',route='b",
        ] {
            let text = format!("select 1 /*action='x',route='{value}'*/");
            let values = values_of(&text);
            assert_eq!((&*values.route, &*values.action), ("", "x"), "{text}");
        }
    }

    #[test]
    fn traces_are_those_of_the_standard() {
        let of = |text: &str| trace(text).map(|(trace, span)| (trace.len(), span.len()));
        assert_eq!(of(TRACE), Some((32, 16)));
        assert_eq!(of(&TRACE.replacen("00", "cc", 1)), Some((32, 16)));
        assert_eq!(
            of(&format!("{}-more", TRACE.replacen("00", "01", 1))),
            Some((32, 16))
        );
        for text in [
            "",
            "00",
            &TRACE.to_uppercase(),
            &TRACE[..54],
            &format!("{TRACE}-more"),
            &TRACE.replacen("00", "ff", 1),
            &TRACE.replace("b7ad6b7169203331", "0000000000000000"),
            &TRACE.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &TRACE.replace("0af7", "0ag7"),
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn what_lies_in_the_middle_of_a_long_text_is_not_known() {
        let cut = |begin: &str, end: &str| {
            parse(Ends {
                begin: begin.as_bytes(),
                end: end.as_bytes(),
                is_whole: false,
            })
        };
        assert_eq!(cut("", "oute='a'*/"), Said::NotKnown);
        assert_eq!(cut("/*route='a", "from t"), Said::NotKnown);
        assert_eq!(cut("select", "from t"), Said::Nothing);
        assert!(matches!(cut("", "from t /*route='a'*/"), Said::Values(_)));
        assert!(matches!(cut("/*route='a'*/ select", "from t"), Said::Values(_)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(text in prop::collection::vec(any::<u8>(), 0..200), is_whole: bool) {
            parse(Ends { begin: &text, end: &text, is_whole });
        }

        #[test]
        fn pieces_of_comments_are_taken(text in "(/\\*|\\*/|route|=|'|%27|\\\\|,|;| |a){0,12}") {
            of(&text);
        }

        #[test]
        fn what_was_encoded_is_read(route in "[^\\p{Cc}]{1,60}", action in "[^\\p{Cc}]{1,60}") {
            let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
            let values = values_of(&format!("select 1 /*action='{}',route='{}'*/", encoded(&action), encoded(&route)));
            prop_assert_eq!((values.action, values.route), (action, route));
        }
    }
}
