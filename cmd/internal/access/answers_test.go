package access_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
)

func TestARepeatedRequestGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	s, _, ctx := desk(t)
	request := []byte("POST /v1/dlq/requeue {}")
	if a, err := s.Begin(ctx, "k1", request); a != nil || err != nil {
		t.Fatal(a, err)
	}
	if _, err := s.Begin(ctx, "k1", request); !errors.Is(err, access.ErrInWork) {
		t.Errorf("while the first is in work: %v", err)
	}
	if err := s.End(ctx, "k1", access.Answer{Status: 201, Body: []byte("made")}); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Begin(ctx, "k1", request); err != nil || a == nil || a.Status != 201 || string(a.Body) != "made" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := s.Begin(ctx, "k1", []byte("another")); !errors.Is(err, access.ErrOtherRequest) {
		t.Errorf("another request: %v", err)
	}
	other := access.WithActor(ctx, access.Actor{Name: "bob", KeyID: "bobskey"})
	if a, err := s.Begin(other, "k1", request); a != nil || err != nil {
		t.Errorf("somebody else's key is another one: %v, %v", a, err)
	}
	if err := s.Forget(other, "k1"); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Begin(other, "k1", request); a != nil || err != nil {
		t.Errorf("after it was given up: %v, %v", a, err)
	}
}

func TestARequestLostWithItsProcessCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	s, pool, ctx := desk(t)
	if _, err := s.Begin(ctx, "k", []byte("r")); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, `update postrider.access_answer set created_at = now() - $1::bigint * interval '1 microsecond' - interval '1 second'`,
		access.AnswerPatience.Microseconds()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	first := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if a, err := s.Begin(ctx, "k", []byte("r")); err == nil && a == nil {
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

func TestOldAnswersGo(t *testing.T) {
	t.Parallel()
	s, pool, ctx := desk(t)
	for _, k := range []string{"old", "new"} {
		if _, err := s.Begin(ctx, k, []byte("r")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pool.Exec(ctx, `update postrider.access_answer set created_at = now() - interval '2 hours' where idempotency_key = 'old'`); err != nil {
		t.Fatal(err)
	}
	if n, err := s.PurgeAnswers(ctx, time.Hour); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := s.Begin(ctx, "new", []byte("r")); !errors.Is(err, access.ErrInWork) {
		t.Errorf("the new one went, too: %v", err)
	}
}
