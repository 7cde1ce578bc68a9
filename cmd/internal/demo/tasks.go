package demo

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/tasks/ledger"
	ledgerpostgres "github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/tasks/task"
)

//go:embed ship_order.yaml
var shipOrder []byte

//go:embed queries/age_task.sql
var ageTaskSQL string

// Which tasks of the warehouse do not go well: of one in ten the parcel is lost, and no worker ever says so; one in
// twenty five is refused by the carrier until its retries are spent.
const (
	lostEvery   = 10
	lostFirst   = 3
	brokenEvery = 25
	brokenFirst = 7
)

// A task is created every so many rounds of the warehouse, and it works on as many tasks in one.
const (
	createEvery = 3
	workOn      = 5
)

// worker is what the warehouse is called in the history of its tasks.
const worker = "warehouse"

// warehouse creates tasks and works on them. A step that it starts in one round it ends in the next.
type warehouse struct {
	pool     *pgxpool.Pool
	rounds   int
	inHand   []errand
	created  atomic.Int64
	finished atomic.Int64
}

// errand is a step in the hands of the warehouse.
type errand struct {
	task uuid.UUID
	step ledger.Step
	parcel
}

// parcel is the context of a task.
type parcel struct {
	Order   int64  `json:"order"`
	Carrier string `json:"carrier"`
}

func newWarehouse(ctx context.Context, pool *pgxpool.Pool) (*warehouse, error) {
	template, err := task.Parse("ship_order.yaml", shipOrder)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	if _, _, err := ledgerpostgres.On(pool).ApplyTemplate(ctx, template); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return &warehouse{pool: pool}, nil
}

// runOnce is a round: it ends the steps in hand, now and then creates a task, and starts the next steps.
func (w *warehouse) runOnce(ctx context.Context) error {
	for len(w.inHand) > 0 {
		// When the step was ended elsewhere meanwhile, or its task is gone, that is no error here.
		if err := w.end(ctx, w.inHand[0]); err != nil && !errors.Is(err, ledger.ErrRefused) && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		w.inHand = w.inHand[1:]
	}
	if w.rounds%createEvery == 0 {
		if err := w.create(ctx); err != nil {
			return err
		}
	}
	w.rounds++
	return w.begin(ctx)
}

func (w *warehouse) create(ctx context.Context) error {
	n := w.created.Load() + 1
	p := parcel{Order: n, Carrier: "reliable"}
	switch {
	case n%lostEvery == lostFirst:
		p.Carrier = "lost"
	case n%brokenEvery == brokenFirst:
		p.Carrier = "broken"
	}
	input, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if _, err := ledgerpostgres.On(w.pool).Create(ctx, ledger.NewTask{Namespace: "demo", Name: "ship_order", Context: input, Actor: "orders"}); err != nil {
		return err
	}
	w.created.Store(n)
	return nil
}

// begin takes the steps whose turn it is, all in one transaction.
func (w *warehouse) begin(ctx context.Context) error {
	var taken []errand
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		l := ledgerpostgres.On(tx)
		ready, err := l.NextReady(ctx, ledger.ReadyQuery{Namespace: "demo", Limit: workOn})
		if err != nil {
			return err
		}
		for _, r := range ready {
			if _, err := l.Evaluate(ctx, r.TaskUUID); err != nil {
				return err
			}
			t, err := l.Task(ctx, r.TaskUUID)
			if err != nil {
				return err
			}
			var p parcel
			if err := json.Unmarshal(t.Context, &p); err != nil {
				return fmt.Errorf("context of task %s: %w", r.TaskUUID, err)
			}
			steps, err := l.ReadySteps(ctx, r.TaskUUID)
			if err != nil {
				return err
			}
			for _, s := range steps {
				if s.FencingNumber, err = l.StartStep(ctx, s.UUID, worker); err != nil {
					return err
				}
				taken = append(taken, errand{r.TaskUUID, s, p})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.inHand = append(w.inHand, taken...)
	return nil
}

// end says what became of a step, or, of a lost parcel, never does.
func (w *warehouse) end(ctx context.Context, e errand) error {
	l := ledgerpostgres.On(w.pool)
	switch {
	case e.step.Name == "ship" && e.Carrier == "lost":
		if _, err := w.pool.Exec(ctx, ageTaskSQL, e.task); err != nil {
			return fmt.Errorf("make task %s older: %w", e.task, err)
		}
		return nil
	case e.step.Name == "ship" && e.Carrier == "broken":
		_, err := l.FailStep(ctx, e.step.UUID, ledger.Failure{Error: "the carrier refused the parcel: its label cannot be read", FencingNumber: e.step.FencingNumber})
		return err
	}
	results, err := json.Marshal(map[string]any{"order": e.Order, "by": worker})
	if err != nil {
		return err
	}
	if err := l.CompleteStep(ctx, e.step.UUID, results, e.step.FencingNumber); err != nil {
		return err
	}
	if e.step.Name == "ship" {
		w.finished.Add(1)
	}
	return nil
}
