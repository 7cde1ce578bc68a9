select current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
       current_setting('transaction_read_only') = 'on', current_setting('max_prepared_transactions')::int, current_user::text
