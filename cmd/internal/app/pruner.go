package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/relay"
)

// pruned is a kind of row that is removed when it is old enough.
type pruned struct {
	// kind is its label in metrics.
	kind string
	// keep is how long a row stays.
	keep time.Duration
	// limit is how many rows one call removes at most, fitting how many the next call does: fewer after a call that timed
	// out.
	limit, fitting int
	// remove makes one call. more says that another call may find more.
	remove func(ctx context.Context, keep time.Duration, limit int) (gone int, more bool, err error)
}

const (
	// prunePause is how often old rows are looked for.
	prunePause = 10 * time.Minute
	// pruneRest is how long the pruner rests after a call, as a multiple of the time the call took, so that it takes a fifth
	// of one connection's time at most.
	pruneRest = 4
	// pruneLess is by what a portion is divided that timed out.
	pruneLess = 4
	// pruneQuick is what a portion may take for the next one to be twice as large. It is far less than any timeout, so that
	// a portion does not grow until it times out again.
	pruneQuick = 5 * time.Second
)

// makePruner prepares what removes old rows of the desk, where this process serves the API or treats operations, and of the
// audit log, where the database has no desk and this process has the relay. Any number of processes may: a row that one of
// them removes is passed over by the others.
func (a *App) makePruner(context.Context) error {
	alone := a.has(Relay) && a.desk() && !a.installed(migrations.PartDesk)
	if a.services == nil && !alone {
		return nil
	}
	c := a.options.Config
	p := &pruner{log: a.log}
	if a.services != nil {
		a.pruneDesk(p)
	}
	p.add("audit", days(c.DLQ.AuditRetentionDays), 5000, access.NewStore(a.service).PurgeAudit)
	if err := p.register(a.options.Registry); err != nil {
		return err
	}
	a.parts = append(a.parts, part{name: "pruner", run: func(ctx context.Context) error {
		loop.Every(ctx, prunePause, p.pass)
		return nil
	}})
	return nil
}

func days(n int) time.Duration { return time.Duration(n) * relay.Day }

// pruneDesk adds what the desk alone has.
func (a *App) pruneDesk(p *pruner) {
	c := a.options.Config
	p.add("investigation", days(c.DLQ.RetentionDays), 500, a.services.Redriver.ForgetClosed)
	p.add("operation", days(c.DLQ.OperationRetentionDays), 5000, a.services.Redriver.ForgetOperations)
	p.add("command", days(c.DLQ.OperationRetentionDays), 5000, a.services.Redriver.ForgetCommands)
	p.add("answer", c.HTTP.IdempotencyTTL, 1000, a.services.Access.PurgeAnswers)
	p.add("session", days(1), 1000, a.services.Access.PurgeSessions) // the audit log says all that an ended one could
}

// pruner removes old rows of the desk. The relay looks after the rows of the outbox.
type pruner struct {
	log    *slog.Logger
	kinds  []*pruned
	rows   *prometheus.CounterVec
	errors *prometheus.CounterVec
}

func (p *pruner) add(kind string, keep time.Duration, limit int, remove func(context.Context, time.Duration, int) (int, bool, error)) {
	p.kinds = append(p.kinds, &pruned{kind: kind, keep: keep, limit: limit, fitting: limit, remove: remove})
}

func (p *pruner) register(reg prometheus.Registerer) error {
	p.rows = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "postrider_pruned_total",
		Help: "What retention removed at the desk, by kind: closed investigations with the messages of their dead letters, ended operations, commands that sources have answered, rows of the audit log, answers to requests with an Idempotency-Key, ended sessions of the web console and links to it.",
	}, []string{"kind"})
	p.errors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "postrider_prune_errors_total",
		Help: "Failed attempts of retention to remove something at the desk, by kind; they are made again.",
	}, []string{"kind"})
	for _, k := range p.kinds { // all series are there from the start, so that a rate is right from the first row on
		p.rows.WithLabelValues(k.kind)
		p.errors.WithLabelValues(k.kind)
	}
	for _, m := range []prometheus.Collector{p.rows, p.errors} {
		if err := reg.Register(m); err != nil {
			return err
		}
	}
	return nil
}

// pass removes all that is old enough, in portions. A kind that fails does not keep the others waiting.
func (p *pruner) pass(ctx context.Context) {
	for _, k := range p.kinds {
		again := true
		for more := true; more && ctx.Err() == nil; {
			var heavy bool
			more, heavy = p.portion(ctx, k, again)
			again = again && !heavy
		}
	}
}

// portion removes some rows of a kind, rests, and reports whether to go on. A portion that the database could not remove in
// time was too heavy, and is tried again with fewer rows: at once, or in the next pass where again is false, because other
// kinds wait and the cause may be a lock that is held. Portions that are quick grow to the limit again.
func (p *pruner) portion(ctx context.Context, k *pruned, again bool) (more, heavy bool) {
	began := time.Now()
	gone, more, err := k.remove(ctx, k.keep, k.fitting)
	took := time.Since(began)
	switch {
	case err != nil && ctx.Err() != nil:
		return false, false
	case err != nil:
		p.errors.WithLabelValues(k.kind).Inc()
		wait := prunePause
		if heavy = timedOut(err) && k.fitting > 1; heavy {
			k.fitting = max(k.fitting/pruneLess, 1)
		}
		if more = heavy && again; more {
			wait = pruneRest * took
		}
		p.log.Warn("old rows were not removed; this is tried again", "kind", k.kind, "in", wait.String(), "rows", k.fitting, "err", err)
	case took < pruneQuick:
		k.fitting = min(2*k.fitting, k.limit)
	}
	p.rows.WithLabelValues(k.kind).Add(float64(gone))
	_ = loop.Sleep(ctx, pruneRest*took)
	return more, heavy
}

// timedOut reports whether the database, or the client's patience with it, ended a statement. A database that cannot be
// reached says nothing about rows.
func timedOut(err error) bool {
	if _, unreached := errors.AsType[*pgconn.ConnectError](err); unreached {
		return false
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "57014" || errors.Is(err, context.DeadlineExceeded) // query_canceled
}
