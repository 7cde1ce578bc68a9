package inbox_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
	"github.com/postrider/postrider/retry"
)

// through is the service with its connections through a proxy.
func (s *service) through(p *pgproxy.Proxy) *service {
	s.t.Helper()
	pool, err := pgxpool.New(s.t.Context(), p.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(pool.Close)
	far := &service{t: s.t, url: p.URL(), pool: pool}
	far.openSQL()
	return far
}

// TestUnknownCommit loses the connection around the commit. The processor cannot know whether it was made; the inbox
// does, and the message takes effect once either way.
func TestUnknownCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cut func(*pgproxy.Proxy, int, func([]string) bool)
		// calls of the handler, and whether the last try was the one that handled.
		calls int
		first bool
	}{
		"committed":     {(*pgproxy.Proxy).CutAfterCommit, 1, false},
		"not committed": {(*pgproxy.Proxy).CutBeforeCommit, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behindProxy(t, inbox.Options{Group: "g"}, func(t *testing.T, s *service, proxy *pgproxy.Proxy, f face) {
				c.cut(proxy, 1, pgproxy.Containing("insert into effect"))
				calls := 0
				handle := func(_ context.Context, exec execFunc) error { calls++; return exec(putEffect, "g", "m") }
				first, err := f.process(t.Context(), "m", handle)
				if err != nil || first != c.first || calls != c.calls || proxy.Cuts() != 1 || s.effects("m") != 1 {
					t.Errorf("%v, %v after %d calls, %d cuts; %d effects", first, err, calls, proxy.Cuts(), s.effects("m"))
				}
				if first, err := f.process(t.Context(), "m", handle); err != nil || first || s.effects("m") != 1 {
					t.Errorf("the copy: %v, %v, %d effects", first, err, s.effects("m"))
				}
			})
		})
	}
}

// mute commits and loses the answer, and is then not to be reached any more.
type mute struct {
	pool   *pgxpool.Pool
	begins int
}

func (m *mute) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	if m.begins++; m.begins > 1 {
		return nil, io.ErrUnexpectedEOF
	}
	tx, err := m.pool.BeginTx(ctx, o)
	return muteTx{tx}, err
}

type muteTx struct{ pgx.Tx }

func (tx muteTx) Commit(ctx context.Context) error {
	if err := tx.Tx.Commit(ctx); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// If the database cannot be asked again, the error says that the outcome is unknown, and a copy that comes takes effect
// once.
func TestOutcomeStaysUnknown(t *testing.T) {
	t.Parallel()
	s := newService(t)
	away := &mute{pool: s.pool}
	tries := retry.Policy{MaxAttempts: 3, Base: time.Millisecond, Max: time.Millisecond}
	p, err := inbox.New(away, inbox.Options{Group: "g", Retry: tries})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Process(t.Context(), "m", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, putEffect, "g", "m")
		return err
	})
	if !errors.Is(err, inbox.ErrUnknownOutcome) || !errors.Is(err, io.ErrUnexpectedEOF) || away.begins != 3 {
		t.Errorf("%v, after %d tries", err, away.begins)
	}
	if first, err := s.faces(inbox.Options{Group: "g"})["pgx"].process(t.Context(), "m", nil); err != nil || first || s.effects("m") != 1 {
		t.Errorf("when it came again: %v, %v, %d effects", first, err, s.effects("m"))
	}
	// A database that was away from the beginning leaves no doubt.
	if _, err := p.Process(t.Context(), "n", nil); err == nil || errors.Is(err, inbox.ErrUnknownOutcome) {
		t.Errorf("away from the beginning: %v", err)
	}
}

// A connection that ended while it was idle costs another try, and the caller gets no error.
func TestLostConnectionBeforeTheBeginning(t *testing.T) {
	t.Parallel()
	behindProxy(t, inbox.Options{Group: "g"}, func(t *testing.T, s *service, proxy *pgproxy.Proxy, f face) {
		handle := func(_ context.Context, exec execFunc) error { return exec(putEffect, "g", "m") }
		if _, err := f.process(t.Context(), "warm", handle); err != nil {
			t.Fatal(err)
		}
		proxy.CutAtQuery(2, pgproxy.Containing("inbox_message"))
		if first, err := f.process(t.Context(), "m", handle); err != nil || !first || proxy.Cuts() != 2 {
			t.Errorf("%v, %v, %d cuts", first, err, proxy.Cuts())
		}
		if got := s.count(`select count(*) from inbox_message`); got != 2 || s.effects("m") != 2 {
			t.Errorf("%d noted, %d effects", got, s.effects("m"))
		}
	})
}

// A commit that gets no answer is given up after CommitTimeout; its outcome is not known.
func TestCommitTimeout(t *testing.T) {
	t.Parallel()
	o := inbox.Options{Group: "g", CommitTimeout: 50 * time.Millisecond,
		Retry: retry.Policy{MaxAttempts: 1, Base: time.Millisecond, Max: time.Millisecond}}
	behindProxy(t, o, func(t *testing.T, s *service, proxy *pgproxy.Proxy, f face) {
		_, err := f.process(t.Context(), "m", func(_ context.Context, exec execFunc) error {
			defer proxy.Freeze()
			return exec(putEffect, "g", "m")
		})
		if !errors.Is(err, inbox.ErrUnknownOutcome) {
			t.Errorf("%v", err)
		}
		proxy.Thaw()
		if _, err := f.process(t.Context(), "m", func(_ context.Context, exec execFunc) error { return exec(putEffect, "g", "m") }); err != nil || s.effects("m") != 1 {
			t.Errorf("when it came again: %v, %d effects", err, s.effects("m"))
		}
	})
}
