package postgres

import (
	"embed"
	"io/fs"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// Queries are the .sql files with the statements of this package.
func Queries() fs.FS { return queryFiles }

//go:embed queries/letter_find.sql
var letterFind string

//go:embed queries/entry_lock.sql
var entryLock string

//go:embed queries/entry_open.sql
var entryOpen string

//go:embed queries/entry_known.sql
var entryKnown string

//go:embed queries/entry_copy.sql
var entryCopy string

//go:embed queries/group_hold.sql
var groupHold string

//go:embed queries/letter_copy.sql
var letterCopy string

//go:embed queries/entry_many.sql
var entryMany string

//go:embed queries/entry_newest.sql
var entryNewest string

//go:embed queries/entry_events.sql
var entryEvents string

//go:embed queries/entry_get.sql
var entryGet string

//go:embed queries/letter_list.sql
var letterList string

//go:embed queries/entry_close.sql
var entryClose string

//go:embed queries/entry_came_from.sql
var entryCameFrom string

//go:embed queries/entry_succeed.sql
var entrySucceed string

//go:embed queries/redrive_lock.sql
var redriveLock string

//go:embed queries/purge_lock.sql
var purgeLock string

//go:embed queries/redrive_read.sql
var redriveRead string

//go:embed queries/redrive_enqueue.sql
var redriveEnqueue string

//go:embed queries/redrive_amend.sql
var redriveAmend string

//go:embed queries/redrive_under_way.sql
var redriveUnderWay string

//go:embed queries/operation_own_topic.sql
var operationOwnTopic string

//go:embed queries/redrive_note.sql
var redriveNote string

//go:embed queries/redrive_open.sql
var redriveOpen string

//go:embed queries/redrive_standing.sql
var redriveStanding string

//go:embed queries/letter_pointing.sql
var letterPointing string

//go:embed queries/letter_pointing_next.sql
var letterPointingNext string

//go:embed queries/letter_complete.sql
var letterComplete string

//go:embed queries/entry_snapshot.sql
var entrySnapshot string

//go:embed queries/redrive_died_again.sql
var redriveDiedAgain string

//go:embed queries/redrive_end.sql
var redriveEnd string

//go:embed queries/redrive_forget.sql
var redriveForget string

//go:embed queries/operation_old.sql
var operationOld string

//go:embed queries/operation_forget_items.sql
var operationForgetItems string

//go:embed queries/operation_forget_redrives.sql
var operationForgetRedrives string

//go:embed queries/operation_forget.sql
var operationForget string

//go:embed queries/operation_count.sql
var operationCount string

//go:embed queries/halting_events.sql
var haltingOf string

//go:embed queries/operation_insert.sql
var operationInsert string

//go:embed queries/operation_named.sql
var operationNamed string

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

//go:embed queries/operation_items_waiting.sql
var operationItemsWaiting string

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

//go:embed queries/group_find.sql
var groupFind string

//go:embed queries/group_insert.sql
var groupInsert string

//go:embed queries/search_range.sql
var searchRange string

//go:embed queries/search_range_count.sql
var searchRangeCount string

//go:embed queries/search_pairs.sql
var searchPairs string

//go:embed queries/search_total.sql
var searchTotal string

//go:embed queries/search_groups.sql
var searchGroups string

//go:embed queries/search_groups_count.sql
var searchGroupsCount string

//go:embed queries/search_kinds.sql
var searchKinds string

//go:embed queries/search_firsts.sql
var searchFirsts string

//go:embed queries/search_status.sql
var searchStatus string

//go:embed queries/search_status_count.sql
var searchStatusCount string

//go:embed queries/search_walk.sql
var searchWalk string

//go:embed queries/search_gather.sql
var searchGather string

//go:embed queries/search_sift.sql
var searchSift string

//go:embed queries/search_likely.sql
var searchLikely string

//go:embed queries/search_edge.sql
var searchEdge string

//go:embed queries/search_window.sql
var searchWindow string

//go:embed queries/search_hours.sql
var searchHours string

//go:embed queries/redrive_list.sql
var redriveList string

//go:embed queries/group_list.sql
var groupList string

//go:embed queries/group_merge.sql
var groupMerge string

//go:embed queries/group_split.sql
var groupSplit string

//go:embed queries/group_sources.sql
var groupSources string

//go:embed queries/group_word.sql
var groupWord string

//go:embed queries/group_total.sql
var groupTotal string

//go:embed queries/group_get.sql
var groupGet string

//go:embed queries/group_lock.sql
var groupLock string

//go:embed queries/group_change.sql
var groupChange string

//go:embed queries/group_resolve.sql
var groupResolve string

//go:embed queries/group_left.sql
var groupLeft string

//go:embed queries/group_recommend.sql
var groupRecommend string

//go:embed queries/group_statuses.sql
var groupStatuses string

//go:embed queries/group_hours.sql
var groupHours string

//go:embed queries/group_partitions.sql
var groupPartitions string

//go:embed queries/group_related.sql
var groupRelated string

//go:embed queries/stats_groups.sql
var statsGroups string

//go:embed queries/stats_reasons.sql
var statsReasons string

//go:embed queries/stats_day.sql
var statsDay string

//go:embed queries/stats_open.sql
var statsOpen string

//go:embed queries/letter_one.sql
var letterOne string

//go:embed queries/letter_traces.sql
var letterTraces string

//go:embed queries/outbox_look.sql
var outboxLook string

//go:embed queries/watch_reasons.sql
var watchReasons string

//go:embed queries/watch_ages.sql
var watchAges string

//go:embed queries/watch_now.sql
var watchNow string

//go:embed queries/watch_closed.sql
var watchClosed string
