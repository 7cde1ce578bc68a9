-- Where postrider dev serves the console; see SetConsoleURL. Empty in every other database.
select coalesce(current_setting('postrider.console_url', true), '')
