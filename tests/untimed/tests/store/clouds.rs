//! Stores in other clouds than Amazon's. Azure's is Azurite, Microsoft's own emulator. For Google's the package registries have none: its
//! XML interface is S3's in all that dbtime uses, so moto stands in for it.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use dbtime_tests::{Outcome, dbtime_binary, repository, skip};
use serde_json::Value;

use super::made::{HOUR_S, Made, START_S, as_json, moment, plain, record, scratch};
use super::s3;
use super::server::Server;

/// What is put into a store comes out of it, and it has the same objects as one in a directory.
pub(crate) fn is_as_one_in_a_directory(store: &str, dbtime: &dyn Fn(&[&str]) -> Outcome) {
    let json = |arguments: &[&str]| -> Value {
        let answer = dbtime(&[arguments, &["--format", "json"]].concat()).expect_code(0);
        serde_json::from_str(&answer.stdout).expect("JSON")
    };
    let home = scratch();
    let made = Made::two_hosts(&home);
    let [one, other] = made.recordings().map(|(_, path)| plain(path));
    dbtime(&["report", store])
        .expect_code(1)
        .expect_stderr(&[store, "store put"]);
    for said in ["5 hours", "already"] {
        let put = dbtime(&["store", "put", one, other, store]).expect_code(0);
        assert!(
            said == "5 hours" || put.stderr.matches(said).count() == 2,
            "{put:?}"
        );
    }
    let [from, to] = [START_S + HOUR_S, START_S + 2 * HOUR_S].map(moment);
    for (host, recording) in made.recordings() {
        for part in [&[][..], &["--from", &from, "--to", &to]] {
            let truth = as_json(&[&["report", plain(recording)], part].concat());
            let mut found = json(&[&["report", store, "--host", host], part].concat());
            let read = found
                .as_object_mut()
                .expect("an object")
                .remove("store")
                .expect("it was counted");
            assert_eq!(found, truth);
            assert!(read["read_bytes"].as_u64() < read["bytes"].as_u64(), "{read}");
        }
    }
    // The same objects as in a directory, byte by byte.
    let local = made.put(&home);
    let listed = |listing: Value| listing["hosts"].clone();
    assert_eq!(
        listed(json(&["store", "list", store])),
        listed(as_json(&["store", "list", plain(&local)]))
    );
    let page = home.path().join("page.html");
    let address = format!("{store}?host=db1");
    dbtime(&["html", &address, "-o", plain(&page)]).expect_code(0);
    let diff = json(&["diff", &address, &format!("{store}?host=db2")]);
    assert_eq!(diff, as_json(&["diff", one, other]));
    // What is removed is gone, and nothing else.
    let before = json(&["store", "list", store]);
    let older = record(&home, "older.dbt", "db1", START_S - 24 * HOUR_S, 2, true);
    dbtime(&["store", "put", plain(&older), store]).expect_code(0);
    assert_ne!(json(&["store", "list", store]), before);
    dbtime(&["store", "prune", store, "--host", "db1", "--older-than", "1h"]).expect_code(0);
    assert_eq!(json(&["store", "list", store]), before);
}

/// Runs the command with these variables and no others of clouds.
pub(crate) fn dbtime_with(variables: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    let mut command = Command::new(dbtime_binary());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["AWS_", "AZURE_", "GOOGLE_"]
            .iter()
            .any(|of| text.starts_with(of))
            || text == "HOME"
        {
            command.env_remove(name);
        }
    }
    command
        .envs(variables.iter().copied())
        .args(arguments)
        .output()
        .expect("the command can be run")
        .into()
}

#[test]
fn a_store_in_googles_cloud_is_as_one_in_a_directory() {
    let Some(server) = s3::Server::start() else { return };
    let variables = [
        ("GOOGLE_BASE_URL", server.endpoint.as_str()),
        ("GOOGLE_ALLOW_HTTP", "true"),
        ("GOOGLE_BEARER_TOKEN", "stand-in"),
    ];
    is_as_one_in_a_directory("gs://fleet/some/where", &|arguments| {
        dbtime_with(&variables, arguments)
    });
}

#[test]
fn googles_credentials_that_others_can_read_are_refused() {
    let home = scratch();
    let made = Made::two_hosts(&home);
    let secret = "very-secret-0123456789";
    let key = format!("{{\"type\": \"authorized_user\", \"client_secret\": \"{secret}\"}}");
    let usual = home
        .path()
        .join(".config/gcloud/application_default_credentials.json");
    std::fs::create_dir_all(usual.parent().expect("a folder")).expect("a folder");
    for path in [home.path().join("key.json"), usual] {
        std::fs::write(&path, &key).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("our own file");
        let named = [("GOOGLE_APPLICATION_CREDENTIALS", plain(&path))];
        let at_home = [("HOME", plain(home.path()))];
        let is_named = path.ends_with("key.json");
        let outcome = dbtime_with(
            if is_named { &named } else { &at_home },
            &["store", "put", plain(made.recordings()[0].1), "gs://fleet/x"],
        )
        .expect_code(1)
        .expect_stderr(&["chmod 600", plain(&path)]);
        assert!(!outcome.stderr.contains(secret), "{outcome:?}");
    }
}

/// Azurite on a port of its own; ends when dropped.
struct Azurite {
    _server: Server,
    endpoint: String,
}

/// The emulator's, which is public (learn.microsoft.com/azure/storage/common/storage-use-azurite).
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Makes a container: argument 1 is the address of the account, argument 2 its key.
const MAKE_CONTAINER: &str = "
import base64, email.utils, hashlib, hmac, sys, urllib.request
address, key = sys.argv[1:]
headers = {'x-ms-date': email.utils.formatdate(usegmt=True), 'x-ms-version': '2021-10-04'}
signed = 'PUT' + 12 * chr(10) + ''.join(f'{k}:{v}' + chr(10) for k, v in headers.items())
signed += '/devstoreaccount1/devstoreaccount1/fleet' + chr(10) + 'restype:container'
mac = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
headers['Authorization'] = 'SharedKey devstoreaccount1:' + base64.b64encode(mac).decode()
headers['Content-Length'] = '0'
request = urllib.request.Request(address + '/fleet?restype=container', method='PUT', headers=headers)
assert urllib.request.urlopen(request).status == 201
";

impl Azurite {
    fn start() -> Option<Azurite> {
        let program = repository().join("target/readers/azurite/node_modules/.bin/azurite-blob");
        if !program.exists() {
            skip("no azurite: run scripts/readers.sh");
            return None;
        }
        let mut command = Command::new(program);
        command
            .args(["--blobHost", "127.0.0.1", "--blobPort", "0"])
            .args(["--inMemoryPersistence", "--skipApiVersionCheck"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let (server, address) = Server::start(&mut command, |child| child.stdout.take(), "listens on ");
        let server = Azurite {
            _server: server,
            endpoint: format!("{address}/devstoreaccount1"),
        };
        let made = Command::new("python3")
            .args(["-c", MAKE_CONTAINER, &server.endpoint, KEY])
            .status();
        assert!(made.expect("python runs").success());
        Some(server)
    }
}

#[test]
fn a_store_in_azure_is_as_one_in_a_directory() {
    let Some(server) = Azurite::start() else { return };
    let variables = [
        ("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1"),
        ("AZURE_STORAGE_ACCOUNT_KEY", KEY),
        ("AZURE_STORAGE_ENDPOINT", server.endpoint.as_str()),
        ("AZURE_ALLOW_HTTP", "true"),
    ];
    is_as_one_in_a_directory("az://fleet/some/where", &|arguments| {
        dbtime_with(&variables, arguments)
    });
    // A wrong key is refused, and not shown.
    let wrong = KEY.replacen('E', "F", 1);
    let stranger = [
        &variables[..1],
        &[("AZURE_STORAGE_ACCOUNT_KEY", wrong.as_str())],
        &variables[2..],
    ]
    .concat();
    let refused = dbtime_with(&stranger, &["report", "az://fleet/some/where"])
        .expect_code(1)
        .expect_stderr(&["az://fleet/some/where/dbtime-store.json"]);
    assert!(!refused.stderr.contains(&wrong), "{refused:?}");
    // Without a key it says where it looks for one.
    let nobody = [
        variables[0],
        variables[2],
        variables[3],
        ("AZURE_MSI_ENDPOINT", "http://127.0.0.1:1"),
    ];
    dbtime_with(&nobody, &["report", "az://fleet/some/where"])
        .expect_code(1)
        .expect_stderr(&["AZURE_STORAGE_ACCOUNT_KEY"]);
}
