package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/bench/debezium"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/history"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// moving is a table that a real connector of Debezium sends, writers that write to it, and Postrider beside it.
type moving struct {
	*testing.T
	url       string
	pool      *pgxpool.Pool
	broker    *kafkatest.Broker
	topics    []string
	dir       string // the connector's, with its offsets
	connector *kafkajars.Program
	relay     *process
	letters   string
	name      string
	settings  string
	binary    string
	rand      *rand.Rand
	kills     int
	began     time.Time
}

// TestFromDebezium moves a table from a real connector to Postrider and back, again and again, while writers write, with kills
// of the command, of the connector and of the relay. The checker sees each committed row in its topic once, in the order of
// its key; a copy only where the connector or the relay was killed. The bytes are the same, which of both sent it.
func TestFromDebezium(t *testing.T) {
	t.Parallel()
	rounds := 2
	if os.Getenv("SOAK_SECONDS") != "" {
		rounds = 10
	}
	m := startMoving(t, `create publication dbz for table public.outbox`)
	m.backAndForth(rounds)
}

// TestFromDebeziumAllTables is TestFromDebezium with a connector whose publication has all tables, which one table cannot leave:
// the table is renamed under the connector, and a view takes its rows.
func TestFromDebeziumAllTables(t *testing.T) {
	t.Parallel()
	rounds := 1
	if os.Getenv("SOAK_SECONDS") != "" {
		rounds = 3
	}
	m := startMoving(t, `create publication dbz for all tables`)
	m.backAndForth(rounds)
	if kind := pgtest.Value[string](t, m.pool, `select relkind::text from pg_class where oid = 'public.outbox'::regclass`); kind != "v" {
		t.Errorf("after the cutover public.outbox is of the kind %q, and no view", kind)
	}
}

// backAndForth moves the table so many times to Postrider and back, and to Postrider once more.
func (m *moving) backAndForth(rounds int) {
	m.startConnector()
	m.startRelay()
	ctx, stop := context.WithCancel(m.Context())
	var writers sync.WaitGroup
	for key := range 8 {
		writers.Go(func() { m.write(ctx, key) })
	}
	shadow := []string{"shadow", m.table(), "--prefix", m.prefix(), "--route-replacement", "${routedByValue}", "--run"}
	m.command(false, shadow...)
	m.follow(true, "--follow")
	m.follow(false, append(slices.Clone(shadow[2:]), "--header", "type:eventType", "--replace", "--follow")...)
	m.command(false, append(shadow, "--replace")...)
	for round := range rounds {
		kill := round % 2
		m.command(kill == 0, "cutover", m.table(), "--run")
		m.grow("forwarded by Postrider", m.sent())
		if kill == 1 {
			m.killRelay()
		}
		m.command(kill == 0, "rollback", m.table(), "--run")
		if kill == 1 {
			m.killConnector()
		}
		m.grow("written for the connector", `select count(*) from written`)
	}
	// The last time the connector dies while events are held.
	m.held()
	m.killConnector()
	m.command(false, "cutover", m.table(), "--run")
	stop()
	writers.Wait()
	m.judge(rounds)
}

func startMoving(t *testing.T, publication string) *moving {
	m := &moving{T: t, began: time.Now(), binary: buildtest.Program(t, "cmd/postrider"), dir: t.TempDir(), rand: rand.New(rand.NewPCG(seed(t), 1))}
	m.broker = kafkatest.OnlyReal(t)
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // PostgreSQL may run as another user
		t.Fatal(err)
	}
	server, err := pgserver.Start(t.Context(), pgserver.Options{Dir: dir, Settings: map[string]string{"fsync": "off", "wal_level": "logical"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	m.url = server.URL()
	if m.pool, err = pgxpool.New(t.Context(), m.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.pool.Close)
	conn, err := pgx.Connect(t.Context(), m.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	all, err := migrations.All()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.New(conn, all).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.name = strings.ReplaceAll(pgtest.Value[string](t, conn, `select 'dbz_' || gen_random_uuid()`), "-", "_") // its topics of heartbeats and of the shadow are its own
	m.topics = []string{m.broker.Topic(t, 3, nil), m.broker.Topic(t, 1, nil)}
	for _, topic := range m.topics {
		m.broker.CreateTopic(t, m.prefix()+topic, 1, nil)
	}
	m.letters = m.broker.Topic(t, 1, nil)
	m.settings = filepath.Join(m.dir, "postrider.yaml")
	rules := "topics:\n"
	for _, topic := range m.topics {
		for _, name := range []string{topic, m.prefix() + topic} {
			rules += fmt.Sprintf("  - {match: %q, wire: {key: string, value: string}}\n", name)
		}
	}
	if err := os.WriteFile(m.settings, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	m.broker.CreateTopic(t, "__debezium-heartbeat."+m.name, 1, nil)
	pgtest.Exec(t, conn, `create table public.outbox (id uuid primary key default gen_random_uuid(), aggregatetype text not null, aggregateid text not null, type text not null, payload jsonb);
		create table public.written (id uuid, topic text, key text, payload text, seq bigint generated always as identity);
		`+publication)
	return m
}

func (m *moving) table() string { return "public.outbox" }

// prefix begins the topics of the shadow. Tests share the broker: each has its own.
func (m *moving) prefix() string { return m.name + "." }

// sent counts the events that are no shadow's.
func (m *moving) sent() string {
	return fmt.Sprintf(`select count(*) from postrider.outbox_event where not starts_with(topic, '%s')`, m.prefix())
}

// startConnector starts the connector, or starts it again where it stopped, and waits until it reads its slot.
func (m *moving) startConnector() {
	m.Helper()
	p, err := debezium.Start(m.Context(), debezium.Connector{Name: m.name, Database: m.url, Brokers: m.broker.Addrs[0], Publication: "dbz", Table: "outbox", Light: true,
		Settings: []string{"heartbeat.interval.ms=300", "poll.interval.ms=50", "extended.headers.enabled=false", "slot.retry.delay.ms=500", "slot.max.retries=60"},
		Worker:   []string{"offset.flush.interval.ms=300"}}, m.dir)
	if errors.Is(err, kafkajars.ErrUnavailable) {
		logtest.NotTested(m, "Java or Maven is missing: "+err.Error())
	}
	if err != nil {
		m.Fatal(err)
	}
	m.connector = p
	m.Cleanup(func() {
		if m.Failed() && m.connector == p {
			m.Logf("the connector wrote\n%s", p.Output())
		}
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
		<-p.Done()
	})
	m.wait("the connector to read its slot", `select exists (select from pg_replication_slots where active)`)
}

func (m *moving) killConnector() {
	m.Helper()
	m.kills++
	if err := syscall.Kill(-m.connector.PID(), syscall.SIGKILL); err != nil {
		m.Fatal(err)
	}
	<-m.connector.Done()
	m.startConnector()
}

func (m *moving) startRelay() {
	m.relay = run(m.T, m.binary, []string{"serve", "--http", "127.0.0.1:0", "--config", m.settings}, m.url, m.broker, "DLQ_TOPIC="+m.letters, "DLQ_GROUP="+m.letters)
}

func (m *moving) killRelay() {
	m.kills++
	_ = m.relay.cmd.Process.Kill()
	<-m.relay.done
	m.startRelay()
}

// command runs a command of postrider debezium to its end; with kill it is killed first, twice, at any moment.
func (m *moving) command(kill bool, args ...string) {
	m.Helper()
	for range 2 {
		if kill {
			p := run(m.T, m.binary, append([]string{"debezium"}, args...), m.url, m.broker)
			p.killed(m.Context(), time.Duration(m.rand.IntN(600))*time.Millisecond)
		}
	}
	began := time.Now()
	p := run(m.T, m.binary, append([]string{"debezium"}, args...), m.url, m.broker)
	defer func() {
		m.Logf("%v after the start %s took %v", time.Since(m.began).Round(time.Second), args[0], time.Since(began).Round(time.Millisecond))
	}()
	select {
	case err := <-p.done:
		if err != nil {
			m.Fatalf("%v: %v\n%s", args, err, p.log)
		}
	case <-time.After(3 * time.Minute):
		m.Fatalf("%v did not end\n%s\nthe connector wrote\n%s", args, p.log, m.connector.Output())
	}
}

// follow compares the shadow with the connector, beside the writers, until enough was compared, or something differed.
func (m *moving) follow(same bool, args ...string) {
	m.Helper()
	p := run(m.T, m.binary, append([]string{"debezium", "shadow", m.table(), "--progress-seconds", "1"}, args...), m.url, m.broker)
	enough := regexp.MustCompile(`compared \d{3,}, differing 0`)
	if !same {
		enough = regexp.MustCompile(`compared \d+, differing [1-9]`)
	}
	ctx, cancel := context.WithTimeout(m.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !enough.MatchString(p.log.String()) {
		select {
		case <-tick.C:
		case err := <-p.done:
			m.Fatalf("the comparison ended: %v\n%s", err, p.log)
		case <-ctx.Done():
			m.Fatalf("the comparison does not say %s; it said\n%s\nthe relay\n%s", enough, p.log, m.relay.log)
		}
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		m.Fatal(err)
	}
	err := <-p.done
	said := p.log.String()
	switch differs := "\n    headers\n      Debezium   \"id\" \n      Postrider  \"id\" \"eventType\" \n"; {
	case same && (err != nil || strings.Contains(said, "this differs")):
		m.Errorf("the shadow is not as the connector: %v\n%s", err, said)
	case !same && (p.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said, differs)):
		m.Errorf("a header more is not seen: %v\n%s", err, said)
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	m.Logf("the shadow and the connector: %s", lines[len(lines)-1])
}

// held begins a cutover and kills it while it waits for the connector, which is stopped meanwhile.
func (m *moving) held() {
	m.Helper()
	if err := syscall.Kill(-m.connector.PID(), syscall.SIGSTOP); err != nil {
		m.Fatal(err)
	}
	m.grow("written while the connector stands", `select count(*) from written`)
	p := run(m.T, m.binary, []string{"debezium", "cutover", m.table(), "--run"}, m.url, m.broker)
	m.grow("held", `select count(*) from postrider.outbox_held_event`)
	_ = p.cmd.Process.Kill()
	<-p.done
	m.grow("held after the command died", `select count(*) from postrider.outbox_held_event`)
}

// grow waits until there are a few more of something.
func (m *moving) grow(what, count string) {
	m.Helper()
	m.wait("more rows "+what, fmt.Sprintf(`select (%s) >= %d`, count, pgtest.Value[int](m, m.pool, count)+50))
}

func (m *moving) wait(what, condition string) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !pgtest.Value[bool](m, m.pool, condition) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.Fatalf("waited too long for %s; the connector wrote\n%s\nthe relay\n%s", what, m.connector.Output(), m.relay.log)
		}
	}
}

// write writes rows of a key, each transaction behind the one before, until ctx ends.
func (m *moving) write(ctx context.Context, key int) {
	name, topic := fmt.Sprintf("key-%d", key), m.topics[key%len(m.topics)]
	for n := 0; ctx.Err() == nil; n++ {
		err := pgx.BeginFunc(context.WithoutCancel(ctx), m.pool, func(tx pgx.Tx) error {
			for i := range 1 + n%3 {
				if _, err := tx.Exec(ctx, `with o as (insert into public.outbox (aggregatetype, aggregateid, type, payload) values ($1, $2, 'Made', jsonb_build_object('é', $3::int, 'b', null)) returning *)
					insert into public.written (id, topic, key, payload) select id, aggregatetype, aggregateid, payload::text from o`, topic, name, 10*n+i); err != nil {
					return err
				}
			}
			if n%4 == 0 { // as Debezium's extension for Quarkus does
				if _, err := tx.Exec(ctx, `delete from public.outbox where aggregateid = $1`, name); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(ctx, `select pg_sleep(0.03)`); err != nil { // a transaction that is open meanwhile
				return err
			}
			if n%11 == 10 {
				return errRolledBack
			}
			return nil
		})
		if err != nil && !errors.Is(err, errRolledBack) && ctx.Err() == nil {
			m.Errorf("writer %d: %v", key, err)
			return
		}
	}
}

var errRolledBack = errors.New("rolled back on purpose")

// judge reads the topics until every committed row is there, and checks them.
func (m *moving) judge(rounds int) {
	m.Helper()
	type row struct {
		id, topic, key, payload string
		seq                     int64
	}
	rows, err := m.pool.Query(m.Context(), `select id::text, topic, key, payload, seq from public.written order by seq`)
	if err != nil {
		m.Fatal(err)
	}
	written, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (w row, err error) {
		return w, r.Scan(&w.id, &w.topic, &w.key, &w.payload, &w.seq)
	})
	if err != nil {
		m.Fatal(err)
	}
	ours := pgtest.Value[int](m, m.pool, m.sent())
	m.wait("the relay to send all", fmt.Sprintf(`select not exists (select from postrider.v_outbox_event where state in ('pending', 'scheduled', 'parked', 'exhausted') and not starts_with(topic, '%s'))`, m.prefix()))
	byID := map[string]row{}
	h := history.History{}
	wanted := map[string]int{}
	for _, w := range written {
		byID[w.id] = w
		wanted[w.topic]++
		h.Committed = append(h.Committed, history.Event{ID: w.id, Subject: w.topic + "/" + w.key, Seq: w.seq})
	}
	for _, topic := range m.topics {
		for _, r := range m.broker.ReadAll(m, topic, wanted[topic]) {
			id := header(r, "id")
			h.Reads = append(h.Reads, history.Read{ID: id, Subject: topic + "/" + string(r.Key), Partition: fmt.Sprint(topic, "-", r.Partition), Offset: r.Offset})
			if w := byID[id]; string(r.Value) != w.payload || string(r.Key) != w.key || !slices.Equal(names(r), []string{"id"}) {
				m.Errorf("the record of %s is %s %s with the headers %q, and should be %s %s", id, r.Key, r.Value, names(r), w.key, w.payload)
			}
		}
	}
	v := h.Check()
	if err := v.Err(); err != nil {
		m.Error(err)
	}
	if m.kills == 0 && v.Duplicates > 0 {
		m.Errorf("%d copies, and nothing was killed", v.Duplicates)
	}
	if ours == 0 || ours == len(written) {
		m.Errorf("%d of %d rows went through Postrider: one side had nothing", ours, len(written))
	}
	m.Logf("%d times to Postrider and %d back, %d kills of connector and relay: %v; %d through Postrider", rounds+1, rounds, m.kills, v, ours)
}

func names(r *kgo.Record) []string {
	var all []string
	for _, h := range r.Headers {
		all = append(all, h.Key)
	}
	return all
}
