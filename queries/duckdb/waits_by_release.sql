-- Where DB time went under each release of the database server: wait event by state, in seconds. A release that was recorded for longer has
-- more of them: average_sessions is the total divided by the time that was recorded (how many sessions of a server were in this wait event
-- on average), percent is of the release's DB time. Needs views.sql.
WITH releases AS (
    SELECT host, recording, trim(product || ' ' || version) AS release,
           epoch("end") - epoch("start") AS seconds
    FROM recordings
),
recorded AS (
    SELECT release, count(DISTINCT host) AS hosts, sum(seconds) AS seconds
    FROM releases
    GROUP BY release
),
sums AS (
    SELECT r.release, t.wait_class, t.wait_event,
           sum(t.ns) FILTER (WHERE t.state = 'user') / 1e9 AS "user",
           sum(t.ns) FILTER (WHERE t.state = 'kernel') / 1e9 AS kernel,
           sum(t.ns) FILTER (WHERE t.state = 'runnable') / 1e9 AS runnable,
           sum(t.ns) FILTER (WHERE t.state = 'disk') / 1e9 AS disk,
           sum(t.ns) FILTER (WHERE t.state = 'sleep') / 1e9 AS sleep,
           sum(t.ns) FILTER (WHERE t.state IN ('cpu', 'stopped', 'unknown')) / 1e9 AS other,
           sum(t.ns) / 1e9 AS total
    FROM time_spent t
    JOIN releases r ON r.host = t.host AND r.recording = t.recording
    WHERE t.section = 'db_time'
    GROUP BY r.release, t.wait_class, t.wait_event
)
SELECT s.release, r.hosts, s.wait_class, s.wait_event, s."user", s.kernel, s.runnable, s.disk, s.sleep, s.other, s.total,
       100 * s.total / nullif(sum(s.total) OVER (PARTITION BY s.release), 0) AS percent,
       s.total / nullif(r.seconds, 0) AS average_sessions
FROM sums s
JOIN recorded r ON r.release = s.release
ORDER BY s.release, s.total DESC, s.wait_class, s.wait_event;
