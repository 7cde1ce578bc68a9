package doctor

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/pooler"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// subject is an installation to be examined.
type subject struct {
	db     *pgtest.DB
	conn   *pgx.Conn
	broker *kafkatest.Broker
	flags  map[string]string
}

// newSubject is a healthy one, but for collectors: none runs.
func newSubject(t *testing.T, db *pgtest.DB, broker *kafkatest.Broker) *subject {
	t.Helper()
	s := &subject{db: db, conn: db.Conn(t), broker: broker, flags: map[string]string{
		"database.url": db.URL, "kafka.brokers": strings.Join(broker.Addrs, ","),
	}}
	s.flags["dlq.topic"] = broker.Topic(t, 1, nil)
	s.flags["tasks.lifecycle_topic"] = broker.Topic(t, 1, nil)
	s.flags["dlq.group"] = "group-" + s.flags["dlq.topic"]
	return s
}

func (s *subject) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	pgtest.Exec(t, s.conn, sql, args...)
}

// examine makes all checks; change may say more.
func (s *subject) examine(t *testing.T, change func(*Config)) Report {
	t.Helper()
	settings, err := config.Load(config.From{Flags: s.flags})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Settings: settings, Connections: 10, limits: defaultLimits}
	if pool, err := open(t.Context(), settings.Database, 2); err == nil {
		defer pool.Close()
		cfg.Database = pool
	} else {
		cfg.DatabaseError = err
	}
	cfg.Kafka, err = OpenKafka(settings.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if cfg.Kafka != nil {
			cfg.Kafka.Close()
		}
	}()
	if change != nil {
		change(&cfg)
	}
	return Examine(t.Context(), cfg)
}

// connected is a process of Postrider that is connected to the subject's database until the test ends.
func (s *subject) connected(t *testing.T) {
	t.Helper()
	process, err := open(t.Context(), config.Database{URL: config.DatabaseURL(s.db.URL)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Close)
}

// asRole lets the subject's user have the rights of a role only.
func (s *subject) asRole(t *testing.T, role string) {
	t.Helper()
	address, err := url.Parse(s.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := address.Query()
	q.Set("role", role)
	address.RawQuery = q.Encode()
	s.flags["database.url"] = address.String()
}

// want demands a finding of a check, with a hint unless it is well or skipped.
func (r Report) want(t *testing.T, group, name string, verdict Verdict, parts ...string) {
	t.Helper()
	var found []Finding
	for _, f := range r.Findings {
		if f.Group != group || f.Check != name {
			continue
		}
		found = append(found, f)
		all := true
		for _, part := range parts {
			all = all && strings.Contains(f.Says+"\n"+f.Hint, part)
		}
		if f.Verdict == verdict && all {
			if f.Hint == "" && (verdict == Warning || verdict == Failed) {
				t.Errorf("%s, %s: no hint what to do: %+v", group, name, f)
			}
			return
		}
	}
	t.Errorf("%s, %s: want %s with %q; found %+v", group, name, verdict, parts, found)
}

// rest lists the findings that are neither well nor named.
func (r Report) rest(known ...string) []Finding {
	var out []Finding
	for _, f := range r.Findings {
		named := false
		for _, k := range known {
			named = named || k == f.Group+" "+f.Check
		}
		if f.Verdict != OK && !named {
			out = append(out, f)
		}
	}
	return out
}

// client replaces the client of Kafka.
func client(t *testing.T, b *kafkatest.Broker, opts ...kgo.Opt) func(*Config) {
	return func(c *Config) {
		c.Kafka.Close()
		c.Kafka = b.Client(t, opts...)
	}
}

// open is what commands and serve connect with, as far as the checks see it; they are in a package that imports this one.
func open(ctx context.Context, database config.Database, connections int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(database.URL.Reveal())
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.ConnConfig.ConnectTimeout = connections, 5*time.Second
	cfg.ConnConfig.RuntimeParams["application_name"] = "postrider"
	pooler.Configure(cfg, pooler.Mode(database.Pooler), map[string]string{})
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}
