package postgres

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

var queries = map[string]string{
	"letter_find.sql": letterFind, "entry_lock.sql": entryLock, "entry_open.sql": entryOpen,
	"entry_known.sql": entryKnown, "group_hold.sql": groupHold, "entry_copy.sql": entryCopy, "letter_copy.sql": letterCopy,
	"entry_many.sql": entryMany, "entry_newest.sql": entryNewest, "entry_events.sql": entryEvents, "entry_get.sql": entryGet, "letter_list.sql": letterList,
	"search_range.sql": searchRange, "search_range_count.sql": searchRangeCount, "search_pairs.sql": searchPairs, "search_total.sql": searchTotal,
	"search_groups.sql": searchGroups, "search_firsts.sql": searchFirsts, "search_kinds.sql": searchKinds, "search_groups_count.sql": searchGroupsCount, "search_status.sql": searchStatus, "search_status_count.sql": searchStatusCount,
	"search_walk.sql": searchWalk, "search_gather.sql": searchGather, "search_sift.sql": searchSift, "search_hours.sql": searchHours,
	"search_likely.sql": searchLikely, "search_edge.sql": searchEdge, "search_window.sql": searchWindow,
	"redrive_list.sql": redriveList, "group_list.sql": groupList, "group_total.sql": groupTotal, "group_word.sql": groupWord, "group_merge.sql": groupMerge, "group_split.sql": groupSplit, "group_sources.sql": groupSources, "group_get.sql": groupGet,
	"group_lock.sql": groupLock, "group_change.sql": groupChange, "group_resolve.sql": groupResolve, "group_left.sql": groupLeft,
	"group_recommend.sql": groupRecommend, "group_statuses.sql": groupStatuses, "group_hours.sql": groupHours, "group_partitions.sql": groupPartitions,
	"group_related.sql": groupRelated, "stats_groups.sql": statsGroups, "stats_reasons.sql": statsReasons,
	"stats_day.sql": statsDay, "stats_open.sql": statsOpen, "letter_one.sql": letterOne, "outbox_look.sql": outboxLook,
	"group_find.sql": groupFind, "group_insert.sql": groupInsert,
	"watch_reasons.sql": watchReasons, "watch_ages.sql": watchAges, "watch_now.sql": watchNow, "watch_closed.sql": watchClosed,
	"entry_close.sql": entryClose, "entry_came_from.sql": entryCameFrom, "entry_succeed.sql": entrySucceed,
	"letter_traces.sql": letterTraces, "letter_pointing.sql": letterPointing, "letter_pointing_next.sql": letterPointingNext, "letter_complete.sql": letterComplete,
	"entry_snapshot.sql": entrySnapshot,
	"redrive_lock.sql":   redriveLock, "redrive_read.sql": redriveRead, "redrive_enqueue.sql": redriveEnqueue,
	"redrive_amend.sql": redriveAmend, "redrive_under_way.sql": redriveUnderWay, "operation_own_topic.sql": operationOwnTopic, "redrive_note.sql": redriveNote, "redrive_open.sql": redriveOpen, "redrive_standing.sql": redriveStanding, "redrive_end.sql": redriveEnd, "redrive_died_again.sql": redriveDiedAgain, "operation_count.sql": operationCount, "operation_postpone.sql": operationPostpone, "halting_events.sql": haltingOf, "purge_delete.sql": purgeDelete, "purge_lock.sql": purgeLock, "purge_old.sql": purgeOld, "entry_status.sql": entryStatus, "entry_change.sql": entryChange,
	"operation_insert.sql": operationInsert, "operation_named.sql": operationNamed, "operation_freeze.sql": operationFreeze, "operation_plan.sql": operationPlan, "operation_events.sql": operationEvents, "operation_get.sql": operationGet, "operation_lock.sql": operationLock, "operation_list.sql": operationList, "operation_due.sql": operationDue, "operation_next.sql": operationNext, "operation_command.sql": operationCommand, "operation_waiting.sql": operationWaiting, "operation_treated.sql": operationTreated, "operation_advance.sql": operationAdvance, "operation_items.sql": operationItems, "operation_items_waiting.sql": operationItemsWaiting,
	"entry_ids.sql": entryIDs, "group_ids.sql": groupIDs, "operation_ids.sql": operationIDs,
	"redrive_forget.sql": redriveForget, "operation_old.sql": operationOld, "operation_forget_items.sql": operationForgetItems, "operation_forget_redrives.sql": operationForgetRedrives, "operation_forget.sql": operationForget,
}

func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("queries/*.sql")
	if err != nil || len(files) != len(queries) {
		t.Fatalf("%d files for %d queries, %v", len(files), len(queries), err)
	}
	conn := pgtest.New(t).Conn(t)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil || string(raw) != queries[filepath.Base(file)] {
			t.Errorf("%s is not embedded as itself: %v", file, err)
		}
		if strings.HasSuffix(file, "_copy.sql") { // a COPY cannot be prepared
			_, err = conn.PgConn().CopyFrom(t.Context(), &copyReader[int]{made: row{bytes: copyHeader()}}, string(raw))
		} else {
			_, err = conn.Prepare(t.Context(), file, queries[filepath.Base(file)])
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestQueriesUseIndexes looks at the plans of what runs for every batch.
func TestQueriesUseIndexes(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	letters := dlqtest.Letters(dlqtest.Event(1, 1))
	if _, err := s.RecordLetters(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	// The tables are tiny here; what matters is which index can serve.
	if _, err := conn.Exec(t.Context(), "set enable_seqscan = off"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		index, query string
		arguments    []any
	}{
		{"dlq_letter_pkey", letterFind, []any{[]string{letters[0].ID}}},
		{"dlq_entry_subject", entryKnown, []any{[]string{"event"}, []string{letters[0].Subject.ID}}},
		{"dlq_entry_one_pending", entryLock, []any{[]string{"event"}, []string{letters[0].Subject.ID}, []uuid.UUID{}}},
		{"dlq_entry_subject", entryOpen, entryColumns(candidates(distinct(letters)), nil)},
		{"dlq_letter_entry", letterList, []any{newUUID(), 10, 10}},
		{"dlq_entry_status", searchStatus, []any{"pending", nil, nil, nil, nil, 10, 0}},
		{"dlq_entry_updated", watchClosed, []any{time.Now(), newUUID(), time.Now(), 15.0, 10}},
	} {
		rows, err := conn.Query(t.Context(), "explain "+test.query, test.arguments...)
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			plan.WriteString(line + "\n")
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan.String(), test.index) {
			t.Errorf("no use of %s:\n%s", test.index, plan.String())
		}
	}
}

// TestCountsReadTheIndexAlone: rows that are counted or passed over by the hundred thousand are not looked up one by one.
func TestCountsReadTheIndexAlone(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	oldOutage(t, r)
	mustExec(t, r.subject.pool, `vacuum (analyze) postrider.dlq_entry`)
	tx, err := r.subject.pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: beginRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	var groups []uuid.UUID
	if err := tx.QueryRow(t.Context(), `select array_agg(dlq_group_uuid) from postrider.dlq_group where entries > 0`).Scan(&groups); err != nil {
		t.Fatal(err)
	}
	from := pgtype.Timestamptz{Time: time.Now().Add(-240 * time.Hour), Valid: true}
	statuses := slices.Repeat([]string{"pending"}, len(groups))
	for index, query := range map[string][]any{
		"dlq_entry_status":  {searchStatusCount, "pending", from, nil, 10_001},
		"dlq_entry_group":   {searchGroupsCount, groups, statuses, from, nil, "", "", 10_001},
		"dlq_entry_created": {searchRange, nil, nil, nil, nil, 26, 1000},
	} {
		plan := explained(t, tx, query[0].(string), query[1:]...)
		if !strings.Contains(plan, "Index Only Scan using "+index) && !strings.Contains(plan, "Index Only Scan Backward using "+index) {
			t.Errorf("not from %s alone:\n%s", index, plan)
		}
	}
}
