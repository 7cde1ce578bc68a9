package outboxsync_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outboxsync"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The program of the example does what it says.
func TestExample(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	pool := db.Pool(t)
	topic := broker.Topic(t, 1, nil)
	broker.CreateTopic(t, "postrider.dlq", 1, nil)
	for _, sql := range []string{
		`insert into postrider.outbox_event (topic, key, payload) select $1, 'k', 'v' from generate_series(1, 10)`,
		`insert into postrider.outbox_event (topic, key, payload, headers) values ($1, 'bad', 'v', '{"a": 1}')`,
		`insert into postrider.outbox_event (topic, payload, available_at) values ($1, 'later', now() + interval '1 hour')`,
	} {
		if _, err := pool.Exec(t.Context(), sql, topic); err != nil {
			t.Fatal(err)
		}
	}
	run := func(want string) {
		t.Helper()
		var out strings.Builder
		if err := nightly(t.Context(), &out, db.URL, broker.Addrs); err != nil || out.String() != want+"\n" {
			t.Errorf("%q, %v, want %q", out.String(), err, want)
		}
	}
	run("10 published, 0 tried again, 1 dead-lettered, 0 removed, 0 investigations are open")
	for _, sql := range []string{
		`update postrider.outbox_exception set next_attempt_at = now() where state = 'scheduled'`,
		`update postrider.outbox_event set created_at = created_at - interval '8 days'`,
		`update postrider.outbox_receipt set at = at - interval '8 days'`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run("1 published, 0 tried again, 0 dead-lettered, 10 removed, 0 investigations are open")
	if n := len(broker.ReadAll(t, topic, 11)); n != 11 {
		t.Errorf("the topic has %d records, want 11", n)
	}
}

func TestDLQStats(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	letters, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: db.Pool(t)})
	if err != nil {
		t.Fatal(err)
	}
	var records []dlq.Record
	for n := range 7 {
		records = append(records, dlqtest.Event(n+1, 1))
	}
	if _, err := letters.RecordLetters(t.Context(), dlqtest.Letters(records...)); err != nil {
		t.Fatal(err)
	}
	outbox, err := outboxsync.Open(t.Context(), outboxsync.Config{DatabaseURL: db.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer outbox.Close()
	got, err := outbox.DLQStats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var counted int64
	for _, n := range got.ByErrorCode {
		counted += n
	}
	if got.Size != 7 || counted != 7 || len(got.RecentSampleIDs) != dlq.RecentSamples || got.OldestAgeMS < 0 {
		t.Errorf("%+v", got)
	}
	encoded, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var names map[string]any
	if err := json.Unmarshal(encoded, &names); err != nil || len(names) != 4 {
		t.Errorf("%s, %v", encoded, err)
	}
	for _, name := range []string{"size", "oldestAgeMs", "byErrorCode", "recentSampleIds"} {
		if names[name] == nil {
			t.Errorf("%s is not in %s", name, encoded)
		}
	}
	// Without brokers the actions that publish are refused, and the others work.
	if _, err := outbox.ProcessPending(t.Context(), outboxsync.Options{}); !errors.Is(err, outboxsync.ErrNoBrokers) {
		t.Errorf("processPending: %v", err)
	}
	if _, err := outbox.ProcessRetries(t.Context(), outboxsync.Options{}); !errors.Is(err, outboxsync.ErrNoBrokers) {
		t.Errorf("processRetries: %v", err)
	}
	if r, err := outbox.Cleanup(t.Context(), outboxsync.CleanupOptions{DryRun: true}); err != nil || !r.DryRun {
		t.Errorf("cleanup: %+v, %v", r, err)
	}
}

func TestOpenIsRefused(t *testing.T) {
	t.Parallel()
	const unused = "127.0.0.1:1"
	for want, cfg := range map[string]outboxsync.Config{
		"DatabaseURL is required": {},
		"database URL":            {DatabaseURL: "postgres://u:s3ntinel@h:nix/d"},
		"cannot be reached":       {DatabaseURL: "postgres://u:s3ntinel@" + unused + "/d"},
	} {
		o, err := outboxsync.Open(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3ntinel") {
			t.Errorf("%s: %v", want, err)
		}
		if err == nil {
			o.Close()
		}
	}
	db := pgtest.New(t)
	for want, cfg := range map[string]outboxsync.Config{
		"compression": {Compression: "brotli"},
		"BatchSize":   {BatchSize: -1},
		"retention":   {Retention: outboxsync.Retention{Published: -time.Hour}},
	} {
		cfg.DatabaseURL, cfg.Brokers = db.URL, []string{unused}
		if o, err := outboxsync.Open(t.Context(), cfg); err == nil || !strings.HasPrefix(err.Error(), "outboxsync: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
			if err == nil {
				o.Close()
			}
		}
	}
	o, err := outboxsync.Open(t.Context(), outboxsync.Config{DatabaseURL: db.URL, Brokers: []string{unused}})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := o.ProcessPending(t.Context(), outboxsync.Options{}); !errors.Is(err, outboxsync.ErrNoBrokerAnswers) {
		t.Errorf("without a broker that answers: %v", err)
	}
}
