package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/relay"
)

// pruned is a kind of row that is removed when it is old enough.
type pruned struct {
	// kind is its label in metrics.
	kind string
	// keep is how long a row stays.
	keep time.Duration
	// limit is how many rows one call removes at most.
	limit int
	// remove makes one call. more says that another call may find more.
	remove func(ctx context.Context, keep time.Duration, limit int) (gone int, more bool, err error)
}

const (
	// prunePause is how often old rows are looked for.
	prunePause = 10 * time.Minute
	// pruneRest is how long the pruner rests after a call, as a multiple of the time the call took, so that it takes a fifth
	// of one connection's time at most.
	pruneRest = 4
)

// makePruner prepares what removes old rows of the desk, where this process serves the API or treats operations. Any number
// of processes may: a row that one of them removes is passed over by the others.
func (a *App) makePruner(context.Context) error {
	if a.services == nil {
		return nil
	}
	c := a.options.Config
	days := func(n int) time.Duration { return time.Duration(n) * relay.Day }
	p := &pruner{app: a, kinds: []pruned{
		{"investigation", days(c.DLQ.RetentionDays), 500, a.services.Redriver.ForgetClosed},
		{"operation", days(c.DLQ.OperationRetentionDays), 5000, a.services.Redriver.ForgetOperations},
		{"audit", days(c.DLQ.AuditRetentionDays), 5000, a.services.Access.PurgeAudit},
		{"answer", c.HTTP.IdempotencyTTL, 1000, a.services.Access.PurgeAnswers},
		{"session", days(1), 1000, a.services.Access.PurgeSessions}, // the audit log says all that an ended one could
	}}
	if err := p.register(a.options.Registry); err != nil {
		return err
	}
	a.parts = append(a.parts, part{name: "pruner", limit: 2 * time.Second, run: func(ctx context.Context) error {
		loop.Every(ctx, prunePause, p.pass)
		return nil
	}})
	return nil
}

// pruner removes old rows of the desk. The relay looks after the rows of the outbox.
type pruner struct {
	app    *App
	kinds  []pruned
	rows   *prometheus.CounterVec
	errors *prometheus.CounterVec
}

func (p *pruner) register(reg prometheus.Registerer) error {
	p.rows = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "postrider_pruned_total",
		Help: "What retention removed at the desk, by kind: closed investigations with the messages of their dead letters, ended operations, rows of the audit log, answers to requests with an Idempotency-Key, ended sessions of the web console and links to it.",
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
		for more := true; more && ctx.Err() == nil; {
			began := time.Now()
			var gone int
			var err error
			if gone, more, err = k.remove(ctx, k.keep, k.limit); err != nil {
				if ctx.Err() == nil {
					p.errors.WithLabelValues(k.kind).Inc()
					p.app.log.Warn("old rows were not removed; this is tried again", "kind", k.kind, "in", prunePause.String(), "err", err)
				}
				break
			}
			p.rows.WithLabelValues(k.kind).Add(float64(gone))
			_ = loop.Sleep(ctx, pruneRest*time.Since(began))
		}
	}
}
