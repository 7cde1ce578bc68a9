// Package pooler opens connections that work both to PostgreSQL itself and through a pooler in transaction
// mode, for example PgBouncer.
//
// Through a pooler of this kind nothing that belongs to a session lasts: session parameters are refused or leak to
// strangers, and a prepared statement may be missing from the next transaction's server. So there sessions
// get no parameters, statements are not prepared, and [Behind] tells the owner of a connection to set in
// each transaction what it relies on.
package pooler

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Mode says what stands between us and PostgreSQL.
type Mode string

const (
	// Auto finds out when it connects: PostgreSQL tells each client the process that serves it, and a
	// pooler, which cannot know yet, makes something up. One in session mode is treated as if it were in
	// transaction mode, which is safe and a little slower.
	Auto Mode = "auto"
	// None: PostgreSQL itself, or a pooler in session mode that passes parameters on.
	None Mode = "none"
	// Transaction: a pooler in transaction mode.
	Transaction Mode = "transaction"
)

// lookAgain is how long an answer is believed by connections opened later.
const lookAgain = time.Minute

// behindKey marks a connection that was opened for a pooler.
const behindKey = "postrider: behind a pooler"

// Behind reports whether a connection of a configured pool goes through a pooler.
func Behind(conn *pgx.Conn) bool {
	_, behind := conn.PgConn().CustomData()[behindKey]
	return behind
}

// Configure prepares a pool for the mode; empty is Auto. session are the parameters that its sessions get
// where there is no pooler.
func Configure(cfg *pgxpool.Config, mode Mode, session map[string]string) {
	s := &side{mode: mode}
	cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		behind, err := s.look(ctx, c)
		if err != nil {
			return err
		}
		if behind {
			c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
			return nil
		}
		for name, value := range session {
			c.RuntimeParams[name] = value
		}
		return nil
	}
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		if conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe {
			conn.PgConn().CustomData()[behindKey] = struct{}{}
		}
		return nil
	}
}

// ReadFiles has a configured pool [Refresh] each connection.
func ReadFiles(cfg *pgxpool.Config, password func() (string, error)) {
	before := cfg.BeforeConnect
	cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		if err := Refresh(c, password); err != nil {
			return err
		}
		return before(ctx, c)
	}
}

// Refresh gives a connection the present content of the files that its connection string names: the certificates and
// keys of TLS, and a passfile. The client reads them once, when it parses the string. If password is not nil, it is
// asked for the password instead.
func Refresh(c *pgx.ConnConfig, password func() (string, error)) error {
	now, err := pgconn.ParseConfig(c.ConnString())
	if err != nil {
		why := errors.Unwrap(err) // err quotes the string
		if why == nil {
			why = errors.New("it is not accepted any more")
		}
		return fmt.Errorf("read again the files that the connection string names (sslrootcert, sslcert, sslkey): %w", why)
	}
	c.TLSConfig, c.Fallbacks, c.Password = now.TLSConfig, now.Fallbacks, now.Password
	if password != nil {
		c.Password, err = password()
	}
	return err
}

// Connect opens one connection that works either way, for few statements: none is prepared.
func Connect(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	cfg = cfg.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	return pgx.ConnectConfig(ctx, cfg)
}

// side is what a pool knows of the side it connects to.
type side struct {
	mode Mode

	mu     sync.Mutex
	looked time.Time
	behind bool
}

func (s *side) look(ctx context.Context, cfg *pgx.ConnConfig) (bool, error) {
	switch s.mode {
	case None:
		return false, nil
	case Transaction:
		return true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.looked.IsZero() && time.Since(s.looked) < lookAgain {
		return s.behind, nil
	}
	conn, err := Connect(ctx, cfg)
	if err != nil {
		return false, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	behind, err := ask(ctx, conn)
	if err != nil {
		return false, fmt.Errorf("find out whether a pooler stands before the database: %w", err)
	}
	s.behind, s.looked = behind, time.Now()
	return behind, nil
}

// Between reports whether a pooler, in whatever mode, stands between a connection and PostgreSQL.
func Between(ctx context.Context, conn *pgx.Conn) (bool, error) { return ask(ctx, conn) }

// ask compares the process that the connection was told of with the one that answers.
func ask(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid string
	if err := conn.QueryRow(ctx, "select pg_backend_pid()::text").Scan(&pid); err != nil {
		return false, err
	}
	return pid != strconv.FormatUint(uint64(conn.PgConn().PID()), 10), nil
}
