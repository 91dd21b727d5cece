//! Which package of the distribution has the symbols of a stripped executable.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::elf_names::Unnamed;
use crate::process;

/// Says how to name the functions of an executable, which process `pid` runs from `path`, and how many there are. The package is
/// looked up in the root of the process: a container has packages of its own.
pub(super) fn advice(pid: u32, path: &Path, build_id: &str, unnamed: Unnamed) -> String {
    let name = path
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let unnamed = match unnamed.all {
        0 => "functions that are not exported".to_string(),
        all => format!("{} of its {all} functions", unnamed.without_name),
    };
    let file = match build_id.split_at_checked(2) {
        Some((folder, rest)) if !rest.is_empty() => format!("/usr/lib/debug/.build-id/{folder}/{rest}.debug"),
        _ => {
            return format!(
                "{name} is stripped: {unnamed} have no names, and it has no build id to find them by"
            );
        }
    };
    let root = process::path(pid, "root");
    let who_has_them = match debian_package(&root, path) {
        Some(package) => {
            format!(
                "{package}-dbgsym has them (distribution's archive of debug symbols, build id {build_id})"
            )
        }
        None if root.join("usr/bin/rpm").exists() || root.join("bin/rpm").exists() => {
            format!("dnf install {file} installs them")
        }
        None => format!("the debug symbols of its package have them ({file})"),
    };
    format!("{name} is stripped: {unnamed} have no names; {who_has_them}")
}

/// The Debian package that a file belongs to.
fn debian_package(root: &Path, path: &Path) -> Option<String> {
    let lists = fs::read_dir(root.join("var/lib/dpkg/info")).ok()?;
    let wanted = path.to_str()?;
    // Where /bin is /usr/bin, a package may list either.
    let other = wanted.strip_prefix("/usr").unwrap_or(wanted);
    let mut lists: Vec<PathBuf> = lists.flatten().map(|entry| entry.path()).collect();
    lists.retain(|list| list.extension().is_some_and(|extension| extension == "list"));
    // The likeliest first.
    lists.sort_by_key(|list| {
        !list
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("postgresql"))
    });
    let list = lists.into_iter().find(|list| {
        read_list(list).is_ok_and(|text| text.lines().any(|line| line == wanted || line == other))
    })?;
    let name = list.file_stem()?.to_string_lossy().into_owned();
    // postgresql-15:amd64 where a package may be installed for several architectures
    Some(name.split(':').next().unwrap_or(&name).to_string())
}

/// Reads a list of files: a regular file, up to a size that none exceeds.
fn read_list(path: &Path) -> io::Result<String> {
    const LONGEST: u64 = 16 << 20;
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let mut text = String::new();
    if file.metadata()?.is_file() {
        file.take(LONGEST).read_to_string(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_the_one_that_lists_the_file() {
        let root = std::env::temp_dir().join(format!("dbtime-packages-{}", std::process::id()));
        let info = root.join("var/lib/dpkg/info");
        fs::create_dir_all(&info).expect("a directory of our own");
        let write = |name: &str, text: &str| fs::write(info.join(name), text).expect("a file of our own");
        write(
            "postgresql-15.list",
            "/.\n/usr\n/usr/lib/postgresql/15/bin/postgres\n",
        );
        write("postgresql-client-15.list", "/usr/lib/postgresql/15/bin/psql\n");
        write("libc6:amd64.list", "/lib/x86_64-linux-gnu/libc.so.6\n");
        write("libc6:amd64.md5sums", "/usr/lib/postgresql/15/bin/postgres\n");
        let package = |path: &str| debian_package(&root, Path::new(path));
        assert_eq!(
            package("/usr/lib/postgresql/15/bin/postgres").as_deref(),
            Some("postgresql-15")
        );
        assert_eq!(
            package("/usr/lib/x86_64-linux-gnu/libc.so.6").as_deref(),
            Some("libc6")
        );
        assert_eq!(package("/opt/postgres"), None);
        fs::remove_dir_all(&root).expect("a directory of our own");
    }
}
