package app

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// runBeside starts a process that is no HTTP server. end ends it, once.
func (f *fleetFile) runBeside(t *testing.T) (a *App, end func()) {
	t.Helper()
	c, err := f.load()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = New(t.Context(), Options{Config: c, Roles: []Role{Relay}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	end = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return a, end
}

// ledBy are the sources that a process leads.
func ledBy(a *App) (names []string) {
	for _, s := range a.fleet.Statuses() {
		if s.State == SourceLeading {
			names = append(names, s.Name)
		}
	}
	return names
}

// sharesOf says whether two processes lead so many sources between them, two at least each, and none both.
func sharesOf(first, second *App, all int) (bool, string) {
	one, two := ledBy(first), ledBy(second)
	return len(one) >= 2 && len(two) >= 2 && len(one)+len(two) == all && !slices.ContainsFunc(one, func(n string) bool { return slices.Contains(two, n) }),
		fmt.Sprintf("%v and %v", first.fleet.Statuses(), second.fleet.Statuses())
}

// TestProcessesShareSources: two processes share the sources, and neither is connected to a source of the other. When one ends, the
// other leads them all.
func TestProcessesShareSources(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	file, otherFile := newFleetFile(t, "", broker.Addrs...), newFleetFile(t, "", broker.Addrs...)
	var lines, otherLines []string
	conns := map[string]*pgx.Conn{}
	var login *url.Userinfo // of the second process
	for i := range 6 {
		db, conn := newSource(t)
		name := fmt.Sprintf("source-%d", i)
		conns[name] = conn
		if login == nil {
			address, _ := db.Login(t, "pg_monitor")
			login = addressOf(t, address).User
			pgtest.Exec(t, conn, `alter role `+login.Username()+` superuser`)
		}
		other := addressOf(t, db.URL)
		other.User = login
		lines, otherLines = append(lines, sourceLine(name, db.URL)), append(otherLines, sourceLine(name, other.String()))
	}
	file.write(t, lines...)
	otherFile.write(t, otherLines...)
	first := file.run(t, nil)
	eventually(t, "one process leads all", func() (bool, string) { return len(ledBy(first)) == 6, fmt.Sprint(first.fleet.Statuses()) })
	second, end := otherFile.runBeside(t)
	eventually(t, "each process leads its share", func() (bool, string) { return sharesOf(first, second, 6) })
	for _, name := range ledBy(first) {
		// The home is that of source-0: there each process has its place in the list.
		pgtest.WaitFor(t, conns[name], `select count(*) = 0 from pg_stat_activity where datname = current_database() and usename = $1 and application_name = 'postrider relay'`, login.Username())
	}
	end()
	eventually(t, "the process that is left leads all", func() (bool, string) { return len(ledBy(first)) == 6, fmt.Sprint(first.fleet.Statuses()) })
}

func addressOf(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestTheHomeIsAway: the database goes away in which processes see one another. Each keeps what it leads. When one ends, the other
// finds its sources without a leader, and leads them.
func TestTheHomeIsAway(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	file := newFleetFile(t, "", broker.Addrs...)
	var lines []string
	var home *pgtest.DB
	for i := range 6 {
		db, _ := newSource(t)
		if i == 0 {
			home = db // that of the first source by name
		}
		lines = append(lines, sourceLine(fmt.Sprintf("source-%d", i), db.URL))
	}
	file.write(t, lines...)
	first, end := file.runBeside(t)
	second, _ := file.runBeside(t)
	eventually(t, "each process leads its share", func() (bool, string) { return sharesOf(first, second, 6) })
	shares := map[string]*App{}
	for _, a := range []*App{first, second} {
		for _, name := range ledBy(a) {
			shares[name] = a
		}
	}
	delete(shares, "source-0")

	server := pgtest.NewEmpty(t).Conn(t)
	name := pgx.Identifier{home.Name}.Sanitize()
	pgtest.Exec(t, server, `alter database `+name+` allow_connections false`)
	t.Cleanup(func() {
		_, _ = server.Exec(context.WithoutCancel(t.Context()), `alter database `+name+` allow_connections true`)
	})
	pgtest.Exec(t, server, `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, home.Name)
	eventually(t, "both processes see that the home is away", func() (bool, string) {
		_, one := first.fleet.members.list()
		_, two := second.fleet.members.list()
		return !one.IsZero() && !two.IsZero(), fmt.Sprint(one, two)
	})
	for range 3 {
		first.fleet.pass(t.Context())
		second.fleet.pass(t.Context())
	}
	for name, a := range shares {
		if !slices.Contains(ledBy(a), name) {
			t.Errorf("the leader of %s has given it up", name)
		}
	}
	end()
	others := slices.Sorted(maps.Keys(shares))
	eventually(t, "the process that is left leads all others", func() (bool, string) {
		return slices.Equal(slices.Sorted(slices.Values(ledBy(second))), others), fmt.Sprint(second.fleet.Statuses())
	})
}

// TestNoSourceCanBeCarried: a process is not ready when each of its sources is refused, and says which and why.
func TestNoSourceCanBeCarried(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	file := newFleetFile(t, "", broker.Addrs...)
	file.write(t, sourceLine("gone", "postgres://nobody@127.0.0.1:1/x?connect_timeout=2"), sourceLine("empty", pgtest.NewEmpty(t).URL))
	a := file.run(t, nil)
	waitStates(t, a, map[string]SourceState{"gone": SourceRefused, "empty": SourceRefused})
	if status, body := readyz(t, a); status != http.StatusServiceUnavailable || !strings.Contains(body, `"sources"`) {
		t.Errorf("readiness: %d %s", status, body)
	}
	if err := a.fleet.ready(t.Context()); err == nil || err.Error() != "no source can be carried: empty (schema), gone (away)" {
		t.Errorf("%v", err)
	}
}
