package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// TestActorsAndNotesAreBounded: actors and notes are copied into the history and the events of a task and of each of its
// steps. So every call that takes them refuses more than a certain length, and says which.
func TestActorsAndNotesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	task := func(state string) uuid.UUID { return r.in("workflow", state) }
	step := func(task uuid.UUID) uuid.UUID { return ledgertest.Steps(t, r.pool, task)["a"].UUID }
	actor, notes := strings.Repeat("é", 128), strings.Repeat("é", 2048)
	for what, call := range map[string]func(actor, notes string) (string, []any){
		"create": func(actor, _ string) (string, []any) {
			return `select postrider.create_task('default', 'workflow', p_actor => $1)`, []any{actor}
		},
		"cancel": func(actor, notes string) (string, []any) {
			return `select postrider.cancel_task($1, $2, $3)`, []any{task("pending"), actor, notes}
		},
		"step": func(actor, notes string) (string, []any) {
			id := task("pending")
			return `select postrider.step_action($1, $2, 'retry', $3, $4)`, []any{id, step(id), notes, actor}
		},
		"retry": func(actor, _ string) (string, []any) {
			return `select postrider.retry_task($1, $2)`, []any{task("error"), actor}
		},
		"dead letter": func(actor, notes string) (string, []any) {
			return `select postrider.dead_letter_task($1, $2, $3)`, []any{task("pending"), notes, actor}
		},
	} {
		sql, args := call(actor, notes)
		if _, err := r.pool.Exec(t.Context(), sql, args...); err != nil {
			t.Errorf("%s, with as much as is allowed: %v", what, err)
		}
		for _, over := range [][2]string{{actor + "x", "n"}, {"a", notes + "x"}} {
			sql, args := call(over[0], over[1])
			if over[0] == "a" && !strings.Contains(fmt.Sprint(args...), over[1]) {
				continue // it takes no notes
			}
			_, err := r.pool.Exec(t.Context(), sql, args...)
			if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "22023" || !strings.Contains(pg.Message, "256") && !strings.Contains(pg.Message, "4096") {
				t.Errorf("%s, with an actor of %d bytes and notes of %d: %v", what, len(over[0]), len(over[1]), err)
			}
		}
	}
}

// TestEventsAboutTasksFitARecord: whatever the ledger takes, what it writes about it is smaller than a record that a
// broker takes by default, and says what it leaves out; the ledger itself has all.
func TestEventsAboutTasksFitARecord(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	const mib = 1 << 20
	large := strings.Repeat("x", 2*mib-20_000)
	event := func(task uuid.UUID, ceType string) (body struct {
		Context, Metadata json.RawMessage
		Steps             []any
		Actor, Reason     string
		ToState           string `json:"to_state"`
		Truncated         bool
		Sizes             map[string]int
	}) {
		t.Helper()
		all := ledgertest.OfType(ledgertest.Events(t, r.pool, task), ceType)
		if len(all) == 0 {
			t.Fatalf("no %s of task %s", ceType, task)
		}
		if err := json.Unmarshal(all[len(all)-1].Payload, &body); err != nil {
			t.Fatal(err)
		}
		return body
	}

	// The context of an event that starts the work.
	started := ledgertest.Create(t, r.pool, ledgertest.New{Name: "protocol", Context: `{"scan": "` + large + `"}`})
	if e := event(started, "document.uploaded"); !e.Truncated || string(e.Context) != "null" || e.Sizes["context"] < len(large) {
		t.Errorf("the start event: %+v", e.Sizes)
	}
	if n := scalar[int](r, `select octet_length(context::text) from postrider.tasker_tasks where task_uuid = $1`, started); n < len(large) {
		t.Errorf("the task has %d bytes of its context", n)
	}

	// Metadata of a transition, in a part of its own and as the reason, in characters that JSON escapes, too.
	for _, metadata := range []map[string]any{{"kept": large, "reason": "why", "actor": "ann"}, {"reason": large}, {"reason": strings.Repeat("\x01", mib/3-1000)},
		{"actor": large, "reason": "why"}, {"error": map[string]any{"why": large}, "error_reason": large[:10000]}} {
		task := r.in("workflow", "pending")
		raw, err := json.Marshal(metadata)
		if err != nil {
			t.Fatal(err)
		}
		if moved, err := r.Transition(t.Context(), task, "pending", "initializing", raw); err != nil || !moved {
			t.Fatal(moved, err)
		}
		e := event(task, "postrider.task.transitioned.v1")
		if !e.Truncated || e.ToState != "initializing" || string(e.Metadata) != "null" || e.Sizes["metadata"] < mib {
			t.Errorf("%.40s: %+v %v", raw, e.ToState, e.Sizes)
		}
		if why, _ := metadata["reason"].(string); !strings.HasPrefix(why, e.Reason) || why == "why" && e.Reason != why {
			t.Errorf("the reason is %.40q", e.Reason)
		}
		if n := scalar[int](r, `select octet_length(metadata::text) from postrider.tasker_task_transitions where task_uuid = $1 and most_recent`, task); n < mib {
			t.Errorf("the history has %d bytes", n)
		}
	}
	// A small one is whole.
	small := r.in("workflow", "pending")
	if _, err := r.Transition(t.Context(), small, "pending", "initializing", json.RawMessage(`{"kept": "x"}`)); err != nil {
		t.Fatal(err)
	}
	if e := event(small, "postrider.task.transitioned.v1"); e.Truncated || string(e.Metadata) != `{"kept": "x"}` {
		t.Errorf("a small event: %+v", e)
	}

	// As many steps as there may be, with names as long as they may be; cancelled at length.
	many := ledgertest.Create(t, r.pool, ledgertest.New{Name: "workflow", Steps: scalar[string](r, `select jsonb_agg(jsonb_build_object('name', rpad(n::text, 256, '-')))::text from generate_series(1, 5000) n`)})
	if e := event(many, "postrider.task.created.v1"); !e.Truncated || e.Steps == nil || len(e.Steps) != 0 || e.Sizes["steps"] < mib || e.ToState != "pending" {
		t.Errorf("the event of a task with many steps: %d steps, %v", len(e.Steps), e.Sizes)
	}
	notes := strings.Repeat("n", 4096)
	before := scalar[int64](r, `select coalesce(max(id), 0) from postrider.outbox_event`)
	if _, err := r.Cancel(t.Context(), many, "ann", notes); err != nil {
		t.Fatal(err)
	}
	if e := event(many, "postrider.task.transitioned.v1"); e.ToState != "cancelled" || e.Reason != notes {
		t.Errorf("cancelled: %s, %.40q", e.ToState, e.Reason)
	}
	if n := scalar[int64](r, `select sum(octet_length(payload)) from postrider.outbox_event where id > $1`, before); n > 10*mib {
		t.Errorf("cancelling 5000 steps wrote %d bytes of events", n)
	}

	// An error of a worker.
	failed := r.in("workflow", "pending")
	step := ledgertest.Steps(t, r.pool, failed)["a"].UUID
	r.exec(`select postrider.start_step($1, 'w')`, step)
	r.exec(`select postrider.fail_step($1, repeat('ü', 3000000), false)`, step)
	if n := scalar[int](r, `select length(last_error) from postrider.tasker_workflow_steps where workflow_step_uuid = $1`, step); n != 10000 {
		t.Errorf("the step has %d characters of its error", n)
	}
	if worst := scalar[int](r, `select max(octet_length(payload)) from postrider.outbox_event`); worst > 900_000 {
		t.Errorf("an event has %d bytes", worst)
	}
}
