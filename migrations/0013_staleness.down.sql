drop function postrider.detect_and_transition_stale_tasks(boolean, integer, integer, integer, integer, integer, integer, boolean, boolean, boolean, boolean, boolean);
drop type postrider.tasker_stale_task;
drop function postrider.near_stale_tasks(double precision, integer, integer, integer, integer, integer);
drop function postrider.task_check_thresholds(integer, integer, integer, integer, integer);
drop function postrider.lifecycle_lifetimes(double precision, integer, uuid, uuid);
drop function postrider.lifecycle_stays(double precision, integer, integer, integer, uuid, uuid);
drop function postrider.lifecycle_templates(uuid, uuid);
drop table postrider.tasker_detector;
alter table postrider.tasker_tasks reset (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
    autovacuum_analyze_scale_factor, autovacuum_analyze_threshold);
