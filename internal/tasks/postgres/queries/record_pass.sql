update postrider.tasker_detector d
   set last_pass_at = clock_timestamp(), last_pass_by = $1::text, last_pass_ms = $2::double precision, last_pass_batches = $3::integer,
       last_pass_stale = $4::integer, last_pass_dry_run = $5::boolean
