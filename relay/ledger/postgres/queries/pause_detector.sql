-- What somebody paused without an end is not given one by a pause that has an end, and a detector shortens no pause.
update postrider.tasker_detector d
   set paused_at = c.now, paused_by = $1::text, pause_reason = nullif($2::text, ''),
       resume_at = case when $3::double precision > 0 then c.now + make_interval(secs => $3::double precision) end
  from (select clock_timestamp() as now offset 0) c
 where $3::double precision = 0 or d.paused_at is null
    or d.resume_at is not null and ($1::text <> 'latency_limit' or d.resume_at < c.now + make_interval(secs => $3::double precision))
