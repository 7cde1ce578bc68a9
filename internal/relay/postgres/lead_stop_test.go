package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
)

// stopAt ends a context when a statement begins.
type stopAt struct {
	statement string
	stop      context.CancelFunc
}

func (s *stopAt) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if q.SQL == s.statement {
		s.stop()
	}
	return ctx
}

func (s *stopAt) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestATermThatBeginsIsHandedOver: a relay is told to stop while it begins a term, before the term is written down and after it. Either
// way the next relay finds no term that was not handed over.
func TestATermThatBeginsIsHandedOver(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{"before it is written down": logBegin, "after it": logHolds} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			store, _ := f.open(Options{Tracer: &stopAt{statement, stop}}, StoreOptions{})
			r, err := relay.New(relay.Config{Store: store, Publisher: &memory{}})
			f.done(err)
			f.done(r.Run(ctx))
			if got := value[string](f, `select coalesce(string_agg(note, ' ' order by number), '') from postrider.outbox_receipt where term > 0`); got != "began ended" {
				t.Errorf("the receipts of its term say %q", got)
			}
			if d, deaths := f.deaths("host:2:x"); deaths != 0 || d.Began().Term != 2 {
				t.Errorf("the next term is %d, behind %d deaths", d.Began().Term, deaths)
			}
		})
	}
}

// stopBehind ends a context when a batch has ended in which a statement began with words.
type stopBehind struct {
	stopAt
	met bool
}

func (s *stopBehind) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *stopBehind) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.met = s.met || strings.HasPrefix(q.SQL, s.statement)
}

func (s *stopBehind) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {
	if s.met {
		s.stop()
	}
}

// TestAStopBeforeATerm: a relay that is told to stop when it has the locks begins no term, and lets them go.
func TestAStopBeforeATerm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tracer := &stopBehind{stopAt: stopAt{"select pg_try_advisory_lock_shared", stop}}
	store, _ := f.open(Options{Tracer: tracer}, StoreOptions{})
	if d, err := store.Lead(ctx, "host:1:x"); d != nil || !errors.Is(err, context.Canceled) || !tracer.met {
		t.Fatalf("it leads: %v, %v; it took the locks: %v", d, err, tracer.met)
	}
	if n := value[int](f, `select count(*) from postrider.outbox_receipt where term > 0`); n != 0 {
		t.Errorf("%d receipts of a term that did not begin", n)
	}
	f.lead() // the locks are free
}

// TestNotAdmitted: what must not be led has no term, and what was not admitted once is led when it is.
func TestNotAdmitted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	no := errors.New("it was set back")
	admit := no
	store, _ := f.open(Options{}, StoreOptions{Admit: func(context.Context) error { return admit }})
	before := value[int](f, `select count(*) from postrider.outbox_receipt`)
	if d, err := store.Lead(t.Context(), "host:1:x"); d != nil || !errors.Is(err, ErrNotAdmitted) || !errors.Is(err, no) {
		t.Fatalf("it leads: %v, %v", d, err)
	}
	if n := value[int](f, `select count(*) from postrider.outbox_receipt`); n != before {
		t.Errorf("%d receipts were written", n-before)
	}
	admit = nil
	d, err := store.Lead(t.Context(), "host:1:x")
	f.done(err)
	if d == nil {
		t.Fatal("it does not lead when it is admitted")
	}
	d.End(t.Context())
}
