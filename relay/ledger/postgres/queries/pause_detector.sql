-- What somebody paused without an end is not given one by a detector.
update postrider.tasker_detector d
   set paused_at = clock_timestamp(), paused_by = $1::text, pause_reason = nullif($2::text, ''),
       resume_at = case when $3::double precision > 0 then clock_timestamp() + make_interval(secs => $3::double precision) end
 where $3::double precision = 0 or d.paused_at is null or d.resume_at is not null
