package devstack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/outbox"
)

// stack is a running development stack.
type stack struct {
	http, database, brokers, key, link string
	// written is what the stack writes behind its ready line, and behind the link of the console.
	written *logtest.Buffer
	stop    func() error
}

// startStack runs a stack and returns when it says that it is ready.
func startStack(t *testing.T, o Options) stack {
	t.Helper()
	c, err := config.Load(config.From{Defaults: Defaults(), Flags: map[string]string{"outbox.retention_days": "0"}})
	if err != nil {
		t.Fatal(err)
	}
	o.Config, o.Logger = c, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	read, write := io.Pipe()
	o.Out = write
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := Run(ctx, o)
		write.CloseWithError(err)
		ended <- err
	}()
	s := stack{written: &logtest.Buffer{}}
	copied := make(chan struct{})
	stopped := false
	s.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		began := time.Now()
		err := <-ended
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("stopping took %v", took)
		}
		<-copied
		return err
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		line, isReady := strings.CutPrefix(lines.Text(), "postrider: ready ")
		if !isReady {
			continue
		}
		for field := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(field, "=")
			switch name {
			case "http":
				s.http = value
			case "database_url":
				s.database = value
			case "kafka_brokers":
				s.brokers = value
			case "api_key":
				s.key = value
			}
		}
		for key, want := range map[string]int{s.key: http.StatusOK, "": http.StatusUnauthorized} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.http+"/api/v1/status", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+key)
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("with the key %q the API answers %d, want %d", key, resp.StatusCode, want)
			}
		}
		s.link = consoleLink(t, lines)
		go func() {
			defer close(copied)
			for lines.Scan() {
				fmt.Fprintln(s.written, lines.Text())
			}
		}()
		return s
	}
	close(copied)
	t.Fatalf("the stack did not become ready: %v", lines.Err())
	return s
}

// send writes an event and waits for it on its topic; it returns all that the topic has, in order.
func (s stack) send(t *testing.T, topic, payload string) []string {
	t.Helper()
	ctx := testContext(t)
	conn, err := pgx.Connect(ctx, s.database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := outbox.Enqueue(ctx, tx, outbox.Message{Topic: topic, Key: []byte("k"), Payload: []byte(payload)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var got []string
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the topic %s has %q", topic, got)
		}
		for r := range fetches.RecordsAll() {
			got = append(got, string(r.Value))
			if string(r.Value) == payload {
				return got
			}
		}
	}
}

// Two stacks on one machine do not meet, and leave nothing behind.
func TestTwoStacks(t *testing.T) {
	t.Parallel()
	first, second := startStack(t, Options{}), startStack(t, Options{})
	if first.http == second.http || first.database == second.database || first.brokers == second.brokers {
		t.Errorf("shared addresses: %+v %+v", first, second)
	}
	if page := first.signIn(t); !strings.Contains(page, "<strong><bdi>dev</bdi></strong>") {
		t.Errorf("the link opens no session: %.300s", page)
	}
	if page := first.signIn(t); !strings.Contains(page, "has been used") {
		t.Errorf("the link works twice: %.300s", page)
	}
	for name, s := range map[string]stack{"first": first, "second": second} {
		if got := s.send(t, "my.topic", name); len(got) != 1 {
			t.Errorf("the topic of the %s stack has %q", name, got)
		}
		if at := s.noted(t); at != s.http {
			t.Errorf("links to the console of the %s stack begin with %q, and it serves %s", name, at, s.http)
		}
		if err := s.stop(); err != nil || !strings.Contains(s.written.String(), "postrider: stopped; the data is removed\n") {
			t.Errorf("the %s stack ended with %v and wrote\n%s", name, err, s.written)
		}
	}
}

// With a folder the next start finds what the last one left, and only one at a time has it.
func TestStackKeepsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Started by root, PostgreSQL runs as another user, which must be let in.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	s := startStack(t, Options{DataDir: dir})
	s.send(t, "my.topic", "first")
	err := Run(t.Context(), Options{DataDir: dir, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second stack on the same folder: %v", err)
	}
	if err := s.stop(); err != nil || !strings.Contains(s.written.String(), "postrider: stopped; the data is kept in "+dir) {
		t.Fatalf("it ended with %v and wrote\n%s", err, s.written)
	}
	s = startStack(t, Options{DataDir: dir})
	if got := s.send(t, "my.topic", "second"); len(got) != 2 || got[0] != "first" {
		t.Errorf("the topic has %q", got)
	}
	conn, err := pgx.Connect(t.Context(), s.database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var kept int
	if err := conn.QueryRow(t.Context(), `select count(*) from postrider.outbox_event where topic = 'my.topic'`).Scan(&kept); err != nil || kept != 2 {
		t.Errorf("%d events are kept: %v", kept, err)
	}
}

// An interrupt while starting is an orderly end.
func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, Options{Out: io.Discard}); err != nil {
		t.Error(err)
	}
}

// consoleLink is the link to the web console in the lines behind the first.
func consoleLink(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	for lines.Scan() {
		if _, link, found := strings.Cut(lines.Text(), "Open the web console"); found {
			return strings.TrimSpace(link)
		}
		if strings.Contains(lines.Text(), "For development only") {
			break
		}
	}
	t.Error("there is no link to the web console")
	return ""
}

// noted is where commands that have only the address of the database find the console.
func (s stack) noted(t *testing.T) string {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), s.database)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	at, err := access.NewStore(pool).ConsoleURL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// signIn uses the link of a stack, and returns the first page.
func (s stack) signIn(t *testing.T) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(s.link)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Jar: jar}
	resp, err := client.PostForm(s.http+"/login", url.Values{"link": {at.Query().Get("link")}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 500 && resp.StatusCode != http.StatusServiceUnavailable { // its first figures may be on their way
		t.Fatalf("%d: %v", resp.StatusCode, err)
	}
	return string(page)
}
