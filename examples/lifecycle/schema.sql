create table if not exists task_state (
    task_uuid      uuid primary key,
    namespace_name text not null,
    task_name      text not null,
    version        text not null,
    state          text not null,
    sort_key       bigint not null,
    changed_at     timestamptz not null,
    stale_since    timestamptz,
    archived_at    timestamptz
);
comment on table task_state is 'The present state of each task, from the lifecycle events of Postrider.';
comment on column task_state.sort_key is 'Number of the transition that led to the state: what has a lower one is older news.';
comment on column task_state.stale_since is 'When the task was found to be stale in this state; null if it was not.';
comment on column task_state.archived_at is 'When the task was moved to the archive; null if it was not.';
