create or replace function postrider.dlq_empty_letter() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    new.content_hash := sha256(coalesce(sha256(old.key), '') || coalesce(sha256(old.payload), '') || sha256(convert_to(old.headers::text, 'UTF8')));
    new.key := null;
    new.key_kind := 'removed';
    new.payload := null;
    new.payload_kind := 'removed';
    new.headers := '[]';
    new.error_message := null; -- it may quote the message
    return new;
end $$;
comment on function postrider.dlq_empty_letter() is
'Removes what a letter has of its message, and leaves a hash of that. The id, the places and the numbers stay.';
revoke all on function postrider.dlq_empty_letter() from public;
