-- Also removes a pause whose end has come. The condition is on the row itself and uses statement_timestamp(): a pause
-- that another session writes while this waits for the row stays.
update postrider.tasker_detector d
   set last_pass_at = clock_timestamp(), last_pass_by = $1::text, last_pass_ms = $2::double precision, last_pass_batches = $3::integer,
       last_pass_stale = $4::integer, last_pass_dry_run = $5::boolean,
       paused_at = case when d.resume_at <= statement_timestamp() then null else d.paused_at end,
       paused_by = case when d.resume_at <= statement_timestamp() then null else d.paused_by end,
       pause_reason = case when d.resume_at <= statement_timestamp() then null else d.pause_reason end,
       resume_at = case when d.resume_at <= statement_timestamp() then null else d.resume_at end
