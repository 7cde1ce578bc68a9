package postgres_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

func TestArchiveIsRead(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	ctx := t.Context()
	id := ledgertest.Create(t, r.pool, ledgertest.New{Context: `{"order": 17}`, Priority: 5, Key: "k"})
	r.work(id, 3)
	ledgertest.Age(t, r.pool, id, 40*day)
	live := ledgertest.Create(t, r.pool, ledgertest.New{})
	b := ledgertest.Steps(t, r.pool, id)["b"].UUID
	history := ledgertest.History(t, r.pool, id)
	before := r.whole(id)
	r.run()

	task, err := r.archive.Task(ctx, id)
	if err != nil || task.UUID != id || task.Namespace != "default" || task.Name != "task" || task.Version != "1.0.0" || task.State != "complete" ||
		task.FinalState == nil || *task.FinalState != ledger.FinalComplete || string(task.Context) != `{"order": 17}` || task.Priority != 5 || *task.IdempotencyKey != "k" ||
		task.CompletedAt == nil || time.Since(*task.ArchivedAt) > time.Hour || time.Since(task.CreatedAt) < 40*day || task.ErrorReason != nil {
		t.Errorf("task %+v, %v", task, err)
	}
	steps, err := r.archive.Steps(ctx, id)
	if err != nil || len(steps) != 4 || steps[0].Name != "a" || *steps[0].Handler != "h" || steps[3].Name != "d" || len(steps[3].Dependencies) != 2 ||
		steps[1].RetryCount != 1 || steps[2].MaxRetries != 7 || string(steps[1].Inputs) != `{"n": 1}` || string(steps[1].Results) != `{"n": 3, "big": 12345678901234567890}` {
		t.Errorf("steps %+v, %v", steps, err)
	}
	step, err := r.archive.Step(ctx, id, b)
	if err != nil || !reflect.DeepEqual(step, steps[1]) || step.LastError == nil {
		t.Errorf("step %+v, %v", step, err)
	}
	transitions, err := wholeHistory(ctx, r.archive.Transitions, id)
	var states []string
	for i, tr := range transitions {
		states = append(states, tr.ToState)
		if tr.SortKey != i+1 || (tr.FromState == nil) != (i == 0) {
			t.Errorf("transition %+v", tr)
		}
	}
	if err != nil || strings.Join(states, " -> ") != history {
		t.Errorf("history %v, %v, want %s", states, err, history)
	}
	changes, err := wholeHistory(ctx, r.archive.StepTransitions, id)
	if err != nil || len(changes) < 12 || changes[0].ToStatus != "pending" || changes[0].FromStatus != nil {
		t.Errorf("changes of steps: %+v, %v", changes, err)
	}

	// It has the shape that it had, and all of it.
	after, err := ledger.ReadArchived(ctx, r.archive, id)
	if err != nil || after.Task.FinalState == nil || after.Task.ArchivedAt == nil {
		t.Fatalf("%+v, %v", after, err)
	}
	after.Task.FinalState, after.Task.ArchivedAt = nil, nil
	for i := range after.Steps {
		after.Steps[i].ArchivedAt = nil
	}
	for i := range after.Transitions {
		after.Transitions[i].ArchivedAt = nil
	}
	for i := range after.StepTransitions {
		after.StepTransitions[i].ArchivedAt = nil
	}
	if !reflect.DeepEqual(after, before) {
		t.Errorf("the archived task is\n%+v, it was\n%+v", after, before)
	}

	// For a task that is not in the archive each call says so, for a live task too.
	for _, other := range []uuid.UUID{live, uuid.New()} {
		if there, err := r.archive.Contains(ctx, other); there || err != nil {
			t.Errorf("contains: %v, %v", there, err)
		}
		_, e1 := r.archive.Task(ctx, other)
		_, e2 := r.archive.Steps(ctx, other)
		_, e3 := r.archive.Step(ctx, other, b)
		_, e4 := r.archive.Step(ctx, id, other)
		_, e5 := wholeHistory(ctx, r.archive.Transitions, other)
		_, e6 := wholeHistory(ctx, r.archive.StepTransitions, other)
		for i, err := range []error{e1, e2, e3, e4, e5, e6} {
			if !errors.Is(err, ledger.ErrNotArchived) {
				t.Errorf("%d: %v", i, err)
			}
		}
	}
	if there, err := r.archive.Contains(ctx, id); !there || err != nil {
		t.Errorf("contains: %v, %v", there, err)
	}
	// A task without steps has none, and is there.
	bare := ledgertest.Create(t, r.pool, ledgertest.New{Steps: `[]`})
	ledgertest.Put(t, r.pool, bare, "complete")
	ledgertest.Age(t, r.pool, bare, 40*day)
	r.run()
	if steps, err := r.archive.Steps(ctx, bare); len(steps) != 0 || err != nil {
		t.Errorf("steps of a task without: %v, %v", steps, err)
	}
	// The view over both.
	for id, archived := range map[uuid.UUID]bool{id: true, bare: true, live: false} {
		if got := one[bool](r, `select archived from postrider.tasker_all_tasks where task_uuid = $1 and namespace_name = 'default' and task_name = 'task'
			and (archived_at is null) = not archived and (final_state is null) = not archived`, id); got != archived {
			t.Errorf("task %s: archived %v", id, got)
		}
	}
}

// whole reads a live task with all that it has.
func (r *archiveRig) whole(id uuid.UUID) (whole ledger.WholeTask) {
	r.Helper()
	l := postgres.On(r.pool)
	var err error
	if whole.Task, err = l.Task(r.Context(), id); err == nil {
		whole.Steps, err = l.Steps(r.Context(), id)
	}
	if err == nil {
		err = whole.ReadHistory(r.Context(), l)
	}
	if err != nil {
		r.Fatal(err)
	}
	return whole
}

func TestArchiveIsListed(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	ctx := t.Context()
	ledgertest.Apply(t, r.pool, ledgertest.Template{Namespace: "other", Name: "task"})
	var all []uuid.UUID
	for i := range 7 {
		n := ledgertest.New{}
		if i%2 == 1 {
			n.Namespace = "other"
		}
		id := ledgertest.Create(t, r.pool, n)
		ledgertest.Put(t, r.pool, id, map[bool]string{true: "error", false: "complete"}[i == 3])
		ledgertest.Age(t, r.pool, id, 40*day)
		r.run(func(o *ledger.ArchiveOptions) { o.BatchSize = 100 })
		all = append([]uuid.UUID{id}, all...)
	}
	list := func(f ledger.ArchiveFilter) (ids []uuid.UUID) {
		t.Helper()
		for {
			page, more, err := r.archive.List(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range page {
				ids = append(ids, task.UUID)
			}
			if !more {
				return ids
			}
			if len(page) != f.Limit {
				t.Fatalf("%d tasks and more, of %d that were asked for", len(page), f.Limit)
			}
			last := page[len(page)-1]
			place, err := ledger.ParseTaskPlace(ledger.TaskPlace{At: *last.ArchivedAt, TaskUUID: last.UUID}.String())
			if err != nil {
				t.Fatal(err)
			}
			f.Before = &place
		}
	}
	for name, c := range map[string]struct {
		filter ledger.ArchiveFilter
		want   []uuid.UUID
	}{
		"all":                       {ledger.ArchiveFilter{}, all},
		"by pages":                  {ledger.ArchiveFilter{Limit: 2}, all},
		"namespace":                 {ledger.ArchiveFilter{Namespace: "other", Limit: 1}, []uuid.UUID{all[1], all[3], all[5]}},
		"template":                  {ledger.ArchiveFilter{Namespace: "other", Name: "task"}, []uuid.UUID{all[1], all[3], all[5]}},
		"none":                      {ledger.ArchiveFilter{Namespace: "other", Name: "nothing"}, nil},
		"failed":                    {ledger.ArchiveFilter{FinalState: ledger.FinalError}, []uuid.UUID{all[3]}},
		"from the third":            {ledger.ArchiveFilter{Offset: 2}, all[2:]},
		"from a namespace's second": {ledger.ArchiveFilter{Namespace: "other", Offset: 1}, []uuid.UUID{all[3], all[5]}},
		"from behind the last":      {ledger.ArchiveFilter{Offset: len(all)}, nil},
	} {
		if got := list(c.filter); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for _, f := range []ledger.ArchiveFilter{{FinalState: "gone"}, {Name: "task"}, {Limit: -1}, {Offset: -1}, {Limit: ledger.MaxArchiveLimit + 1}} {
		if _, _, err := r.archive.List(ctx, f); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
	for _, place := range []string{"", "x", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z_x", "_" + all[0].String(), "0000-01-01T00:00:00Z_" + all[0].String()} {
		if _, err := ledger.ParseTaskPlace(place); err == nil {
			t.Errorf("%q is accepted as a place", place)
		}
	}
}

func TestArchiveStatistics(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	for state, n := range map[string]int{"complete": 3, "error": 2, "cancelled": 1} {
		for range n {
			id := r.ended(state, 40*day)
			r.exec(`update postrider.tasker_tasks set created_at = '2026-01-31 23:59:59+00' where task_uuid = $1`, id)
		}
	}
	february := r.ended("complete", 40*day)
	r.exec(`update postrider.tasker_tasks set created_at = '2026-02-01 00:00:00+00' where task_uuid = $1`, february)
	everything := func(o *ledger.ArchiveOptions) {
		o.BatchSize, o.Policies = 2, &ledger.ArchivePolicies{Completed: true, Failed: true, Cancelled: true}
	}
	r.run(everything)
	got, err := r.archive.Statistics(t.Context())
	if err != nil || len(got) != 2 {
		t.Fatalf("statistics %+v, %v", got, err)
	}
	for i, want := range []ledger.ArchiveStatistics{
		{Month: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), Tasks: 1, Steps: 4, Transitions: 2, Complete: 1},
		{Month: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Tasks: 6, Steps: 24, Transitions: 12, Complete: 3, Error: 2, Cancelled: 1},
	} {
		if got[i].Bytes < 8192 || !strings.HasSuffix(got[i].Size, "B") || time.Since(got[i].LastArchivedAt) > time.Hour {
			t.Errorf("size and time in %+v", got[i])
		}
		want.Bytes, want.Size, want.LastArchivedAt = got[i].Bytes, got[i].Size, got[i].LastArchivedAt
		if got[i] != want {
			t.Errorf("statistics %+v, want %+v", got[i], want)
		}
	}
}

// TestArchiveRights: the relay's login archives, an operator's archives and reads, a service does neither.
func TestArchiveRights(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	conn := r.db.Conn(t)
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	const archive, refresh, read, dashboards = `select postrider.archive_completed_tasks(30, 10, false)`, `select postrider.refresh_dashboards()`,
		`select count(*) from postrider.tasker_all_tasks, postrider.tasker_workflow_steps_archive`,
		`select count(*) from postrider.v_dlq_dashboard, postrider.v_task_staleness_monitoring, postrider.v_archive_statistics`
	for role, may := range map[string][]string{
		"postrider_relay": {archive, refresh, read}, "postrider_operator": {archive, refresh, read, dashboards}, "postrider_writer": {},
	} {
		for _, sql := range []string{archive, refresh, read, dashboards} {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "set local role "+role); err != nil {
				t.Fatal(err)
			}
			_, err = tx.Exec(t.Context(), sql)
			allowed := false
			for _, m := range may {
				allowed = allowed || m == sql
			}
			if allowed && err != nil {
				t.Errorf("%s: %s: %v", role, sql, err)
			} else if !allowed {
				wantCode(t, err, "42501", "")
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
