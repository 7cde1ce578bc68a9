package postgres

import _ "embed"

//go:embed queries/letter_find.sql
var letterFind string

//go:embed queries/entry_lock.sql
var entryLock string

//go:embed queries/entry_open.sql
var entryOpen string

//go:embed queries/letter_insert.sql
var letterInsert string

//go:embed queries/entry_list.sql
var entryList string

//go:embed queries/entry_count.sql
var entryCount string

//go:embed queries/entry_get.sql
var entryGet string

//go:embed queries/letter_list.sql
var letterList string

//go:embed queries/entry_close.sql
var entryClose string

//go:embed queries/entry_succeed.sql
var entrySucceed string

//go:embed queries/redrive_lock.sql
var redriveLock string

//go:embed queries/redrive_read.sql
var redriveRead string

//go:embed queries/redrive_enqueue.sql
var redriveEnqueue string

//go:embed queries/redrive_note.sql
var redriveNote string

//go:embed queries/redrive_open.sql
var redriveOpen string

//go:embed queries/redrive_standing.sql
var redriveStanding string

//go:embed queries/redrive_end.sql
var redriveEnd string

//go:embed queries/operation_count.sql
var operationCount string

//go:embed queries/entry_events.sql
var entryEvents string

//go:embed queries/operation_insert.sql
var operationInsert string

//go:embed queries/operation_freeze.sql
var operationFreeze string

//go:embed queries/operation_plan.sql
var operationPlan string

//go:embed queries/operation_events.sql
var operationEvents string

//go:embed queries/operation_get.sql
var operationGet string

//go:embed queries/operation_lock.sql
var operationLock string

//go:embed queries/operation_list.sql
var operationList string

//go:embed queries/operation_due.sql
var operationDue string

//go:embed queries/operation_next.sql
var operationNext string

//go:embed queries/operation_command.sql
var operationCommand string

//go:embed queries/operation_waiting.sql
var operationWaiting string

//go:embed queries/operation_treated.sql
var operationTreated string

//go:embed queries/operation_advance.sql
var operationAdvance string

//go:embed queries/operation_items.sql
var operationItems string

//go:embed queries/entry_change.sql
var entryChange string

//go:embed queries/entry_status.sql
var entryStatus string

//go:embed queries/purge_old.sql
var purgeOld string

//go:embed queries/purge_delete.sql
var purgeDelete string

//go:embed queries/operation_postpone.sql
var operationPostpone string
