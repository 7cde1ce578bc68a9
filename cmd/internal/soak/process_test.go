package soak

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// process is a child that the test kills or stops.
type process struct {
	cmd  *exec.Cmd
	done chan error
	log  *logtest.Buffer
}

func run(t *testing.T, binary string, args []string, url string, b *kafkatest.Broker, env ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, args...), done: make(chan error, 1), log: &logtest.Buffer{}}
	p.cmd.Env = append(append(os.Environ(), "DATABASE_URL="+url, "KAFKA_BROKERS="+strings.Join(b.Addrs, ",")), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// crashchild starts a relay that kills itself at the step, once that time has passed; no step, no death.
func crashchild(t *testing.T, binary, url string, b *kafkatest.Broker, dlq, step string, after time.Duration, env ...string) *process {
	t.Helper()
	env = append(env, "CRASHCHILD_DLQ="+dlq)
	if step != "" {
		env = append(env, "CRASHCHILD_STEP="+step, fmt.Sprintf("CRASHCHILD_AFTER_MS=%d", max(1, after.Milliseconds())))
	}
	return run(t, binary, nil, url, b, env...)
}

// killed waits for the crashchild to die at its step; when the step does not come in time, or the run
// ends, it is killed from outside. It reports which.
func (p *process) killed(ctx context.Context, within time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(within):
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return false
}

// killed reports whether a process ended as kill -9 ends one, as a crashchild does at its step.
func killed(ended *os.ProcessState) bool {
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// stop ends the process as an operator would; it must exit cleanly.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.done:
		if err != nil {
			t.Fatalf("the relay did not stop cleanly: %v\n%s", err, p.log)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("the relay did not stop within 30 s\n%s", p.log)
	}
}

// lastWords has a test that fails say what the last process said, where all its goroutines stood, and who is in its
// collectors' group.
func (p *process) lastWords(t *testing.T, b *kafkatest.Broker, group string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		members, err := b.Admin(t).DescribeGroups(ctx, group)
		if p.cmd.Process.Signal(syscall.SIGQUIT) == nil {
			select {
			case <-p.done:
			case <-ctx.Done():
			}
		}
		t.Logf("the collectors' group: %+v, %v; the last process:\n%s", members, err, p.log)
	})
}

// drained waits until no event waits any more.
func drained(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	// Each of these ends with the first row it finds; counting would read the table, again and again, beside the relay.
	until(t, pool, "kinds of events still wait", `select
		(select count(*) from (select from postrider.v_outbox_event where state = 'pending' limit 1) e) +
		(select count(*) from (select from postrider.v_outbox_event where state = 'scheduled' limit 1) e) +
		(select count(*) from (select from postrider.v_outbox_event where state = 'parked' limit 1) e) +
		(select count(*) from (select from postrider.v_outbox_event where state = 'exhausted' limit 1) e)`)
}

// until waits for a count to become zero.
func until(t *testing.T, pool *pgxpool.Pool, what, count string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		var n int
		if err := pool.QueryRow(ctx, count).Scan(&n); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if n == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("stuck: %d %s", n, what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
