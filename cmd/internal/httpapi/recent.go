package httpapi

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// recentAge is the default of recent.age.
const recentAge = time.Second

// recent is an answer that many callers ask for: one of them asks for all callers that want it within its age. Its zero
// value is ready. Its value is shared, and is not to be changed.
type recent[T any] struct {
	// age is how old an answer may be that others get, too. Defaults to recentAge.
	age time.Duration

	mu    sync.Mutex
	kept  *renewal[T] // the newest answer; nil for none
	going *renewal[T] // the question that is asked now; nil for none
}

// renewal is one question and its answer.
type renewal[T any] struct {
	began time.Time
	// ended is closed when the question has an answer or an error; value and ok may be read then.
	ended chan struct{}
	value T
	// ok is false after an error.
	ok bool
}

// get returns an answer that was asked for at most its age ago, or asks. A caller that waits for another's question takes its
// answer, however long that took: a question that takes longer than its age would be asked by each caller. A failure is for
// the caller that asked alone: the next one asks again, because the failure may be a request that was given up.
func (r *recent[T]) get(ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	for {
		r.mu.Lock()
		if r.kept != nil && time.Since(r.kept.began) < cmp.Or(r.age, recentAge) {
			defer r.mu.Unlock()
			return r.kept.value, nil
		}
		going := r.going
		if going == nil {
			going = &renewal[T]{began: time.Now(), ended: make(chan struct{})}
			r.going = going
			r.mu.Unlock()
			return r.renew(ctx, going, ask)
		}
		r.mu.Unlock()
		select {
		case <-going.ended:
			if going.ok {
				return going.value, nil
			}
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

// renew asks, and keeps the answer.
func (r *recent[T]) renew(ctx context.Context, going *renewal[T], ask func(context.Context) (T, error)) (value T, err error) {
	defer func() { // also where ask panics
		r.mu.Lock()
		defer r.mu.Unlock()
		if going.ok {
			r.kept = going
		}
		r.going = nil
		close(going.ended)
	}()
	value, err = ask(ctx)
	going.value, going.ok = value, err == nil
	return value, err
}
