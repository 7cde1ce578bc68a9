package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// memory is a broker in memory, and the log of what arrived there.
type memory struct {
	mu      sync.Mutex
	log     []relay.Message
	outcome func(m *relay.Message) relay.Outcome // nil delivers
}

// refuse makes the broker refuse what a function says, from now on.
func (b *memory) refuse(class relay.Class, which func(m *relay.Message) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outcome = func(m *relay.Message) relay.Outcome {
		if which(m) {
			return relay.Outcome{Class: class, Code: "REFUSED", Message: "why"}
		}
		return relay.Outcome{Class: relay.Delivered}
	}
}

func (b *memory) mend() { b.refuse("", func(*relay.Message) bool { return false }) }

// values returns a function that picks messages by topic and value.
func values(topic string, values ...string) func(*relay.Message) bool {
	return func(m *relay.Message) bool { return m.Topic == topic && slices.Contains(values, string(m.Value)) }
}

func (b *memory) Check(*relay.Message, int) *relay.Outcome { return nil }

func (b *memory) Partition(key []byte, n int32) int32 { return int32(len(key)) % n }

func (b *memory) Publish(_ context.Context, ms []relay.Message) []relay.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]relay.Outcome, len(ms))
	stopped := map[string]bool{}
	for i := range ms {
		m := &ms[i]
		key := m.Topic + "/" + string(m.Key)
		switch {
		case m.Key != nil && stopped[key]:
			out[i] = relay.Outcome{Class: relay.Withheld}
		case b.outcome != nil:
			out[i] = b.outcome(m)
		default:
			out[i] = relay.Outcome{Class: relay.Delivered}
		}
		if out[i].Class == relay.Delivered {
			b.log = append(b.log, *m)
		} else {
			stopped[key] = true
		}
	}
	return out
}

func (b *memory) Ping(context.Context) error { return nil }

func (b *memory) Remember([]relay.Message) {}

// arrivals are what arrived so far, in order.
func (b *memory) arrivals() []relay.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.log)
}

// arrived are the values that arrived in a topic, in order; of some keys, if they are given.
func (b *memory) arrived(topic string, keys ...string) string {
	var vs []string
	for _, m := range b.arrivals() {
		if m.Topic == topic && (keys == nil || slices.Contains(keys, string(m.Key))) {
			vs = append(vs, string(m.Value))
		}
	}
	return strings.Join(vs, " ")
}

// run lets a relay of its own work on the database until the test ends or stop is called.
func (f *fixture) run(b *memory, settings func(topic string) relay.TopicSettings, change func(*relay.Config)) (stop func()) {
	f.Helper()
	stop, _ = f.start(b, settings, change)
	return stop
}

// runLogged is run, and returns what the relay says.
func (f *fixture) runLogged(b *memory, settings func(topic string) relay.TopicSettings, change func(*relay.Config)) *said {
	f.Helper()
	_, log := f.start(b, settings, change)
	return log
}

// said is what a relay said.
type said struct{ logtest.Buffer }

// Count counts the lines of a level.
func (s *said) Count(level string) int { return strings.Count(s.String(), "level="+level) }

func (f *fixture) start(b *memory, settings func(topic string) relay.TopicSettings, change func(*relay.Config)) (stop func(), log *said) {
	f.Helper()
	log = &said{}
	store, pool := f.open(Options{ApplicationName: "engine"}, StoreOptions{})
	c := relay.Config{Store: store, Publisher: b, BatchSize: 256, TopicSettings: settings, PublishTimeout: time.Second,
		Logger: slog.New(slog.NewTextHandler(log, nil))}
	if change != nil {
		change(&c)
	}
	engine, err := relay.New(c)
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := engine.Run(ctx); err != nil {
			f.Errorf("the relay ended with %v", err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		pool.Close()
	})
	f.Cleanup(stop)
	f.Cleanup(func() {
		if f.Failed() {
			f.Logf("the relay said:\n%s", log)
		}
	})
	return stop, log
}

// writes inserts events with these values, in one transaction.
func (f *fixture) writes(topic, key string, values ...string) []int64 {
	f.Helper()
	var ids []int64
	for _, v := range values {
		ids = append(ids, value[int64](f, `insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3) returning id`, topic, []byte(key), []byte(v)))
	}
	return ids
}

// state waits until an event is in a state.
func (f *fixture) state(id int64, state relay.State) {
	f.Helper()
	f.waitFor(fmt.Sprintf(`select state = '%s' from postrider.v_outbox_event where id = $1`, state), id)
}

// drained waits until nothing waits.
func (f *fixture) drained() {
	f.Helper()
	f.waitFor(`select not exists (select from postrider.v_outbox_event where state not in ('published', 'dead_lettered'))
		and not exists (select from postrider.outbox_hold)`)
}

// held waits for a hold of a cause and returns its id.
func (f *fixture) held(cause relay.Cause) int64 {
	f.Helper()
	f.waitFor(`select exists (select from postrider.outbox_hold where cause = $1)`, cause)
	return value[int64](f, `select hold_id from postrider.outbox_hold where cause = $1`, cause)
}
