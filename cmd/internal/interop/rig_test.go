package interop

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	dlqkafka "github.com/postrider/postrider/internal/dlq/kafka"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

func TestMain(m *testing.M) {
	kafkatest.Main(kafkatest.RunnerFunc(func() int { return pgtest.Run(m) }))
}

// patience bounds what a test waits for; it passes long before. Maven may download for some of it.
const patience = 4 * time.Minute

// missing ends a test for which this machine lacks something.
func missing(t *testing.T, why string) {
	t.Helper()
	logtest.NotTested(t, "Java or Maven is missing: "+why)
}

// classpath returns the jars of a project of testdata.
func classpath(ctx context.Context, t *testing.T, project string) string {
	t.Helper()
	pom, err := os.ReadFile(filepath.Join("testdata", project, "pom.xml"))
	if err != nil {
		t.Fatal(err)
	}
	cp, err := kafkajars.Classpath(ctx, pom, kafkajars.DefaultVersion, os.Stderr)
	if errors.Is(err, kafkajars.ErrUnavailable) {
		missing(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

// start runs a Java program until the test ends.
func start(ctx context.Context, t *testing.T, cp string, args ...string) *kafkajars.Program {
	t.Helper()
	p, err := kafkajars.StartProgram(ctx, cp, args, t.TempDir(), nil)
	if errors.Is(err, kafkajars.ErrUnavailable) {
		missing(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the program wrote\n%s", p.Output())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = p.Stop(ctx) // one that takes longer is killed
	})
	return p
}

// compile compiles a Java source of a project, and returns the folder with its classes.
func compile(ctx context.Context, t *testing.T, cp, source string) string {
	t.Helper()
	name := "javac"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", "javac")
	}
	javac, err := exec.LookPath(name)
	if err != nil {
		missing(t, err.Error())
	}
	classes := t.TempDir()
	if out, err := exec.CommandContext(ctx, javac, "-cp", cp, "-d", classes, "-parameters", source).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	return classes
}

// collected is a database with a collector of all topics that fit a pattern.
type collected struct {
	pool *pgxpool.Pool
	*app.Services
}

// collect runs a collector until the test ends.
func collect(t *testing.T, b *kafkatest.Broker, pattern string) *collected {
	t.Helper()
	d := &collected{pool: pgtest.New(t).Pool(t)}
	var err error
	if d.Services, err = app.NewServices(d.pool, config.Config{}); err != nil {
		t.Fatal(err)
	}
	source, err := dlqkafka.NewSource(dlqkafka.Config{Brokers: b.Addrs, Topics: []string{b.Topic(t, 1, nil)}, Patterns: []string{pattern},
		Discover: 200 * time.Millisecond, Group: t.Name() + uuid.NewString()})
	if err != nil {
		t.Fatal(err)
	}
	collector, err := dlq.NewCollector(dlq.Config{Source: source, Letters: d.Store})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- collector.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return d
}

// investigations waits for n investigations about a topic, and returns the newest letter of each by its payload.
func (d *collected) investigations(ctx context.Context, t *testing.T, p *kafkajars.Program, topic string, n int) map[string]dlq.Letter {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		page, err := d.Investigations.Find(ctx, dlq.Search{Filter: dlq.Filter{Topic: topic, Status: dlq.Pending, Limit: 100}})
		if err != nil {
			t.Fatal(err)
		}
		total := int(page.Total)
		if total > n {
			t.Fatalf("%d investigations, not %d", total, n)
		}
		if total == n {
			return d.letters(ctx, t, page.Entries)
		}
		select {
		case <-tick.C:
		case <-p.Done():
			t.Fatalf("the program ended")
		case <-ctx.Done():
			t.Fatalf("%d investigations of %d", total, n)
		}
	}
}

func (d *collected) letters(ctx context.Context, t *testing.T, entries []dlq.Entry) map[string]dlq.Letter {
	t.Helper()
	found := map[string]dlq.Letter{}
	for _, e := range entries {
		detail, err := d.Investigations.Show(ctx, e.UUID)
		if err != nil || len(detail.Letters) != 1 || detail.Occurrences != 1 {
			t.Fatalf("%d letters, %d occurrences, %v", len(detail.Letters), detail.Occurrences, err)
		}
		l, err := d.Investigations.Reveal(ctx, dlq.RevealRequest{Entry: e.UUID, Actor: "test"})
		if err != nil {
			t.Fatal(err)
		}
		found[string(l.Payload)] = l
	}
	return found
}

// redriven sends the messages of letters again, and returns the headers of the events that they become, by payload.
func (d *collected) redriven(ctx context.Context, t *testing.T, topic string, letters map[string]dlq.Letter) map[string][]message.Header {
	t.Helper()
	var entries []uuid.UUID
	for _, l := range letters {
		entries = append(entries, l.EntryUUID)
	}
	done, err := d.Redriver.Redrive(ctx, dlq.RedriveRequest{Entries: entries, Actor: "test"})
	if err != nil || len(done.Skipped) > 0 {
		t.Fatalf("redrive: %v, skipped %v", err, done.Skipped)
	}
	rows, err := d.pool.Query(ctx, `select payload, headers from postrider.outbox_event where topic = $1`, topic)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	sent := map[string][]message.Header{}
	for rows.Next() {
		var payload, raw []byte
		if err := rows.Scan(&payload, &raw); err != nil {
			t.Fatal(err)
		}
		if sent[string(payload)], err = message.ParseHeaders(raw); err != nil {
			t.Fatal(err)
		}
	}
	if rows.Err() != nil || len(sent) != len(letters) {
		t.Fatalf("%d events of %d, %v", len(sent), len(letters), rows.Err())
	}
	return sent
}

// names are the names of headers, in order.
func names(hs []message.Header) []string {
	var all []string
	for _, h := range hs {
		all = append(all, h.Name)
	}
	return all
}

// produce writes values to partition 0 of a topic, each with a key and a header of its own.
func produce(ctx context.Context, t *testing.T, b *kafkatest.Broker, topic string, values ...string) []*kgo.Record {
	t.Helper()
	client := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Key: []byte("k-" + v), Value: []byte(v), Headers: []kgo.RecordHeader{{Key: "own", Value: []byte{0, 0xff}}}})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return records
}

// check compares a letter with the record that it is about.
func check(t *testing.T, l dlq.Letter, r *kgo.Record, want dlq.Letter) {
	t.Helper()
	if l.OriginTopic != r.Topic || l.OriginPartition == nil || *l.OriginPartition != r.Partition || l.OriginOffset == nil || *l.OriginOffset != r.Offset {
		t.Errorf("origin %s/%v/%v, want %s/%d/%d", l.OriginTopic, l.OriginPartition, l.OriginOffset, r.Topic, r.Partition, r.Offset)
	}
	if !bytes.Equal(l.Key, r.Key) || !bytes.Equal(l.Payload, r.Value) {
		t.Errorf("key %q, payload %q", l.Key, l.Payload)
	}
	if !slices.Equal(names(l.Headers), []string{"own"}) || !bytes.Equal(l.Headers[0].Value, []byte{0, 0xff}) {
		t.Errorf("headers %v", l.Headers)
	}
	if l.Dialect != want.Dialect || l.ConsumerGroup != want.ConsumerGroup || l.ErrorClass != want.ErrorClass || l.ErrorCode != want.ErrorCode {
		t.Errorf("%s letter of %s: class %q, code %q, %q", l.Dialect, l.ConsumerGroup, l.ErrorClass, l.ErrorCode, l.ErrorMessage)
	}
}
