package pgtest

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { Main(m) }

// recorder is a test whose end this package's tests decide.
type recorder struct {
	testing.TB
	failed   bool
	messages []string
	cleanups []func()
}

func (r *recorder) Failed() bool            { return r.failed }
func (r *recorder) Cleanup(f func())        { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Logf(f string, a ...any) { r.messages = append(r.messages, fmt.Sprintf(f, a...)) }
func (r *recorder) Errorf(f string, a ...any) {
	r.failed = true
	r.Logf(f, a...)
}
func (r *recorder) Fatalf(f string, a ...any) {
	r.Errorf(f, a...)
	runtime.Goexit()
}
func (r *recorder) Fatal(a ...any) { r.Fatalf("%s", fmt.Sprint(a...)) }

// run runs a part of a test to its end or to its Fatal.
func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// end runs the cleanups as the end of a test does.
func (r *recorder) end() {
	for len(r.cleanups) > 0 {
		last := len(r.cleanups) - 1
		f := r.cleanups[last]
		r.cleanups = r.cleanups[:last]
		f()
	}
}

// databases lists the databases on the server whose names begin with a prefix.
func databases(t *testing.T, s *server, prefix string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "select datname from pg_database where starts_with(datname, $1) order by 1", prefix)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestFinish(t *testing.T) {
	t.Parallel()
	good := func() error { return nil }
	bad := func() error { return errors.New("the reason") }
	for name, test := range map[string]struct {
		code        int
		stop, leaks func() error
		want        int
		said        string
	}{
		"all is well":         {0, good, good, 0, ""},
		"tests failed":        {3, good, bad, 3, ""},
		"stop failed":         {0, bad, good, 1, "the reason"},
		"goroutines are left": {0, good, bad, 1, "left goroutines behind: the reason"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said strings.Builder
			if got := finish(test.code, test.stop, test.leaks, io.Writer(&said)); got != test.want || !strings.Contains(said.String(), test.said) {
				t.Errorf("exit code %d, want %d; said %q", got, test.want, said.String())
			}
		})
	}
}
