//! Credentials for an object store: from the environment, or from a file that nobody else can read. They are never printed.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most bytes read of a credentials file.
const LARGEST: u64 = 1 << 20;

/// Amazon's variables that are credentials, or say where to get them.
const VARIABLES: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
];

/// Where they come from.
pub(super) enum Credentials {
    /// The environment.
    Environment,
    /// A file.
    File {
        key: String,
        secret: String,
        token: Option<String>,
    },
    /// None here: the cloud may know this machine.
    Host,
}

/// Credentials for S3.
pub(super) fn of_amazon() -> io::Result<Credentials> {
    if VARIABLES.iter().any(|name| std::env::var_os(name).is_some()) {
        return Ok(Credentials::Environment);
    }
    let named = std::env::var_os("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".aws/credentials"));
    let Some(path) = named.clone().or_else(usual) else {
        return Ok(Credentials::Host);
    };
    let text = match read(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && named.is_none() => {
            return Ok(Credentials::Host);
        }
        other => other.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?,
    };
    let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_string());
    of_profile(&text, &profile).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "{}: no aws_access_key_id and aws_secret_access_key for the profile '{profile}'",
                path.display()
            ),
        )
    })
}

/// Refuses credential files that others can read: those that variables name, else the one in the home directory. Returns whether there is
/// one.
pub(super) fn check_files(variables: &[&str], usual: &str) -> io::Result<bool> {
    let named: Vec<PathBuf> = variables
        .iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from)
        .collect();
    let check = |path: &Path| {
        open_own(path)
            .map(drop)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
    };
    for path in &named {
        check(path)?;
    }
    if !named.is_empty() {
        return Ok(true);
    }
    let Some(home) = std::env::var_os("HOME") else {
        return Ok(false);
    };
    match check(&PathBuf::from(home).join(usual)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        checked => checked.map(|()| true),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_own(path)?.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// Opens a file that only its owner, root or us, can read.
fn open_own(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let own = [0, rustix::process::geteuid().as_raw()];
    let refused = |what: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    if !metadata.is_file() {
        return refused("not a file");
    }
    if !own.contains(&metadata.uid()) {
        return refused("credentials of another user are not used");
    }
    if metadata.mode() & 0o077 != 0 {
        return refused("other users can read it: 'chmod 600' it first");
    }
    Ok(file)
}

fn of_profile(text: &str, profile: &str) -> Option<Credentials> {
    let mut is_meant = false;
    let (mut key, mut secret, mut token) = (None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_meant = name.trim() == profile;
        } else if let Some((name, value)) = line.split_once('=')
            && is_meant
        {
            let value = Some(value.trim().to_string());
            match name.trim() {
                "aws_access_key_id" => key = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(Credentials::File {
        key: key?,
        secret: secret?,
        token,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_profile_has_its_own_credentials() {
        let text =
            "[default]\naws_access_key_id = a\naws_secret_access_key=b\n# c\n[other]\naws_access_key_id=x\n";
        assert!(matches!(
            of_profile(text, "default"),
            Some(Credentials::File { key, secret, token: None }) if key == "a" && secret == "b"
        ));
        assert!(of_profile(text, "other").is_none() && of_profile(text, "none").is_none());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("credentials");
        fs::write(&path, "[default]\n").expect("a file");
        for (mode, is_read) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("our own file");
            assert_eq!(read(&path).is_ok(), is_read, "{mode:o}");
        }
        assert!(read(home.path()).is_err());
    }
}
