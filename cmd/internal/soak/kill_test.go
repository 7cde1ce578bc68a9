package soak

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay/history"
	"github.com/postrider/postrider/relay/kafka/kafkatest"
)

// steps are the moments at which the victim dies, between them every step of the cycle.
var steps = []string{
	"claiming", "claimed", "marked", "publishing", "acknowledged", "settling", "settled",
	"letters claimed", "letters acknowledged", "letters settling", "returning",
}

func TestMain(m *testing.M) { kafkatest.Main(withPostgres{m}) }

// withPostgres nests one rig in the other, so that both stop what they started.
type withPostgres struct{ m *testing.M }

func (r withPostgres) Run() int { return pgtest.Run(r.m) }

// duration is how long a soak runs: seconds among the other tests, POSTRIDER_SOAK_SECONDS in
// `make soak`.
func duration(t *testing.T, short time.Duration) time.Duration {
	s := os.Getenv("POSTRIDER_SOAK_SECONDS")
	if s == "" {
		return short
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("POSTRIDER_SOAK_SECONDS=%q is not a number of seconds", s)
	}
	return time.Duration(n) * time.Second
}

// TestKilledAtEveryStep writes at a steady rate while the relay is killed again and again, and judges
// what arrived: nothing lost, invented or out of order, every poison event one investigation's worth
// of dead letter.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		ctx := t.Context()
		db := pgtest.New(t)
		pool := db.Pool(t)
		topics := []string{b.Topic(t, 4, nil), b.Topic(t, 4, nil), b.Topic(t, 1, nil)}
		dlq := b.Topic(t, 3, nil)
		w := &Workload{Pool: pool, Topics: topics, Keys: 500, Rate: 2000, PoisonEvery: 800, Seed: seed(t)}
		if err := w.Prepare(ctx); err != nil {
			t.Fatal(err)
		}
		binary := build(t)
		total := duration(t, 12*time.Second)
		pauseMin, pauseMax := 300*time.Millisecond, 900*time.Millisecond
		if total > 30*time.Second {
			pauseMin, pauseMax = 3*time.Second, 6*time.Second
		}

		writing, stopWriting := context.WithTimeout(ctx, total)
		defer stopWriting()
		written := make(chan error, 1)
		go func() { written <- w.Run(writing) }()
		rng := rand.New(rand.NewPCG(w.Seed, 77))
		kills := map[string]int{}
		for n := 0; writing.Err() == nil; n++ {
			step := steps[n%len(steps)]
			pause := pauseMin + time.Duration(rng.Int64N(int64(pauseMax-pauseMin)))
			if victim(t, binary, db.URL, b, dlq, step, pause).killed(writing, pause+3*time.Second) {
				kills[step]++
			} else {
				kills["at any time"]++
			}
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		last := victim(t, binary, db.URL, b, dlq, "", 0)
		drained(t, pool)
		last.stop(t)

		v := judge(t, pool, b, dlq, topics)
		t.Logf("%s: seed %d, written %d, rolled back %d, poison %d, kills %v", b, w.Seed, w.Written.Load(), w.RolledBack.Load(), w.Poison.Load(), kills)
		t.Logf("%s: %s", b, v)
		if err := v.Err(); err != nil {
			t.Error(err)
		}
		if v.DeadLettered == 0 || v.Delivered == 0 {
			t.Error("nothing was tested")
		}
	})
}

func seed(t *testing.T) uint64 {
	if s := os.Getenv("POSTRIDER_SOAK_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("POSTRIDER_SOAK_SEED=%q is not a number", s)
		}
		return n
	}
	return rand.Uint64()
}

func build(t *testing.T) string {
	t.Helper()
	binary := t.TempDir() + "/victim"
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./victim").CombinedOutput(); err != nil {
		t.Fatalf("build the victim: %v\n%s", err, out)
	}
	return binary
}

type process struct {
	cmd  *exec.Cmd
	done chan error
	log  *bytes.Buffer
}

func victim(t *testing.T, binary, url string, b *kafkatest.Broker, dlq, step string, after time.Duration) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary), done: make(chan error, 1), log: &bytes.Buffer{}}
	p.cmd.Env = append(os.Environ(), "DATABASE_URL="+url, "KAFKA_BROKERS="+strings.Join(b.Addrs, ","), "VICTIM_DLQ="+dlq)
	if step != "" {
		p.cmd.Env = append(p.cmd.Env, "VICTIM_STEP="+step, fmt.Sprintf("VICTIM_AFTER_MS=%d", after.Milliseconds()))
	}
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// killed waits for the victim to die at its step; when the step does not come in time, or the run
// ends, it is killed from outside. It reports which.
func (p *process) killed(ctx context.Context, within time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(within):
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return false
}

// stop ends the process as an operator would; it must exit cleanly.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.done:
		if err != nil {
			t.Fatalf("the relay did not stop cleanly: %v\n%s", err, p.log)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("the relay did not stop within 30 s\n%s", p.log)
	}
}

// drained waits until nothing waits any more.
func drained(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for {
		var waiting int
		err := pool.QueryRow(ctx, `select count(*) from postrider.outbox_event where state not in ('published', 'dead_lettered')`).Scan(&waiting)
		switch {
		case err != nil:
			t.Fatalf("%d events still wait: %v", waiting, err)
		case waiting == 0:
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("stuck: %d events still wait", waiting)
		case <-time.After(50 * time.Millisecond):
		}
	}
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
