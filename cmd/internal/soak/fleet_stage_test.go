package soak

import (
	"context"
	"fmt"
	"net/url"
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
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testenv/history"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
)

// fleetProcesses is how many processes share the sources: as many as a stage has links.
const fleetProcesses = relays + 1

// poisonLimit is the message limit of the topics of sources. Poison is over it, and its dead letter has all of it.
const poisonLimit = 50_000

// fleetStage is a desk with many sources: the desk's database and half of the sources on the server of the stage, the other
// half on a server of their own, and processes with everything that the product has.
type fleetStage struct {
	*stage
	far     *stage // a server of its own; its broker is that of the stage
	sources []*fleetSource
	// Settings of each process: its folder of sources, and the port of its API.
	folders []string
	ports   []int
}

// fleetSource is one source and what its writers heard.
type fleetSource struct {
	name, topic string
	server      *stage
	pool        *pgxpool.Pool // goes round all links
	work        *Workload

	mu     sync.Mutex
	writes []history.Write
}

// actsSchema counts what is done about events that were given up, by triggers that know of no command.
const actsSchema = `
create table soak.act (what text not null, event_id uuid not null);
create function soak.act() returns trigger language plpgsql security definer as $$
begin insert into soak.act values (tg_argv[0], new.event_id); return new; end $$;
create trigger soak_act_new after insert on postrider.outbox_event for each row when (new.kind = 'redrive') execute function soak.act('new');
create trigger soak_act_in_place after update on postrider.outbox_exception for each row
	when (old.state = 'dead_lettered' and new.state = 'parked') execute function soak.act('in_place');
create trigger soak_act_closed after update on postrider.outbox_exception for each row
	when (old.closed_at is null and new.closed_at is not null) execute function soak.act('closed');`

// newFleetStage starts the servers and the broker, and makes the sources.
func newFleetStage(t *testing.T, real bool, p pace, sources, rate int) *fleetStage {
	t.Helper()
	s := &fleetStage{stage: newStage(t, real, p)}
	s.far = &stage{t: t, pace: p, kafkaLinks: s.kafkaLinks, jars: s.jars}
	for range fleetProcesses {
		s.far.pgLinks = append(s.far.pgLinks, s.link())
	}
	s.far.startPostgres()
	for i := range sources {
		server := []*stage{s.far, s.stage}[i%2]
		s.sources = append(s.sources, s.newSource(fmt.Sprintf("source-%02d", i), server, rate, seed(t)+uint64(i)))
	}
	for range fleetProcesses {
		port, err := kafkajars.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		s.folders, s.ports = append(s.folders, t.TempDir()), append(s.ports, port)
	}
	for _, source := range s.sources {
		s.write(source, false)
	}
	return s
}

// newSource makes a database, a topic, and who writes.
func (s *fleetStage) newSource(name string, server *stage, rate int, seed uint64) *fleetSource {
	s.t.Helper()
	ctx := s.t.Context()
	database := strings.ReplaceAll(name, "-", "_")
	if _, err := server.pool.Exec(ctx, "create database "+database); err != nil {
		s.t.Fatal(err)
	}
	address := databaseAt(s.t, server.pg.URL(), "", database)
	if err := migrated(ctx, address); err != nil {
		s.t.Fatal(err)
	}
	source := &fleetSource{name: name, topic: name + ".events", server: server, pool: s.smallPool(address)}
	if err := s.admin.create(ctx, source.topic, 3, map[string]string{
		"message.timestamp.type": "LogAppendTime", "max.message.bytes": fmt.Sprint(poisonLimit)}); err != nil {
		s.t.Fatal(err)
	}
	source.work = &Workload{Pool: s.smallPool(databaseAt(s.t, server.writersCommits.URL(), "", database)), Topics: []string{source.topic}, Keys: 50, Rate: rate,
		Writers: 2, PoisonEvery: 60, PoisonBytes: poisonLimit + 10_000, Seed: seed, Heard: func(write history.Write) {
			source.mu.Lock()
			defer source.mu.Unlock()
			source.writes = append(source.writes, write)
		}}
	if err := source.work.Prepare(ctx); err != nil {
		s.t.Fatal(err)
	}
	if _, err := source.pool.Exec(ctx, actsSchema); err != nil {
		s.t.Fatal(err)
	}
	return source
}

func (s *fleetStage) smallPool(address string) *pgxpool.Pool {
	s.t.Helper()
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		s.t.Fatal(err)
	}
	c.MaxConns, c.ConnConfig.ConnectTimeout = 3, 2*time.Second
	pool, err := pgxpool.NewWithConfig(s.t.Context(), c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(pool.Close)
	return pool
}

// databaseAt is the address of another database, by way of a host if one is given.
func databaseAt(t *testing.T, address, host, database string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		u.Host = host
	}
	u.Path = "/" + database
	return u.String()
}

// write writes the settings of a source for each process. The address goes by the links of the process, or round them.
func (s *fleetStage) write(source *fleetSource, round bool) {
	s.t.Helper()
	for i, folder := range s.folders {
		host := source.server.pgLinks[i].Addr()
		if round {
			host = ""
		}
		address := databaseAt(s.t, source.server.pg.URL(), host, strings.ReplaceAll(source.name, "-", "_"))
		s.put(folder, source.name, fmt.Sprintf("name: %s\nurl: %q\ntopics: {allow: [%q]}\n", source.name, address, source.topic))
	}
}

// put replaces a file of settings as a whole.
func (s *fleetStage) put(folder, name, text string) {
	part := filepath.Join(folder, "."+name)
	if err := os.WriteFile(part, []byte(text), 0o600); err != nil {
		s.t.Error(err)
		return
	}
	if err := os.Rename(part, filepath.Join(folder, name+".yaml")); err != nil {
		s.t.Error(err)
	}
}

// reload has the processes read their settings.
func (s *fleetStage) reload() {
	for _, a := range s.actors {
		_ = a.signal(syscall.SIGHUP) // a process that is dead reads them when it starts
	}
}

// perform starts the processes under their supervisors.
func (s *fleetStage) perform(product string) {
	s.t.Helper()
	for i := range fleetProcesses {
		file := filepath.Join(s.t.TempDir(), "postrider.yaml")
		text := fmt.Sprintf("sources_dir: %q\noutbox: {after_last_attempt: halt_key, storm_events: 0, publish_timeout_ms: %d}\n",
			s.folders[i], s.pace.publish.Milliseconds())
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
		env := append(os.Environ(), "DATABASE_URL="+s.through(s.pgLinks[i].Addr()), "KAFKA_BROKERS="+s.kafkaLinks[i].Addr(),
			"DLQ_TOPIC="+s.topics.dlq, "LOG_LEVEL=warn")
		// One that is told to read its settings before it listens for the signal ends by it.
		s.actors = append(s.actors, &actor{name: fmt.Sprintf("process-%d", i), mayExit: true, log: newLog(s.t, fmt.Sprintf("process-%d", i)), command: func() *exec.Cmd {
			return withEnv(exec.Command(product, "serve", "--config", file, "--http", fmt.Sprintf("127.0.0.1:%d", s.ports[i])), env)
		}})
	}
	s.supervise()
}

// panicked are the processes that said so.
func (s *fleetStage) panicked() []string {
	var all []string
	for _, a := range s.actors {
		if said := a.log.String(); strings.Contains(said, "panic:") || strings.Contains(said, "DATA RACE") {
			all = append(all, a.name+":\n"+said)
		}
	}
	return all
}

// clear waits until no source has anything to carry and the desk has no investigation that is open and no command without an answer.
// It says what is left when time is up.
func (s *fleetStage) clear(ctx context.Context) (left []string) {
	for {
		left = nil
		for _, source := range s.sources {
			if n, err := countOf(ctx, source.pool, `select count(*) from postrider.v_outbox_event where state not in ('published', 'dead_lettered')`); n != 0 || err != nil {
				left = append(left, fmt.Sprintf("%s: %d events wait, %v", source.name, n, err))
			}
			if n, err := countOf(ctx, source.pool, `select count(*) from postrider.outbox_exception where state = 'dead_lettered' and closed_at is null`); n != 0 || err != nil {
				left = append(left, fmt.Sprintf("%s: %d events are given up and not closed, %v", source.name, n, err))
			}
		}
		for what, query := range map[string]string{
			"investigations are open": `select count(*) from postrider.dlq_entry where resolution_status = 'pending'`,
			"commands have no answer": `select count(*) from postrider.dlq_command where answered_at is null`,
			"redrives have no end":    `select count(*) from postrider.dlq_redrive where outcome is null`,
		} {
			if n, err := countOf(ctx, s.pool, query); n != 0 || err != nil {
				left = append(left, fmt.Sprintf("the desk: %d %s, %v", n, what, err))
			}
		}
		if len(left) == 0 || ctx.Err() != nil {
			slices.Sort(left)
			return left
		}
		rest(100 * time.Millisecond)
	}
}

func countOf(ctx context.Context, pool *pgxpool.Pool, query string) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // the last look counts when time is up, too
	defer cancel()
	return n, pool.QueryRow(ctx, query).Scan(&n)
}

// pairs reads two columns of text.
func pairs(ctx context.Context, pool *pgxpool.Pool, query string, args ...any) (map[string]string, error) {
	rows, err := pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	var a, b string
	_, err = pgx.ForEachRow(rows, []any{&a, &b}, func() error { all[a] = b; return nil })
	return all, err
}
