-- Version 0: nothing of Postrider is left. A schema that holds somebody else's objects, or
-- that belongs to another role, stays, and the empty history stays with it.
do $$
begin
    drop table postrider.schema_migration;
    drop schema postrider;
exception
    when dependent_objects_still_exist or insufficient_privilege then
        raise notice 'schema postrider is kept: %', sqlerrm;
end
$$;
