package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// fleetFile is a settings file whose sources tests change.
type fleetFile struct {
	path, desk string
	brokers    []string
}

func newFleetFile(t *testing.T, desk string, brokers ...string) *fleetFile {
	return &fleetFile{path: filepath.Join(t.TempDir(), "postrider.yaml"), desk: desk, brokers: brokers}
}

// write makes the file have these sources, each a line of YAML in braces.
func (f *fleetFile) write(t *testing.T, sources ...string) {
	t.Helper()
	text := "http: {api: false}\nsources:\n"
	for _, s := range sources {
		text += "  - " + s + "\n"
	}
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *fleetFile) load() (config.Config, error) {
	flags := map[string]string{"kafka.brokers": strings.Join(f.brokers, ","), "http.address": "127.0.0.1:0"}
	if f.desk != "" {
		flags["database.url"] = f.desk
	}
	return config.Load(config.From{File: f.path, Flags: flags})
}

// run starts a process on the file.
func (f *fleetFile) run(t *testing.T, log *logtest.Buffer) *App {
	t.Helper()
	c, err := f.load()
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	if log != nil {
		logger = slog.New(slog.NewJSONHandler(log, nil))
	}
	return run(t, Options{Config: c, Roles: []Role{Relay, HTTP}, Reload: f.load, Logger: logger})
}

// sourceLine is a source as a line of the file.
func sourceLine(name, address string, more ...string) string {
	return fmt.Sprintf(`{name: %s, url: %q, topics: {allow: ["%s.*"]}%s}`, name, address, name, strings.Join(append([]string{""}, more...), ", "))
}

// newSource is an empty database that is no copy of another one.
func newSource(t *testing.T) (*pgtest.DB, *pgx.Conn) {
	t.Helper()
	db := pgtest.New(t)
	conn := db.Conn(t)
	pgtest.Exec(t, conn, `update postrider.outbox_source set source_uuid = gen_random_uuid()`)
	return db, conn
}

// waitState waits until the metrics of a process say so of a source.
func waitStates(t *testing.T, a *App, want map[string]SourceState) {
	t.Helper()
	eventually(t, fmt.Sprintf("the sources are %v", want), func() (bool, string) {
		got := map[string]SourceState{}
		for _, s := range a.fleet.Statuses() {
			got[s.Name] = s.State
		}
		return maps.Equal(got, want), fmt.Sprint(a.fleet.Statuses())
	})
}

// One process carries the outboxes of several databases beside its own. Each record says where it comes from, a source
// writes to its own topics alone, and what is wrong with one database is named and keeps no other back.
func TestSourcesOfOneProcess(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	for _, topic := range []string{"main.a", "orders.a", "billing.a", "postrider.dlq"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	desk, deskConn := newSource(t)
	orders, ordersConn := newSource(t)
	// billing has the outbox alone, and its login the rights of the relay there.
	billing, _ := serviceDatabase(t, migrations.PartOutbox)
	billingConn := billing.Conn(t)
	billingLogin, _ := billing.Login(t, "postrider_relay")
	readOnly, _ := newSource(t)
	unmigrated := pgtest.NewEmpty(t)
	other, otherConn := newSource(t)
	pgtest.Exec(t, otherConn, `select postrider.outbox_name_source('another')`)
	file := newFleetFile(t, desk.URL, broker.Addrs...)
	file.write(t, sourceLine("orders", orders.URL), sourceLine("billing", billingLogin),
		sourceLine("gone", "postgres://nobody@127.0.0.1:1/x?connect_timeout=2"),
		sourceLine("readonly", readOnly.With("default_transaction_read_only", "on")),
		sourceLine("empty", unmigrated.URL), sourceLine("renamed", other.URL), sourceLine("twice", desk.URL))
	var log logtest.Buffer
	a := file.run(t, &log)
	waitStates(t, a, map[string]SourceState{"orders": SourceLeading, "billing": SourceLeading, "gone": SourceRefused, "readonly": SourceRefused,
		"empty": SourceRefused, "renamed": SourceRefused, "twice": SourceRefused})
	// The number of series of an idle source is small, because there may be hundreds of them.
	if _, metrics := get(t, a, "/metrics"); strings.Count(metrics, `source="orders"`) == 0 || strings.Count(metrics, `source="orders"`) > 15 {
		t.Errorf("orders, which is idle, has %d series", strings.Count(metrics, `source="orders"`))
	}
	enqueue(t, deskConn, outbox.Message{Topic: "main.a", Key: []byte("k"), Payload: []byte("of main")})
	enqueue(t, ordersConn, outbox.Message{Topic: "orders.a", Key: []byte("k"), Payload: []byte("of orders")})
	enqueue(t, billingConn, outbox.Message{Topic: "billing.a", Key: []byte("k"), Payload: []byte("of billing")},
		outbox.Message{Topic: "orders.a", Key: []byte("k"), Payload: []byte("not its own")})
	for topic, want := range map[string]string{"main.a": "", "orders.a": "orders", "billing.a": "billing", "postrider.dlq": "billing"} {
		r := broker.ReadAll(t, topic, 1)[0]
		source := ""
		for _, h := range r.Headers {
			if h.Key == message.HeaderSource {
				source = string(h.Value)
			}
		}
		if source != want {
			t.Errorf("%s: a record of %q, want %q", topic, source, want)
		}
		if topic != "postrider.dlq" {
			continue
		}
		letter := dlq.Record{Topic: topic, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			letter.Headers = append(letter.Headers, message.Header{Name: h.Key, Value: h.Value})
		}
		if l := dlq.Decode(letter); l.Source != want || !strings.HasPrefix(l.Subject.ID, want+"/") || l.OutboxID != nil || l.SourceOutboxID == nil {
			t.Errorf("its dead letter is of %q, about %s", l.Source, l.Subject.ID)
		}
	}
	pgtest.WaitFor(t, billingConn, `select exists (select from postrider.outbox_exception where last_error_code = 'TOPIC_NOT_ALLOWED' and state = 'dead_lettered')`)
	if n := len(broker.ReadAll(t, "orders.a", 1)); n != 1 {
		t.Errorf("orders.a has %d records", n)
	}
	status, body := readyz(t, a)
	if status != http.StatusOK {
		t.Errorf("it is not ready: %s", body)
	}
	_, metrics := get(t, a, "/metrics")
	for _, line := range []string{
		`postrider_outbox_leading{source="main"} 1`, `postrider_outbox_leading{source="orders"} 1`, `postrider_outbox_dead_lettered_total{source="billing"} 1`,
		`postrider_sources{state="leading"} 2`, `postrider_sources{state="refused"} 5`, `postrider_sources_settings_refused 0`,
		`postrider_source_refused{reason="away",source="gone"} 1`, `postrider_source_refused{reason="read_only",source="readonly"} 1`,
		`postrider_source_refused{reason="schema",source="empty"} 1`, `postrider_source_refused{reason="name",source="renamed"} 1`,
		`postrider_source_refused{reason="copy",source="twice"} 1`,
	} {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
	c, err := file.load()
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for _, l := range LookAtSources(t.Context(), c, nil).Items {
		if reasons[l.Name] = api.OrZero(l.Reason); l.OK != l.Led {
			t.Errorf("%s: ok %v, led %v", l.Name, l.OK, l.Led)
		}
		// What is installed is never taken away: no advice brings the desk into the database of a service.
		if says := api.OrZero(l.Error); l.Name == "empty" && (!strings.Contains(says, "`postrider migrate up --only outbox --database-url ADDRESS`") ||
			!strings.Contains(says, "outbox/0001_baseline") || strings.Contains(says, "dlq") || strings.Contains(says, "--migrate")) {
			t.Errorf("of a database without a schema it says %s", says)
		}
	}
	if want := map[string]string{"orders": "", "billing": "", "gone": "away", "readonly": "read_only", "empty": "schema", "renamed": "name", "twice": ""}; !maps.Equal(reasons, want) {
		delete(want, "twice") // its database has no name, so that a look alone does not see it
		delete(reasons, "twice")
		if !maps.Equal(reasons, want) {
			t.Errorf("looks say %v, want %v", reasons, want)
		}
	}
	if !strings.Contains(log.String(), `"reason":"away"`) {
		t.Error("the log does not say what is wrong")
	}
}

// The settings are read again when the process is asked to: sources come, change and go. A broken file changes nothing.
func TestSourcesComeAndGo(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	for _, topic := range []string{"orders.a", "billing.a", "postrider.dlq"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	orders, ordersConn := newSource(t)
	billing, billingConn := newSource(t)
	file := newFleetFile(t, "", broker.Addrs...)
	file.write(t, sourceLine("orders", orders.URL))
	var log logtest.Buffer
	a := file.run(t, &log)
	waitStates(t, a, map[string]SourceState{"orders": SourceLeading})
	logged := func(text string) {
		t.Helper()
		eventually(t, "the log has "+text, func() (bool, string) { return strings.Contains(log.String(), text), log.String() })
	}
	file.write(t, sourceLine("orders", orders.URL), `{name: billing, urll: x}`)
	a.Reload()
	logged("unknown key urll")
	waitStates(t, a, map[string]SourceState{"orders": SourceLeading})
	if _, metrics := get(t, a, "/metrics"); !strings.Contains(metrics, "\npostrider_sources_settings_refused 1\n") {
		t.Error("the metrics do not say that the settings are wrong")
	}
	enqueue(t, ordersConn, outbox.Message{Topic: "orders.a", Payload: []byte("goes on")})
	broker.ReadAll(t, "orders.a", 1)

	file.write(t, sourceLine("orders", orders.URL), sourceLine("billing", billing.URL))
	a.Reload()
	waitStates(t, a, map[string]SourceState{"orders": SourceLeading, "billing": SourceLeading})
	enqueue(t, billingConn, outbox.Message{Topic: "billing.a", Payload: []byte("came")})
	broker.ReadAll(t, "billing.a", 1)

	// Without a signal it is seen as well.
	file.write(t, sourceLine("billing", billing.URL, "limits: {connections: 3}"))
	waitStates(t, a, map[string]SourceState{"billing": SourceLeading})
	pgtest.WaitFor(t, ordersConn, `select not leads from postrider.outbox_leader`)
	pgtest.WaitFor(t, ordersConn, `select count(*) = 0 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and application_name like 'postrider%'`)
	if _, metrics := get(t, a, "/metrics"); strings.Contains(metrics, `source="orders"`) {
		t.Error("the metrics still have a source that is gone")
	}
}

// A process that is missing once has renewed its lock; one that is missing twice is gone. While the home is away nobody goes.
func TestMembers(t *testing.T) {
	t.Parallel()
	m := newMembers(slog.New(slog.DiscardHandler))
	other := m.self%1000 + 1
	if other == m.self {
		other++
	}
	has := func() bool { all, _ := m.list(); return slices.Contains(all, m.self) && slices.Contains(all, other) }
	m.saw([]uint32{m.self, other})
	if !has() {
		t.Error("a process that came is not there")
	}
	m.saw([]uint32{m.self})
	if !has() {
		t.Error("a process that is missing once is gone")
	}
	m.saw([]uint32{m.self, other})
	m.saw([]uint32{m.self})
	m.lost(context.DeadlineExceeded)
	if _, away := m.list(); !has() || away.IsZero() {
		t.Error("the home is away, and a process is gone, or this is not said")
	}
	m.saw([]uint32{m.self})
	if all, away := m.list(); !slices.Equal(all, []uint32{m.self}) || !away.IsZero() {
		t.Errorf("the processes are %v, away since %v", all, away)
	}
}

// Every process says the same of the same lists, none has more than a tenth over its share, and one that goes moves no
// more than what it had and what that pushes on.
func TestAssign(t *testing.T) {
	t.Parallel()
	names := make([]string, 200)
	for i := range names {
		names[i] = fmt.Sprintf("source-%d", i)
	}
	processes := []uint32{11, 500, 77123}
	before := assign(names, processes)
	backwards := slices.Clone(names)
	slices.Reverse(backwards)
	if !maps.Equal(before, assign(backwards, processes)) {
		t.Error("the order of the list matters")
	}
	load := map[uint32]int{}
	for _, p := range before {
		load[p]++
	}
	for _, p := range processes {
		if load[p] < 40 || load[p] > 74 {
			t.Errorf("process %d has %d of 200 sources", p, load[p])
		}
	}
	moved := 0
	for name, p := range assign(names, processes[:2]) {
		if before[name] != p && before[name] != processes[2] {
			moved++
		}
	}
	if moved > 20 {
		t.Errorf("%d sources move that the process which went did not have", moved)
	}
	if got := assign(names[:1], []uint32{7}); got[names[0]] != 7 {
		t.Errorf("alone: %v", got)
	}
	for n := range 40 {
		for m := 1; m <= 8; m++ {
			load := map[uint32]int{}
			for _, p := range assign(names[:n], []uint32{3, 11, 77, 500, 4096, 77123, 1 << 20, 1 << 30}[:m]) {
				if load[p]++; 10*m*(load[p]-1) >= 11*n { // it had its share and a tenth before this one
					t.Fatalf("one of %d processes has %d of %d sources", m, load[p], n)
				}
			}
		}
	}
}

// A database that goes away while it is carried is named and keeps no other back, and so is a topic that is missing. When they
// are there again everything goes, without a restart.
func TestSourceAwayForAWhile(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	for _, topic := range []string{"orders.a", "billing.a", "postrider.dlq"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	orders, ordersConn := newSource(t)
	billing, billingConn := newSource(t)
	server := pgtest.NewEmpty(t).Conn(t)
	file := newFleetFile(t, "", broker.Addrs...)
	file.write(t, sourceLine("orders", orders.URL), sourceLine("billing", billing.URL))
	a := file.run(t, nil)
	waitStates(t, a, map[string]SourceState{"orders": SourceLeading, "billing": SourceLeading})
	name := pgx.Identifier{pgtest.Value[string](t, ordersConn, `select current_database()`)}
	enqueue(t, ordersConn, outbox.Message{Topic: "orders.missing", Key: []byte("k"), Payload: []byte("waits for its topic")})
	pgtest.WaitFor(t, ordersConn, `select exists (select from postrider.outbox_hold where topic = 'orders.missing')`)
	enqueue(t, billingConn, outbox.Message{Topic: "billing.a", Payload: []byte("passes the missing topic")})
	broker.ReadAll(t, "billing.a", 1)

	pgtest.Exec(t, server, `alter database `+name.Sanitize()+` allow_connections false`)
	pgtest.Exec(t, server, `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, name[0])
	waitStates(t, a, map[string]SourceState{"orders": SourceRefused, "billing": SourceLeading})
	eventually(t, "the reason is away", func() (bool, string) {
		all := a.fleet.Statuses()
		return all[1].Reason == "away", fmt.Sprint(all)
	})
	enqueue(t, billingConn, outbox.Message{Topic: "billing.a", Payload: []byte("passes the other database")})
	broker.ReadAll(t, "billing.a", 2)

	pgtest.Exec(t, server, `alter database `+name.Sanitize()+` allow_connections true`)
	broker.CreateTopic(t, "orders.missing", 1, nil)
	broker.ReadAll(t, "orders.missing", 1)
	waitStates(t, a, map[string]SourceState{"orders": SourceLeading, "billing": SourceLeading})
}

// A source that sleeps has no connection between two looks, and its events go when it is looked at.
func TestSourceSleeps(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	for _, topic := range []string{"orders.a", "postrider.dlq"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	orders, conn := newSource(t)
	file := newFleetFile(t, "", broker.Addrs...)
	file.write(t, sourceLine("orders", orders.URL, "sleep: 5s"))
	enqueue(t, conn, outbox.Message{Topic: "orders.a", Payload: []byte("there already")})
	a := file.run(t, nil)
	broker.ReadAll(t, "orders.a", 1)
	eventually(t, "it sleeps", func() (bool, string) {
		return a.fleet.Statuses()[0].State == SourceAsleep, fmt.Sprint(a.fleet.Statuses())
	})
	pgtest.WaitFor(t, conn, `select count(*) = 0 from pg_stat_activity where datname = current_database() and application_name = 'postrider relay'`)
	enqueue(t, conn, outbox.Message{Topic: "orders.a", Payload: []byte("while it sleeps")})
	broker.ReadAll(t, "orders.a", 2)
}

// What a source has in hand is bounded by its own limit. A batch has a part of it.
func TestBytesOfASource(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	broker.CreateTopic(t, "orders.a", 1, nil)
	orders, conn := newSource(t)
	payload := []byte(strings.Repeat("x", 100_000))
	for range 8 {
		enqueue(t, conn, outbox.Message{Topic: "orders.a", Payload: payload})
	}
	file := newFleetFile(t, "", broker.Addrs...)
	file.write(t, sourceLine("orders", orders.URL, "limits: {buffered_mb: 1}"))
	a := file.run(t, nil)
	broker.ReadAll(t, "orders.a", 8)
	pgtest.WaitFor(t, conn, `select max(position) = 8 from postrider.outbox_receipt`)
	// Four batches from behind holds, one that is read and one that is sent have 1 MiB together, so two events are too much for one.
	eventually(t, "each event is a batch", func() (bool, string) {
		_, metrics := get(t, a, "/metrics")
		_, count, there := strings.Cut(metrics, "\npostrider_outbox_batch_events_count{source=\"orders\"} ")
		count, _, _ = strings.Cut(count, "\n")
		if there && count != "8" {
			t.Fatalf("8 events of 100 kB were %s batches, and the source may have 1 MiB in hand", count)
		}
		return there, metrics
	})
}

// A source that is busy in every way, with a key that is retried, a topic that is missing, dead letters and a notifier, has no
// more connections than its limit.
func TestConnectionsOfASource(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	for _, topic := range []string{"orders.a", "orders.b", "postrider.dlq"} {
		broker.CreateTopic(t, topic, 1, small)
	}
	orders, conn := newSource(t)
	file := newFleetFile(t, "", broker.Addrs...)
	file.write(t, sourceLine("orders", orders.URL, "notifier: true"))
	a := file.run(t, nil)
	waitStates(t, a, map[string]SourceState{"orders": SourceLeading})
	const connections = `select count(*) from pg_stat_activity where datname = current_database() and application_name like 'postrider relay%'`
	writing, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	pool := orders.Pool(t)
	for i := range 3 {
		writers.Go(func() {
			for n := 0; writing.Err() == nil && n < 400; n++ {
				topic, payload := []string{"orders.a", "orders.b", "orders.missing"}[i], []byte("x")
				if n%20 == 0 {
					payload = []byte(strings.Repeat("x", 2*smallTopic)) // is given up
				}
				if _, err := pool.Exec(writing, `insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)`, topic, fmt.Appendf(nil, "k%d", n%7), payload); err != nil && writing.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	most := 0
	written := make(chan struct{})
	go func() { writers.Wait(); close(written) }()
	for busy := true; busy; {
		select {
		case <-written:
			busy = false
		default:
		}
		most = max(most, pgtest.Value[int](t, conn, connections))
	}
	stop()
	broker.CreateTopic(t, "orders.missing", 1, small)
	eventually(t, "all is done", func() (bool, string) {
		most = max(most, pgtest.Value[int](t, conn, connections))
		left := pgtest.Value[string](t, conn, `select coalesce(string_agg(distinct status, ' '), '') from postrider.v_outbox_event where status not in ('succeeded', 'dead_lettered')`)
		return left == "", left
	})
	if most > 4 || most < 2 {
		t.Errorf("it had up to %d connections", most)
	}
}
