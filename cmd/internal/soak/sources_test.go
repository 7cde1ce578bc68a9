package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestSourcesKilled: three processes share many databases, and are killed one after the other while all of them are written
// to. Each source is judged by itself: nothing is lost, and no key is out of order.
func TestSourcesKilled(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		const databases, processes = 6, 3
		dlq := b.Topic(t, 3, nil)
		var loads []*Workload
		settings := "http: {api: false}\nsources:\n"
		for i := range databases {
			db := pgtest.New(t)
			pool := db.Pool(t)
			if _, err := pool.Exec(t.Context(), `update postrider.outbox_source set source_uuid = gen_random_uuid()`); err != nil {
				t.Fatal(err)
			}
			w := &Workload{Pool: pool, Topics: []string{b.Topic(t, 3, nil)}, Keys: 100, Rate: 150, Writers: 4, PoisonEvery: 300, Seed: seed(t) + uint64(i)}
			if err := w.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			loads = append(loads, w)
			settings += fmt.Sprintf("  - {name: source-%d, url: %q, topics: {allow: [%q]}}\n", i, db.URL, w.Topics[0])
		}
		file := filepath.Join(t.TempDir(), "postrider.yaml")
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		binary := buildtest.Program(t, "cmd/postrider")
		start := func() *process {
			return run(t, binary, []string{"serve", "--config", file, "--roles", "relay,http", "--http", "127.0.0.1:0"}, "", b, "DLQ_TOPIC="+dlq, "LOG_LEVEL=info")
		}
		running := make([]*process, processes)
		for i := range running {
			running[i] = start()
		}
		writing, stop := context.WithTimeout(t.Context(), duration(t, 8*time.Second)+extension)
		defer stop()
		var writers sync.WaitGroup
		for _, w := range loads {
			writers.Go(func() {
				if err := w.Run(writing); err != nil {
					t.Error(err)
				}
			})
		}
		rng := rand.New(rand.NewPCG(loads[0].Seed, 78))
		kills, began := 0, time.Now()
		for writing.Err() == nil && (kills < processes || time.Since(began) < duration(t, 8*time.Second)) {
			i := rng.IntN(processes)
			if running[i].killed(writing, time.Second+time.Duration(rng.Int64N(int64(time.Second)))) {
				t.Fatalf("a process ended by itself:\n%s", running[i].log)
			}
			running[i] = start()
			kills++
		}
		stop()
		writers.Wait()
		for _, w := range loads {
			drained(t, w.Pool)
		}
		for _, p := range running {
			p.stop(t)
		}
		t.Logf("%d kills", kills)
		dead := 0
		for i, w := range loads {
			v := w.judge(t, b, dlq)
			if dead += v.DeadLettered; v.Delivered == 0 {
				t.Errorf("source %d delivered nothing: the run says nothing", i)
			}
		}
		if dead == 0 {
			t.Error("no event was given up: the run says little")
		}
	})
}
