package consumer

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/message"
)

// fake is a cluster and its group's only member, in memory. Everything it waits for is a channel, so that it can be
// used under virtual time.
type fake struct {
	mu         sync.Mutex
	partitions map[string]int
	logs       map[Partition][]stored
	events     Events
	next       map[Partition]int64 // of assigned partitions
	committed  map[Partition]int64
	commits    []map[Partition]int64
	paused     map[Partition]bool
	polled     bool
	closed     bool
	changed    chan struct{}
	opened     chan struct{}
	pauses     int
	// fetch is how many records a poll brings of a partition.
	fetch int

	// poll answers a Poll instead of the cluster, if it returns something.
	poll func() ([]Batch, error)
	// refuseOpen is what Open says after it has assigned the partitions.
	refuseOpen error
	// refuse answers a Publish instead of the cluster, and refuseCommit a commit.
	refuse       func(ctx context.Context, r Record) error
	refuseCommit func() error
}

type stored struct {
	Record
	at time.Time
}

func newFake(partitions map[string]int) *fake {
	return &fake{partitions: maps.Clone(partitions), logs: map[Partition][]stored{}, next: map[Partition]int64{}, committed: map[Partition]int64{},
		paused: map[Partition]bool{}, changed: make(chan struct{}), opened: make(chan struct{}), fetch: 100}
}

// change tells all waiters to look again. f.mu is held.
func (f *fake) change() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) Open(_ context.Context, s Subscription, e Events) error {
	f.mu.Lock()
	f.events = e
	var all []Partition
	for topic := range f.partitions {
		if s.Also != nil && s.Also(topic) {
			s.Topics = append(s.Topics, topic)
		}
	}
	for _, topic := range s.Topics {
		if f.partitions[topic] == 0 {
			f.partitions[topic] = f.partitions[s.Topics[0]]
		}
		for id := range f.partitions[topic] {
			all = append(all, Partition{topic, int32(id)})
		}
	}
	f.mu.Unlock()
	f.assign(all...)
	close(f.opened)
	return f.refuseOpen
}

// quiet waits until no poll is in hand.
func (f *fake) quiet() {
	for {
		f.mu.Lock()
		polled, changed := f.polled, f.changed
		f.mu.Unlock()
		if !polled {
			return
		}
		<-changed
	}
}

func (f *fake) assign(ps ...Partition) {
	f.events.Assigned(ps)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range ps {
		f.next[p] = f.committed[p]
	}
	f.change()
}

func (f *fake) stopFetching(ps []Partition) {
	f.quiet()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range ps {
		delete(f.next, p)
	}
}

func (f *fake) revoke(ps ...Partition) { f.stopFetching(ps); f.events.Revoked(ps) }
func (f *fake) lose(ps ...Partition)   { f.stopFetching(ps); f.events.Lost(ps) }

func (f *fake) Poll(ctx context.Context) ([]Batch, error) {
	if f.poll != nil {
		if batches, err := f.poll(); batches != nil || err != nil {
			return batches, err
		}
	}
	for {
		f.mu.Lock()
		var batches []Batch
		for p, next := range f.next {
			log := f.logs[p]
			if f.paused[p] || int(next) >= len(log) {
				continue
			}
			b := Batch{Partition: p, LeaderEpoch: 3, End: int64(len(log))}
			for i := next; i < min(int64(len(log)), next+int64(f.fetch)); i++ {
				m := Message{Topic: p.Topic, Partition: p.ID, Offset: i, Key: log[i].Key, Value: log[i].Value, Headers: log[i].Headers, Timestamp: log[i].at}
				b.Messages = append(b.Messages, m)
				b.Bytes += m.size()
			}
			f.next[p] = next + int64(len(b.Messages))
			batches = append(batches, b)
		}
		f.polled = len(batches) > 0
		changed := f.changed
		f.mu.Unlock()
		if len(batches) > 0 {
			return batches, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (f *fake) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.polled = false
	f.change()
}

func (f *fake) Pause(p Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused[p] = true
	f.pauses++
}

func (f *fake) Resume(p Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.paused, p)
	f.change()
}

func (f *fake) Commit(_ context.Context, positions []Position) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuseCommit != nil {
		if err := f.refuseCommit(); err != nil {
			return err
		}
	}
	one := map[Partition]int64{}
	for _, p := range positions {
		f.committed[p.Partition], one[p.Partition] = p.Offset, p.Offset
	}
	f.commits = append(f.commits, one)
	return nil
}

func (f *fake) Publish(ctx context.Context, r Record) error {
	f.mu.Lock()
	refuse := f.refuse
	f.mu.Unlock()
	if refuse != nil {
		if err := refuse(ctx, r); err != nil {
			return err
		}
	}
	f.write(r)
	return nil
}

func (f *fake) setRefuse(refuse func(ctx context.Context, r Record) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}

func (f *fake) Close(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// write appends records where their keys belong.
func (f *fake) write(rs ...Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rs {
		h := fnv.New32a()
		_, _ = h.Write(r.Key)
		p := Partition{r.Topic, int32(h.Sum32() % uint32(max(f.partitions[r.Topic], 1)))}
		f.logs[p] = append(f.logs[p], stored{r, time.Now()})
	}
	f.change()
}

// values returns what a topic holds, partition by partition.
func (f *fake) values(topic string) []string {
	var out []string
	for _, s := range f.records(topic) {
		out = append(out, string(s.Value))
	}
	return out
}

func (f *fake) records(topic string) []stored {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []stored
	for id := range max(f.partitions[topic], 1) {
		out = append(out, f.logs[Partition{topic, int32(id)}]...)
	}
	return out
}

func (f *fake) at(p Partition) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.committed[p]
}

func rec(topic, key, value string) Record {
	r := Record{Topic: topic, Value: []byte(value)}
	if key != "" {
		r.Key = []byte(key)
	}
	return r
}

// inBothLanes runs a test in a bubble for each kind of lane: a serial one, and a keyed one with this concurrency.
func inBothLanes(t *testing.T, keyed int, test func(t *testing.T, concurrency int)) {
	t.Helper()
	for _, concurrency := range []int{0, keyed} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, concurrency) })
		})
	}
}

// run runs a consumer until stop is called, or the test ends, which then fails when Run returns an error.
func run(t *testing.T, f *fake, cfg Config, h Handler) (c *Consumer, stop func() error) {
	t.Helper()
	cfg.Client = f
	if cfg.Group == "" {
		cfg.Group = "g"
	}
	if cfg.Topics == nil {
		cfg.Topics = []string{"orders"}
	}
	c, err := New(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	<-f.opened
	stopped := false // a test that stops it judges the result itself
	stop = func() error {
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if stopped {
			return
		}
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return c, stop
}

// attempt is one call of a handler.
type attempt struct {
	value   string
	topic   string
	n       int
	at, end time.Time
}

// script is a handler that notes what it is given and does what the test says.
type script struct {
	mu    sync.Mutex
	calls []attempt
	do    func(ctx context.Context, m *Message) error
}

func (s *script) Handle(ctx context.Context, m *Message) error {
	began := time.Now()
	var err error
	if s.do != nil {
		err = s.do(ctx, m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, attempt{string(m.Value), m.Topic, m.Attempt(), began, time.Now()})
	return err
}

func (s *script) values() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, c := range s.calls {
		out = append(out, c.value)
	}
	return out
}

func (s *script) of(value string) []attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []attempt
	for _, c := range s.calls {
		if c.value == value {
			out = append(out, c)
		}
	}
	return out
}

func header(hs []message.Header, name string) string {
	for _, h := range hs {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

func numbered(topic string, n int, key func(i int) string) []Record {
	var rs []Record
	for i := range n {
		rs = append(rs, rec(topic, key(i), fmt.Sprintf("%04d", i)))
	}
	return rs
}

var errBroken = errors.New("broken")

func want[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// pass lets virtual time pass, and all goroutines do their work that is due then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
