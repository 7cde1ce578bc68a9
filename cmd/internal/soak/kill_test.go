package soak

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/history"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// steps are the moments at which the crashchild dies, between them every step of the cycle.
var steps = []string{
	"leading", "led", "reading", "read", "publishing", "acknowledged", "settling", "settled", "taking", "taken",
	"letters claimed", "letters acknowledged", "letters settling",
}

// atOnce is how many of these tests run at the same time, unless -parallel says otherwise: they mostly wait.
const atOnce = 4

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kafkatest.Main(withPostgres{m})
}

// withPostgres nests one rig in the other, so that both stop what they started.
type withPostgres struct{ m *testing.M }

func (r withPostgres) Run() int { return pgtest.Run(buildtest.In(r.m)) }

// duration is how long a soak runs: seconds among the other tests, SOAK_SECONDS in
// `make soak`.
func duration(t *testing.T, short time.Duration) time.Duration {
	s := os.Getenv("SOAK_SECONDS")
	if s == "" {
		return short
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("SOAK_SECONDS=%q is not a number of seconds", s)
	}
	return time.Duration(n) * time.Second
}

// each runs a test on both kinds of broker in `make soak`; among the other tests on the real one, where there is one.
func each(t *testing.T, test func(t *testing.T, b *kafkatest.Broker)) {
	if b := kafkatest.Real(t); duration(t, 0) == 0 && b.Real() {
		test(t, b)
		return
	}
	kafkatest.Each(t, test)
}

// TestKilledAtEveryStep writes at a steady rate while the relay is killed again and again, and judges
// what arrived: nothing lost, invented or out of order, every poison event one investigation's worth
// of dead letter. It goes on until the relay has died at each of the steps.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *kafkatest.Broker) {
		ctx := t.Context()
		db := pgtest.New(t)
		pool := db.Pool(t)
		topics := []string{b.Topic(t, 4, nil), b.Topic(t, 4, nil), b.Topic(t, 1, nil)}
		dlq := b.Topic(t, 3, nil)
		w := &Workload{Pool: pool, Topics: topics, Keys: 500, Rate: 2000, PoisonEvery: 200, Seed: seed(t)}
		if err := w.Prepare(ctx); err != nil {
			t.Fatal(err)
		}
		binary := buildtest.Program(t, "cmd/internal/soak/crashchild")
		kills, n := map[string]int{}, 0
		missed := func() []string {
			return slices.DeleteFunc(slices.Clone(steps), func(step string) bool { return kills[step] > 0 })
		}
		enough := func() bool { return len(missed()) == 0 }
		w.runUnder(t, duration(t, 7*time.Second), 100*time.Millisecond, 400*time.Millisecond, enough, func(writing context.Context, pause time.Duration) {
			step := steps[n%len(steps)]
			n++
			// On a busy machine a relay may die before it has settled anything, again and again, and an event that is
			// tried alone after three deaths must not be there for five more. So every fourth settles something first.
			var env []string
			switch {
			case step == "leading" || step == "led": // the first thing that it does
				pause = time.Nanosecond
			case n%4 == 0:
				env = []string{"CRASHCHILD_AFTER_WORK=yes"}
			}
			p := crashchild(t, binary, db.URL, b, dlq, step, pause, env...)
			switch {
			case !p.killed(writing, pause+10*time.Second):
				kills["at any time"]++
			case !killed(p.cmd.ProcessState):
				t.Fatalf("the relay ended by itself, %v:\n%s", p.cmd.ProcessState, p.log)
			default:
				kills[step]++
			}
		})
		last := crashchild(t, binary, db.URL, b, dlq, "", 0)
		drained(t, pool)
		last.stop(t)

		t.Logf("kills %v", kills)
		for _, step := range missed() {
			t.Errorf("no relay died at the step %q, in %d lives", step, n)
		}
		v := w.judge(t, b, dlq)
		if v.DeadLettered == 0 || v.Delivered == 0 {
			t.Error("nothing was tested")
		}
	})
}

// extension is how much longer than its time a run goes on at most.
const extension = 2 * time.Minute

// runUnder runs the workload for some time, and until there was enough, while kill is called again and again, each time
// with the pause after which it is to come: between the two, and longer when there is much time.
func (w *Workload) runUnder(t *testing.T, total, shortest, longest time.Duration, enough func() bool, kill func(writing context.Context, pause time.Duration)) {
	t.Helper()
	if total > 30*time.Second {
		shortest, longest = 3*time.Second, 6*time.Second
	}
	began := time.Now()
	writing, stop := context.WithTimeout(t.Context(), total+extension)
	defer stop()
	written := make(chan error, 1)
	go func() { written <- w.Run(writing) }()
	rng := rand.New(rand.NewPCG(w.Seed, 77))
	for writing.Err() == nil && (time.Since(began) < total || !enough()) {
		kill(writing, shortest+time.Duration(rng.Int64N(int64(longest-shortest))))
	}
	stop()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}

// judge logs the events that were written and their outcomes, and fails the test if an outcome is not right.
func (w *Workload) judge(t *testing.T, b *kafkatest.Broker, dlq string) history.Verdict {
	t.Helper()
	v := judge(t, w.Pool, b, dlq, w.Topics)
	t.Logf("%s: seed %d, written %d, rolled back %d, poison %d", b, w.Seed, w.Written.Load(), w.RolledBack.Load(), w.Poison.Load())
	t.Logf("%s: %s", b, v)
	if err := v.Err(); err != nil {
		t.Error(err)
	}
	return v
}

func seed(t *testing.T) uint64 {
	if s := os.Getenv("SOAK_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("SOAK_SEED=%q is not a number", s)
		}
		return n
	}
	return rand.Uint64()
}

func judge(t *testing.T, pool *pgxpool.Pool, b *kafkatest.Broker, dlq string, topics []string) history.Verdict {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	committed, err := Committed(ctx, pool)
	if err != nil {
		t.Fatal(err)
	}
	reads, err := Reads(ctx, b.Addrs, topics...)
	if err != nil {
		t.Fatal(err)
	}
	var dead []string
	if dlq != "" {
		if dead, err = DeadLetters(ctx, pool, b.Addrs, dlq); err != nil {
			t.Fatal(err)
		}
	}
	return history.Check(committed, reads, dead)
}
