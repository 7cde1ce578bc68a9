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
		"a person leaves":    {[]func(context.Context) (dlq.Operation, error){is(dlq.Running), away}, time.Minute, "stopped watching"},
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
			o, err := watch(ctx, &looks{answers: c.answers}, uuid.Nil, newBar(&shown), watchPause, time.Hour)
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

// TestWatchingEnds: watching an operation that does not move says what may be wrong, ends after its time, and says what to do
// where a person is needed.
func TestWatchingEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o     dlq.Operation
		told  []string // while it is watched
		fails []string // at the end
	}{
		"no operator": {dlq.Operation{Kind: dlq.OpRedrive, State: dlq.Running, Items: 2}, []string{"nothing has changed for 2m0s", "role operator"},
			[]string{"stopped watching after 10m0s", `"running"`, "it goes on", "postrider op show", "role operator"}},
		"nothing arrives": {dlq.Operation{Kind: dlq.OpRedrive, State: dlq.Canary, Items: 9, Done: 2, Delivered: 1}, []string{"postrider outbox holds"},
			[]string{"stopped watching after 10m0s", "postrider outbox holds"}},
		"halted": {dlq.Operation{Kind: dlq.OpRedrive, State: dlq.Halted, Items: 9, Done: 2, CameBack: 2, Error: "2 of 2 became dead letters again"}, nil,
			[]string{"is halted: 2 of 2 became dead letters again", "--outcome came_back", "postrider op resume", "postrider op abort"}},
		"paused":  {dlq.Operation{Kind: dlq.OpRedrive, State: dlq.Paused, Items: 9}, nil, []string{"is paused", "postrider op resume"}},
		"aborted": {dlq.Operation{Kind: dlq.OpRedrive, State: dlq.Aborted, Items: 9}, nil, []string{"is aborted", "postrider op items"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var shown bytes.Buffer
			began := time.Now()
			o, err := watch(t.Context(), &looks{answers: []func(context.Context) (dlq.Operation, error){func(context.Context) (dlq.Operation, error) { return c.o, nil }}},
				uuid.Nil, newBar(&shown), watchPause, 10*time.Minute)
			if err == nil {
				err = outcome(o)
			}
			if err == nil {
				t.Fatalf("%s: no error", name)
			}
			contains(t, err.Error(), c.fails...)
			contains(t, shown.String(), c.told...)
			if lines := strings.Count(shown.String(), "\n"); lines > 12 || time.Since(began) > 10*time.Minute+watchPause {
				t.Errorf("%s: %d lines in %v:\n%s", name, lines, time.Since(began), shown.String())
			}
		})
	}
}

// TestSlowOperationsAreNotCalledStalled: between two items of a low rate nothing happens, and nothing is wrong.
func TestSlowOperationsAreNotCalledStalled(t *testing.T) {
	t.Parallel()
	if got := stallAfter(dlq.Operation{Options: dlq.OperationOptions{Rate: 0.001}}); got != 3000*time.Second {
		t.Errorf("one in 1000 seconds is remarkable after %v", got)
	}
	if got := stallAfter(dlq.Operation{Options: dlq.OperationOptions{Rate: 100}}); got != stallLimit {
		t.Errorf("a fast one is remarkable after %v", got)
	}
}
