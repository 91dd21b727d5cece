-- Where DB time went on each host: wait event by state. Needs views.sql.
SELECT host, wait_class, wait_event,
       sum(ns) FILTER (WHERE state = 'user') / 1e9 AS user,
       sum(ns) FILTER (WHERE state = 'kernel') / 1e9 AS kernel,
       sum(ns) FILTER (WHERE state = 'runnable') / 1e9 AS runnable,
       sum(ns) FILTER (WHERE state = 'disk') / 1e9 AS disk,
       sum(ns) FILTER (WHERE state = 'sleep') / 1e9 AS sleep,
       sum(ns) FILTER (WHERE state IN ('cpu', 'stopped', 'unknown')) / 1e9 AS other,
       sum(ns) / 1e9 AS total
FROM time_spent
WHERE section = 'db_time'
GROUP BY ALL
ORDER BY host, total DESC, wait_class, wait_event;
