// Package postgres is the relay's database adapter: every query the relay makes, in queries/*.sql,
// and the transactions around them.
package postgres

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/postgres/pooler"
)

// Options are the settings of a pool for the relay.
type Options struct {
	// MaxConns is the largest number of connections; each worker uses two. Defaults to 12.
	MaxConns int32
	// ApplicationName is what pg_stat_activity shows. Defaults to "postrider".
	ApplicationName string
	// Pooler says whether a pooler in transaction mode stands before the database. Defaults to
	// pooler.Auto.
	Pooler pooler.Mode
	// PublishTimeout is that of the relay which uses the pool. The database ends a transaction whose relay is
	// silent for longer than IdleInTransactionLimit of it, with the locks of its shards: that of a relay that
	// is stopped, hangs, or lives behind a network that swallows everything. A session whose machine is gone,
	// without a word or a reset, ends after about PublishTimeout, by TCP keepalives; behind a pooler that is for
	// the pooler to do. What remains: until then the shards of such a relay's batches, at most all 64, stand
	// still. A relay whose process ends frees them at once. Defaults to 10s.
	PublishTimeout time.Duration
	// Password returns the password, and is asked for each connection, so that it can change, as may the files that
	// the URL names. Defaults to nil, the password of the URL.
	Password func() (string, error)
	// Tracer is told of each statement. In the contexts that it gets is the span of the batch or the action that asks, where
	// there is one. Defaults to none.
	Tracer pgx.QueryTracer
}

// NewPool opens a pool with the settings the relay relies on, in its sessions or behind a pooler in its
// transactions. Of several hosts it uses one that takes writes. It does not connect; errors are about the
// URL and never contain its password.
func NewPool(ctx context.Context, url string, o Options) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err) // pgx masks the password
	}
	cfg.ConnConfig.Tracer = o.Tracer
	cfg.MaxConns = 12
	if o.MaxConns > 0 {
		cfg.MaxConns = o.MaxConns
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "postrider"
	if o.ApplicationName != "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = o.ApplicationName
	}
	if o.PublishTimeout == 0 {
		o.PublishTimeout = defaultPublishTimeout
	}
	session := settings(o.PublishTimeout)
	ofTransaction := newLocal(session)
	maps.Copy(session, connectionSettings(o.PublishTimeout))
	pooler.Configure(cfg, o.Pooler, session)
	pooler.ReadFiles(cfg, o.Password)
	connected := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		conn.PgConn().CustomData()[localKey] = ofTransaction
		return connected(ctx, conn)
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if cfg.ConnConfig.ValidateConnect == nil { // target_session_attrs was not given
		cfg.ConnConfig.ValidateConnect = Writable
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// StoreOptions are the settings of a Store.
type StoreOptions struct {
	// DeletePublished removes an event when its topic has acknowledged it, instead of marking it
	// published. Defaults to false.
	DeletePublished bool
	// LongestRetry is the longest delay that any topic's retry policy sets, jitter included. An event or a key
	// that waits for a retry further ahead than that, and a minute more, is tried at once: the database's clock
	// was put back. Defaults to 48h.
	LongestRetry time.Duration
	// LetterTopic is the dead-letter topic of a topic's events, to count those behind a hold of one. Defaults to
	// relay.DefaultDLQTopic for every topic.
	LetterTopic func(topic string) string
}

// Store implements relay.Store on PostgreSQL.
type Store struct {
	pool          sessions
	water         water
	markers       markers
	order         commitOrder
	lately        atomic.Int64 // events of the last claim, for the size of the next
	begun         atomic.Bool  // a large claim was made
	lastClaimed   atomic.Int64 // about the newest id of the last large claim
	dense         dense
	held          heldKeys
	rotation      rotation
	clock         clock
	longestRetry  time.Duration
	letterTopic   func(topic string) string
	settleQuery   string
	settleDense   string
	renewed       atomic.Int64 // when judge last gave the connections up, in Unix nanoseconds
	processPrefix func(worker string) string
}

// NewStore returns a store on a pool that NewPool opened.
func NewStore(pool *pgxpool.Pool, o StoreOptions) *Store {
	s := &Store{pool: sessions{pool}, settleQuery: settlePublished, settleDense: settleDensePublished,
		processPrefix: processOf, longestRetry: o.LongestRetry, letterTopic: o.LetterTopic}
	if s.longestRetry == 0 {
		s.longestRetry = defaultLongestRetry
	}
	if s.letterTopic == nil {
		s.letterTopic = func(string) string { return relay.DefaultDLQTopic }
	}
	if o.DeletePublished {
		s.settleQuery, s.settleDense = settleDeleted, settleDenseDeleted
	}
	return s
}

// processOf is the part of a worker id that all workers of one relay share: what stands before the
// last slash.
func processOf(worker string) string {
	if i := strings.LastIndexByte(worker, '/'); i >= 0 {
		return worker[:i+1]
	}
	return worker
}
