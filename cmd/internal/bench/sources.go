package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// ledWithin is how long a process may take until it leads all sources.
const ledWithin = 2 * time.Minute

// sources lets one process lead many outboxes, each in a database of its own, to which nothing is written.
func sources(ctx context.Context, r *rig, b *broker, t *table) (err error) {
	folder, err := os.MkdirTemp("", "postrider-bench-sources-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	for i := range r.o.sources {
		d, err := r.newDatabase(ctx, fmt.Sprintf("bench_source_%d", i), true)
		if err != nil {
			return err
		}
		defer d.drop()
		if err := d.exec(ctx, fmt.Sprintf("select postrider.outbox_new_identity('s%d')", i)); err != nil { // all are copies of one database
			return err
		}
		if err := d.conn.Close(ctx); err != nil {
			return err
		}
		d.conn = nil
		file := fmt.Sprintf("name: s%d\nurl: %q\ntopics: {allow: [\"s%d.*\"]}\n", i, d.url, i)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("s%d.yaml", i)), []byte(file), 0o600); err != nil {
			return err
		}
	}
	if err := r.administer(ctx, "checkpoint"); err != nil { // or it is done beside what is measured
		return err
	}
	settings := filepath.Join(folder, ".settings.yaml") // a name that begins with a dot is no source
	if err := os.WriteFile(settings, fmt.Appendf(nil, "sources_dir: %q\n", folder), 0o600); err != nil {
		return err
	}
	var with, without []cpu
	var memory, connections, statements []float64
	for range r.o.runs {
		share, err := r.idleOnce(ctx, b, nil) // PostgreSQL looks into each database once a minute, whether it is used or not
		if err != nil {
			return err
		}
		without = append(without, share)
		r.say("sources: PostgreSQL %.2f %% of a core with nothing connected", share.database)
		one, err := r.carrySources(ctx, b, settings)
		if err != nil {
			return err
		}
		with, memory = append(with, one.cost), append(memory, one.memory)
		connections, statements = append(connections, one.connections), append(statements, one.transactions)
		r.say("sources: process %.2f %%, PostgreSQL %.2f %% of a core, %.1f connections and %.1f transactions a second each, %.2f MiB each",
			one.cost.side, one.cost.database, one.connections, one.transactions, one.memory)
	}
	t.add(b, fmt.Sprintf("%d quiet sources", r.o.sources), "defaults, roles relay and http",
		cell{Name: "process, % of a core", Runs: pick(with, func(c cpu) float64 { return c.side })},
		cell{Name: "PostgreSQL", Runs: pick(with, func(c cpu) float64 { return c.database })},
		cell{Name: "connections each", Runs: connections}, cell{Name: "transactions/s each", Runs: statements},
		cell{Name: "MiB each", Runs: memory})
	t.add(b, "nothing connected", "", cell{Name: "PostgreSQL", Runs: pick(without, func(c cpu) float64 { return c.database })})
	t.note("One process leads %d outboxes, each in a database of its own on one server, all empty. CPU time over %v, %v after all were led. MiB is the process's resident memory, shared out.",
		r.o.sources, r.o.idleDuration, r.o.sourcesSettle)
	return nil
}

// sourcesRun is what one run measured, for each source where that makes sense.
type sourcesRun struct {
	cost                              cpu // in percent of a core
	memory, connections, transactions float64
}

// carrySources runs a process until it leads all sources, and measures it while nothing is written.
func (r *rig) carrySources(ctx context.Context, b *broker, settings string) (one sourcesRun, err error) {
	c, err := r.startServe(b, "", map[string]string{"http.api": "false"}, "relay,http", "BENCH_CONFIG="+settings)
	if c != nil {
		defer func() { err = errors.Join(err, c.stop()) }()
	}
	if err != nil {
		return one, err
	}
	if err := c.start(); err != nil {
		return one, err
	}
	address, err := c.line()
	if err != nil {
		return one, err
	}
	if err := r.awaitLed(ctx, "http://"+address+"/metrics"); err != nil {
		return one, err
	}
	if err := loop.Sleep(ctx, r.o.sourcesSettle); err != nil {
		return one, err
	}
	before, err := r.transactions(ctx)
	if err != nil {
		return one, err
	}
	began := time.Now()
	if one.cost, err = r.idleOnce(ctx, b, c); err != nil {
		return one, err
	}
	after, err := r.transactions(ctx)
	if err != nil {
		return one, err
	}
	n := float64(r.o.sources)
	one.transactions = float64(after-before) / time.Since(began).Seconds() / n
	if one.memory, _, err = memoryOf(c.pid()); err != nil {
		return one, err
	}
	one.memory /= n
	r.mu.Lock()
	defer r.mu.Unlock()
	var open int64
	err = r.admin.QueryRow(ctx, "select count(*) from pg_stat_activity where datname like 'bench_source_%'").Scan(&open)
	one.connections = float64(open) / n
	return one, err
}

// transactions is how many transactions the databases of sources have had, as far as the statistics have them by now.
func (r *rig) transactions(ctx context.Context) (n int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.admin.QueryRow(ctx, "select coalesce(sum(xact_commit + xact_rollback), 0)::bigint from pg_stat_database where datname like 'bench_source_%'").Scan(&n)
	return n, err
}

// awaitLed waits until the process leads all sources, by its metrics.
func (r *rig) awaitLed(ctx context.Context, url string) error {
	want := fmt.Sprintf("postrider_sources{state=\"leading\"} %d\n", r.o.sources)
	for began := time.Now(); ; {
		page, err := ask(ctx, url)
		if err == nil && strings.Contains(page, want) {
			return nil
		}
		if time.Since(began) > ledWithin {
			return errors.Join(fmt.Errorf("the process does not lead %d sources within %v", r.o.sources, ledWithin), err)
		}
		if err := loop.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// ask reads a page.
func ask(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	return string(page), err
}
