create or replace function postrider.access_check_author(p_author text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    v_login constant text := 'cli:' || session_user;
begin
    if postrider.access_by_hand() and (p_author = v_login or starts_with(p_author, v_login || ' (') and p_author like '%)') is not true then
        raise exception using errcode = '42501', message = format('postrider: the author %s is not who is connected', coalesce(quote_literal(p_author), 'null')),
            hint = format('Give %s, or that with a name in parentheses behind it.', v_login);
    end if;
end $$;
comment on function postrider.access_check_author(text) is
'Internal. Raises 42501 if a command or a person''s SQL gives an author that is not its login: cli: and the login of the database, or that with a name in parentheses behind it. The API names its own callers.';
revoke all on function postrider.access_check_author(text) from public;
