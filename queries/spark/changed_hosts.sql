-- Hosts whose load changed its shape from one day to the next, among those recorded on both: how much of their DB time moved between wait
-- events, 0 to 100 percent, and what they spend more on now. Needs views.sql, and the two days:
--
--   SET day = 2026-10-11; SET day_before = 2026-10-10;
WITH sums AS (
    SELECT host, date, wait_class || ':' || wait_event AS wait, sum(ns) AS ns
    FROM time_spent
    WHERE section = 'db_time' AND date IN (DATE '${day}', DATE '${day_before}')
    GROUP BY ALL
),
shape AS (
    SELECT host, date, wait, CAST(ns AS DOUBLE) / sum(ns) OVER (PARTITION BY host, date) AS share
    FROM sums
),
both_days AS (
    SELECT host, wait,
           coalesce(max(share) FILTER (WHERE date = DATE '${day_before}'), 0) AS share_before,
           coalesce(max(share) FILTER (WHERE date = DATE '${day}'), 0) AS share_now
    FROM shape
    GROUP BY ALL
)
SELECT host,
       100 * sum(abs(share_now - share_before)) / 2 AS percent_moved,
       max_by(wait, share_now - share_before) AS more_of,
       100 * max(share_now - share_before) AS by_percent_of_db_time
FROM both_days
WHERE host IN (SELECT host FROM sums GROUP BY host HAVING count(DISTINCT date) = 2)
GROUP BY host
ORDER BY percent_moved DESC, host;
