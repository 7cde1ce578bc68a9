create or replace function postrider.tasks_merge_counts() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
    -- A sum over a thousand rows reads about ten pages. Fewer rows are not worth a write before each batch of the detector.
    if not exists (select from postrider.tasker_task_counts offset 1000) then
        return;
    end if;
    -- Two sessions that merge would wait for each other. The one that comes second leaves it to the first.
    if not pg_try_advisory_xact_lock(hashtextextended('postrider merge task counts', 0)) then
        return;
    end if;
    -- One statement: a reader sees the rows before or the row after, and so the same sum. It takes all rows, also one that is
    -- alone in its sum: then it needs no join, which the settings of the detector would make one of groups by rows.
    with gone as (delete from postrider.tasker_task_counts c returning c.kind, c.state, c.outcome, c.tasks)
    insert into postrider.tasker_task_counts (kind, state, outcome, tasks)
    select g.kind, g.state, g.outcome, sum(g.tasks) from gone g group by 1, 2, 3;
end $$;
comment on function postrider.tasks_merge_counts() is
'Internal. If tasker_task_counts has more than 1,000 rows, merges rows that are alike; nothing if another transaction is doing it. The detector and the archiver call it, so that the table stays small where one of them runs.';
revoke all on function postrider.tasks_merge_counts() from public;
