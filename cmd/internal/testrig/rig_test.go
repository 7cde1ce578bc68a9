package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// childEnv turns this test binary into the command that testrig runs; its value
// says what the command does.
const childEnv = "TESTRIG_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		goleak.VerifyTestMain(m)
	case "exit 7":
		os.Exit(7)
	case "environment":
		fmt.Println(os.Getenv("RIG_A"), os.Getenv("RIG_B"))
	case "obedient": // ends with the first signal
		awaitSignal()
		os.Exit(42)
	case "stubborn": // ends with none
		awaitSignal()
		fmt.Println("ignored")
		select {}
	case "services":
		os.Exit(useServices())
	}
}

func awaitSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	fmt.Println("ready")
	<-signals
}

// useServices talks to the servers that the environment names.
func useServices() int {
	ctx := context.Background()
	version, err := serverVersion(ctx, os.Getenv(pgtest.URLEnv))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Getenv(kafkatest.EnvBrokers), ",")...))
	if err == nil {
		err = client.Ping(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("both answer", version)
	return 0
}

// reactor is an output that calls a function for each line of the command.
type reactor struct {
	mu   sync.Mutex
	all  bytes.Buffer
	line func(string)
}

func (r *reactor) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(string(p)) {
		if r.line != nil {
			r.line(strings.TrimSpace(line))
		}
	}
	return r.all.Write(p)
}

func (r *reactor) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.String()
}

// fake returns a service that counts how often it is stopped.
func fake(name, env string, stopped *atomic.Int32) starter {
	return func(context.Context) (service, error) {
		return service{name: name, env: []string{env}, stop: func(context.Context) error { stopped.Add(1); return nil }}, nil
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		child    string
		signals  map[string]os.Signal // by the line of the command that calls for them
		want     int
		wantLine string
	}{
		{"exit 7", nil, 7, ""},
		{"environment", nil, 0, "a b"},
		{"obedient", map[string]os.Signal{"ready": os.Interrupt}, 42, "ready"},
		{"obedient", map[string]os.Signal{"ready": syscall.SIGTERM}, 42, "ready"},
		{"stubborn", map[string]os.Signal{"ready": os.Interrupt, "ignored": os.Interrupt}, 128 + 9, "ignored"},
	}
	for _, tc := range tests {
		t.Run(tc.child, func(t *testing.T) {
			t.Parallel()
			var stopped atomic.Int32
			signals := make(chan os.Signal, 4)
			stdout, stderr := new(reactor), new(reactor)
			stdout.line = func(line string) {
				if sig := tc.signals[line]; sig != nil {
					signals <- sig
				}
			}
			r := rig{
				services: []starter{fake("one", "RIG_A=a", &stopped), fake("two", "RIG_B=b", &stopped)},
				environ:  append(os.Environ(), childEnv+"="+tc.child),
				stdout:   stdout, stderr: stderr,
			}
			if got := r.run(signals, []string{"--", self(t)}); got != tc.want {
				t.Errorf("exit code %d, want %d\n%s%s", got, tc.want, stdout, stderr)
			}
			if !strings.Contains(stdout.String(), tc.wantLine) {
				t.Errorf("output %q, want %q in it", stdout, tc.wantLine)
			}
			if got, want := stderr.String(), "testrig: one, two\n"; got != want {
				t.Errorf("says %q, want %q", got, want)
			}
			if got := stopped.Load(); got != 2 {
				t.Errorf("%d services were stopped, want 2", got)
			}
		})
	}
}

func TestOwnFailures(t *testing.T) {
	t.Parallel()
	var stopped atomic.Int32
	good := fake("one", "RIG_A=a", &stopped)
	bad := func(context.Context) (service, error) { return service{}, errors.New("no luck today") }
	tests := []struct {
		name        string
		services    []starter
		args        []string
		want        string
		wantStopped int32
	}{
		{"no command", nil, []string{"--"}, "usage: testrig -- command", 0},
		{"no dashes", nil, []string{"go", "test"}, "usage: testrig -- command", 0},
		{"service fails", []starter{good, bad}, []string{"--", "true"}, "no luck today", 1},
		{"no such command", []starter{good}, []string{"--", filepath.Join(t.TempDir(), "absent")}, "start the command", 1},
	}
	for _, tc := range tests { // one after the other: they share the count
		stopped.Store(0)
		stderr := new(reactor)
		r := rig{services: tc.services, stdout: io.Discard, stderr: stderr}
		if got := r.run(nil, tc.args); got != exitOwnFailure {
			t.Errorf("%s: exit code %d, want %d", tc.name, got, exitOwnFailure)
		}
		if !strings.Contains(stderr.String(), tc.want) {
			t.Errorf("%s: says %q, want %q in it", tc.name, stderr, tc.want)
		}
		if got := stopped.Load(); got != tc.wantStopped {
			t.Errorf("%s: %d services were stopped, want %d", tc.name, got, tc.wantStopped)
		}
	}
}

// TestSignalWhileStarting: the start is broken off, and what has started is
// stopped.
func TestSignalWhileStarting(t *testing.T) {
	t.Parallel()
	var stopped atomic.Int32
	signals, begun := make(chan os.Signal), make(chan struct{})
	slow := func(ctx context.Context) (service, error) {
		close(begun)
		<-ctx.Done()
		return service{}, ctx.Err()
	}
	go func() { <-begun; signals <- syscall.SIGTERM }()
	r := rig{services: []starter{fake("one", "RIG_A=a", &stopped), slow}, stdout: io.Discard, stderr: io.Discard}
	if got, want := r.run(signals, []string{"--", "true"}), 128+15; got != want {
		t.Errorf("exit code %d, want %d", got, want)
	}
	if got := stopped.Load(); got != 1 {
		t.Errorf("%d services were stopped, want 1", got)
	}
}

// TestServices runs the real servers, or the servers that the environment names.
func TestServices(t *testing.T) {
	t.Parallel()
	stdout, stderr := new(reactor), new(reactor)
	r := rig{
		services: []starter{startPostgres, startKafka},
		environ:  append(os.Environ(), childEnv+"=services"),
		stdout:   stdout, stderr: stderr,
	}
	code := r.run(nil, []string{"--", self(t)})
	if strings.Contains(stderr.String(), "NO REAL BROKER") || strings.Contains(stderr.String(), "as each package finds it") {
		logtest.NotTested(t, "a run with both servers: "+stderr.String())
	}
	if code != 0 || !strings.Contains(stdout.String(), "both answer") {
		t.Errorf("exit code %d, output %q and %q, want both to answer", code, stdout, stderr)
	}
	if got := stderr.String(); !strings.HasPrefix(got, "testrig: PostgreSQL ") || !strings.Contains(got, ", Apache Kafka ") {
		t.Errorf("says %q, want both by name", got)
	}
}
