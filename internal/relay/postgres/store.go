// Package postgres is the relay's database adapter: every query the relay makes, in queries/*.sql,
// and the transactions around them.
package postgres

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pooler"
	"github.com/postrider/postrider/internal/relay"
)

// Options are the settings of a pool for the relay.
type Options struct {
	// MaxConns is the largest number of connections. Defaults to 12; a relay that leads uses up to eight.
	MaxConns int32
	// IdleTime is how long a connection stays that nothing needs. Defaults to 30m.
	IdleTime time.Duration
	// ApplicationName is what pg_stat_activity shows. Defaults to "postrider".
	ApplicationName string
	// Pooler says whether a pooler in transaction mode stands before the database. Defaults to
	// pooler.Auto.
	Pooler pooler.Mode
	// PublishTimeout is that of the relay which uses the pool. The database ends a transaction whose relay is
	// silent for longer than IdleInTransactionLimit of it: so a relay that is stopped, hangs, or lives behind a network that
	// swallows everything leads no longer than that. A session whose machine is gone, without a word or a reset, ends after
	// about PublishTimeout, by TCP keepalives; behind a pooler that is for the pooler to do. A relay whose process ends makes
	// way at once. Defaults to 10s.
	PublishTimeout time.Duration
	// Password returns the password, and is asked for each connection, so that it can change, as may the files that
	// the URL names. Defaults to nil, the password of the URL.
	Password func() (string, error)
	// Tracer is told of each statement. In the contexts that it gets is the span of the batch or the action that asks, where
	// there is one. Defaults to none.
	Tracer pgx.QueryTracer
}

// pingAfter is how long a connection may rest and be used without a question whether it lives. A quiet outbox is read about
// once a second.
const pingAfter = 10 * time.Second

// statementsKept is how many prepared statements a connection remembers. The relay has fewer. The client makes room for all of them
// at once, which with its default of 512 was most of what a quiet outbox took.
const statementsKept = 96

// NewPool opens a pool with the settings the relay relies on, in its sessions or behind a pooler in its
// transactions. Of several hosts it uses one that takes writes. It does not connect; errors are about the
// URL and never contain its password.
func NewPool(ctx context.Context, url string, o Options) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err) // pgx masks the password
	}
	cfg.ConnConfig.Tracer = o.Tracer
	cfg.ConnConfig.StatementCacheCapacity, cfg.ConnConfig.DescriptionCacheCapacity = statementsKept, statementsKept
	cfg.MaxConns = 12
	if o.MaxConns > 0 {
		cfg.MaxConns = o.MaxConns
	}
	if o.IdleTime > 0 {
		cfg.MaxConnIdleTime, cfg.HealthCheckPeriod = o.IdleTime, o.IdleTime
	}
	// The pool would ask a connection that rested for a second whether it lives, and double what a quiet outbox asks.
	cfg.ShouldPing = func(_ context.Context, c pgxpool.ShouldPingParams) bool { return c.IdleDuration > pingAfter }
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
	// LeaderSilence is how long the session of a leader may be silent before the database ends it, so that another relay
	// leads when the leader is frozen or cut off. The leader asks its session at least every third of this time, and each
	// AskEach; without an answer for half of this time it sends nothing. Defaults to 8s: with the time until another relay looks,
	// a machine that is cut off is replaced within 10s.
	LeaderSilence time.Duration
	// AskEach is how often the leader asks its session at least, where LeaderSilence does not ask for more. Defaults to 1s.
	AskEach time.Duration
	// LongestRetry is the longest delay that any topic's retry policy sets, jitter included. An event that waits for a
	// time further ahead than that and a minute more is tried at once, because the database's clock was put back; so is
	// a hold that is probed later than relay.LongestPause and a minute. Defaults to 48h.
	LongestRetry time.Duration
	// LetterTopic is the dead-letter topic of a topic's events, to count the events behind a hold of one. Defaults to
	// relay.DefaultDLQTopic for every topic.
	LetterTopic func(topic string) string
	// Admit is asked before a term begins. Its error, which ErrNotAdmitted then wraps, keeps the relay from leading. It has
	// the few seconds that a step of a leadership has. Defaults to none.
	Admit func(context.Context) error
}

// defaultLongestRetry is StoreOptions'.
const defaultLongestRetry = 48 * time.Hour

// Store implements relay.Store on PostgreSQL.
type Store struct {
	pool         sessions
	silence      time.Duration // how long the session of a leader may be silent
	askEach      time.Duration // how often it is asked
	renewEach    time.Duration // how old its transaction becomes
	longestRetry time.Duration
	letterTopic  func(topic string) string
	admit        func(context.Context) error
	renewed      atomic.Int64 // when asStoreError last gave the connections up, in Unix nanoseconds
}

// NewStore returns a store on a pool that NewPool opened.
func NewStore(pool *pgxpool.Pool, o StoreOptions) *Store {
	if o.LeaderSilence == 0 {
		o.LeaderSilence = 8 * time.Second
	}
	if o.AskEach == 0 {
		o.AskEach = time.Second
	}
	s := &Store{pool: sessions{pool}, silence: o.LeaderSilence, askEach: o.AskEach, renewEach: renewEach, longestRetry: o.LongestRetry, letterTopic: o.LetterTopic, admit: o.Admit}
	if s.longestRetry == 0 {
		s.longestRetry = defaultLongestRetry
	}
	if s.letterTopic == nil {
		s.letterTopic = func(string) string { return relay.DefaultDLQTopic }
	}
	return s
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// abandonTimeout bounds giving a connection back.
const abandonTimeout = 5 * time.Second

func micros(d time.Duration) int64 { return d.Microseconds() }
