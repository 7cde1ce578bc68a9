package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/pooler"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// connectLimit bounds the first connection and its questions.
const connectLimit = 10 * time.Second

// Connect opens one connection to the database, on a server that takes writes. Its error says what failed and what to do,
// and has no password in it.
func Connect(ctx context.Context, database config.Database) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	cfg, err := pgx.ParseConfig(database.URL.Reveal())
	if err != nil {
		return nil, errors.New("database.url is not accepted by the PostgreSQL client") // err quotes the URL
	}
	if read := passwords(database); read != nil {
		if cfg.Password, err = read(); err != nil {
			return nil, err
		}
	}
	refuseUnfit(&cfg.Config)
	conn, err := pooler.Connect(ctx, cfg)
	if err != nil {
		return nil, unreachable(database, err)
	}
	return conn, nil
}

// Disconnect closes a connection, also after ctx has ended. A server that does not answer is left after a second.
func Disconnect(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// unfitError is the error about a server whose version Postrider does not run on.
type unfitError struct{ server, why, remedy string }

func (e *unfitError) Error() string {
	return fmt.Sprintf("runs %s: %s; %s", e.server, e.why, e.remedy)
}

// refuseUnfit refuses servers that Postrider does not run on, and servers that take no writes, as the relay does. If the
// address names the servers by target_session_attrs, these count: a process that only reads may then use a standby.
func refuseUnfit(cfg *pgconn.Config) {
	others := cfg.ValidateConnect
	if others == nil {
		others = postgres.Writable
	}
	cfg.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		version := conn.ParameterStatus("server_version")
		name := "PostgreSQL " + version
		if foreign := conn.ParameterStatus("crdb_version"); foreign != "" { // it calls itself a new PostgreSQL in server_version
			name, version = foreign, foreign
		}
		if why, remedy := pgserver.Unfit(version); why != "" {
			return &unfitError{name, why, remedy}
		}
		return others(ctx, conn)
	}
}

// passwords returns what reads the password for each connection, nil where no file has it.
func passwords(d config.Database) func() (string, error) {
	if d.PasswordFile == "" {
		return nil
	}
	return d.Password
}

func unreachable(database config.Database, err error) error {
	if unfit := (*unfitError)(nil); errors.As(err, &unfit) {
		return &connectError{text: fmt.Sprintf("the database %s %v", database.URL, unfit), cause: err}
	}
	what := "reached"
	if errors.Is(err, postgres.ErrReadOnlyServer) {
		what = "used"
	}
	return &connectError{
		text:  fmt.Sprintf("the database %s cannot be %s: %s%s", database.URL, what, attempts(err), connectHint(database, err)),
		cause: err,
	}
}

// connectError says in one line what the client says in many.
type connectError struct {
	text  string
	cause error
}

func (e *connectError) Error() string { return e.text }
func (e *connectError) Unwrap() error { return e.cause }

// connectHead is what the client's errors begin with; the address says it better.
var connectHead = regexp.MustCompile("^failed to connect to `[^`]*`:\\s*")

// attempts says what became of the attempts to connect, without repeating itself: the client tries each
// address with and without TLS, and repeats what the resolver said of a name.
func attempts(err error) string {
	var said []string
	for _, part := range strings.Split(connectHead.ReplaceAllString(obs.OneLine(err.Error()), ""), "; ") {
		if !slices.ContainsFunc(said, func(before string) bool { return strings.HasSuffix(before, part) }) {
			said = append(said, part)
		}
	}
	return strings.Join(said, "; ")
}

// connectHint says what to look at, where the error tells.
func connectHint(database config.Database, err error) string {
	var refused *pgconn.PgError
	var network *net.OpError
	switch {
	case errors.Is(err, postgres.ErrReadOnlyServer):
		return "; " + postgres.HintReadOnlyServer
	case errors.As(err, &refused):
		switch refused.Code {
		case "28P01", "28000": // invalid_password, invalid_authorization_specification
			if database.PasswordFile != "" {
				return "; check the user in database.url, and the password in database.password_file, " + database.PasswordFile
			}
			return "; check user and password in database.url"
		case "3D000": // invalid_catalog_name
			return "; create the database, or correct its name in database.url"
		case "57P03", "53300": // cannot_connect_now, too_many_connections
			return "; try again in a moment"
		}
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return "; check that PostgreSQL runs there, and host and port in database.url"
	}
	return ""
}

// OpenPool opens a pool of connections to a server that takes writes, with settings that keep no session for ever where there is no pooler,
// and proves that the database can be reached; its error is as Connect's.
func OpenPool(ctx context.Context, database config.Database, connections int32) (*pgxpool.Pool, error) {
	return openPool(ctx, database, connections, refuseUnfit, nil)
}

// OpenAny is OpenPool for callers that also look at servers that take no writes.
func OpenAny(ctx context.Context, database config.Database, connections int32) (*pgxpool.Pool, error) {
	return openPool(ctx, database, connections, func(*pgconn.Config) {}, nil)
}

func openPool(ctx context.Context, database config.Database, connections int32, refuse func(*pgconn.Config), tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(database.URL.Reveal())
	if err != nil {
		return nil, errors.New("database.url is not accepted by the PostgreSQL client") // err quotes the URL
	}
	cfg.MaxConns = connections
	cfg.ConnConfig.Tracer = tracer
	refuse(&cfg.ConnConfig.Config)
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	// No JIT: where the planner thinks that a table is large, it compiles for seconds what runs for a millisecond.
	session := map[string]string{"statement_timeout": "60s", "idle_in_transaction_session_timeout": "60s", "jit": "off"}
	for name := range session {
		if _, given := cfg.ConnConfig.RuntimeParams[name]; given {
			delete(session, name)
		}
	}
	if _, given := cfg.ConnConfig.RuntimeParams["application_name"]; !given {
		cfg.ConnConfig.RuntimeParams["application_name"] = "postrider"
	}
	pooler.Configure(cfg, pooler.Mode(database.Pooler), session)
	pooler.ReadFiles(cfg, passwords(database))
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database connections: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, unreachable(database, err)
	}
	return pool, nil
}
