-- Statements that take more time than the day before, on each host that was recorded on both days and, where host is empty, on all of these
-- together; at most 20, those first that grew most, in average sessions on the hosts on which they grew. Needs views.sql, and the two days:
--
--   SET day = 2026-10-11; SET day_before = 2026-10-10;
--
-- average_sessions: DB time divided by the time that was recorded. It grows with the load, too: ms_per_transaction does not, but is known
-- only where the server's transactions were counted, and refers to the recordings that count them. It says nothing about executions: a
-- statement that each transaction executes twice as often takes twice the time. Statements with the same text are one, as servers number
-- them differently; without text it is their number.
WITH days AS (
    SELECT DATE '${day_before}' AS date UNION ALL SELECT DATE '${day}'
),
recorded AS (
    SELECT r.host,
           coalesce(sum(least(unix_micros(r.end) / 1e6, unix_date(d.date) * 86400 + 86400) - greatest(unix_micros(r.start) / 1e6, unix_date(d.date) * 86400))
                        FILTER (WHERE d.date = DATE '${day_before}'), 0) AS seconds_before,
           coalesce(sum(least(unix_micros(r.end) / 1e6, unix_date(d.date) * 86400 + 86400) - greatest(unix_micros(r.start) / 1e6, unix_date(d.date) * 86400))
                        FILTER (WHERE d.date = DATE '${day}'), 0) AS seconds_now
    FROM recordings r
    JOIN days d ON unix_micros(r.start) / 1e6 < unix_date(d.date) * 86400 + 86400 AND unix_micros(r.end) / 1e6 > unix_date(d.date) * 86400
    WHERE r.date <= DATE '${day}'
    GROUP BY r.host
),
hosts AS (
    SELECT * FROM recorded WHERE seconds_before > 0 AND seconds_now > 0
),
transactions AS (
    SELECT host, recording, date, sum(value) AS transactions
    FROM counters
    WHERE name = 'transactions' AND date IN (DATE '${day_before}', DATE '${day}')
    GROUP BY host, recording, date
    HAVING sum(value) > 0
),
work AS (
    SELECT host,
           sum(transactions) FILTER (WHERE date = DATE '${day_before}') AS transactions_before,
           sum(transactions) FILTER (WHERE date = DATE '${day}') AS transactions_now
    FROM transactions
    GROUP BY host
),
spent AS (
    SELECT t.host, t.recording, t.date, t.statement,
           coalesce(nullif(max(s.text), ''), CAST(t.statement AS STRING)) AS name, sum(t.ns) AS ns
    FROM time_spent t
    LEFT JOIN statements s ON s.host = t.host AND s.recording = t.recording AND s.id = t.statement
    WHERE t.section = 'db_time' AND t.statement <> 0 AND t.date IN (DATE '${day_before}', DATE '${day}')
    GROUP BY t.host, t.recording, t.date, t.statement
),
by_host AS (
    SELECT s.host, s.name, min(s.statement) AS statement,
           coalesce(sum(s.ns) FILTER (WHERE s.date = DATE '${day_before}'), 0) AS ns_before,
           coalesce(sum(s.ns) FILTER (WHERE s.date = DATE '${day}'), 0) AS ns_now,
           coalesce(sum(s.ns) FILTER (WHERE s.date = DATE '${day_before}' AND w.transactions > 0), 0) AS counted_ns_before,
           coalesce(sum(s.ns) FILTER (WHERE s.date = DATE '${day}' AND w.transactions > 0), 0) AS counted_ns_now
    FROM spent s
    LEFT JOIN transactions w ON w.host = s.host AND w.recording = s.recording AND w.date = s.date
    GROUP BY s.host, s.name
),
-- How much a statement grew, over the hosts on which it grew.
most AS (
    SELECT s.name, min(s.statement) AS statement,
           sum(greatest(s.ns_now / h.seconds_now - s.ns_before / h.seconds_before, 0)) / 1e9 AS growth
    FROM by_host s
    JOIN hosts h ON h.host = s.host
    GROUP BY s.name
    HAVING sum(greatest(s.ns_now / h.seconds_now - s.ns_before / h.seconds_before, 0)) > 0
    ORDER BY growth DESC, s.name
    LIMIT 20
),
-- Every compared host, including those on which the statement did not run: they were recorded and counted transactions.
cells AS (
    SELECT m.name AS name, m.statement AS statement, m.growth AS growth, h.host AS host, h.seconds_before AS seconds_before,
           h.seconds_now AS seconds_now, w.transactions_before AS transactions_before, w.transactions_now AS transactions_now,
           coalesce(s.ns_before, 0) AS ns_before, coalesce(s.ns_now, 0) AS ns_now,
           coalesce(s.counted_ns_before, 0) AS counted_ns_before, coalesce(s.counted_ns_now, 0) AS counted_ns_now
    FROM most m
    CROSS JOIN hosts h
    LEFT JOIN by_host s ON s.name = m.name AND s.host = h.host
    LEFT JOIN work w ON w.host = h.host
),
lines AS (
    SELECT * FROM cells WHERE ns_before + ns_now > 0
    UNION ALL
    SELECT name, statement, growth, '' AS host, sum(seconds_before), sum(seconds_now), sum(transactions_before),
           sum(transactions_now), sum(ns_before), sum(ns_now), sum(counted_ns_before), sum(counted_ns_now)
    FROM cells
    GROUP BY name, statement, growth
)
SELECT statement, name AS text, host,
       ns_before / 1e9 / seconds_before AS average_sessions_before,
       ns_now / 1e9 / seconds_now AS average_sessions_now,
       counted_ns_before / 1e6 / nullif(transactions_before, 0) AS ms_per_transaction_before,
       counted_ns_now / 1e6 / nullif(transactions_now, 0) AS ms_per_transaction_now
FROM lines
ORDER BY growth DESC, name, host <> '', average_sessions_now - average_sessions_before DESC, host;
