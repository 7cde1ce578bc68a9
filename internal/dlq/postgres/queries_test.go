package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestQueriesPrepare: PostgreSQL takes every statement, and every file is used.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("queries/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	source, err := os.ReadFile("queries.go")
	if err != nil {
		t.Fatal(err)
	}
	conn := pgtest.New(t).Conn(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		if !strings.Contains(string(source), `query("`+name+`")`) {
			t.Errorf("%s is not used", file)
		}
		if strings.HasSuffix(name, "_copy") { // a COPY cannot be prepared
			_, err = conn.PgConn().CopyFrom(t.Context(), &copyReader[int]{made: row{bytes: copyHeader()}}, query(name))
		} else {
			_, err = conn.Prepare(t.Context(), name, query(name))
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for i, call := range []string{operationInsert, operationFreeze, operationPlan, operationLock, operationCommand, redriveEnqueue, redriveNote, redriveAmend, redriveStanding, entryChange, commentInsert, commentDelete, groupChange, groupLock, groupMerge, groupSplit, groupResolve, letterComplete, purgeDelete, outboxLook} {
		if _, err := conn.Prepare(t.Context(), fmt.Sprintf("call %d", i), call); err != nil {
			t.Errorf("%s: %v", call, err)
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
		{"dlq_entry_subject", entryOpen, entryColumns(openings(distinct(letters)), nil)},
		{"dlq_letter_entry", letterList, []any{newUUID(), 10}},
		{"dlq_entry_status", searchStatus, []any{"pending", nil, nil, nil, nil, 10, 0}},
		{"dlq_entry_resolved", entryForget, []any{1, 10}},
		{"dlq_entry_updated", watchClosed, []any{time.Now(), newUUID(), time.Now(), 15.0, 10}},
		{"dlq_entry_created", openedSince, []any{time.Now(), openedAtOnce}},
		{"dlq_hour_pkey", groupHoursOf, []any{[]uuid.UUID{newUUID()}}},
		{"dlq_entry_pkey", entryMessages, []any{[]uuid.UUID{newUUID()}}},
		{"dlq_entry_pkey", entryAllClosed, []any{[]uuid.UUID{newUUID()}}},
		{"dlq_entry_group", groupTasks, []any{newUUID(), time.Now(), time.Now(), newUUID(), 10}},
		{"dlq_group_pkey", groupGet, []any{[]uuid.UUID{newUUID()}}},
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
	tx := afterOldOutage(t, r, beginRead)
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
