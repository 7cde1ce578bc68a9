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

//go:embed queries/redrive_follow.sql
var redriveFollow string
