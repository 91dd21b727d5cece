-- The statements with the most DB time, over all hosts of the store. Needs views.sql.
SELECT t.statement,
       max(s.text) AS text,
       count(DISTINCT t.host) AS hosts,
       sum(t.ns) / 1e9 AS seconds,
       100e0 * sum(t.ns) / sum(sum(t.ns)) OVER () AS percent,
       sum(t.ns) FILTER (WHERE t.state IN ('user', 'kernel', 'cpu')) / 1e9 AS cpu_seconds,
       sum(t.ns) FILTER (WHERE t.state = 'runnable') / 1e9 AS run_queue_seconds
FROM time_spent t
LEFT JOIN statements s ON s.host = t.host AND s.recording = t.recording AND s.id = t.statement
WHERE t.section = 'db_time'
GROUP BY t.statement
ORDER BY seconds DESC, t.statement
LIMIT 20;
