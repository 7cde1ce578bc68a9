package httpapi

import (
	"context"
	"sync"
	"time"
)

// recentAge is how old an answer may be that others get, too.
const recentAge = time.Second

// recent is an answer that many callers ask for: one of them asks for all callers that want it within recentAge. Its zero
// value is ready. Its value is shared, and is not to be changed.
type recent[T any] struct {
	mu     sync.Mutex
	value  T
	began  time.Time     // when value was asked for; zero for never
	asking chan struct{} // closed when the call that asks now has an answer, or an error; nil when no call asks
}

// get returns an answer that was asked for at most recentAge ago, or asks. A failure is for the caller that asked alone:
// the next one asks again, because the failure may be a request that was given up.
func (r *recent[T]) get(ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	for {
		r.mu.Lock()
		if !r.began.IsZero() && time.Since(r.began) < recentAge {
			defer r.mu.Unlock()
			return r.value, nil
		}
		asked := r.asking
		if asked == nil {
			r.asking = make(chan struct{})
			r.mu.Unlock()
			return r.renew(ctx, ask)
		}
		r.mu.Unlock()
		select {
		case <-asked:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

// renew asks, and keeps the answer.
func (r *recent[T]) renew(ctx context.Context, ask func(context.Context) (T, error)) (value T, err error) {
	began := time.Now()
	done := false
	defer func() { // also where ask panics
		r.mu.Lock()
		defer r.mu.Unlock()
		if done && err == nil {
			r.value, r.began = value, began
		}
		close(r.asking)
		r.asking = nil
	}()
	value, err = ask(ctx)
	done = true
	return value, err
}
