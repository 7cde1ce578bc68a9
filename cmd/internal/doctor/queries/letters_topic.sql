-- The topic to which the functions of the ledger send letters of tasks: as the last serve that started has written it.
select s.dlq_topic from postrider.tasker_settings s
