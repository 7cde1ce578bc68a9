//go:build unix && !aix && !solaris

package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// supported: Start works on this system.
const supported = true

const (
	// startTimeout bounds Start when its context does not; crash recovery of a large database
	// takes its time.
	startTimeout = 2 * time.Minute
	// killPatience is what each harder way of stopping gets.
	killPatience = 5 * time.Second
	// portTries is how many free ports are tried when others keep taking them first.
	portTries = 5
)

// Server is a running PostgreSQL server. Its methods may be called from several goroutines.
type Server struct {
	cluster *cluster
	process *process
	url     string
	stop    func(ctx context.Context, how syscall.Signal) error
}

// Start runs a server and returns when it accepts connections and the database is there. The
// context bounds the start and nothing later. A server that survived an earlier process on the
// same directory is ended first; a directory that is in use, data of another major version, a
// port that is taken and a directory that PostgreSQL may not enter are errors that say what to
// do.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	c, err := openCluster(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Server{cluster: c}
	if err := s.start(ctx, o); err != nil {
		if s.process != nil {
			err = errors.Join(err, s.kill())
		}
		return nil, errors.Join(err, c.close())
	}
	// The context of the call that does the work decides; the others get its result.
	var once sync.Once
	var stopped error
	s.stop = func(ctx context.Context, how syscall.Signal) error {
		once.Do(func() { stopped = s.shutDown(ctx, how) })
		return stopped
	}
	return s, nil
}

// start launches the process, on a free port if none was asked for, and waits for it.
func (s *Server) start(ctx context.Context, o Options) error {
	for try := 1; ; try++ {
		port, err := choosePort(cmp.Or(o.Port, o.PreferredPort))
		if err != nil && o.Port == 0 {
			port, err = choosePort(0)
		}
		if err != nil {
			return err
		}
		if err := s.launch(o, port); err != nil {
			return err
		}
		err = s.awaitReady(ctx)
		if err == nil {
			return s.connect(ctx, o.Database, port)
		}
		if !s.process.ended() || o.Port != 0 || try == portTries {
			return err
		}
		if _, taken := choosePort(port); taken == nil {
			return err // the port was not the reason
		}
	}
}

// choosePort returns a free port, or the one asked for if it is free.
func choosePort(port int) (int, error) {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, fmt.Errorf("pgserver: port %d on 127.0.0.1 cannot be used: %w; choose another, or 0 for a free one", port, err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func (s *Server) launch(o Options, port int) error {
	args := []string{
		"-D", s.cluster.data(),
		"-c", "listen_addresses=127.0.0.1",
		"-c", "port=" + strconv.Itoa(port),
		"-c", "unix_socket_directories=",
	}
	for name, value := range o.Settings {
		args = append(args, "-c", name+"="+value)
	}
	// A fast shutdown: clients are cut off, the data needs no recovery.
	atOurDeath := syscall.SIGINT
	if o.outlive {
		atOurDeath = 0
	}
	process, err := launch(s.cluster.command("postgres", atOurDeath, args...), o.Log)
	if err != nil {
		return fmt.Errorf("pgserver: start %s: %w", filepath.Join(s.cluster.bin.Dir, "postgres"), err)
	}
	s.process = process
	return nil
}

// awaitReady waits until the server's own status file says so: on the port another process
// might answer.
func (s *Server) awaitReady(ctx context.Context) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		if f := readPIDFile(s.cluster.data()); f.pid == s.process.pid() && f.status == "ready" {
			return nil
		}
		select {
		case <-s.process.done:
			return fmt.Errorf("pgserver: PostgreSQL %s ended while starting in %s: %w; it said:\n%s",
				s.cluster.bin.Version, s.cluster.dir, s.exit(), s.process.log)
		case <-ctx.Done():
			return fmt.Errorf("pgserver: PostgreSQL %s in %s is not ready: %w; it said:\n%s",
				s.cluster.bin.Version, s.cluster.dir, context.Cause(ctx), s.process.log)
		case <-poll.C:
		}
	}
}

// exit says how the process ended; only after it has.
func (s *Server) exit() error {
	if s.process.err != nil {
		return s.process.err
	}
	return errors.New("exit status 0")
}

// connect proves that the server answers, and creates the database if it is absent.
func (s *Server) connect(ctx context.Context, database string, port int) error {
	address := func(database string) string {
		u := url.URL{
			Scheme:   "postgres",
			User:     url.UserPassword(Role, s.cluster.password),
			Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
			Path:     "/" + database,
			RawQuery: "sslmode=disable",
		}
		return u.String()
	}
	s.url = address(database)
	if s.cluster.fresh { // asking for it first would put an error into the new server's log
		if err := createDatabase(ctx, address("postgres"), database); err != nil {
			return err
		}
	}
	conn, err := pgx.Connect(ctx, s.url)
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == "3D000" {
		if err := createDatabase(ctx, address("postgres"), database); err != nil {
			return err
		}
		conn, err = pgx.Connect(ctx, s.url)
	}
	if err != nil {
		return fmt.Errorf("pgserver: connect to the server in %s: %w; if the password in it was changed, set it back", s.cluster.dir, err)
	}
	return conn.Close(ctx)
}

func createDatabase(ctx context.Context, maintenance, name string) error {
	conn, err := pgx.Connect(ctx, maintenance)
	if err != nil {
		return fmt.Errorf("pgserver: connect to create database %q: %w", name, err)
	}
	if name != "postgres" {
		_, err = conn.Exec(ctx, "create database "+pgx.Identifier{name}.Sanitize())
	}
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("pgserver: create database %q: %w", name, err)
	}
	return nil
}

// URL is the address of the database for its superuser, password included.
func (s *Server) URL() string { return s.url }

// Version is the server's version, for example "15.18".
func (s *Server) Version() string { return s.cluster.bin.Version }

// Done is closed when the server has ended, by Stop or by itself.
func (s *Server) Done() <-chan struct{} { return s.process.done }

// Stop ends the server: connections are cut, what was committed is on disk. When ctx ends first
// the server is ended the hard way, which the next start repairs, and that is an error. A
// temporary directory is removed. Every further call waits for the first and returns the same.
func (s *Server) Stop(ctx context.Context) error { return s.stop(ctx, syscall.SIGINT) }

// Crash ends the server as a crash does (PostgreSQL's immediate shutdown): connections are cut, nothing is
// written, and the next start on the directory recovers all commits from the WAL. Otherwise it is like
// Stop.
func (s *Server) Crash(ctx context.Context) error { return s.stop(ctx, syscall.SIGQUIT) }

func (s *Server) shutDown(ctx context.Context, how syscall.Signal) error {
	var err error
	if s.process.ended() {
		err = fmt.Errorf("pgserver: the server had ended by itself: %w; it said:\n%s", s.exit(), s.process.log)
	} else {
		_ = s.process.handle.Signal(how) // it may have ended just now
		select {
		case <-s.process.done:
		case <-ctx.Done():
			err = fmt.Errorf("pgserver: the server did not shut down in time and was ended: %w", context.Cause(ctx))
			err = errors.Join(err, s.kill())
		}
	}
	return errors.Join(err, s.cluster.close())
}

// kill ends the server without asking its clients or writing anything.
func (s *Server) kill() error {
	for _, signal := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		_ = s.process.handle.Signal(signal)
		patience := time.NewTimer(killPatience)
		select {
		case <-s.process.done:
			patience.Stop()
			return nil
		case <-patience.C:
		}
	}
	return fmt.Errorf("pgserver: process %d does not end, not even when killed", s.process.pid())
}
