package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// sharedProcesses share sharedSources, each with a database, a topic and writers of its own.
const sharedProcesses, sharedSources = 3, 6

// shared are sources that several processes of the product carry.
type shared struct {
	t         *testing.T
	broker    *kafkatest.Broker
	loads     []*Workload
	dlq       string
	binary    string
	file      string // of the settings
	processes []*process
	started   []*process // all that there ever were
}

// share makes the sources and starts the processes.
func share(t *testing.T, b *kafkatest.Broker) *shared {
	t.Helper()
	s := &shared{t: t, broker: b, dlq: b.Topic(t, 3, nil), binary: buildtest.Program(t, "cmd/postrider"), file: filepath.Join(t.TempDir(), "postrider.yaml")}
	settings := "http: {api: false}\nsources:\n"
	for i := range sharedSources {
		db := pgtest.New(t)
		pool := db.Pool(t)
		if _, err := pool.Exec(t.Context(), `update postrider.outbox_source set source_uuid = gen_random_uuid()`); err != nil {
			t.Fatal(err)
		}
		w := &Workload{Pool: pool, Topics: []string{b.Topic(t, 3, nil)}, Keys: 100, Rate: 150, Writers: 4, PoisonEvery: 300, Seed: seed(t) + uint64(i)}
		if err := w.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.loads = append(s.loads, w)
		settings += fmt.Sprintf("  - {name: source-%d, url: %q, topics: {allow: [%q]}}\n", i, db.URL, w.Topics[0])
	}
	if err := os.WriteFile(s.file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	for range sharedProcesses {
		s.processes = append(s.processes, s.start())
	}
	return s
}

func (s *shared) start() *process {
	s.t.Helper()
	p := run(s.t, s.binary, []string{"serve", "--config", s.file, "--roles", "relay,http", "--http", "127.0.0.1:0"}, "", s.broker, "DLQ_TOPIC="+s.dlq, "LOG_LEVEL=info")
	s.started = append(s.started, p)
	return p
}

// warnings are what the processes said that was no mere information.
func (s *shared) warnings() string {
	var all []string
	for i, p := range s.started {
		for line := range strings.Lines(p.log.String()) {
			if !strings.Contains(line, `"level":"INFO"`) {
				all = append(all, fmt.Sprint(i, ": ", line))
			}
		}
	}
	return strings.Join(all, "")
}

// write has all sources written to until ctx ends. The function that it returns waits for the writers.
func (s *shared) write(ctx context.Context) (written func()) {
	var writers sync.WaitGroup
	for _, w := range s.loads {
		writers.Go(func() {
			if err := w.Run(ctx); err != nil {
				s.t.Error(err)
			}
		})
	}
	return writers.Wait
}

// membersHere counts the processes that see one another in this database; see app.members.
const membersHere = `select count(*) from pg_catalog.pg_locks l where l.locktype = 'advisory' and l.classid = 1349481299::oid and l.objsubid = 2
	and l.granted and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())`

// awaitShares waits until the processes see one another, and each source is led.
func (s *shared) awaitShares() {
	s.t.Helper()
	until(s.t, s.loads[0].Pool, "processes are missing", fmt.Sprintf(`select %d - (%s)`, sharedProcesses, membersHere)) // the home is the first source by name
	for _, w := range s.loads {
		until(s.t, w.Pool, "sources have no leader", `select 1 - leads::int from postrider.outbox_leader`)
	}
}

// drain waits until nothing waits in any source, ends the processes and judges each source by itself. It returns how many surplus
// copies there are in all.
func (s *shared) drain() (copies int) {
	s.t.Helper()
	for _, w := range s.loads {
		drained(s.t, w.Pool)
	}
	for _, p := range s.processes {
		p.stop(s.t)
	}
	dead := 0
	for i, w := range s.loads {
		v := w.judge(s.t, s.broker, s.dlq)
		if dead += v.DeadLettered; v.Delivered == 0 {
			s.t.Errorf("source %d delivered nothing: the run says nothing", i)
		}
		copies += v.Duplicates
	}
	if dead == 0 {
		s.t.Error("no event was given up: the run says little")
	}
	return copies
}

// TestSourcesKilled: three processes share many databases, and are killed one after the other while all of them are written
// to. Each source is judged by itself: nothing is lost, and no key is out of order.
func TestSourcesKilled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *kafkatest.Broker) {
		s := share(t, b)
		writing, stop := context.WithTimeout(t.Context(), duration(t, 8*time.Second)+extension)
		defer stop()
		written := s.write(writing)
		rng := rand.New(rand.NewPCG(s.loads[0].Seed, 78))
		kills, began := 0, time.Now()
		for writing.Err() == nil && (kills < sharedProcesses || time.Since(began) < duration(t, 8*time.Second)) {
			i := rng.IntN(sharedProcesses)
			if s.processes[i].killed(writing, time.Second+time.Duration(rng.Int64N(int64(time.Second)))) {
				t.Fatalf("a process ended by itself:\n%s", s.processes[i].log)
			}
			s.processes[i] = s.start()
			kills++
		}
		stop()
		written()
		copies := s.drain()
		t.Logf("%d kills, %d copies", kills, copies)
	})
}

// termsOf counts the terms of an outbox, the ones among them in which nothing was done, and the others that were not handed over.
const termsOf = `select count(*) filter (where began), count(*) filter (where began and not ended and n = 1), count(*) filter (where began and not ended and n > 1)
	from (select term, count(*) as n, bool_or(note is not distinct from 'began') as began, bool_or(note is not distinct from 'ended') as ended
		from postrider.outbox_receipt group by term) t`

// TestSourcesRestarted: three processes share many databases, and each in turn is ended by SIGTERM and started again while all of
// them are written to and the brokers answer. Each source is judged by itself: nothing is lost, no key is out of order, and no
// record is there twice. A term is handed over, unless its process is
// ended before it has begun to work.
//
// It restarts three times, and thirty times in `make soak`.
func TestSourcesRestarted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *kafkatest.Broker) {
		restarts := sharedProcesses
		if duration(t, 0) > 0 {
			restarts = 30
		}
		s := share(t, b)
		s.awaitShares()
		writing, stop := context.WithCancel(t.Context())
		defer stop()
		written := s.write(writing)
		began := time.Now()
		for i := range restarts {
			rest(time.Second) // under load
			s.processes[i%sharedProcesses].stop(t)
			s.processes[i%sharedProcesses] = s.start()
			s.awaitShares()
		}
		rest(time.Second)
		took := time.Since(began)
		stop()
		written()
		if copies := s.drain(); copies > 0 {
			t.Errorf("%d records are there twice, and nothing was broken", copies)
		}
		moved, idle := 0, 0
		for i, w := range s.loads {
			var terms, unused, kept int
			if err := w.Pool.QueryRow(t.Context(), termsOf).Scan(&terms, &unused, &kept); err != nil {
				t.Fatal(err)
			}
			if moved, idle = moved+terms-1, idle+unused; kept > 0 {
				t.Errorf("source %d was led %d times, and %d terms that did something were not handed over; the processes warned:\n%s", i, terms, kept, s.warnings())
			}
		}
		if moved < restarts {
			t.Errorf("%d restarts moved %d leaders: the run says little", restarts, moved)
		}
		t.Logf("%d restarts within %v moved %d leaders; %d terms ended before they had begun to work", restarts, took.Round(time.Second), moved, idle)
	})
}
