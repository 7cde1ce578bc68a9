// Package stage is what the tests of the examples stand on: Postrider as a process of its own beside PostgreSQL and a
// broker, and the example as another process, which may be killed.
//
// A package that uses it has the TestMain of both:
//
//	func TestMain(m *testing.M) { stage.Main(m) }
package stage

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// waitTimeout bounds what a test waits for. It is for a test that would wait for ever, and not for a slow machine: a consumer
// that is killed costs the session timeout of its group before anything goes on.
const waitTimeout = 5 * time.Minute

// Main runs the tests of a package and ends the servers that they started. It does not return.
func Main(m *testing.M) {
	kafkatest.Main(kafkatest.RunnerFunc(func() int { return pgtest.Run(buildtest.In(m)) }))
}

// Stage is an installation of Postrider for one test.
type Stage struct {
	t testing.TB
	// Broker is Apache Kafka, or kfake where that cannot be had.
	Broker *kafkatest.Broker
	// DB is the database with the outbox, and Pool connections to it.
	DB   *pgtest.DB
	Pool *pgxpool.Pool
	// DLQ is the dead-letter topic.
	DLQ       string
	postrider string
}

// New makes a database, a dead-letter topic and the program; nothing runs yet.
func New(t testing.TB) *Stage {
	t.Helper()
	s := &Stage{t: t, Broker: kafkatest.Real(t), DB: pgtest.New(t)}
	s.Pool = s.DB.Pool(t)
	s.DLQ = s.Broker.Topic(t, 1, nil)
	s.postrider = buildtest.Program(t, "cmd/postrider")
	return s
}

// Serve starts Postrider. It ends with the test, which fails unless it ends cleanly.
func (s *Stage) Serve() {
	s.t.Helper()
	p := s.Start(s.postrider, s.environment("DLQ_GROUP="+s.DLQ), "serve", "--http", "127.0.0.1:0")
	s.t.Cleanup(p.Stop)
	Eventually(s.t, "the settings of serve", s.Pool, s.DLQ, `select dlq_topic from postrider.tasker_settings`)
}

// CaughtUp waits until a consumer group has committed all that the topics hold.
func (s *Stage) CaughtUp(group string, topics ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), waitTimeout)
	defer cancel()
	admin := s.Broker.Admin(s.t)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		behind, err := lag(ctx, admin, group, topics)
		if err == nil && behind == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("group %s is %d records behind in %v, %v", group, behind, topics, err)
		}
	}
}

// lag counts the records of the topics that the group has not committed.
func lag(ctx context.Context, admin *kadm.Client, group string, topics []string) (behind int64, err error) {
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, err
	}
	committed, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return 0, err
	}
	ends.Each(func(end kadm.ListedOffset) {
		at, _ := committed.Lookup(end.Topic, end.Partition) // -1 is none
		behind += end.Offset - max(at.At, 0)
	})
	return behind, nil
}

// Postrider runs a command of Postrider and returns what it prints.
func (s *Stage) Postrider(args ...string) string {
	s.t.Helper()
	return s.Output(s.environment(), s.postrider, args...)
}

func (s *Stage) environment(more ...string) []string {
	return append([]string{"DATABASE_URL=" + s.DB.URL, "KAFKA_BROKERS=" + s.Brokers(), "DLQ_TOPIC=" + s.DLQ}, more...)
}

// Brokers are the broker's addresses, with commas.
func (s *Stage) Brokers() string { return strings.Join(s.Broker.Addrs, ",") }

// Output runs a program with more variables in its environment and returns its standard output; it must succeed.
func (s *Stage) Output(environment []string, program string, args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), environment...)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s%s", filepath.Base(program), strings.Join(args, " "), err, out, errors.String())
	}
	return string(out)
}

// Eventually waits until a query on a pool returns this text.
func Eventually(t testing.TB, what string, pool *pgxpool.Pool, want, query string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var got string
		err := pool.QueryRow(ctx, query, args...).Scan(&got)
		if err == nil && got == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %q, %v; want %q", what, got, err, want)
		}
	}
}
