-- Without settings of its own, so that it is inlined; so every name is written with its schema.
create or replace function postrider.task_weight(p_priority integer, p_created_at timestamptz, p_now timestamptz, p_half_life integer) returns double precision
language sql stable parallel safe as $$
    select p_priority operator(pg_catalog.*) pg_catalog.power(0.5::double precision, least(greatest(
        extract(epoch from p_now operator(pg_catalog.-) p_created_at) operator(pg_catalog./) 60 operator(pg_catalog./) p_half_life, 0), 1000)::double precision)
$$;
comment on function postrider.task_weight(integer, timestamptz, timestamptz, integer) is
'Internal. What a priority weighs: halved with every p_half_life minutes since the task was created, a thousand times at most.';
revoke all on function postrider.task_weight(integer, timestamptz, timestamptz, integer) from public;
