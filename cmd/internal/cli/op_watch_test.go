package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// looks are operations whose answers come one after the other: each look gets the next.
type looks struct {
	dlq.Redriver
	answers []func(context.Context) (dlq.Operation, error)
	n       int
}

func (l *looks) Operation(ctx context.Context, _ uuid.UUID) (dlq.Operation, error) {
	answer := l.answers[min(l.n, len(l.answers)-1)]
	l.n++
	return answer(ctx)
}

// TestWatchingOutlastsTheDatabase: an operation goes on while it cannot be looked at, and watching it goes on too; not
// for ever, and not if the operation does not exist.
func TestWatchingOutlastsTheDatabase(t *testing.T) {
	t.Parallel()
	is := func(state dlq.OperationState) func(context.Context) (dlq.Operation, error) {
		return func(context.Context) (dlq.Operation, error) {
			return dlq.Operation{Kind: dlq.OpRedrive, State: state, Items: 1}, nil
		}
	}
	away := func(context.Context) (dlq.Operation, error) { return dlq.Operation{}, errors.New("away\x1b") }
	hangs := func(ctx context.Context) (dlq.Operation, error) {
		<-ctx.Done()
		return dlq.Operation{}, ctx.Err()
	}
	unknown := func(context.Context) (dlq.Operation, error) { return dlq.Operation{}, dlq.ErrNotFound }
	for name, c := range map[string]struct {
		answers []func(context.Context) (dlq.Operation, error)
		leave   time.Duration // 0 is never
		fails   string        // empty is not
	}{
		"back in time":       {[]func(context.Context) (dlq.Operation, error){is(dlq.Running), away, hangs, away, is(dlq.Running), away, is(dlq.Completed)}, 0, ""},
		"away for good":      {[]func(context.Context) (dlq.Operation, error){is(dlq.Running), away}, 0, "tries again: away"},
		"silent for good":    {[]func(context.Context) (dlq.Operation, error){hangs}, 0, "tries again"},
		"there is none":      {[]func(context.Context) (dlq.Operation, error){is(dlq.Running), unknown}, 0, "cannot be looked at"},
		"somebody leaves":    {[]func(context.Context) (dlq.Operation, error){is(dlq.Running), away}, time.Minute, "stopped watching"},
		"leaves in the look": {[]func(context.Context) (dlq.Operation, error){hangs}, 5 * time.Second, "stopped watching"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if c.leave > 0 {
				left, leave := context.WithTimeout(ctx, c.leave)
				defer leave()
				ctx = left
			}
			var shown bytes.Buffer
			began := time.Now()
			o, err := watch(ctx, &looks{answers: c.answers}, uuid.Nil, newBar(&shown), watchPause)
			switch {
			case c.fails == "" && (err != nil || o.State != dlq.Completed):
				t.Errorf("%s: %+v, %v", name, o, err)
			case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("%s: %v", name, err)
			}
			if time.Since(began) > watchPatience+2*lookLimit || strings.Contains(shown.String(), "\x1b") {
				t.Errorf("%s: after %v, %q", name, time.Since(began), shown.String())
			}
		})
	}
}
