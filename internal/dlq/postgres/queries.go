package postgres

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// Queries are the .sql files with the statements of this package.
func Queries() fs.FS { return queryFiles }

// query returns the text of queries/NAME.sql. A missing file is a programming error and stops the program at start.
func query(name string) string {
	text, err := queryFiles.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("internal/dlq/postgres: %v", err))
	}
	return string(text)
}

var (
	letterFind         = query("letter_find")
	letterCopy         = query("letter_copy")
	letterList         = query("letter_list")
	letterPointing     = query("letter_pointing")
	letterPointingNext = query("letter_pointing_next")
	letterOne          = query("letter_one")
	letterTraces       = query("letter_traces")

	entryLock        = query("entry_lock")
	entryOpen        = query("entry_open")
	entryAbout       = query("entry_about")
	entryForget      = query("entry_forget")
	entryKnown       = query("entry_known")
	entryKnownBy     = query("entry_known_by")
	operationOfEntry = query("operation_of_entry")
	entryCopy        = query("entry_copy")
	entryMany        = query("entry_many")
	entryOfTask      = query("entry_of_task")
	entryEvents      = query("entry_events")
	entryGet         = query("entry_get")
	entryClose       = query("entry_close")
	entryCameFrom    = query("entry_came_from")
	entrySucceed     = query("entry_succeed")
	entrySnapshot    = query("entry_snapshot")
	entryStatus      = query("entry_status")
	entryIDs         = query("entry_ids")
	entryPlace       = query("entry_place")

	groupHold       = query("group_hold")
	groupFind       = query("group_find")
	groupInsert     = query("group_insert")
	groupList       = query("group_list")
	groupGet        = query("group_get")
	groupLeft       = query("group_left")
	groupTasks      = query("group_tasks")
	groupRecommend  = query("group_recommend")
	groupStates     = query("group_states")
	groupStatuses   = query("group_statuses")
	groupHours      = query("group_hours")
	groupHoursOf    = query("group_hours_of")
	entryMessages   = query("entry_messages")
	entryAllClosed  = query("entry_all_closed")
	openedSince     = query("opened_since")
	groupPartitions = query("group_partitions")
	groupVariants   = query("group_variants")
	groupClosings   = query("group_closings")
	groupRelated    = query("group_related")
	groupSources    = query("group_sources")
	groupWord       = query("group_word")
	groupIDs        = query("group_ids")

	searchRange       = query("search_range")
	searchRangeCount  = query("search_range_count")
	searchPairs       = query("search_pairs")
	searchTotal       = query("search_total")
	searchGroups      = query("search_groups")
	searchGroupsCount = query("search_groups_count")
	searchKinds       = query("search_kinds")
	searchFirsts      = query("search_firsts")
	searchStatus      = query("search_status")
	searchStatusCount = query("search_status_count")
	searchWalk        = query("search_walk")
	searchGather      = query("search_gather")
	searchSift        = query("search_sift")
	searchLikely      = query("search_likely")
	searchEdge        = query("search_edge")
	searchWindow      = query("search_window")
	searchHours       = query("search_hours")

	commentListEntry = query("comment_list_entry")
	commentListGroup = query("comment_list_group")
	commentSubject   = query("comment_subject")

	statsGroups  = query("stats_groups")
	statsReasons = query("stats_reasons")
	statsDay     = query("stats_day")
	statsOpen    = query("stats_open")

	watchReasons = query("watch_reasons")
	watchAges    = query("watch_ages")
	watchNow     = query("watch_now")
	watchClosed  = query("watch_closed")
	watchGroups  = query("watch_groups")
	watchOpened  = query("watch_opened")

	purgeLock = query("purge_lock")
	purgeOld  = query("purge_old")

	haltingOf = query("halting_events")

	ownTopics = query("own_topics")

	redriveLock     = query("redrive_lock")
	redriveRead     = query("redrive_read")
	redriveContents = query("redrive_contents")
	redriveUnderWay = query("redrive_under_way")
	// Functions of the tasks.
	tasksArchived       = "select task_uuid, state, archived_at, in_archive from postrider.tasks_archived($1)"
	tasksOnlyRetryMoves = "select task_uuid, state from postrider.tasks_only_retry_moves($1)"
	redriveOpen         = query("redrive_open")
	redriveDiedAgain    = query("redrive_died_again")
	redriveEnd          = query("redrive_end")
	redriveForget       = query("redrive_forget")
	redriveList         = query("redrive_list")

	commandUnanswered = query("command_unanswered")
	commandAnswer     = query("command_answer")
	commandDue        = query("command_due")
	commandOldest     = query("command_oldest")
	commandWait       = query("command_wait")
	commandList       = query("command_list")
	commandForget     = query("command_forget")

	sourceRead      = query("source_read")
	sourceNote      = query("source_note")
	sourceDrawn     = query("source_drawn")
	sourceStop      = query("source_stop")
	sourceDraw      = query("source_draw")
	sourceHeard     = query("source_heard")
	sourceKnown     = query("source_known")
	sourceKnows     = query("source_knows")
	sourceForgotten = query("source_forgotten")
	sourceAnswered  = query("source_answered")
	sourceActs      = query("source_acts")

	purgeOfSources          = query("purge_of_sources")
	operationOwnTopic       = query("operation_own_topic")
	operationOld            = query("operation_old")
	operationForgetItems    = query("operation_forget_items")
	operationForgetRedrives = query("operation_forget_redrives")
	operationForget         = query("operation_forget")
	operationCount          = query("operation_count")
	operationOverlaps       = query("operation_overlaps")
	operationNamed          = query("operation_named")
	operationEvents         = query("operation_events")
	operationGet            = query("operation_get")
	operationList           = query("operation_list")
	operationDue            = query("operation_due")
	operationNext           = query("operation_next")
	operationWaiting        = query("operation_waiting")
	operationOnlyTasks      = query("operation_only_tasks")
	operationTreated        = query("operation_treated")
	operationAdvance        = query("operation_advance")
	operationOutcome        = query("operation_outcome")
	operationItems          = query("operation_items")
	operationItemsWaiting   = query("operation_items_waiting")
	operationPostpone       = query("operation_postpone")
	operationIDs            = query("operation_ids")

	seenEntries    = query("seen_entries")
	seenGroups     = query("seen_groups")
	seenOperations = query("seen_operations")
	entrySources   = query("entry_sources")
	statsReasonsOf = query("stats_reasons_of")
	statsDayOf     = query("stats_day_of")
	statsOpenOf    = query("stats_open_of")
	pendingOf      = query("pending_of")
)

// These statements only call a function of the schema, whose comment says what it does.
const (
	operationInsert = `select o.dlq_operation_uuid, o.created_at from postrider.dlq_insert_operation($1, $2, $3, $4, $5, $6, $7) o`
	operationFreeze = `select postrider.dlq_freeze_operation($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`
	operationPlan   = `select postrider.dlq_plan_operation($1, $2, $3)`
	operationLock   = `select dlq_operation_uuid, kind, name, coalesce(reason, ''), actor, state, scope, options, plan, items, done, skipped, failed, delivered, came_back,
		coalesce(error, ''), created_at, started_at, treated_at, finished_at, updated_at, sources
		from postrider.dlq_lock_operation($1)`
	operationCommand = `select postrider.dlq_command_operation($1, $2, $3)`
	operationRefused = `select postrider.dlq_refuse_items($1, $2, $3)`
	redriveEnqueue   = `select r.event_id, r.id from postrider.dlq_redrive_letters($1, $2, $3, $4::text[]::jsonb[], $5, $6, $7) r`
	redriveNote      = `select postrider.dlq_note_redrives($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
	redriveAmend     = `select postrider.dlq_amend($1, $2, $3, $4::text::jsonb)`
	redriveStanding  = `select s.place, s.state, s.episode from postrider.outbox_standing($1::bigint[], $2::uuid[]) s`
	sourceAsk        = `select a.command from postrider.dlq_ask_source($1, $2, $3, $4, $5, $6, $7, $8::text[]::jsonb[]) a`
	outboxObey       = `select o.place, o.answer, coalesce(o.event, 0), coalesce(o.detail, '') from postrider.outbox_obey($1, $2::text::jsonb, $3, $4) o`
	outboxObeyed     = `select o.place, o.obeyed from postrider.outbox_obeyed($1, $2, $3, $4, $5) o`
	sourceNowSQL     = `select s.source_uuid, s.heard, coalesce((select max(r.number) from postrider.outbox_receipt r), 0), s.place is not null and s.place <> coalesce(postrider.outbox_place(), s.place), coalesce(s.desk, '')
		from postrider.outbox_source s`
	sourceCommands = `select (c.details->>'command')::uuid, c.details->>'answer', c.outbox_id, (c.details->>'event_id')::uuid, (c.details->>'episode')::integer,
		coalesce((c.details->>'event')::bigint, 0), c.actor, c.at, (c.details || jsonb_build_object('outbox_id', c.outbox_id, 'actor', c.actor))::text
		from postrider.access_find_commands($1, $2) c`
	sourceMoved    = `select postrider.outbox_rejoin($1, $2)`
	sourceRejoin   = `select r.redrives, r.again, r.noted from postrider.dlq_rejoin_source($1, $2, $3, $4, $5, $6::text::jsonb) r`
	sourceRelease  = `select postrider.dlq_ask_release($1, $2, $3)`
	sourceForget   = `select f.commands, f.redrives, f.since from postrider.dlq_forget_source($1) f`
	entryChange    = `select postrider.dlq_change_entry($1, $2, $3, $4, $5, $6, $7)`
	groupChange    = `select postrider.dlq_change_group($1, $2, $3, $4, $5)`
	commentInsert  = `select c.dlq_comment_id, c.created_at from postrider.dlq_insert_comment($1, $2, $3, $4, $5) c`
	commentDelete  = `select postrider.dlq_delete_comment($1, $2, $3, $4, $5)`
	groupLock      = `select g.state, g.pending from postrider.dlq_lock_group($1) g`
	groupMerge     = `select postrider.dlq_merge_groups($1, $2, $3, $4)`
	groupSplit     = `select postrider.dlq_split_group($1, $2, $3, $4, $5::jsonb, $6, $7, $8)`
	groupResolve   = `select e.id from postrider.dlq_resolve_group($1, $2, $3, $4, $5, $6) e(id)`
	letterComplete = `select postrider.dlq_complete_letter($1, $2, $3, $4, $5::jsonb, $6, $7::jsonb, $8::jsonb)`
	purgeDelete    = `select postrider.dlq_purge_entries($1)`
	outboxLook     = `select l.key, l.payload, l.headers from postrider.outbox_look($1, $2) l`
)
