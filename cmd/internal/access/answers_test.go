package access_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
)

func TestARepeatedRequestGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	s, _, ctx := newStore(t)
	request := []byte("POST /v1/dlq/requeue {}")
	c, a, err := s.Begin(ctx, "k1", request)
	if a != nil || err != nil {
		t.Fatal(a, err)
	}
	if _, _, err := s.Begin(ctx, "k1", request); !errors.Is(err, access.ErrInWork) {
		t.Errorf("while the first is in work: %v", err)
	}
	if err := s.End(ctx, c, access.Answer{Status: 201, Body: []byte("made")}); err != nil {
		t.Fatal(err)
	}
	if _, a, err := s.Begin(ctx, "k1", request); err != nil || a == nil || a.Status != 201 || string(a.Body) != "made" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, _, err := s.Begin(ctx, "k1", []byte("another")); !errors.Is(err, access.ErrOtherRequest) {
		t.Errorf("another request: %v", err)
	}
	other := access.WithActor(ctx, access.Actor{Name: "bob", KeyID: "bobskey"})
	c, a, err = s.Begin(other, "k1", request)
	if a != nil || err != nil {
		t.Errorf("the key of another person is another one: %v, %v", a, err)
	}
	if err := s.Forget(other, c); err != nil {
		t.Fatal(err)
	}
	if _, a, err := s.Begin(other, "k1", request); a != nil || err != nil {
		t.Errorf("after it was given up: %v, %v", a, err)
	}
}

// age makes all claims so old that they are taken over.
func age(t *testing.T, ctx context.Context, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := pool.Exec(ctx, `update postrider.access_answer set created_at = created_at - $1::bigint * interval '1 microsecond' - interval '1 second'`,
		access.AnswerPatience.Microseconds()); err != nil {
		t.Fatal(err)
	}
}

func TestARequestLostWithItsProcessCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	if _, _, err := s.Begin(ctx, "k", []byte("r")); err != nil {
		t.Fatal(err)
	}
	age(t, ctx, pool)
	var mu sync.Mutex
	first := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, a, err := s.Begin(ctx, "k", []byte("r")); err == nil && a == nil {
				mu.Lock()
				first++
				mu.Unlock()
			} else if !errors.Is(err, access.ErrInWork) {
				t.Errorf("%v, %v", a, err)
			}
		})
	}
	wg.Wait()
	if first != 1 {
		t.Errorf("%d took it over", first)
	}
}

// TestWhatChangedSomethingIsNeverMadeAgain: neither after an error nor after the death of its process.
func TestWhatChangedSomethingIsNeverMadeAgain(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	c, _, err := s.Begin(ctx, "k", []byte("r"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Look(access.WithClaim(ctx, c), "task.create", "task", "t-1", access.AllSources(), struct{}{}); err != nil {
		t.Fatal(err)
	}
	lost := func() *access.LostError {
		t.Helper()
		_, a, err := s.Begin(ctx, "k", []byte("r"))
		found, is := errors.AsType[*access.LostError](err)
		if !is || a != nil {
			t.Fatalf("%v, %v", a, err)
		}
		return found
	}
	if got := lost(); got.Action != "task.create" || got.TargetID != "t-1" || got.RequestID != "r-1" || !strings.Contains(got.Error(), "task.create t-1") {
		t.Errorf("%+v", got)
	}
	if err := s.Forget(ctx, c); err != nil {
		t.Fatal(err)
	}
	lost()
	if _, _, err := s.Begin(ctx, "k", []byte("another")); !errors.Is(err, access.ErrOtherRequest) {
		t.Errorf("another request: %v", err)
	}
	age(t, ctx, pool)
	found := lost()
	if err := s.End(ctx, found.Claim, access.Answer{Status: 201, Body: []byte("made")}); err != nil {
		t.Fatal(err)
	}
	if _, a, err := s.Begin(ctx, "k", []byte("r")); err != nil || a == nil || a.Status != 201 {
		t.Errorf("once its answer is known: %+v, %v", a, err)
	}
}

// TestForgettingWaitsForACommitOnItsWay: the caller has an error, and the server still works on the request.
func TestForgettingWaitsForACommitOnItsWay(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		s, pool, ctx := newStore(t)
		c, _, err := s.Begin(ctx, "k", []byte("r"))
		if err != nil {
			t.Fatal(err)
		}
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Audit(access.WithClaim(ctx, c), tx, "dlq.purge", "entry", "", access.AllSources(), struct{}{}); err != nil {
			t.Fatal(err)
		}
		forgotten := make(chan error, 1)
		go func() { forgotten <- s.Forget(ctx, c) }()
		for waiting := false; !waiting; {
			if err := pool.QueryRow(ctx, `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waiting); err != nil {
				t.Fatal(err)
			}
		}
		end := tx.Rollback
		if commits {
			end = tx.Commit
		}
		if err := errors.Join(end(ctx), <-forgotten); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Begin(ctx, "k", []byte("r")); (err != nil) != commits {
			t.Errorf("committed %v, and then %v", commits, err)
		}
	}
}

// TestWhoWasTakenOverChangesNothing: a process that was stopped for longer than the patience goes on.
func TestWhoWasTakenOverChangesNothing(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	first, _, err := s.Begin(ctx, "k", []byte("r"))
	if err != nil {
		t.Fatal(err)
	}
	age(t, ctx, pool)
	second, _, err := s.Begin(ctx, "k", []byte("r"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Look(access.WithClaim(ctx, first), "task.create", "task", "t-1", access.AllSources(), struct{}{}); err == nil {
		t.Error("the first changed something")
	}
	if err := errors.Join(s.End(ctx, first, access.Answer{Status: 200}), s.Forget(ctx, first)); err != nil {
		t.Fatal(err)
	}
	if err := s.Look(access.WithClaim(ctx, second), "task.create", "task", "t-2", access.AllSources(), struct{}{}); err != nil {
		t.Errorf("the second: %v", err)
	}
}

func TestOldAnswersGo(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	for _, k := range []string{"old", "new"} {
		if _, _, err := s.Begin(ctx, k, []byte("r")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pool.Exec(ctx, `update postrider.access_answer set created_at = now() - interval '2 hours' where idempotency_key = 'old'`); err != nil {
		t.Fatal(err)
	}
	if n, more, err := s.PurgeAnswers(ctx, time.Hour, 10); n != 1 || more || err != nil {
		t.Errorf("%d, %v, %v", n, more, err)
	}
	if _, _, err := s.Begin(ctx, "new", []byte("r")); !errors.Is(err, access.ErrInWork) {
		t.Errorf("the new one went, too: %v", err)
	}
}
