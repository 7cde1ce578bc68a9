package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(buildtest.In(m)) }

// process is a running `postrider dev`.
type process struct {
	t                       *testing.T
	cmd                     *exec.Cmd
	stderr                  bytes.Buffer
	mu                      sync.Mutex
	lines                   []string
	changed                 chan struct{} // holds a token after each line
	read                    chan struct{} // closed at the end of stdout
	http, database, brokers string
}

func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), changed: make(chan struct{}, 1), read: make(chan struct{})}
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // after a failure
	go func() {
		defer close(p.read)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, scanner.Text())
			p.mu.Unlock()
			select {
			case p.changed <- struct{}{}:
			default:
			}
		}
	}()
	ready := p.await("postrider: ready ")
	for field := range strings.FieldsSeq(ready) {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "http":
			p.http = value
		case "database_url":
			p.database = value
		case "kafka_brokers":
			p.brokers = value
		}
	}
	return p
}

// await returns the first line of output with this beginning.
func (p *process) await(beginning string) string {
	p.t.Helper()
	deadline := time.After(3 * time.Minute)
	for {
		p.mu.Lock()
		i := slices.IndexFunc(p.lines, func(l string) bool { return strings.HasPrefix(l, beginning) })
		var line string
		if i >= 0 {
			line = p.lines[i]
		}
		p.mu.Unlock()
		if i >= 0 {
			return line
		}
		select {
		case <-p.changed:
		case <-p.read:
			_ = p.cmd.Wait()
			p.t.Fatalf("the program ended before it said %q: %s", beginning, p.stderr.String())
		case <-deadline:
			p.t.Fatalf("the program did not say %q", beginning)
		}
	}
}

// interrupt is Ctrl-C, and a clean end within 20 seconds.
func (p *process) interrupt() {
	p.t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.read:
	case <-time.After(20 * time.Second):
		p.t.Fatalf("the program did not end within 20s: %s", p.stderr.String())
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("exit: %v\n%s", err, p.stderr.String())
	}
	p.t.Logf("stopped in %v", time.Since(began).Round(time.Millisecond))
	if n := len(slices.DeleteFunc(slices.Clone(p.lines), func(l string) bool { return !strings.HasPrefix(l, "postrider: ready") })); n != 1 {
		p.t.Errorf("%d lines say that it is ready", n)
	}
	if conn, err := pgx.Connect(context.Background(), p.database); err == nil {
		conn.Close(context.Background())
		p.t.Error("its PostgreSQL still runs")
	}
}

// find reads a topic from its start until accept has accepted a record.
func (p *process) find(ctx context.Context, topic string, accept func(*kgo.Record) bool) {
	p.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(p.brokers), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		p.t.Fatal(err)
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			p.t.Fatalf("the record is not in %s", topic)
		}
		for r := range fetches.RecordsAll() {
			if accept(r) {
				return
			}
		}
	}
}

// awaitRow returns one value of a query; the row may come later.
func awaitRow(ctx context.Context, t *testing.T, conn *pgx.Conn, query string, args ...any) (value string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := conn.QueryRow(ctx, query, args...).Scan(&value)
		if err == nil {
			return value
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", query, err)
		}
	}
}

// The quick start, from a fresh build to a second start on the same data.
func TestDevDemo(t *testing.T) {
	t.Parallel()
	program, data := buildtest.Program(t, "cmd/postrider"), t.TempDir()
	if err := os.Chmod(filepath.Dir(data), 0o755); err != nil { // for PostgreSQL, when root runs this
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p := start(t, program, "dev", "--demo", "--data", data)
	conn, err := pgx.Connect(ctx, p.database)
	if err != nil {
		t.Fatal(err)
	}

	own := awaitRow(ctx, t, conn, `select postrider.outbox_publish('demo.orders', 'smoke', '{"smoke": true}')::text`)
	isOwn := func(r *kgo.Record) bool {
		return string(r.Key) == "smoke" && string(r.Value) == `{"smoke": true}` &&
			slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == message.HeaderEventID && string(h.Value) == own })
	}
	p.find(ctx, "demo.orders", isOwn)
	p.find(ctx, "demo.orders", func(r *kgo.Record) bool { return bytes.Contains(r.Value, []byte(`"event":"order_placed"`)) })
	p.find(ctx, "demo.payments", func(r *kgo.Record) bool { return bytes.Contains(r.Value, []byte(`"event":"order_paid"`)) })
	p.await("demo: written ")

	large := awaitRow(ctx, t, conn, `select postrider.outbox_publish_bytes('demo.orders', 'large', decode(repeat('00', 2097152), 'hex'))::text`)
	entry := awaitRow(ctx, t, conn, `select dlq_entry_uuid::text from postrider.dlq_entry where subject_id = $1`, large)
	shown, err := exec.CommandContext(ctx, program, "dlq", "show", entry, "--database-url", p.database).CombinedOutput()
	if err != nil || !strings.Contains(string(shown), "MESSAGE_TOO_LARGE") || !strings.Contains(string(shown), large) {
		t.Errorf("postrider dlq show: %v\n%s", err, shown)
	}
	// What the demonstration does wrong on purpose.
	awaitRow(ctx, t, conn, `select dlq_entry_uuid::text from postrider.dlq_entry where error_code = 'INVALID_HEADERS' limit 1`)
	// A task of its warehouse gets stuck, and is found while one watches.
	stuck := awaitRow(ctx, t, conn, `select dlq_entry_uuid::text from postrider.dlq_entry where subject_type = 'task' and dlq_reason = 'staleness_timeout' limit 1`)
	shown, err = exec.CommandContext(ctx, program, "dlq", "show", stuck, "--database-url", p.database).CombinedOutput()
	if err != nil || !strings.Contains(string(shown), "steps_in_process") || !strings.Contains(string(shown), "ship_order") {
		t.Errorf("postrider dlq show: %v\n%s", err, shown)
	}
	conn.Close(ctx)
	p.interrupt()

	p = start(t, program, "dev", "--data", data)
	if conn, err = pgx.Connect(ctx, p.database); err != nil {
		t.Fatal(err)
	}
	awaitRow(ctx, t, conn, `select state::text from postrider.v_outbox_event where event_id = $1::uuid and state = 'published'`, own)
	awaitRow(ctx, t, conn, `select dlq_entry_uuid::text from postrider.dlq_entry where subject_id = $1`, large)
	conn.Close(ctx)
	p.find(ctx, "demo.orders", isOwn)
	p.interrupt()
}

// SIGTERM ends the program as Ctrl-C does; a wrong command line has its
// own exit code.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	program := buildtest.Program(t, "cmd/postrider")
	err := exec.CommandContext(t.Context(), program, "serve", "--roles", "everything").Run()
	if exit, failed := err.(*exec.ExitError); !failed || exit.ExitCode() != 2 {
		t.Errorf("wrong command line: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), program, "dev")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("postrider: ready"))); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout)
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}
