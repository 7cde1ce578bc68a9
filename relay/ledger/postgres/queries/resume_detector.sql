with before as (
    select d.paused_at is not null and (d.resume_at is null or d.resume_at > clock_timestamp()) as paused from postrider.tasker_detector d
    for update
), changed as (
    update postrider.tasker_detector d set paused_at = null, paused_by = null, pause_reason = null, resume_at = null where d.paused_at is not null
)
select b.paused from before b
