package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgserver"
)

// URLEnv names the environment variable with the address of a server to test on.
const URLEnv = "POSTRIDER_TEST_DATABASE_URL"

const (
	// serverTimeout bounds the choice and start of the server; Docker may pull its image.
	serverTimeout = 5 * time.Minute
	stopTimeout   = 30 * time.Second
)

// server is a PostgreSQL server to create databases on.
type server struct {
	url     string                      // of the maintenance database
	origin  string                      // where it comes from, for the message
	version string                      // for example 15.18
	number  int                         // the same as server_version_num
	kept    string                      // what becomes of the databases of failed tests
	stop    func(context.Context) error // nil when the server is not ours to stop

	templateMu sync.Mutex
	template   string

	idleMu sync.Mutex
	idle   []*pgx.Conn // to the maintenance database
}

// chooser decides which server there is, each way replaceable.
type chooser struct {
	getenv func(string) string
	local  func(context.Context) (*server, error)
	docker func(context.Context) (*server, error)
	report io.Writer
}

// sharedServer is the one server of a test process, chosen and started when a test first asks.
type sharedServer struct {
	mu     sync.Mutex
	server *server
	err    error
	chosen bool
}

var shared sharedServer

// testServer returns the server of this process.
func testServer(t testing.TB) *server {
	t.Helper()
	return shared.get(t)
}

func (h *sharedServer) get(t testing.TB) *server {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.chosen {
		h.chosen = true
		ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
		defer cancel()
		c := chooser{getenv: os.Getenv, local: startLocal, docker: startDocker, report: os.Stderr}
		h.server, h.err = c.choose(ctx)
	}
	if h.err != nil {
		t.Fatal(h.err)
	}
	return h.server
}

// stop ends the server, if a test started one. Nothing can be created on it afterwards.
func (h *sharedServer) stop() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil {
		return nil
	}
	s := h.server
	h.server, h.err = nil, errors.New("pgtest: the server was stopped by Main")
	return s.shutDown()
}

// choose takes the first server there is, proves that it serves, and reports it. A server that
// was asked for, or binaries that are there, and that fail are an error: what comes after them
// would hide it.
func (c chooser) choose(ctx context.Context) (*server, error) {
	s, err := c.first(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.check(ctx); err != nil {
		return nil, errors.Join(err, s.shutDown())
	}
	fmt.Fprintf(c.report, "pgtest: PostgreSQL %s, %s\n", s.version, s.origin)
	return s, nil
}

func (c chooser) first(ctx context.Context) (*server, error) {
	if address := c.getenv(URLEnv); address != "" {
		if _, err := withDatabase(address, "postgres"); err != nil {
			return nil, fmt.Errorf("%s: %w", URLEnv, err)
		}
		return &server{url: address, origin: URLEnv, kept: "on that server"}, nil
	}
	s, missing := c.local(ctx)
	if missing == nil {
		return s, nil
	}
	if !errors.Is(missing, pgserver.ErrNotFound) && !errors.Is(missing, errors.ErrUnsupported) {
		return nil, fmt.Errorf("pgtest: start PostgreSQL from local binaries: %w", missing)
	}
	s, noDocker := c.docker(ctx)
	if noDocker == nil {
		return s, nil
	}
	return nil, fmt.Errorf("pgtest: there is no PostgreSQL to test on; set %s to a server whose role may create databases, or install PostgreSQL, or start Docker\n- %w\n- Docker: %w",
		URLEnv, missing, noDocker)
}

// check connects, reads the version, and refuses a server that tests cannot be run on.
func (s *server) check(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return fmt.Errorf("pgtest: connect to PostgreSQL (%s): %w", s.origin, err)
	}
	defer conn.Close(ctx)
	var role string
	var mayCreate bool
	err = conn.QueryRow(ctx, `
		select current_setting('server_version'), current_setting('server_version_num')::int,
		       rolname, rolsuper or rolcreatedb
		from pg_roles where rolname = current_user`).Scan(&s.version, &s.number, &role, &mayCreate)
	if err != nil {
		return fmt.Errorf("pgtest: ask PostgreSQL (%s) for its version: %w", s.origin, err)
	}
	s.version, _, _ = strings.Cut(s.version, " ")
	if why, remedy := pgserver.Unfit(s.version); why != "" {
		return fmt.Errorf("pgtest: PostgreSQL %s (%s): %s; %s", s.version, s.origin, why, remedy)
	}
	if !mayCreate {
		return fmt.Errorf("pgtest: the role %s (%s) may not create databases; allow it with ALTER ROLE … CREATEDB", role, s.origin)
	}
	return nil
}

func startLocal(ctx context.Context) (*server, error) {
	s, err := StartLocal(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	return &server{url: s.URL(), origin: "local binaries", kept: keptForTheRun, stop: s.Stop}, nil
}

const keptForTheRun = "as long as this test process runs; with " + URLEnv + " set to a server of yours it stays"

func (s *server) shutDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	s.idleMu.Lock()
	defer s.idleMu.Unlock()
	for _, conn := range s.idle {
		_ = conn.Close(ctx) // nothing is lost with it
	}
	s.idle = nil
	if s.stop == nil {
		return nil
	}
	if err := s.stop(ctx); err != nil {
		return fmt.Errorf("pgtest: stop PostgreSQL (%s): %w", s.origin, err)
	}
	return nil
}
