package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestMain lets the test binary play the children too: the bench starts itself for them.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch role := os.Args[1]; {
		case strings.HasPrefix(role, "child-"):
			play(role, func(ctx context.Context) error { return runChild(ctx, role) })
		case role == "load" || role == "work":
			play(role, playPeer)
		}
	}
	// The race detector keeps a process that ends for another second. There are some fifty here.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kafkatest.Main(m)
}

// play is a child's whole process.
func play(role string, part func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := part(ctx); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// playPeer stands in for the program in the folder peers, whose modules the tests of the product do without: it keeps to
// the same words and produces the same records. A load only tells it the number of events, in a table of one row.
func playPeer(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, os.Getenv("PEER_DATABASE"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if os.Args[1] == "load" {
		if _, err := conn.Exec(ctx, "create table if not exists loaded (n int)"); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "insert into loaded values ($1)", os.Getenv("PEER_EVENTS"))
		return err
	}
	ctx, g := newGate(ctx, os.Stdin)
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("PEER_BROKER")), kgo.DisableClientMetrics())
	if err != nil {
		return err
	}
	defer client.Close()
	if err := g.await(ctx); err != nil {
		return err
	}
	for done := 0; ctx.Err() == nil; {
		var events int
		if err := conn.QueryRow(ctx, "select coalesce(sum(n), 0) from loaded").Scan(&events); err != nil && ctx.Err() == nil {
			return err
		}
		for ; done < events; done++ {
			client.Produce(ctx, &kgo.Record{Topic: os.Getenv("PEER_TOPIC"), Value: body(done, 100)}, nil)
		}
		_ = loop.Sleep(ctx, everyTime)
	}
	return nil
}

// tiny are sizes at which every scenario takes seconds. All sides drain a backlog; in the other scenarios a side is one
// of two. Of nine sources each of three processes leads some, whatever its number.
var tiny = []string{"-brokers", "kfake", "-runs", "1", "-events", "800", "-warm", "300", "-duration", "400ms",
	"-sides", "postrider,floor", "-every-side", "-inserts", "200", "-insert-rounds", "2",
	"-takeovers", "1", "-takeover-calm", "300ms", "-hot-events", "500", "-burst-events", "900",
	"-rate", "200", "-slow-duration", "600ms", "-clients", "4", "-flat-warm", "1000", "-flat-window", "24000", "-flat-pending", "40000",
	"-flat-published", "2000", "-flat-parked", "500", "-faults-events", "30000", "-idle-duration", "500ms", "-peer-events", "300",
	"-stale-healthy", "1000,2000", "-stale-tasks", "150", "-stale-detectors", "2", "-archive-tasks", "600", "-view-tasks", "1000",
	"-redrive-entries", "1200", "-redrive-rated", "300",
	"-api-entries", "4000", "-api-rate", "100", "-api-duration", "500ms", "-api-asks", "2",
	"-console-tasks", "500", "-console-rate", "20", "-console-duration", "1s", "-screens", "5", "-console-together", "3", "-screens-duration", "300ms",
	"-letters", "600", "-sources", "3", "-busy-servers", "2", "-busy-sources", "3", "-killed-sources", "9", "-sources-settle", "100ms", "-consumer-records", "3000", "-consumer-slow-records", "100",
	"-hour-duration", "1200ms", "-hour-rate", "200", "-keys", "50"}

// figures are the cells that a row of each scenario must have.
var figures = map[string]struct {
	rows  int
	cells []string
}{
	"drain":     {6, []string{"events/s", "CPU s per 100k: side", "PostgreSQL", "broker", "copies", "missing", "out of order"}},
	"slow":      {4, []string{"events/s", "times a day's poller", "peak MiB", "copies", "missing", "out of order"}},
	"writers":   {8, []string{"commits/s", "writers' backends", "PostgreSQL beside them", "WAL bytes an event"}},
	"inserts":   {9, []string{"µs", "WAL bytes"}},
	"steady":    {4, []string{"commit p50 ms", "PostgreSQL beside them", "WAL bytes an event"}},
	"takeover":  {1, []string{"takeover ms", "longest event ms"}},
	"hotkey":    {2, []string{"others' p99 ms", "missing"}},
	"burst":     {2, []string{"others' longest ms", "missing"}},
	"flat":      {4, []string{"events/s", "PostgreSQL"}},
	"faults":    {2, []string{"events/s of healthy topics", "PostgreSQL"}},
	"memory":    {2, []string{"peak MiB (VmHWM)", "at the end MiB (RSS)"}},
	"idle":      {2, []string{"PostgreSQL"}},
	"sources":   {3, []string{"PostgreSQL"}},
	"busy":      {3, []string{"event p99 ms", "missing"}},
	"killed":    {3, []string{"all move after ms", "missing"}},
	"commands":  {2, []string{"p95 ms"}},
	"telemetry": {3, []string{"events/s", "PostgreSQL"}},
	"stale":     {5, nil},
	"archive":   {8, nil},
	"redrive":   {3, []string{"investigations/s"}},
	"api":       {23, []string{"p50 ms", "longest ms"}},
	"console":   {25, nil},
	"hour":      {3, []string{"events/s", "p99 ms", "table MiB", "dead rows"}},
	"consumer":  {4, []string{"records/s"}},
	"collector": {1, []string{"letters/s"}},
}

func TestEveryScenario(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rigWith := func(args ...string) *rig {
		o, err := parse(slices.Concat(tiny, []string{"-scenario", strings.Join(order, ","), "-peers-binary", self}, args), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRig(t.Context(), o, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.close)
		return r
	}
	two, all := rigWith(), rigWith("-sides", "postrider,floor,logical,poller,watermill,river-tuned")
	for _, name := range order {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each has its broker and its databases, and mostly waits
			r := two
			if name == "drain" {
				r = all
			}
			got, err := r.measure(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			want := figures[name]
			if len(got.Rows) != want.rows {
				t.Errorf("%d rows, want %d", len(got.Rows), want.rows)
			}
			for _, name := range want.cells {
				checkCells(t, got.Rows, name, r.o.runs)
			}
			got.print(t.Output())
			if _, err := json.Marshal(got); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkCells wants a figure of every run in every row. How large they are says
// nothing on a machine that tests share, but something must have passed.
func checkCells(t *testing.T, rows []row, name string, runs int) {
	t.Helper()
	sum := 0.0
	for _, r := range rows {
		i := slices.IndexFunc(r.Cells, func(c cell) bool { return c.Name == name })
		if i < 0 {
			t.Errorf("%s has no figure %q", r.Case, name)
			continue
		}
		if got := len(r.Cells[i].Runs); got < runs {
			t.Errorf("%s: %d runs of %q, want at least %d", r.Case, got, name, runs)
		}
		sum += median(r.Cells[i].Runs)
	}
	if strings.HasSuffix(name, "/s") && !(sum > 0) {
		t.Errorf("nothing passed: %q is %v in all", name, sum)
	}
}
