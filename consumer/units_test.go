package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

// TestTrackerProperty compares the tracker with the plain meaning of its words.
func TestTrackerProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tr := newTracker()
		type one struct {
			number uint64
			offset int64
			done   bool
		}
		var all []one
		offset := int64(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			if len(all) == 0 || rapid.Bool().Draw(t, "add") {
				offset += int64(rapid.IntRange(1, 3).Draw(t, "gap"))
				all = append(all, one{tr.add(offset, int32(offset)), offset, false})
			} else {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				tr.done(all[i].number)
				all[i].done = true
			}
			next, open := int64(-1), len(all)
			for i := range all {
				if !all[i].done {
					break
				}
				next, open = all[i].offset+1, len(all)-i-1
			}
			got, epoch, ok := tr.position()
			if ok != (next >= 0) || ok && (got != next || epoch != int32(next-1)) || tr.ahead() != open {
				t.Fatalf("position %d %d %v, %d open; want %d, %d", got, epoch, ok, tr.ahead(), next, open)
			}
		}
	})
}

// TestPositionOfABatch: a position never has an epoch older than that of the batch that its offset is of.
func TestPositionOfABatch(t *testing.T) {
	t.Parallel()
	l := &serial{state: newState(p0, nil)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2_000_000 {
			l.epoch.Store(int32(i))
			l.next.Store(int64(i))
		}
	}()
	for {
		if p, _ := l.position(); int64(p.LeaderEpoch) < p.Offset {
			t.Errorf("epoch %d with the offset of epoch %d", p.LeaderEpoch, p.Offset)
			break
		}
		select {
		case <-done:
			return
		default:
		}
	}
	<-done
}

// TestNoPartitionStaysPaused: one whose last message ends while it is being paused goes on.
func TestNoPartitionStaysPaused(t *testing.T) {
	t.Parallel()
	c := &Consumer{cfg: Config{Client: newFake(nil), MaxInFlight: 1, MaxInFlightBytes: 1 << 20, MaxAhead: 10}}
	for n := range 50_000 {
		s := newState(p0, nil)
		s.hold(1, 1)
		done := make(chan struct{})
		go func() { // as lanes do
			defer close(done)
			s.release(1, 1)
			if s.paused.Load() {
				c.flow(s)
			}
		}()
		c.flow(s)
		<-done
		s.cancel()
		if s.paused.Load() {
			t.Fatalf("after %d rounds a partition that holds nothing is paused", n)
		}
	}
}

// TestBookkeepingProperty: headers that are written to a retry topic are read again, and the message's own stay as they
// were.
func TestBookkeepingProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		own := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) message.Header {
			return message.Header{Name: rapid.SampledFrom([]string{"a", "replay_id", message.HeaderEventID, "kafka_dlt-x", ""}).Draw(t, "name"), Value: rapid.SliceOf(rapid.Byte()).Draw(t, "value")}
		}), 0, 5).Draw(t, "own")
		m := &Message{Topic: "t", Partition: rapid.Int32Range(0, 1<<30).Draw(t, "p"), Offset: rapid.Int64Range(0, 1<<60).Draw(t, "o"),
			Timestamp: time.UnixMilli(rapid.Int64Range(1, 1<<41).Draw(t, "ts")), LogAppendTime: rapid.Bool().Draw(t, "append"), Headers: own}
		origin := m.Origin()
		at := time.UnixMicro(rapid.Int64Range(1, 1<<51).Draw(t, "at"))
		for hop := 1; hop < 4; hop++ {
			m.failed(at)
			r := retryRecord(m, "t.g.retry.1s", "g", failure{message: rapid.String().Draw(t, "message"), code: "C"}, at.Add(time.Second))
			m = &Message{Topic: r.Topic, Offset: int64(hop), Headers: r.Headers}
			m.readPast("g")
			if m.past == nil || m.Attempt() != hop+1 || !m.FirstFailedAt().Equal(at) || !m.past.due.Equal(at.Add(time.Second)) {
				t.Fatalf("hop %d: %+v", hop, m.past)
			}
			if o := m.Origin(); o.Topic != origin.Topic || o.Partition != origin.Partition || o.Offset != origin.Offset || !o.Timestamp.Equal(origin.Timestamp) || o.LogAppendTime != origin.LogAppendTime {
				t.Fatalf("hop %d: origin %+v, want %+v", hop, o, origin)
			}
		}
		kept := dialect.Strip(m.Headers)
		if fmt.Sprint(kept) != fmt.Sprint(own) {
			t.Fatalf("own headers %q became %q", own, kept)
		}
	})
}

// FuzzReadPast: whatever stands in a retry topic is read without failing.
func FuzzReadPast(f *testing.F) {
	f.Add("g", "1", "2026-01-01T00:00:00Z", "orders", "0", "5")
	f.Add("g", "-1", "x", "bad topic", "-1", "99999999999999999999")
	f.Fuzz(func(t *testing.T, group, attempts, due, topic, partition, offset string) {
		m := &Message{Topic: "read", Headers: []message.Header{{Name: message.HeaderConsumerGroup, Value: []byte(group)}, {Name: message.HeaderAttempts, Value: []byte(attempts)},
			{Name: HeaderRetryDue, Value: []byte(due)}, {Name: message.HeaderOriginTopic, Value: []byte(topic)}, {Name: message.HeaderOriginPartition, Value: []byte(partition)},
			{Name: message.HeaderOriginOffset, Value: []byte(offset)}}}
		m.readPast("g")
		if m.Attempt() < 1 || message.ValidTopic(m.Origin().Topic) != nil || m.Origin().Offset < 0 {
			t.Errorf("attempt %d of %+v", m.Attempt(), m.Origin())
		}
	})
}

type coded struct{ error }

func (coded) ErrorCode() string { return "DECLINED" }

func TestClassAndCode(t *testing.T) {
	t.Parallel()
	plain := errors.New("x")
	predicate := func(err error) Class {
		if errors.Is(err, io.EOF) {
			return ClassPermanent
		}
		return Unclassified
	}
	for name, c := range map[string]struct {
		err   error
		class Class
		code  string
	}{
		"unmarked":                    {plain, ClassTransient, CodeFailed},
		"permanent":                   {Permanent(plain), ClassPermanent, CodeFailed},
		"the outermost mark counts":   {Transient(fmt.Errorf("a: %w", Permanent(plain))), ClassTransient, CodeFailed},
		"a predicate":                 {fmt.Errorf("a: %w", io.EOF), ClassPermanent, CodeFailed},
		"a mark before a predicate":   {Transient(io.EOF), ClassTransient, CodeFailed},
		"a code":                      {Permanent(fmt.Errorf("a: %w", coded{plain})), ClassPermanent, "DECLINED"},
		"a panic":                     {&PanicError{Value: 7}, ClassTransient, CodePanic},
		"a panic with a marked error": {&PanicError{Value: Permanent(plain)}, ClassPermanent, CodePanic},
		"undecodable":                 {fmt.Errorf("a: %w", ErrUndecodable), ClassPermanent, CodeUndecodable},
		"undecodable so far":          {Transient(ErrUndecodable), ClassTransient, CodeUndecodable},
		"time":                        {fmt.Errorf("a: %w", context.DeadlineExceeded), ClassTransient, CodeTimeout},
		"a type":                      {fmt.Errorf("a: %w", &BatchError{}), ClassTransient, "consumer.BatchError"},
		"joined":                      {errors.Join(&BatchError{}, plain), ClassTransient, "consumer.BatchError"},
	} {
		if got, _ := classOf(c.err, []func(error) Class{predicate}); got != c.class {
			t.Errorf("%s: class %s, want %s", name, got, c.class)
		}
		if got := codeOf(c.err); got != c.code {
			t.Errorf("%s: code %s, want %s", name, got, c.code)
		}
	}
	if Permanent(nil) != nil || PermanentAs(message.Fatal, nil) != nil || Transient(nil) != nil {
		t.Error("nil does not stay nil")
	}
}

func TestRetryTopicNames(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "a.b.g.retry", time.Second: "a.b.g.retry.1s", 90 * time.Second: "a.b.g.retry.90s", 2 * time.Minute: "a.b.g.retry.2m",
		24 * time.Hour: "a.b.g.retry.24h", 1500 * time.Millisecond: "a.b.g.retry.1500ms"} {
		if got := RetryTopic("a.b", "g", d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	ok := func() Config { return Config{Client: newFake(nil), Group: "g", Topics: []string{"orders"}} }
	h := HandlerFunc(func(context.Context, *Message) error { return nil })
	batch := BatchFunc(func(context.Context, []*Message) error { return nil })
	if _, err := New(ok(), h); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(*Config)
		h       Handler
		mention string
	}{
		"no handler":           {func(*Config) {}, nil, "handler is nil"},
		"no client":            {func(c *Config) { c.Client = nil }, h, "Client is required"},
		"no group":             {func(c *Config) { c.Group = "" }, h, "Group"},
		"a group of a name":    {func(c *Config) { c.Group = "g/h" }, h, "orders.g/h.retry"},
		"a group too long":     {func(c *Config) { c.Group = strings.Repeat("g", 240) }, h, "not a Kafka topic name"},
		"no topics":            {func(c *Config) { c.Topics = nil }, h, "Topics is required"},
		"a topic twice":        {func(c *Config) { c.Topics = []string{"a", "a"} }, h, "read twice"},
		"a retry topic":        {func(c *Config) { c.Topics = []string{"a", "a.g.retry.1s"} }, h, "read twice"},
		"a bad topic":          {func(c *Config) { c.Topics = []string{"a b"} }, h, "a b"},
		"a policy of no use":   {func(c *Config) { c.Policies = map[string]Policy{"x": {}} }, h, "topic x"},
		"a mode":               {func(c *Config) { c.Policy.Mode = "fifo" }, h, "tiers, ordered or blocking"},
		"a delay":              {func(c *Config) { c.Policy.Delays = []time.Duration{-1} }, h, "Delays[0]"},
		"a tier twice":         {func(c *Config) { c.Policy.Delays = []time.Duration{1e9, 1e9} }, h, "once more"},
		"a tier too fine":      {func(c *Config) { c.Policy.Delays = []time.Duration{1e9 + 1} }, h, "milliseconds"},
		"endless tiers":        {func(c *Config) { c.Policy.Endless = true }, h, "Endless"},
		"a dead-letter topic":  {func(c *Config) { c.Policy.DeadLetterTopic = "." }, h, "DeadLetterTopic"},
		"a loop":               {func(c *Config) { c.Policy.DeadLetterTopic = "orders" }, h, "itself read"},
		"a breaker":            {func(c *Config) { c.Policy.Breaker.Ratio = 2 }, h, "Breaker"},
		"a breaker's pause":    {func(c *Config) { c.Policy.Breaker.Pause, c.Policy.Breaker.MaxPause = 2, 1 }, h, "pauses"},
		"concurrency":          {func(c *Config) { c.Concurrency = -1 }, h, "Concurrency"},
		"a timeout":            {func(c *Config) { c.StopTimeout = -1 }, h, "StopTimeout"},
		"a dialect":            {func(c *Config) { c.DeadLetterHeaders = []dialect.Writer{"camel"} }, h, "camel"},
		"batches at once":      {func(c *Config) { c.Concurrency = 2 }, batch, "Concurrency"},
		"batches in middle":    {func(c *Config) { c.Middleware = []Middleware{func(h Handler) Handler { return h }} }, batch, "Middleware"},
		"batches, but ordered": {func(c *Config) { c.Policy.Mode = Ordered }, batch, "ordered"},
	} {
		cfg := ok()
		c.change(&cfg)
		if _, err := New(cfg, c.h); err == nil || !strings.Contains(err.Error(), c.mention) {
			t.Errorf("%s: error %v, want one that mentions %q", name, err, c.mention)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	f := newFake(map[string]int{"orders": 1})
	cfg := Config{Client: f, Group: "g", Topics: []string{"orders"}, Registerer: reg, Policy: Policy{Delays: []time.Duration{time.Hour}}}
	h := HandlerFunc(func(_ context.Context, m *Message) error {
		switch string(m.Value) {
		case "bad":
			return Permanent(errBroken)
		case "late":
			return errBroken
		}
		return nil
	})
	c, err := New(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, h); err == nil || !strings.Contains(err.Error(), "register") {
		t.Errorf("a second consumer on the registry: %v", err)
	}
	f.write(rec("orders", "", "good"), rec("orders", "", "bad"), rec("orders", "", "late"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	for f.at(p0) < 3 {
		select {
		case <-t.Context().Done():
			t.Fatal("it does not end")
		case <-time.After(10 * time.Millisecond):
		}
	}
	const expected = `
# HELP postrider_consumer_records_total Messages done with, by what became of them: handled, retried (written to a retry topic), delayed (written there because it was not due) or dead_lettered.
# TYPE postrider_consumer_records_total counter
postrider_consumer_records_total{outcome="dead_lettered",topic="orders"} 1
postrider_consumer_records_total{outcome="delayed",topic="orders"} 0
postrider_consumer_records_total{outcome="handled",topic="orders"} 1
postrider_consumer_records_total{outcome="retried",topic="orders"} 1
# HELP postrider_consumer_partitions This member's partitions: assigned counts all, paused the partitions that are not fetched for now, standing the partitions with a failed message that can neither be tried again nor be given up.
# TYPE postrider_consumer_partitions gauge
postrider_consumer_partitions{state="assigned",topic="orders"} 3
postrider_consumer_partitions{state="paused",topic="orders"} 0
postrider_consumer_partitions{state="standing",topic="orders"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(expected), "postrider_consumer_records_total", "postrider_consumer_partitions"); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a second Run: %v", err)
	}
}
