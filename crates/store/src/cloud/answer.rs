//! What of a server's answer may be printed. An answer can repeat the request: S3 returns an expired session token and, if a signature is
//! wrong, all signed headers. Only the code and the message are shown.

use std::io::ErrorKind;

use serde_json::Value;

/// In object_store's errors, everything after these words is the answer.
const MARKS: [&str; 2] = [
    "Server returned non-2xx status code: ",
    "Server returned error response: ",
];
/// Most characters of a code or message.
const LONGEST: usize = 500;

/// An error as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) kind: ErrorKind,
}

/// The error to show for this text, without what must not be printed, and with what to do.
pub(super) fn said(text: &str, kind: ErrorKind) -> Said {
    let text = without_passwords(text);
    let marked = MARKS.iter().find_map(|mark| {
        text.split_once(mark)
            .map(|(before, answer)| (before, *mark, answer))
    });
    let Some((before, mark, answer)) = marked else {
        return refused(text, kind, "");
    };
    // The status comes before the answer, if it is what makes this an error.
    let (status, body) = match mark == MARKS[0] {
        true => answer.split_once(": ").unwrap_or((answer, "")),
        false => ("an error", answer),
    };
    let (code, message) = code_and_message(body);
    let mut text = format!("{before}the server answered {status}");
    for part in [&code, &message] {
        if !part.is_empty() {
            text = format!("{text}: {part}");
        }
    }
    refused(text, kind, &code)
}

/// Removes names and passwords from addresses (`http://NAME:PASSWORD@HOST/`), which those of self-hosted servers may have.
fn without_passwords(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("://") {
        let end = behind.find(|c: char| c == '/' || c.is_whitespace());
        let (authority, behind) = behind.split_at(end.unwrap_or(behind.len()));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        plain = format!("{plain}{before}://{host}");
        rest = behind;
    }
    plain + rest
}

/// Adds what to do if access was refused.
fn refused(text: String, kind: ErrorKind, code: &str) -> Said {
    let what_to_do = match code {
        "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" | "ExpiredAuthenticationToken" => {
            "the credentials have expired: replace them (a file is read again for each command; an agent has the environment \
            that it was started with)"
        }
        "RequestTimeTooSkewed" | "RequestExpired" => {
            "the clock of this host, or of the server, is wrong: set it"
        }
        _ if kind == ErrorKind::PermissionDenied => {
            "check whose credentials these are, and that they may list, read, write and delete objects there"
        }
        _ => return Said { text, kind },
    };
    Said {
        text: format!("{text}; {what_to_do}"),
        kind: ErrorKind::PermissionDenied,
    }
}

/// Code and message of an error as clouds write it: XML (S3, Azure, Google's XML interface), or JSON (token services). Empty for anything
/// else.
fn code_and_message(body: &str) -> (String, String) {
    let (code, message) = match serde_json::from_str::<Value>(body) {
        Ok(json) => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
            match &json["error"] {
                Value::String(code) => (code.clone(), text(&json["error_description"])),
                error => (text(&error["status"]), text(&error["message"])),
            }
        }
        Err(_) => (element(body, "Code"), element(body, "Message")),
    };
    // Further lines have the time and the number of the request.
    let first_line = |text: String| -> String {
        let line = text.trim().lines().next().unwrap_or_default();
        line.trim_end_matches('.').chars().take(LONGEST).collect()
    };
    (first_line(code), first_line(message))
}

/// Text of the first element with this name.
fn element(xml: &str, name: &str) -> String {
    let found = || {
        let (_, rest) = xml.split_once(&format!("<{name}>"))?;
        let (content, _) = rest.split_once(&format!("</{name}>"))?;
        // Nested elements could be anything.
        (!content.contains('<')).then(|| content.to_string())
    };
    found().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "very-secret-0123456789";

    /// As object_store words an answer with this status.
    fn of(status: &str, body: &str, kind: ErrorKind) -> Said {
        let said = said(
            &format!(
                "Generic S3 error: Error performing PUT http://h/fleet/x in 1.2ms - Server returned non-2xx status code: \
                {status}: {body}"
            ),
            kind,
        );
        assert!(!said.text.contains(SECRET), "{said:?}");
        let begin = "Generic S3 error: Error performing PUT http://h/fleet/x in 1.2ms - the server answered ";
        assert!(said.text.starts_with(&format!("{begin}{status}")), "{said:?}");
        said
    }

    #[test]
    fn a_token_that_has_expired_is_not_repeated() {
        // docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html; the element is not documented there, but it is sent.
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>ExpiredToken</Code><Message>The provided token has \
            expired.</Message><Token-0>{SECRET}</Token-0><RequestId>1</RequestId></Error>"
        );
        let said = of("400 Bad Request", &body, ErrorKind::Other);
        assert_eq!(said.kind, ErrorKind::PermissionDenied);
        for words in [
            "ExpiredToken: The provided token has expired; ",
            "the credentials have expired: replace them",
        ] {
            assert!(said.text.contains(words), "{said:?}");
        }
    }

    #[test]
    fn headers_that_were_signed_are_not_repeated() {
        let body = format!(
            "<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature we calculated does not match.</Message>\
            <AWSAccessKeyId>somebody</AWSAccessKeyId><CanonicalRequest>PUT\n/fleet/x\n\nx-amz-security-token:{SECRET}\n\
            </CanonicalRequest></Error>"
        );
        let said = of("403 Forbidden", &body, ErrorKind::PermissionDenied);
        assert!(
            said.text.contains(
                "SignatureDoesNotMatch: The request signature we calculated does not match; check whose"
            ),
            "{said:?}"
        );
    }

    #[test]
    fn a_clock_that_is_wrong_is_told_from_credentials_that_are() {
        let body =
            "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large.</Message></Error>";
        let said = of("403 Forbidden", body, ErrorKind::PermissionDenied);
        assert!(
            said.text
                .ends_with("the clock of this host, or of the server, is wrong: set it"),
            "{said:?}"
        );
    }

    #[test]
    fn who_gives_out_tokens_answers_in_another_form() {
        let body = format!(
            "{{\"error\":\"invalid_grant\",\"error_description\":\"Token has been expired or revoked.\",\"sent\":\"{SECRET}\"}}"
        );
        let said = of("400 Bad Request", &body, ErrorKind::Other);
        assert!(
            said.text
                .ends_with("invalid_grant: Token has been expired or revoked"),
            "{said:?}"
        );
        assert_eq!(said.kind, ErrorKind::Other);
        let body = format!(
            "{{\"error\":{{\"code\":401,\"status\":\"UNAUTHENTICATED\",\"message\":\"Invalid Credentials\"}},\"sent\":\"{SECRET}\"}}"
        );
        let said = of("401 Unauthorized", &body, ErrorKind::PermissionDenied);
        assert!(
            said.text
                .contains("UNAUTHENTICATED: Invalid Credentials; check whose"),
            "{said:?}"
        );
    }

    #[test]
    fn of_an_answer_of_another_form_only_the_status_is_said() {
        for body in [
            format!("<html>you sent authorization: {SECRET}</html>"),
            format!("<Error><Code><b>{SECRET}</b></Code><Message>{SECRET}"),
            format!("[\"{SECRET}\"]"),
            format!("\"{SECRET}\""),
            format!("502: {SECRET}"),
            String::new(),
        ] {
            let said = of("502 Bad Gateway", &body, ErrorKind::Other);
            assert!(said.text.ends_with("502 Bad Gateway"), "{said:?}");
            assert_eq!(said.kind, ErrorKind::Other);
        }
        let long = format!(
            "<Error><Code>SlowDown</Code><Message>{}\n{SECRET}</Message></Error>",
            "x".repeat(9_000)
        );
        let said = of("503 Service Unavailable", &long, ErrorKind::Other);
        assert!(
            said.text.len() < 700 && said.text.contains(": SlowDown: xxx"),
            "{said:?}"
        );
    }

    #[test]
    fn a_password_in_an_address_is_not_said() {
        let text = format!(
            "Error performing GET http://me:{SECRET}@h:9000/x in 1ms - http://{SECRET}@h: https://h/a@b s3://fleet"
        );
        assert_eq!(
            said(&text, ErrorKind::Other).text,
            "Error performing GET http://h:9000/x in 1ms - http://h: https://h/a@b s3://fleet"
        );
    }

    #[test]
    fn what_is_no_answer_stays_as_it_is() {
        let text = "Generic S3 error: error sending request: tcp connect error: Connection refused";
        assert_eq!(
            said(text, ErrorKind::Other),
            Said {
                text: text.to_string(),
                kind: ErrorKind::Other
            }
        );
        let other = format!("Generic S3 error: {}<Code>SlowDown</Code>{SECRET}", MARKS[1]);
        assert_eq!(
            said(&other, ErrorKind::Other).text,
            "Generic S3 error: the server answered an error: SlowDown"
        );
    }
}
