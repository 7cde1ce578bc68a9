package postgres

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestGroupTasks: each task behind the pending investigations of a group, page by page; investigations that are opened after the
// first page was asked for, and closed ones, are not meant.
func TestGroupTasks(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	record := func(n ...int) {
		t.Helper()
		for _, n := range n {
			if _, err := s.RecordLetters(t.Context(), dlqtest.Letters(dlqtest.Task(n, 1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	record(1, 2, 3, 4, 5)
	group := pgtest.Value[uuid.UUID](t, s.pool, `select distinct dlq_group_uuid from postrider.dlq_entry`)
	pgtest.Exec(t, s.pool, `update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now(), resolved_by = 'ann' where task_uuid = $1`, dlqtest.EventID(2))
	var got []uuid.UUID
	after := ""
	for pages := 1; ; pages++ {
		page, err := s.investigations.GroupTasks(t.Context(), dlq.GroupTasks{Group: group, After: after, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.Tasks...)
		if pages == 1 {
			record(6)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if want := []uuid.UUID{dlqtest.EventID(1), dlqtest.EventID(3), dlqtest.EventID(4), dlqtest.EventID(5)}; !slices.Equal(got, want) {
		t.Errorf("the tasks of the group are %v, want %v", got, want)
	}
	for _, wrong := range []dlq.GroupTasks{{Group: group}, {Group: group, Limit: dlq.MaxGroupTasks + 1}, {Group: group, Limit: 1, After: "x"}, {Group: group, Limit: 1, After: "MSAyIHg"}, {Group: group, Limit: 1, After: groupTasksCursor(time.UnixMicro(math.MaxInt64), found{})}} {
		if _, err := s.investigations.GroupTasks(t.Context(), wrong); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if _, err := s.investigations.GroupTasks(t.Context(), dlq.GroupTasks{Group: uuid.New(), Limit: 1}); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("a group that is not there: %v", err)
	}
}

// TestGroupTasksLooksAtAsManyAsItMay: a cause of events has no tasks. A page of them looks at no more investigations than its
// limit, which it finds by the index.
func TestGroupTasksLooksAtAsManyAsItMay(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	oldOutage(t, r)
	mustExec(t, r.subject.pool, `vacuum (analyze) postrider.dlq_entry`)
	group := pgtest.Value[uuid.UUID](t, r.subject.pool, `select dlq_group_uuid from postrider.dlq_group where fingerprint = 'w:1'`)
	pending := pgtest.Value[int](t, r.subject.pool, `select count(*) from postrider.dlq_entry where dlq_group_uuid = $1 and resolution_status = 'pending'`, group)
	pages := 0
	for after := ""; ; {
		page, err := r.people().GroupTasks(t.Context(), dlq.GroupTasks{Group: group, After: after, Limit: 100})
		if err != nil || len(page.Tasks) > 0 {
			t.Fatalf("a cause of events has the tasks %v, %v", page.Tasks, err)
		}
		if pages++; page.Next == "" {
			break
		}
		after = page.Next
	}
	if want := (pending + 99) / 100; want < 2 || pages != want {
		t.Errorf("%d investigations without a task are looked at in %d pages of 100, want %d", pending, pages, want)
	}
	tx, err := r.subject.pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: beginKnown + ";" + alongIndex})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if plan := explained(t, tx, groupTasks, group, time.Now(), time.Now().AddDate(-1, 0, 0), uuid.UUID{}, 101); !strings.Contains(plan, "Index Scan using dlq_entry_group") || strings.Contains(plan, "Filter") || strings.Contains(plan, "Sort  ") {
		t.Errorf("it reads more than a page of the group:\n%s", plan)
	}
}
