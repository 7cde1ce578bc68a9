package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// These are the three workflows of tasks that get stuck: the detector finds them, their letters go through the
// outbox, the dead-letter topic and the collector, and people resolve them by their steps.

// office is an app that watches tasks, its database, and the investigations in it.
type office struct {
	postgres.Ledger
	t      *testing.T
	pool   *pgxpool.Pool
	people *dlqpostgres.Investigations
	broker *kafkatest.Broker
	// lifecycle is the topic of lifecycle events.
	lifecycle string
}

func openOffice(t *testing.T, b *kafkatest.Broker) *office {
	t.Helper()
	db := pgtest.New(t)
	pool := db.Pool(t)
	d, err := NewServices(pool, config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	o := &office{postgres.On(pool), t, pool, d.Investigations, b, b.Topic(t, 2, nil)}
	c := settings(t, db.URL, b.Addrs...)
	c.Tasks.LifecycleTopic, c.DLQ.Topic = o.lifecycle, b.Topic(t, 2, nil)
	c.DLQ.Group = c.DLQ.Topic
	c.Staleness.DetectionInterval = time.Second
	waitReady(t, run(t, Options{Config: c}))
	return o
}

func (o *office) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) in(task uuid.UUID, want string) {
	o.t.Helper()
	if got := ledgertest.State(o.t, o.pool, task); got != want {
		o.t.Fatalf("the task is in %s, want %s; it was in %s", got, want, ledgertest.History(o.t, o.pool, task))
	}
}

func (o *office) step(task uuid.UUID, name string) uuid.UUID {
	o.t.Helper()
	return ledgertest.Steps(o.t, o.pool, task)[name].UUID
}

// act does something with a step and says what it became.
func (o *office) act(task uuid.UUID, name string, action ledger.Action, notes string) ledger.StepStatus {
	o.t.Helper()
	status, err := o.Act(o.t.Context(), task, o.step(task, name), ledger.StepAction{Action: action, Notes: notes, Actor: "operator@example.com"})
	o.must(err)
	return status
}

// StartStep is that of the ledger, for tests that need no fencing number.
func (o *office) StartStep(ctx context.Context, step uuid.UUID, worker string) error {
	_, err := o.Ledger.StartStep(ctx, step, worker)
	return err
}

// work starts a step, if it must be, and completes it.
func (o *office) work(task uuid.UUID, name string) {
	o.t.Helper()
	o.must(o.StartStep(o.t.Context(), o.step(task, name), "worker-1"))
	o.must(o.CompleteStep(o.t.Context(), o.step(task, name), nil, 0))
}

// failTwice lets a step fail and its retry fail, after which it waits for the next.
func (o *office) failTwice(task uuid.UUID, name string) {
	o.t.Helper()
	for range 2 {
		o.must(o.StartStep(o.t.Context(), o.step(task, name), "worker-1"))
		status, err := o.FailStep(o.t.Context(), o.step(task, name), ledger.Failure{Error: "payment gateway: 503", RetryAfter: time.Nanosecond})
		o.must(err)
		if status != ledger.StepWaitingForRetry {
			o.t.Fatalf("the step is %s", status)
		}
	}
	if got := ledgertest.Steps(o.t, o.pool, task)[name].RetryCount; got != 2 {
		o.t.Errorf("the step has a retry count of %d", got)
	}
}

// investigations of a task, when there are so many; the newest first.
func (o *office) investigations(task uuid.UUID, want int) []dlq.Entry {
	o.t.Helper()
	var found []dlq.Entry
	eventually(o.t, fmt.Sprintf("%d investigations", want), func() (bool, string) {
		page, err := o.people.Find(o.t.Context(), dlq.Search{Filter: dlq.Filter{Subject: dlq.Subject{Type: dlq.SubjectTask, ID: task.String()}}})
		found = page.Entries
		return err == nil && len(found) == want, fmt.Sprintf("there are %d, %v; the task is in %s", len(found), err, ledgertest.State(o.t, o.pool, task))
	})
	newest, err := o.people.Show(o.t.Context(), found[0].UUID) // with its snapshot
	o.must(err)
	found[0] = newest.Entry
	return found
}

// resolve closes an investigation, as an operator may.
func (o *office) resolve(e dlq.Entry, notes string) {
	o.t.Helper()
	tag, err := o.pool.Exec(o.t.Context(), `update postrider.dlq_entry set resolution_status = 'manually_resolved', resolution_timestamp = now(),
		resolution_notes = $2, resolved_by = 'operator@example.com', updated_at = now() where dlq_entry_uuid = $1 and resolution_status = 'pending'`, e.UUID, notes)
	o.must(err)
	if tag.RowsAffected() != 1 {
		o.t.Fatalf("investigation %s is not pending", e.UUID)
	}
}

// told fails the test unless Kafka has the history of a task: its states, in their order.
func (o *office) told(task uuid.UUID) {
	o.t.Helper()
	var n int
	if err := o.pool.QueryRow(o.t.Context(), `select count(*) from postrider.outbox_event where topic = $1`, o.lifecycle).Scan(&n); err != nil {
		o.t.Fatal(err)
	}
	var states []string
	for _, record := range o.broker.ReadAll(o.t, o.lifecycle, n) {
		var event struct {
			To   string `json:"to_state"`
			Type string
		}
		for _, h := range record.Headers {
			if h.Key == "ce_type" {
				event.Type = string(h.Value)
			}
		}
		o.must(json.Unmarshal(record.Value, &event))
		if string(record.Key) == task.String() && (event.Type == "postrider.task.created.v1" || event.Type == "postrider.task.transitioned.v1") {
			states = append(states, event.To)
		}
	}
	if got, want := strings.Join(states, " -> "), ledgertest.History(o.t, o.pool, task); got != want {
		o.t.Errorf("Kafka was told %s, the task was in %s", got, want)
	}
}

func TestWorkflowOfAStaleTask(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		o := openOffice(t, b)
		ledgertest.Apply(t, o.pool, ledgertest.Template{Configuration: `{"cancelled_steps": "wait",
			"steps": [{"name": "upstream_task"}, {"name": "process_payment", "dependencies": ["upstream_task"]}]}`})
		task := ledgertest.Create(t, o.pool, ledgertest.New{Context: `{"order": 7}`})
		o.act(task, "upstream_task", ledger.ActionCancel, "the order upstream was cancelled")
		o.in(task, "waiting_for_dependencies")
		ledgertest.Age(t, o.pool, task, 61*time.Minute)

		entry := o.investigations(task, 1)[0]
		o.in(task, "error")
		var snapshot struct {
			Task  struct{ State, Context any }
			Steps []struct {
				Name   string `json:"step_name"`
				Status string
			}
		}
		o.must(json.Unmarshal(entry.Snapshot, &snapshot))
		if entry.Reason != dlq.StalenessTimeout || entry.OriginalState != "waiting_for_dependencies" || entry.Status != dlq.Pending ||
			len(snapshot.Steps) != 2 || snapshot.Steps[0].Status != "cancelled" || snapshot.Steps[1].Status != "pending" {
			t.Errorf("the investigation is %+v: %s", entry, entry.Snapshot)
		}

		if status := o.act(task, "process_payment", ledger.ActionRetry, "Upstream task recreated, ready to proceed"); status != ledger.StepEnqueued {
			t.Errorf("the step is %s", status)
		}
		o.in(task, "steps_in_process")
		o.act(task, "upstream_task", ledger.ActionCompleteManually, "recreated")
		o.work(task, "process_payment")
		o.in(task, "complete")
		o.resolve(entry, "Fixed blocked step by recreating upstream dependency")
		if all := o.investigations(task, 1); all[0].Status != dlq.ManuallyResolved || all[0].ResolvedBy != "operator@example.com" {
			t.Errorf("the investigation ended as %+v", all[0])
		}
		if history := ledgertest.History(t, o.pool, task); !strings.HasSuffix(history, "waiting_for_dependencies -> error -> steps_in_process -> evaluating_results -> complete") {
			t.Errorf("the task was in %s", history)
		}
		o.told(task)
	})
}

func TestWorkflowOfRepeatedFailures(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		o := openOffice(t, b)
		ledgertest.Apply(t, o.pool, ledgertest.Template{Configuration: `{"steps": [{"name": "charge_card", "max_retries": 5}]}`})
		stuck := func() (uuid.UUID, dlq.Entry) {
			t.Helper()
			task := ledgertest.Create(t, o.pool, ledgertest.New{})
			o.failTwice(task, "charge_card")
			o.in(task, "waiting_for_retry")
			ledgertest.Age(t, o.pool, task, 35*time.Minute)
			entry := o.investigations(task, 1)[0]
			o.in(task, "error")
			if entry.Reason != dlq.StalenessTimeout || entry.OriginalState != "waiting_for_retry" || !strings.Contains(string(entry.Snapshot), `"retry_count": 2`) {
				t.Errorf("the investigation is %+v: %s", entry, entry.Snapshot)
			}
			return task, entry
		}
		first, one := stuck()
		if status := o.act(first, "charge_card", ledger.ActionResetRetryCount, "gateway is back"); status != ledger.StepPending {
			t.Errorf("the step is %s", status)
		}
		o.in(first, "enqueuing_steps")
		if got := ledgertest.Steps(t, o.pool, first)["charge_card"].RetryCount; got != 0 {
			t.Errorf("the retry count is %d", got)
		}
		o.work(first, "charge_card")
		o.in(first, "complete")
		o.resolve(one, "Reset step retry after gateway fix")

		second, two := stuck()
		if status := o.act(second, "charge_card", ledger.ActionRetry, "Using updated gateway API"); status != ledger.StepEnqueued {
			t.Errorf("the step is %s", status)
		}
		o.work(second, "charge_card")
		o.in(second, "complete")
		o.resolve(two, "Fixed underlying handler code - gateway API updated")

		page, err := o.people.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Status: dlq.ManuallyResolved, Reason: dlq.StalenessTimeout}})
		o.must(err)
		if page.Total != 2 || !slices.ContainsFunc(page.Entries, func(e dlq.Entry) bool {
			return e.UUID == one.UUID && e.ResolutionNotes == "Reset step retry after gateway fix"
		}) {
			t.Errorf("resolved are %+v", page.Entries)
		}
		o.told(second)
	})
}

// TestWorkflowOfATaskThatGetsStuckTwice: each stay has its own investigation, which names the one before.
func TestWorkflowOfATaskThatGetsStuckTwice(t *testing.T) {
	t.Parallel()
	o := openOffice(t, kafkatest.Kfake(t))
	ledgertest.Apply(t, o.pool, ledgertest.Template{Configuration: `{"steps": [{"name": "charge_card", "max_retries": 5}]}`})
	task := ledgertest.Create(t, o.pool, ledgertest.New{})
	o.failTwice(task, "charge_card")
	ledgertest.Age(t, o.pool, task, 35*time.Minute)
	one := o.investigations(task, 1)[0]
	o.resolve(one, "gateway restarted")
	o.act(task, "charge_card", ledger.ActionResetRetryCount, "again")
	o.failTwice(task, "charge_card")
	ledgertest.Age(t, o.pool, task, 35*time.Minute)
	both := o.investigations(task, 2)
	if two := both[0]; two.Status != dlq.Pending || two.PredecessorUUID != one.UUID || two.Occurrences != 1 || both[1].Status != dlq.ManuallyResolved {
		t.Errorf("the investigations are %+v", both)
	}
	o.in(task, "error")
}

func TestWorkflowOfADependencyCycle(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		o := openOffice(t, b)
		order := ledgertest.Template{Name: "order_fulfillment", Configuration: `{"steps": [
			{"name": "validate_shipping", "dependencies": ["ship_order"]}, {"name": "process_payment", "dependencies": ["validate_shipping"]},
			{"name": "ship_order", "dependencies": ["process_payment"]}]}`}
		ledgertest.Apply(t, o.pool, order)
		task := ledgertest.Create(t, o.pool, ledgertest.New{Name: order.Name})
		entry := o.investigations(task, 1)[0]
		if entry.Reason != dlq.DependencyCycleDetected || entry.OriginalState != "waiting_for_dependencies" ||
			!strings.Contains(entry.ErrorMessage, "process_payment, ship_order, validate_shipping depend on each other in a cycle") ||
			!strings.Contains(string(entry.Snapshot), `"dependencies": ["process_payment"]`) {
			t.Errorf("the investigation is %+v: %s", entry, entry.Snapshot)
		}
		// The steps that depend on it are cancelled with it.
		if status := o.act(task, "ship_order", ledger.ActionCancel, "Template had circular dependency"); status != ledger.StepCancelled {
			t.Errorf("the step is %s", status)
		}
		for name, step := range ledgertest.Steps(t, o.pool, task) {
			if step.Status != "cancelled" {
				t.Errorf("step %s is %s", name, step.Status)
			}
		}
		o.in(task, "error")
		o.resolve(entry, "Fixed template circular dependency - future tasks will use corrected template")

		order.Version = "1.0.1"
		order.Configuration = strings.Replace(order.Configuration, `["ship_order"]`, `[]`, 1)
		ledgertest.Apply(t, o.pool, order)
		later := ledgertest.Create(t, o.pool, ledgertest.New{Name: order.Name})
		for _, name := range []string{"validate_shipping", "process_payment", "ship_order"} {
			o.work(later, name)
		}
		o.in(later, "complete")
		o.in(task, "error")
		if all := o.investigations(task, 1); all[0].Status != dlq.ManuallyResolved {
			t.Errorf("the investigation ended as %+v", all[0])
		}
		o.told(task)
	})
}
