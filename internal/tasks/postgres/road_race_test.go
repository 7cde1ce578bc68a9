package postgres_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// Services move and retry tasks while relays give up their events and a reconciler catches up: no event's task is
// forgotten, and none is moved twice for it.
func TestNoGivenUpEventIsForgotten(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	const tasks, relays, services, rounds = 20, 3, 3, 40
	var all []uuid.UUID
	for range tasks {
		all = append(all, r.in("protocol", "extracting"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg, others sync.WaitGroup
	for range relays {
		wg.Go(func() {
			for range rounds {
				task := all[rand.IntN(tasks)]
				err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
					id, _, err := ledgertest.GiveUp(ctx, tx, task, "record", "X")
					if err != nil {
						return err
					}
					_, err = tx.Exec(ctx, `select postrider.outbox_tell_tasks($1)`, []int64{id})
					return err
				})
				if err != nil {
					t.Errorf("giving up an event: %v", err)
				}
			}
		})
	}
	stop := make(chan struct{})
	for range services {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				task := all[rand.IntN(tasks)]
				err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
					l := postgres.On(tx)
					if _, err := tx.Exec(ctx, lockTask, task); err != nil {
						return err
					}
					now, err := l.Task(ctx, task)
					if err != nil {
						return err
					}
					switch now.State {
					case "dead_letter":
						_, err = l.Retry(ctx, task, "service")
					case "uploaded":
						_, err = l.Transition(ctx, task, "uploaded", "extracting", nil)
					default:
						_, err = tx.Exec(ctx, `select pg_sleep(0.002)`) // at work on it
					}
					return err
				})
				if err != nil && !errors.Is(err, ledger.ErrInvalid) {
					t.Errorf("a service: %v", err)
					return
				}
			}
		})
	}
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := r.CatchUp(ctx, 5); err != nil {
				t.Errorf("catching up: %v", err)
				return
			}
		}
	})
	wg.Wait()
	noted := scalar[int](r, `select count(*) from postrider.tasker_undelivered_events`)
	close(stop)
	others.Wait()
	for {
		got, err := r.CatchUp(ctx, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if got.Waiting == 0 {
			break
		}
	}
	if n := scalar[int](r, `select count(*) from postrider.outbox_exception where topic = 'documents' and state = 'exhausted'`); n != relays*rounds {
		t.Errorf("%d events were given up, want %d", n, relays*rounds)
	}
	if n := scalar[int](r, `select count(*) from postrider.outbox_exception e
		where e.topic = 'documents' and e.state = 'exhausted' and 1 <>
		      (select count(*) from postrider.tasker_task_transitions r where r.task_uuid = e.task_uuid and r.metadata->>'event_id' = e.event_id::text)
		    + (select count(*) from postrider.tasker_undelivered_events u where u.event_id = e.event_id and u.outcome = 'refused')`); n != 0 {
		t.Errorf("of %d events neither the task was moved nor said why not, or both", n)
	}
	if n := scalar[int](r, `select count(*) from postrider.tasker_task_transitions a
		join postrider.tasker_task_transitions b on b.task_uuid = a.task_uuid and b.sort_key = a.sort_key + 1 and b.from_state <> a.to_state`); n != 0 {
		t.Errorf("%d transitions do not begin where the one before ended", n)
	}
	t.Logf("%d of %d were noted", noted, relays*rounds)
}
