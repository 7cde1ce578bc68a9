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

	"github.com/postrider/postrider/internal/testenv/logtest"
)

// startTimeout bounds the start of the real broker, a first download of its
// image or jars included.
const startTimeout = 5 * time.Minute

// shared is the one broker of this test process that [Real] returns.
var shared struct {
	ended atomic.Bool // whether Run is under way, which will end the broker
	once  sync.Once
	b     *Broker
	stop  func() error
	err   error
}

// Real returns the real broker of this test process, started when the first
// test asks for it and used by all: tests keep to topics, groups and
// transactional ids of their own. Where no real broker can be had it is a
// kfake cluster, which [Broker.Real] tells, and the test is noted as tested
// without one; the choice is printed once to standard error. A broker that
// should start and does not fails the test with the end of its log.
//
// The package must have a TestMain that calls [Main] or [Run].
func Real(t testing.TB) *Broker {
	t.Helper()
	b := realOrKfake(t)
	if !b.Real() {
		logtest.LeftOut(t, noBroker(b.detail))
	}
	return b
}

// OnlyReal is [Real] for a test that kfake cannot do: where no real broker can
// be had the test is noted as not tested.
func OnlyReal(t testing.TB) *Broker {
	t.Helper()
	b := realOrKfake(t)
	if !b.Real() {
		logtest.NotTested(t, noBroker(b.detail))
	}
	return b
}

// noBroker says what is missing, and what to install.
func noBroker(why string) string {
	return "there is no Kafka broker but kfake; install Java 17 and Maven, or start Docker (" + why + ")"
}

func realOrKfake(t testing.TB) *Broker {
	t.Helper()
	if !shared.ended.Load() {
		t.Fatal("kafkatest: nothing would stop the broker: add func TestMain(m *testing.M) { kafkatest.Main(m) } to the package")
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
// only kfake runs and the test is noted. Both call t.Parallel: what the test
// needs of its parent is released with t.Cleanup, not with defer.
func Each(t *testing.T, test func(t *testing.T, b *Broker)) {
	t.Helper()
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		test(t, Kfake(t))
	})
	if broker := Real(t); broker.Real() {
		t.Run("kafka", func(t *testing.T) {
			t.Parallel()
			test(t, broker)
		})
	}
}

// Runner is the part of *testing.M that [Main] and [Run] use, so that several
// packages' wrappers can stand around one another.
type Runner interface{ Run() int }

// RunnerFunc makes a [Runner] of a function, for a package that needs a
// database too:
//
//	kafkatest.Main(kafkatest.RunnerFunc(func() int { return pgtest.Run(m) }))
type RunnerFunc func() int

// Run calls f.
func (f RunnerFunc) Run() int { return f() }

// Main runs the tests of a package, stops the real broker if one was started,
// and ends the process. It is the body of TestMain. After tests that passed it
// looks for goroutines that they left behind, and fails for them; opts say
// which are to stay.
func Main(m Runner, opts ...goleak.Option) { os.Exit(Run(m, opts...)) }

// Run is [Main] for a TestMain with more to do: it returns the exit code.
func Run(m Runner, opts ...goleak.Option) int {
	shared.ended.Store(true)
	code := m.Run()
	if shared.stop != nil {
		if err := shared.stop(); err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "kafkatest: stop %s: %v\n", shared.b, err)
			code = max(code, 1)
		}
	}
	if code != 0 {
		return code // a failed test may well have left something
	}
	if err := goleak.Find(append(opts, ofDocker)...); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "kafkatest: the tests passed, but goroutines outlive them: %v\n", err)
		return 1
	}
	return 0
}

// ofDocker is what testcontainers keeps for the connection to its reaper.
var ofDocker = goleak.IgnoreAnyFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1")
