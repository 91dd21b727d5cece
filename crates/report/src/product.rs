//! The recorded database in words: its version, and those with which it came back later.

use dbtime_model::recording::DatabaseMeta;

use crate::group::date_and_time;

/// `PostgreSQL 17.2, from 12:00:03 on 18.1`: with the time of day, UTC, and the date if it differs from that of `start_us`.
pub(crate) fn with_times(database: &DatabaseMeta, start_us: i64) -> String {
    let named = format!("{} {}", database.product, database.version);
    let date = |us| date_and_time(us).map(|(date, _)| date);
    let later = database.later_versions.iter().map(|later| {
        let moment = match date_and_time(later.from_us) {
            Some((day, time)) if date(start_us).as_ref() != Some(&day) => format!("{day} {time}"),
            Some((_, time)) => time,
            None => "a later moment".to_string(),
        };
        format!(", from {moment} on {}", later.version)
    });
    named.trim().to_string() + &later.collect::<String>()
}

#[cfg(test)]
mod tests {
    use dbtime_model::recording::LaterVersion;

    use super::*;

    const NOON_US: i64 = 1_791_633_600_000_000;

    #[test]
    fn what_a_server_came_back_as_is_said_with_its_time() {
        let mut database = DatabaseMeta {
            product: "PostgreSQL".to_string(),
            version: "17.2".to_string(),
            ..DatabaseMeta::default()
        };
        assert_eq!(with_times(&database, NOON_US), "PostgreSQL 17.2");
        database.later_versions = [(3, "18.1"), (86_400, "18.2")]
            .map(|(s, version)| LaterVersion {
                from_us: NOON_US + s * 1_000_000,
                version: version.to_string(),
                ..LaterVersion::default()
            })
            .to_vec();
        assert_eq!(
            with_times(&database, NOON_US),
            "PostgreSQL 17.2, from 12:00:03 on 18.1, from 2026-10-11 12:00:00 on 18.2"
        );
    }
}
