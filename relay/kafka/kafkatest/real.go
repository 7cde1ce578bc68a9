package kafkatest

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// startTimeout bounds the start of the real broker, a first download of its
// image or jars included.
const startTimeout = 5 * time.Minute

// shared is the one broker of this test process that [Real] returns.
var shared struct {
	ended atomic.Bool // whether somebody will stop it: Run is under way
	once  sync.Once
	b     *Broker
	stop  func() error
	err   error
}

// Real returns the real broker of this test process, started when the first
// test asks for it and used by all: tests keep to topics, groups and
// transactional ids of their own. Where no real broker can be had it is a
// kfake cluster, which [Broker.Real] tells; the choice is printed once to
// standard error. A broker that should start and does not fails the test with
// the end of its log.
//
// The package must have a TestMain that calls [Main] or [Run].
func Real(t testing.TB) *Broker {
	t.Helper()
	if !shared.ended.Load() {
		t.Fatal("kafkatest: nobody would stop the broker: add func TestMain(m *testing.M) { kafkatest.Main(m) } to the package")
	}
	shared.once.Do(func() { startShared(os.Stderr) })
	if shared.err != nil {
		t.Fatalf("kafkatest: %v", shared.err)
	}
	return shared.b
}

func startShared(out io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	shared.b, shared.stop, shared.err = Start(ctx)
	if shared.err == nil {
		_, _ = fmt.Fprintf(out, "kafkatest: %s\n", shared.b)
	}
}

// Each runs a test on both kinds of broker: a subtest named kfake on a cluster
// of its own, and one named kafka on the [Real] broker. Where there is none,
// only kfake runs and a line says so. Both call t.Parallel: what the test needs
// of its parent is released with t.Cleanup, not with defer.
func Each(t *testing.T, test func(t *testing.T, b *Broker)) {
	t.Helper()
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		test(t, Kfake(t))
	})
	broker := Real(t)
	if !broker.Real() {
		_, _ = fmt.Fprintf(os.Stderr, "kafkatest: %s: not run against a real broker\n", t.Name())
		t.Logf("not run against a real broker: %s", broker)
		return
	}
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		test(t, broker)
	})
}

// Runner is the part of *testing.M that [Main] and [Run] use, so that several
// packages' wrappers can stand around one another.
type Runner interface{ Run() int }

// Main runs the tests of a package, stops the real broker if one was started,
// and ends the process. It is the body of TestMain.
func Main(m Runner) { os.Exit(Run(m)) }

// Run is [Main] for a TestMain with more to do: it returns the exit code. After
// tests that passed it looks for goroutines that they left behind, and fails
// for them.
func Run(m Runner) int {
	shared.ended.Store(true)
	code := m.Run()
	docker := shared.b != nil && shared.b.Kind == KindDocker
	if shared.stop != nil {
		if err := shared.stop(); err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "kafkatest: stop %s: %v\n", shared.b, err)
			code = max(code, 1)
		}
	}
	if code == 0 && !docker { // testcontainers keeps a connection to its reaper
		if err := goleak.Find(); err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "kafkatest: goroutines outlive the tests: %v\n", err)
			code = 1
		}
	}
	return code
}
