drop view postrider.v_task_staleness_monitoring;
drop function postrider.refresh_dashboards(integer, integer, integer, integer, interval);
drop function postrider.task_staleness_now(integer, integer, integer, integer);
drop index postrider.tasker_tasks_flagged;
drop table postrider.dashboard_summary;
