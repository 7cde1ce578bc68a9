package access

import _ "embed"

//go:embed queries/key_insert.sql
var keyInsert string

//go:embed queries/key_list.sql
var keyList string

//go:embed queries/key_find.sql
var keyFind string

//go:embed queries/key_used.sql
var keyUsed string

//go:embed queries/key_revoke.sql
var keyRevoke string

//go:embed queries/audit_insert.sql
var auditInsert string

//go:embed queries/audit_list.sql
var auditList string

//go:embed queries/audit_entry.sql
var auditEntry string

//go:embed queries/audit_purge.sql
var auditPurge string

//go:embed queries/audit_operation.sql
var auditOperation string

//go:embed queries/answer_begin.sql
var answerBegin string

//go:embed queries/answer_find.sql
var answerFind string

//go:embed queries/answer_changed.sql
var answerChanged string

//go:embed queries/answer_end.sql
var answerEnd string

//go:embed queries/answer_forget.sql
var answerForget string

//go:embed queries/answer_purge.sql
var answerPurge string

//go:embed queries/session_user.sql
var sessionUser string

//go:embed queries/link_insert.sql
var linkInsert string

//go:embed queries/link_use.sql
var linkUse string

//go:embed queries/link_find.sql
var linkFind string

//go:embed queries/session_insert.sql
var sessionInsert string

//go:embed queries/session_find.sql
var sessionFind string

//go:embed queries/session_used.sql
var sessionUsed string

//go:embed queries/session_end.sql
var sessionEnd string

//go:embed queries/session_own.sql
var sessionOwn string

//go:embed queries/session_end_own.sql
var sessionEndOwn string

//go:embed queries/session_purge.sql
var sessionPurge string

//go:embed queries/console_url.sql
var consoleURL string

//go:embed queries/console_url_note.sql
var consoleURLNote string
