//! A store in S3, spoken to over HTTP: the server is moto, which Amazon's own clients are tested with.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Instant;

use dbtime_tests::{Outcome, repository, skip};
use serde_json::Value;

use super::made::{Made, START_S, as_json, plain, record, scratch};
use super::unreliable::Unreliable;
use super::{clouds, of_recording, server};

/// A server of its own, on a port of its own; ends when dropped.
pub(crate) struct Server {
    _server: server::Server,
    pub(crate) endpoint: String,
}

impl Server {
    pub(crate) fn start() -> Option<Server> {
        let moto = repository().join("target/venv/bin/moto_server");
        if !moto.exists() {
            skip("no moto_server: run scripts/python-env.sh");
            return None;
        }
        let mut command = Command::new(moto);
        command
            .args(["-H", "127.0.0.1", "-p", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let (server, endpoint) =
            server::Server::start(&mut command, |child| child.stderr.take(), "Running on ");
        let server = Server {
            _server: server,
            endpoint,
        };
        let made = Command::new(repository().join("target/venv/bin/python"))
            .args(["-c", "import boto3, sys; boto3.client('s3', endpoint_url=sys.argv[1]).create_bucket(Bucket='fleet')"])
            .arg(&server.endpoint)
            .envs(CREDENTIALS)
            .status();
        assert!(made.expect("python runs").success());
        Some(server)
    }

    pub(crate) fn dbtime(&self, arguments: &[&str]) -> Outcome {
        dbtime_with(&self.endpoint, &CREDENTIALS, arguments)
    }
}

const SECRET: &str = "very-secret-0123456789";
pub(crate) const CREDENTIALS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "somebody"),
    ("AWS_SECRET_ACCESS_KEY", SECRET),
    ("AWS_DEFAULT_REGION", "us-east-1"),
];

/// Runs the command with this server and these variables.
fn dbtime_with(endpoint: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    let all = [
        &[("AWS_ALLOW_HTTP", "true")],
        variables,
        &[("AWS_ENDPOINT", endpoint)],
    ]
    .concat();
    clouds::dbtime_with(&all, arguments)
}

#[test]
fn a_store_in_s3_is_as_one_in_a_directory() {
    let Some(server) = Server::start() else { return };
    clouds::is_as_one_in_a_directory("s3://fleet/some/where", &|arguments| server.dbtime(arguments));
    // A prefix of the name of a store is another store.
    server.dbtime(&["report", "s3://fleet/some"]).expect_code(1);
    server.dbtime(&["report", "s3://other/x"]).expect_code(1);
}

#[test]
fn a_server_that_is_away_and_credentials_that_are_missing_are_named_and_no_secret_is_printed() {
    let Some(server) = Server::start() else { return };
    let home = scratch();
    let made = Made::two_hosts(&home);
    let (_, recording) = made.recordings()[0];
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = format!("http://{}", closed.local_addr().expect("an address"));
    drop(closed);
    let begin = Instant::now();
    let put = ["store", "put", plain(recording), "s3://fleet/x"];
    let away = dbtime_with(&nobody, &CREDENTIALS, &put)
        .expect_code(1)
        .expect_stderr(&["s3://fleet/x"]);
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
    // Plain HTTP only where that is asked for.
    let in_plain = [&CREDENTIALS[..], &[("AWS_ALLOW_HTTP", "false")]].concat();
    dbtime_with(&server.endpoint, &in_plain, &put)
        .expect_code(1)
        .expect_stderr(&["s3://fleet/x/dbtime-store.json", "scheme"]);
    // Nobody answers at the address of the cloud's metadata service either.
    let nothing = [
        ("AWS_METADATA_ENDPOINT", nobody.as_str()),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ];
    let unknown = dbtime_with(&server.endpoint, &nothing, &put)
        .expect_code(1)
        .expect_stderr(&["credentials"]);
    // A file that others can read is not used.
    let file = home.path().join("credentials");
    std::fs::write(
        &file,
        format!("[default]\naws_access_key_id=somebody\naws_secret_access_key={SECRET}\n"),
    )
    .expect("a file");
    let of_file = [
        ("AWS_SHARED_CREDENTIALS_FILE", plain(&file)),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ];
    let mode = |mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("our own file");
    };
    mode(0o644);
    let refused = dbtime_with(&server.endpoint, &of_file, &put)
        .expect_code(1)
        .expect_stderr(&["chmod", plain(&file)]);
    mode(0o600);
    let taken = dbtime_with(&server.endpoint, &of_file, &put).expect_code(0);
    for outcome in [away, unknown, refused, taken] {
        assert!(
            !outcome.stderr.contains(SECRET) && !outcome.stdout.contains(SECRET),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_server_that_takes_connections_and_says_nothing_is_given_up() {
    // Taken by the kernel; nobody reads what is sent.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", silent.local_addr().expect("an address"));
    let begin = Instant::now();
    dbtime_with(&endpoint, &CREDENTIALS, &["report", "s3://fleet/x"])
        .expect_code(1)
        .expect_stderr(&["s3://fleet/x/dbtime-store.json", "does not answer", "15"]);
    let seconds = begin.elapsed().as_secs();
    assert!((15..75).contains(&seconds), "{seconds} s");
}

#[test]
fn through_a_way_on_which_everything_fails_once_all_of_it_comes_and_nothing_twice() {
    let Some(server) = Server::start() else { return };
    let unreliable = Unreliable::before(&server.endpoint);
    let home = scratch();
    let early = record(&home, "early.dbt", "db1", START_S, 1, false);
    let late = record(&home, "late.dbt", "db1", START_S, 2, true);
    let mut failures = 0;
    let mut dbtime = |arguments: &[&str]| {
        let outcome = dbtime_with(&unreliable.endpoint, &CREDENTIALS, arguments).expect_code(0);
        assert!(
            unreliable.failures() > failures + 5,
            "{failures} after {arguments:?}"
        );
        failures = unreliable.failures();
        assert!(!outcome.stderr.contains(SECRET), "{outcome:?}");
        outcome.stdout
    };
    for state in [&early, &late] {
        dbtime(&["store", "put", plain(state), "s3://fleet/x"]);
    }
    let report = dbtime(&["report", "s3://fleet/x", "--format", "json"]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(of_recording(report), as_json(&["report", plain(&late)]));
    // As if nothing had been.
    server
        .dbtime(&["store", "put", plain(&late), "s3://fleet/x"])
        .expect_code(0)
        .expect_stderr(&["already"]);
    server
        .dbtime(&["store", "put", plain(&late), "s3://fleet/y"])
        .expect_code(0);
    let listed = |store: &str| {
        let listed = server.dbtime(&["store", "list", store, "--format", "json"]);
        serde_json::from_str::<Value>(&listed.expect_code(0).stdout).expect("JSON")
    };
    let found = listed("s3://fleet/x");
    assert_eq!(found, listed("s3://fleet/y"));
    assert_eq!(found["left_files"], 0);
}

/// Answers every GET with 404, and nothing else at all.
fn taken_by_nobody(listener: &TcpListener) {
    for connection in listener.incoming() {
        let mut connection = connection.expect("a connection");
        std::thread::spawn(move || {
            let mut from = [0; 1 << 16];
            while let Ok(1..) = connection.read(&mut from) {
                if from.starts_with(b"GET") {
                    let nothing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
                    connection.write_all(nothing).expect("it is read");
                }
            }
        });
    }
}

#[test]
fn a_server_that_takes_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || taken_by_nobody(&listener));
    let home = scratch();
    let made = Made::two_hosts(&home);
    let begin = Instant::now();
    let put = ["store", "put", plain(made.recordings()[0].1), "s3://fleet/x"];
    dbtime_with(&endpoint, &CREDENTIALS, &put)
        .expect_code(1)
        .expect_stderr(&[
            "s3://fleet/x/dbtime-store.json",
            "did not accept it within 30 seconds",
        ]);
    let seconds = begin.elapsed().as_secs();
    assert!((30..75).contains(&seconds), "{seconds} s");
}

/// Refuses every request and repeats all of it: as S3 does with an expired token, and with the signed headers where a signature is wrong.
fn repeats_everything(listener: &TcpListener) {
    for connection in listener.incoming() {
        let mut connection = connection.expect("a connection");
        let (mut request, mut from) = (Vec::new(), [0; 1 << 12]);
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            match connection.read(&mut from) {
                Ok(bytes @ 1..) => request.extend_from_slice(&from[..bytes]),
                _ => break,
            }
        }
        let body = format!(
            "<?xml version=\"1.0\"?><Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message>\
            <Token-0>{}</Token-0></Error>",
            String::from_utf8_lossy(&request)
        );
        let head = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/xml\r\nContent-Length";
        // The client may have given up.
        let _ = write!(connection, "{head}: {}\r\n\r\n{body}", body.len());
    }
}

#[test]
fn credentials_that_have_expired_are_told_and_nothing_of_them_is_repeated() {
    const TOKEN: &str = "a-token-of-a-session-0123456789";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || repeats_everything(&listener));
    let home = scratch();
    let made = Made::two_hosts(&home);
    let recording = plain(made.recordings()[0].1);
    let session = [&CREDENTIALS[..], &[("AWS_SESSION_TOKEN", TOKEN)]].concat();
    for command in [
        &["store", "put", recording, "s3://fleet/x"][..],
        &["report", "s3://fleet/x"],
        &[
            "store",
            "prune",
            "s3://fleet/x",
            "--host",
            "db1",
            "--older-than",
            "1h",
        ],
    ] {
        let refused = dbtime_with(&endpoint, &session, command)
            .expect_code(1)
            .expect_stderr(&[
                "s3://fleet/x/dbtime-store.json",
                "ExpiredToken: The provided token has expired",
                "replace them",
            ]);
        for secret in [TOKEN, SECRET] {
            assert!(
                !refused.stderr.contains(secret) && !refused.stdout.contains(secret),
                "{refused:?}"
            );
        }
    }
}

#[test]
fn copies_of_what_is_read_are_gone_at_the_end() {
    let Some(server) = Server::start() else { return };
    let home = scratch();
    let made = Made::two_hosts(&home);
    let [one, other] = made.recordings().map(|(_, path)| plain(path));
    server
        .dbtime(&["store", "put", one, other, "s3://fleet/copies"])
        .expect_code(0);
    let temporary = home.path().join("tmp");
    std::fs::create_dir(&temporary).expect("a folder");
    let variables = [&CREDENTIALS[..], &[("TMPDIR", plain(&temporary))]].concat();
    let sides = ["s3://fleet/copies?host=db1", "s3://fleet/copies?host=db2"];
    let diff = ["diff", sides[0], sides[1], "--format", "json"];
    let both = std::thread::scope(|scope| {
        let run = || dbtime_with(&server.endpoint, &variables, &diff);
        [(); 2]
            .map(|()| scope.spawn(run))
            .map(|run| run.join().expect("it ends").expect_code(0).stdout)
    });
    let truth = as_json(&["diff", one, other]);
    for found in both {
        let found: Value = serde_json::from_str(&found).expect("JSON");
        assert_eq!(found, truth);
    }
    assert_eq!(std::fs::read_dir(&temporary).expect("a folder").count(), 0);
}
