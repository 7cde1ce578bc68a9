package soak

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// handled is a message that a member was given.
type handled struct {
	member   int
	at       time.Time
	key, seq int
}

// churn is a consumer group whose members come and go.
type churn struct {
	t      *testing.T
	b      *kafkatest.Broker
	topic  string
	binary string
	keys   int
	// db has what the messages did.
	db   *pgtest.DB
	pool *pgxpool.Pool

	mu      sync.Mutex
	lines   []handled
	seen    map[[2]int]bool
	excused map[int]time.Time // members whose last commit may be missing, and when they ended
	alive   []*groupMember
	next    int
	leaving sync.WaitGroup
}

type groupMember struct {
	id    int
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan error
	log   *logtest.Buffer
}

// TestConsumerChurn lets members of a group join, leave and be killed every two seconds on a real broker, while a writer
// goes on: nothing is lost, each key is handled in order, only what a killed member had not committed comes twice, and
// behind the inbox nothing does.
func TestConsumerChurn(t *testing.T) {
	t.Parallel()
	b := kafkatest.Real(t)
	for _, concurrency := range []int{0, 4} {
		t.Run(fmt.Sprint("concurrency ", concurrency), func(t *testing.T) {
			t.Parallel()
			c := &churn{t: t, b: b, topic: b.Topic(t, 6, nil), binary: buildtest.Program(t, "cmd/internal/soak/member"), keys: 60, seen: map[[2]int]bool{}, excused: map[int]time.Time{}}
			b.CreateTopic(t, c.topic+".dlq", 1, nil)
			b.CreateTopic(t, consumer.RetryTopic(c.topic, c.topic, 0), 6, nil)
			c.db = pgtest.New(t)
			c.pool = c.db.Pool(t)
			if err := inbox.Migrate(t.Context(), c.pool); err != nil {
				t.Fatal(err)
			}
			pgtest.Exec(t, c.pool, `create table effect (id bigint generated always as identity primary key, key int not null, number int not null)`)
			c.run(duration(t, 20*time.Second), seed(t), concurrency)
		})
	}
}

func (c *churn) run(total time.Duration, seed uint64, concurrency int) {
	fmt.Fprintf(os.Stderr, "soak: %s on %s: SOAK_SEED=%d\n", c.t.Name(), c.b, seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	for range 3 {
		c.join(concurrency)
	}
	writing, stop := context.WithCancel(c.t.Context())
	defer stop()
	written := make(chan []int, 1)
	go func() { written <- c.write(writing) }()
	kills := 0
	for began, n := time.Now(), 0; time.Since(began) < total; n++ {
		rest(2 * time.Second)
		m := c.alive[rng.IntN(len(c.alive))]
		switch {
		case n%3 == 0 || len(c.alive) < 2:
			c.join(concurrency)
		case n%3 == 1:
			c.leave(m)
		default:
			c.kill(m)
			kills++
		}
	}
	stop()
	counts := <-written
	sum := 0
	for _, n := range counts {
		sum += n
	}
	for deadline := time.Now().Add(3 * time.Minute); c.distinct() < sum; {
		if time.Now().After(deadline) {
			c.t.Fatalf("%d of %d messages were handled three minutes after the last was written", c.distinct(), sum)
		}
		rest(100 * time.Millisecond)
	}
	for len(c.alive) > 0 {
		c.leave(c.alive[0])
	}
	c.leaving.Wait()
	c.judge(counts)
	c.judgeEffects(counts)
	c.t.Logf("%d messages, %d handled, %d members, %d of them killed, %d stopped without their last commit", sum, len(c.lines), c.next, kills, len(c.excused)-kills)
	if kills == 0 || sum == 0 {
		c.t.Error("nothing was tested")
	}
}

// write produces numbered messages of all keys, and returns how many each key has.
func (c *churn) write(ctx context.Context) []int {
	client := c.b.Client(c.t)
	counts := make([]int, c.keys)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return counts
		case <-tick.C:
		}
		var rs []*kgo.Record
		for i := range 10 {
			key := (n*10 + i) % c.keys
			rs = append(rs, &kgo.Record{Topic: c.topic, Key: fmt.Append(nil, key), Value: fmt.Append(nil, counts[key])})
			counts[key]++
		}
		if err := client.ProduceSync(context.WithoutCancel(ctx), rs...).FirstErr(); err != nil {
			c.t.Errorf("write: %v", err)
			return counts
		}
	}
}

func (c *churn) join(concurrency int) {
	m := &groupMember{id: c.next, ended: make(chan error, 1), log: &logtest.Buffer{}}
	c.next++
	m.cmd = exec.Command(c.binary)
	m.cmd.Env = append(os.Environ(), "KAFKA_BROKERS="+strings.Join(c.b.Addrs, ","), "MEMBER_TOPIC="+c.topic, fmt.Sprint("MEMBER_CONCURRENCY=", concurrency),
		"MEMBER_DATABASE="+c.db.URL)
	m.cmd.Stderr = m.log
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = m.cmd.Process.Kill() })
	go func() {
		c.listen(m.id, out)
		m.ended <- m.cmd.Wait()
	}()
	c.alive = append(c.alive, m)
}

func (c *churn) listen(id int, out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var nanos int64
		h := handled{member: id}
		if _, err := fmt.Sscan(lines.Text(), &nanos, &h.key, &h.seq); err != nil {
			c.t.Errorf("member %d said %q", id, lines.Text())
			continue
		}
		h.at = time.Unix(0, nanos)
		c.mu.Lock()
		c.lines = append(c.lines, h)
		c.seen[[2]int{h.key, h.seq}] = true
		c.mu.Unlock()
	}
}

func (c *churn) distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// leave stops a member as an operator would. One that says that its last commit failed is excused.
func (c *churn) leave(m *groupMember) {
	c.alive = slices.DeleteFunc(c.alive, func(a *groupMember) bool { return a == m })
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	c.leaving.Go(func() {
		select {
		case err := <-m.ended:
			if err != nil {
				c.excuse(m)
				c.t.Logf("member %d stopped with %v: %s", m.id, err, m.log)
			}
		case <-time.After(40 * time.Second):
			_ = m.cmd.Process.Signal(syscall.SIGQUIT) // it ends with what its goroutines wait for
			c.t.Errorf("member %d did not stop within 40 s: %v, %s", m.id, <-m.ended, m.log)
		}
	})
}

func (c *churn) excuse(m *groupMember) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.excused[m.id] = time.Now()
}

func (c *churn) kill(m *groupMember) {
	c.alive = slices.DeleteFunc(c.alive, func(a *groupMember) bool { return a == m })
	if err := m.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	<-m.ended
	c.excuse(m)
}

// uncommitted is how long before a member's death what it handled may not be committed: its commit interval, the
// commit, and what a rebalance under way keeps it from committing, which lasts for a dead member's session.
const uncommitted = 10 * time.Second

func (c *churn) judge(counts []int) {
	slices.SortFunc(c.lines, func(a, b handled) int { return a.at.Compare(b.at) })
	first := map[[2]int]handled{}
	newest := make([]int, c.keys)
	for i := range newest {
		newest[i] = -1
	}
	copies, complaints := 0, 0
	complain := func(format string, args ...any) {
		if complaints++; complaints <= 20 {
			c.t.Errorf(format, args...)
		}
	}
	for _, h := range c.lines {
		at := [2]int{h.key, h.seq}
		before, again := first[at]
		if !again {
			first[at] = h
			if h.seq != newest[h.key]+1 {
				complain("key %d: %d follows %d", h.key, h.seq, newest[h.key])
			}
			newest[h.key] = h.seq
			continue
		}
		copies++
		died, excused := c.excused[before.member]
		if !excused || before.at.Before(died.Add(-uncommitted)) {
			complain("key %d, number %d was handled by member %d at %v and by member %d at %v; the first was killed: %v at %v",
				h.key, h.seq, before.member, before.at, h.member, h.at, excused, died)
		}
		first[at] = h
	}
	for key, n := range counts {
		if newest[key]+1 != n {
			complain("key %d: %d of %d were handled", key, newest[key]+1, n)
		}
	}
	c.t.Logf("%d copies", copies)
}

// judgeEffects wants each message to have had its effect once, and the effects of a key to be in order.
func (c *churn) judgeEffects(counts []int) {
	rows, err := c.pool.Query(c.t.Context(), `select key, array_agg(number order by id) from effect group by key`)
	if err != nil {
		c.t.Fatal(err)
	}
	effects := make([][]int, c.keys)
	var key int
	var numbers []int
	if _, err := pgx.ForEachRow(rows, []any{&key, &numbers}, func() error { effects[key] = slices.Clone(numbers); return nil }); err != nil {
		c.t.Fatal(err)
	}
	for key, numbers := range effects {
		for i, n := range numbers {
			if n != i {
				c.t.Errorf("key %d: effect %d is that of number %d", key, i, n)
				break
			}
		}
		if len(numbers) != counts[key] {
			c.t.Errorf("key %d: %d effects of %d messages", key, len(numbers), counts[key])
		}
	}
}
