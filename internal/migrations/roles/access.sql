-- Keys of the API, sessions of the console, and answers.
grant insert, update on postrider.access_key to postrider_relay;
grant insert, update, delete on postrider.access_link, postrider.access_session to postrider_relay;
grant insert, update, delete on postrider.access_answer to postrider_relay;
grant execute on function postrider.access_revoke_key(text) to postrider_relay;
-- `postrider apikey revoke`. A login that makes keys decides who may do what, so operators cannot make them.
grant execute on function postrider.access_revoke_key(text) to postrider_operator;

