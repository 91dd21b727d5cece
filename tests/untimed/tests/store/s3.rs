//! A store in S3, spoken to over HTTP: the server is moto, which Amazon's own clients are tested with.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Instant;

use dbtime_tests::{Outcome, repository, skip};
use serde_json::Value;

use super::made::{Made, as_json, plain, scratch};
use super::{clouds, server};

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
    // Without TLS only where that is asked for.
    let in_plain = [&CREDENTIALS[..], &[("AWS_ALLOW_HTTP", "false")]].concat();
    dbtime_with(&server.endpoint, &in_plain, &put)
        .expect_code(1)
        .expect_stderr(&["s3://fleet/x/dbtime-store.json", "scheme"]);
    // Where a machine of a cloud would be asked who it is nobody answers either.
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

/// Says to whoever asks that there is nothing, and nothing to whoever brings something.
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
