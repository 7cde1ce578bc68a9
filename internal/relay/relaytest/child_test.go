package relaytest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/retry"
)

// childEnv tells this test binary to be a relay, in a process of its own that may be stopped, may die and
// may lack things.
const childEnv = "RELAYTEST_CHILD"

// childConfig is the configuration of a relay in a process of its own.
type childConfig struct {
	URL, DLQ, Name string
	Brokers        []string
	// PanicOver makes a worker panic that is to publish a payload with this text.
	PanicOver string
	// Hesitate is a pause before the first publish.
	Hesitate time.Duration
	// PublishTimeout and BatchSize are the relay's; 0 is 10 s and 200. LeaderSilence is its store's.
	PublishTimeout time.Duration
	BatchSize      int
	LeaderSilence  time.Duration
	// Bare takes away the right to write files, the place for temporary ones and the working directory.
	Bare bool
	// Files is how many files, connections included, may be open until SIGUSR1. 0 is no limit.
	Files uint64
}

// childMain is the relay's process. It ends with SIGTERM.
func childMain(text string) int {
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func (c *childConfig) run(ctx context.Context) error {
	if err := c.restrict(); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c.PublishTimeout, c.BatchSize = cmp.Or(c.PublishTimeout, 10*time.Second), cmp.Or(c.BatchSize, 200)
	pool, err := postgres.NewPool(ctx, c.URL, postgres.Options{ApplicationName: c.Name})
	if err != nil {
		return err
	}
	defer pool.Close()
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: c.Brokers, MaxMessageBytes: maxMessageBytes, Logger: log})
	if err != nil {
		return err
	}
	defer publisher.Close()
	r, err := relay.New(relay.Config{
		Store: postgres.NewStore(pool, postgres.StoreOptions{LeaderSilence: c.LeaderSilence}), Publisher: &troubled{Publisher: publisher, c: c}, Worker: c.Name, BatchSize: c.BatchSize,
		TopicSettings: relay.ForAll(relay.TopicSettings{DLQTopic: c.DLQ, BreakerEvents: -1,
			Retry: retry.Policy{MaxAttempts: 3, Base: 20 * time.Millisecond, Max: 50 * time.Millisecond}}), PublishTimeout: c.PublishTimeout, Logger: log,
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

func (c *childConfig) restrict() error {
	if c.Bare {
		// If the process writes to a file from here on, it is killed by SIGXFSZ.
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
			return fmt.Errorf("forbid files: %w", err)
		}
		if dir, err := os.Getwd(); err != nil || os.Remove(dir) != nil {
			return fmt.Errorf("remove the working directory: %w", err)
		}
	}
	if c.Files > 0 {
		var old syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			return fmt.Errorf("read the limit of files: %w", err)
		}
		enough := make(chan os.Signal, 1)
		signal.Notify(enough, syscall.SIGUSR1)
		few := old
		few.Cur = c.Files
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			return fmt.Errorf("limit the files: %w", err)
		}
		go func() {
			<-enough
			_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)
		}()
	}
	return nil
}

// troubled is a publisher that panics or hesitates.
type troubled struct {
	relay.Publisher
	c     *childConfig
	first sync.Once
}

func (p *troubled) Publish(ctx context.Context, ms []relay.Message) []relay.Outcome {
	for i := range ms {
		if p.c.PanicOver != "" && !ms[i].ID.Letter && bytes.Contains(ms[i].Value, []byte(p.c.PanicOver)) {
			panic("over " + p.c.PanicOver)
		}
	}
	p.first.Do(func() {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Info("hesitating")
		<-time.After(p.c.Hesitate)
	})
	return p.Publisher.Publish(ctx, ms)
}

// childProcess is a relay in a process of its own, as the test sees it.
type childProcess struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how, once done is closed
	log  *logtest.Buffer
}

// startChild starts a relay in a process of its own.
func (r *rig) startChild(dlq string, c childConfig) *childProcess {
	r.Helper()
	c.URL, c.DLQ = r.proxy.URL(), dlq
	if c.Brokers == nil {
		c.Brokers = r.broker.Addrs
	}
	if c.Name == "" {
		c.Name = "child"
	}
	text, err := json.Marshal(c)
	if err != nil {
		r.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	p := &childProcess{t: r.TB, cmd: exec.Command(binary), done: make(chan struct{}), log: &logtest.Buffer{}}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	if c.Bare {
		p.cmd.Dir = r.TempDir() + "/gone"
		if err := os.Mkdir(p.cmd.Dir, 0o755); err != nil {
			r.Fatal(err)
		}
		p.cmd.Env = []string{"TMPDIR=/nowhere", "PATH=/nowhere", childEnv + "=" + string(text)}
	}
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	r.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if r.Failed() {
			r.Logf("what the child said last:\n%s", p.log.Tail(6_000))
		}
	})
	return p
}

func (p *childProcess) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end waits for the process to end by itself.
func (p *childProcess) end() error {
	p.t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(3 * time.Minute):
		p.t.Fatalf("the child does not end:\n%s", p.log.Tail(6_000))
		return nil
	}
}

// said waits until the child has logged a text.
func (p *childProcess) said(text string) {
	p.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !strings.Contains(p.log.String(), text); {
		if time.Now().After(deadline) {
			p.t.Fatalf("the child never said %q:\n%s", text, p.log.Tail(6_000))
		}
		select {
		case <-p.done:
			p.t.Fatalf("the child ended, %v, and never said %q:\n%s", p.err, text, p.log.Tail(6_000))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// works waits until a condition is true, or the child has ended, and reports whether it lives.
func (p *childProcess) works(r *rig, condition string) bool {
	r.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; {
		var ok bool
		if err := r.pool.QueryRow(r.Context(), `select `+condition+` from pg_sleep(0.02)`).Scan(&ok); err != nil {
			r.Fatalf("%s: %v", condition, err)
		}
		select {
		case <-p.done:
			return false
		default:
		}
		if ok {
			return true
		}
		if time.Now().After(deadline) {
			r.Fatalf("%s did not come true:\n%s\n%s", condition, r.states(), p.log.Tail(6_000))
		}
	}
}

// finish ends a child that lives, as an operator would.
func (p *childProcess) finish() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if err := p.end(); err != nil {
		p.t.Errorf("the child ended with %v:\n%s", err, p.log.Tail(6_000))
	}
}
