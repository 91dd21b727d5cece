//! The default name of a recording: the server, and when it began.

use std::path::Path;

use dbtime_model::recording::{DatabaseMeta, Meta};

/// Characters of one word of a name.
const WORD: usize = 40;
/// Parts of paths that do not distinguish servers.
const SAY_NOTHING: [&str; 4] = ["data", "pgdata", "pgsql", "postgresql"];

/// `postgresql-15-main-20261123T041436Z.dbt`: in UTC, as in reports.
///
/// `number`: counts, from 1, the recordings that would have the same name.
pub(super) fn name(meta: &Meta, number: u32) -> String {
    let mut words = words(&meta.database);
    if let Ok(start) = jiff::Timestamp::from_microsecond(meta.start_us) {
        words.push(start.strftime("%Y%m%dT%H%M%SZ").to_string());
    }
    if number > 1 {
        words.push(number.to_string());
    }
    format!("{}.dbt", words.join("-"))
}

fn words(database: &DatabaseMeta) -> Vec<String> {
    let mut words = vec![plain(&database.product)];
    // A process of no database has no data directory, only a working directory.
    if !database.version.is_empty() {
        words.push(plain_words(Path::new(&database.data_directory)));
    }
    if database.target != "server" {
        // For an Oracle instance, its name comes first, then the file that was given.
        let target = database.target.split(" by ").next().unwrap_or_default();
        words.push(plain(target));
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What distinguishes a directory from others, in words fit for a name: `15-main`; may be empty.
pub(crate) fn plain_words(directory: &Path) -> String {
    let parts: Vec<String> = directory
        .components()
        .map(|part| plain(&part.as_os_str().to_string_lossy()))
        .collect();
    let last = parts.iter().skip(parts.len().saturating_sub(2));
    let telling = last.filter(|part| !part.is_empty() && !SAY_NOTHING.contains(&part.as_str()));
    telling.map(String::as_str).collect::<Vec<_>>().join("-")
}

/// Keeps only what is safe in a file name: a server can call itself and its folders anything.
fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mapped: String = text
        .chars()
        .map(|c| if is_plain(c) { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let parts = mapped.split('-').map(|part| part.trim_matches('.'));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("-").chars().take(WORD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(product: &str, version: &str, directory: &str, target: &str) -> String {
        numbered(product, version, directory, target, 1)
    }

    fn numbered(product: &str, version: &str, directory: &str, target: &str, number: u32) -> String {
        let meta = Meta {
            start_us: 1_795_407_276_000_000,
            database: DatabaseMeta {
                product: product.to_string(),
                version: version.to_string(),
                data_directory: directory.to_string(),
                target: target.to_string(),
                ..DatabaseMeta::default()
            },
            ..Meta::default()
        };
        name(&meta, number)
    }

    #[test]
    fn the_name_says_which_server_and_when() {
        for (directory, server) in [
            ("/var/lib/postgresql/15/main", "postgresql-15-main"),
            ("/var/lib/pgsql/16/data", "postgresql-16"),
            ("/var/lib/postgresql/data", "postgresql"),
            ("/srv/shop", "postgresql-srv-shop"),
            ("/", "postgresql"),
        ] {
            assert_eq!(
                named("PostgreSQL", "15.18", directory, "server"),
                format!("{server}-20261123T041436Z.dbt")
            );
        }
        assert_eq!(
            named("PostgreSQL", "15.18", "/var/lib/postgresql/15/main", "pid 4711"),
            "postgresql-15-main-pid-4711-20261123T041436Z.dbt"
        );
        assert_eq!(
            numbered("PostgreSQL", "15.18", "/srv/shop", "server", 2),
            "postgresql-srv-shop-20261123T041436Z-2.dbt"
        );
        assert_eq!(
            named("fio", "", "/tmp", "pid 7"),
            "fio-pid-7-20261123T041436Z.dbt"
        );
        assert_eq!(
            named("Oracle", "19.0", "", "ORCL by /tmp/map.csv"),
            "oracle-orcl-20261123T041436Z.dbt"
        );
    }

    #[test]
    fn what_a_process_calls_itself_is_a_word_and_no_path() {
        for hostile in [
            "../../etc/passwd",
            "-rf",
            "a\nb\u{202e}c",
            "..",
            "x y;z",
            &"long".repeat(100),
        ] {
            let name = named(hostile, "1", hostile, hostile);
            assert!(name.len() < 255 && !name.starts_with(['-', '.']), "{name}");
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            assert!(name.chars().all(is_plain) && !name.contains(".."), "{name}");
        }
    }
}
