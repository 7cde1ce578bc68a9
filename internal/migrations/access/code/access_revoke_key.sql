create or replace function postrider.access_revoke_key(p_key text) returns setof postrider.access_key
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    update postrider.access_key k set revoked_at = coalesce(k.revoked_at, now()) where k.access_key_id = p_key returning k.*;
    if found then
        perform postrider.access_owe('{key.revoke}', 'key', array[p_key]);
    end if;
end $$;
comment on function postrider.access_revoke_key(text) is 'Ends an API key, and returns it. A key that was revoked before stays as it was. If no key has this id, nothing is returned.';
revoke all on function postrider.access_revoke_key(text) from public;
