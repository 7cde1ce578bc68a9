package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/postrider/postrider/cmd/internal/bench/baseline"
)

// program is a side that is one of the programs of the package baseline.
type program struct {
	alone
	name, settings string
	role           string // of the child that runs it
	decoding       bool   // it reads a slot
}

var (
	floorSide = program{alone: alone{bare}, name: "floor", settings: "reads in id order and produces, no bookkeeping", role: "child-floor"}
	// logicalSide is what a team would write that trusts the log.
	logicalSide = program{alone: alone{bare}, name: "logical decoding", settings: "pgoutput to franz-go, 100 lines", role: "child-logical", decoding: true}
	pollerSide  = program{alone: alone{polled}, name: "a day's poller", settings: "SKIP LOCKED LIMIT 2000, produce, DELETE", role: "child-poller"}
)

func (p program) title() (name, settings string) { return p.name, p.settings }

// publication is what slots are read with.
const publication = "bench"

// decode makes a publication of a table and a slot with the database's name.
func decode(ctx context.Context, d *database, t *outboxTable) error {
	return d.exec(ctx, "create publication "+publication+" for table "+t.from.Sanitize()+" with (publish = 'insert')",
		"select pg_create_logical_replication_slot('"+d.name+"', 'pgoutput')")
}

func (p program) prepare(ctx context.Context, s *stage) error {
	if !p.decoding {
		return nil
	}
	return decode(ctx, s.d, &p.table)
}

func (p program) start(_ context.Context, s *stage) (process, error) {
	work, err := json.Marshal(baseline.Work{Database: s.d.url, Broker: s.b.address, Slot: s.d.name, Publication: publication})
	if err != nil {
		return nil, err
	}
	c, err := startSelf(p.role, "BENCH_WORK="+string(work))
	if err != nil {
		return nil, err
	}
	if err = c.ready(); err == nil {
		err = c.start()
	}
	return c, err
}

// runBaseline plays one of the baseline programs.
func runBaseline(ctx context.Context, g *gate, run func(context.Context, baseline.Work) error) error {
	var w baseline.Work
	if err := json.Unmarshal([]byte(os.Getenv("BENCH_WORK")), &w); err != nil {
		return fmt.Errorf("BENCH_WORK: %w", err)
	}
	if err := g.await(ctx); err != nil {
		return err
	}
	return run(ctx, w)
}
