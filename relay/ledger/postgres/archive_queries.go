package postgres

import _ "embed"

//go:embed queries/archive_batch.sql
var archiveBatch string

//go:embed queries/refresh_dashboards.sql
var refreshDashboards string

//go:embed queries/archive_contains.sql
var archiveContains string

//go:embed queries/archive_task.sql
var archiveTask string

//go:embed queries/archive_list.sql
var archiveList string

//go:embed queries/archive_steps.sql
var archiveSteps string

//go:embed queries/archive_transitions.sql
var archiveTransitions string

//go:embed queries/archive_step_transitions.sql
var archiveStepTransitions string

//go:embed queries/archive_statistics.sql
var archiveStatistics string
