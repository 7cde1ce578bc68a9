package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/pgserver"
)

func TestChoice(t *testing.T) {
	t.Parallel()
	real := testServer(t)
	serves := func(origin string) func(context.Context) (*server, error) {
		return func(context.Context) (*server, error) {
			return &server{url: real.url, origin: origin}, nil
		}
	}
	fails := func(err error) func(context.Context) (*server, error) {
		return func(context.Context) (*server, error) { return nil, err }
	}
	absent := fails(fmt.Errorf("looked everywhere: %w", pgserver.ErrNotFound))
	unsupported := fails(fmt.Errorf("here: %w", errors.ErrUnsupported))
	noDocker := fails(errors.New("no daemon"))
	for name, test := range map[string]struct {
		env           string
		local, docker func(context.Context) (*server, error)
		said          string
		errs          []string
	}{
		"the environment first":     {real.url, serves("local"), serves("docker"), URLEnv, nil},
		"then local binaries":       {"", serves("local"), serves("docker"), "local", nil},
		"then Docker":               {"", absent, serves("docker"), "docker", nil},
		"Docker on other systems":   {"", unsupported, serves("docker"), "docker", nil},
		"nothing":                   {"", absent, noDocker, "", []string{URLEnv, "looked everywhere", "no daemon", "install PostgreSQL"}},
		"binaries that do not work": {"", fails(errors.New("it is broken")), serves("docker"), "", []string{"local binaries: it is broken"}},
		"another form of address":   {"host=h password=secret", serves("local"), serves("docker"), "", []string{URLEnv, "postgres://"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said strings.Builder
			c := chooser{getenv: func(string) string { return test.env }, local: test.local, docker: test.docker, report: &said}
			s, err := c.choose(t.Context())
			if (err == nil) != (test.errs == nil) {
				t.Fatalf("%v, %v", s, err)
			}
			for _, want := range test.errs {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
			if err == nil && said.String() != fmt.Sprintf("pgtest: PostgreSQL %s, %s\n", real.version, test.said) {
				t.Errorf("said %q", said.String())
			}
		})
	}
}

// TestServerThatCannotBeUsed: the chosen server is tried, and stopped if it cannot be used.
func TestServerThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	real := testServer(t)
	db := NewEmpty(t)
	role := "powerless_" + db.Name[len(db.Name)-12:]
	if err := real.exec(t.Context(), fmt.Sprintf("create role %s login password 'p'", role)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := real.exec(context.Background(), "drop role "+role); err != nil {
			t.Error(err)
		}
	})
	powerless, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	powerless.User = url.UserPassword(role, "p")
	unknown := *powerless
	unknown.User = url.UserPassword(role, "wrong password")
	for name, test := range map[string]struct{ url, want string }{
		"may not create databases": {powerless.String(), "role " + role + " (here) may not create databases"},
		"does not let us in":       {unknown.String(), "connect to PostgreSQL (here)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stopped bool
			c := chooser{getenv: func(string) string { return "" }, report: &strings.Builder{}, local: func(context.Context) (*server, error) {
				return &server{url: test.url, origin: "here", stop: func(context.Context) error { stopped = true; return nil }}, nil
			}}
			_, err := c.choose(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "wrong password") {
				t.Errorf("want %q: %v", test.want, err)
			}
			if !stopped {
				t.Error("the server was not stopped")
			}
		})
	}
}

// TestNoServerFailsTheTest: it is a failure with the reason, not a skip.
func TestNoServerFailsTheTest(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	r.run(func() {
		(&sharedServer{chosen: true, err: errors.New("pgtest: there is no PostgreSQL")}).get(r)
		t.Error("the test goes on without a server")
	})
	if !r.failed || len(r.messages) != 1 || r.messages[0] != "pgtest: there is no PostgreSQL" {
		t.Errorf("failed %v, said %q", r.failed, r.messages)
	}
}

func TestStopIsOfOurs(t *testing.T) {
	t.Parallel()
	if err := (&server{}).shutDown(); err != nil {
		t.Errorf("a server that is not ours: %v", err)
	}
	err := (&server{origin: "here", stop: func(context.Context) error { return errors.New("it hangs") }}).shutDown()
	if err == nil || !strings.Contains(err.Error(), "stop PostgreSQL (here): it hangs") {
		t.Errorf("%v", err)
	}
	stops := 0
	holder := sharedServer{chosen: true, server: &server{stop: func(context.Context) error { stops++; return nil }}}
	for range 2 {
		if err := holder.stop(); err != nil {
			t.Error(err)
		}
	}
	if stops != 1 {
		t.Errorf("stopped %d times", stops)
	}
	r := &recorder{TB: t}
	r.run(func() { holder.get(r) })
	if !r.failed || !strings.Contains(r.messages[0], "stopped by Main") {
		t.Errorf("after the stop: %q", r.messages)
	}
}

// TestConnectionsAreUsedAgain: statements one behind the other share a connection, a connection whose statement failed is
// not used again, and the end of the server closes what is left.
func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	s := &server{url: testServer(t).url}
	for range 2 {
		if err := s.exec(t.Context(), "select 1"); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.idle) != 1 {
		t.Fatalf("%d connections are kept, want 1", len(s.idle))
	}
	first := s.idle[0]
	if err := s.exec(t.Context(), "select 1 / 0"); err == nil || !first.IsClosed() || len(s.idle) != 0 {
		t.Errorf("%v; closed %v, %d connections are kept", err, first.IsClosed(), len(s.idle))
	}
	if err := s.exec(t.Context(), "select 1"); err != nil {
		t.Fatal(err)
	}
	second := s.idle[0]
	if err := s.shutDown(); err != nil || !second.IsClosed() || len(s.idle) != 0 {
		t.Errorf("%v; closed %v, %d connections are kept", err, second.IsClosed(), len(s.idle))
	}
}
