package postgres

import _ "embed"

//go:embed letter_find.sql
var letterFind string

//go:embed entry_lock.sql
var entryLock string

//go:embed entry_open.sql
var entryOpen string

//go:embed letter_insert.sql
var letterInsert string

//go:embed entry_list.sql
var entryList string

//go:embed entry_count.sql
var entryCount string

//go:embed entry_get.sql
var entryGet string

//go:embed letter_list.sql
var letterList string
