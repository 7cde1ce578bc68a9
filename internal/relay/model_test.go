package relay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/retry"
)

// The topics of the model: one continues after an event that was given up, one halts its keys, one is in commit order, one
// has a circuit breaker that opens soon.
const (
	continues     = "t"
	halts         = "uu"
	inCommitOrder = "vvv"
	breaks        = "wwww"
)

var modelTopics = []string{continues, halts, inCommitOrder, breaks}

func modelSettings(topic string) TopicSettings {
	s := TopicSettings{Retry: retry.Policy{MaxAttempts: 3, Base: time.Second, Max: 2 * time.Second}, CommitOrder: topic == inCommitOrder, BreakerEvents: -1}
	switch topic {
	case halts:
		s.AfterLastAttempt = PolicyHaltKey
	case breaks:
		s.BreakerEvents, s.BreakerWindow = 2, time.Hour
	}
	return s
}

// modelStep is one thing that happens. All of them are drawn before the first does.
type modelStep struct {
	what       string
	topic, key string
	n          int
	wait       time.Duration
	flag       bool
}

// modelProcess is a relay that runs.
type modelProcess struct {
	producer *modelProducer
	stop     context.CancelFunc
	ended    sync.WaitGroup
}

// world is an outbox, a broker, processes, writers and people.
type world struct {
	t         *testing.T
	m         *memory
	broker    *modelBroker
	batch     int
	processes []*modelProcess
	writers   []*modelWriter
	locks     map[string]*modelWriter // of keys whose writers serialise on them
	bad       map[int64]bool          // refused at least once
	delayed   map[int64]bool
	skipped   map[int64]bool
	rolled    map[int64]bool
	mayRepeat bool // something happened after which copies are allowed
	deaths    int
}

// modelWriter is a transaction that is open.
type modelWriter struct {
	*memoryTx
	ids   []int64
	drawn []func() // rows that are still to be inserted
}

func newWorld(t *testing.T, batch int) *world {
	w := &world{t: t, m: newMemory(), broker: newModelBroker(), batch: batch, locks: map[string]*modelWriter{}, bad: map[int64]bool{},
		delayed: map[int64]bool{}, skipped: map[int64]bool{}, rolled: map[int64]bool{}}
	w.processes = []*modelProcess{w.start(), w.start()}
	return w
}

func (w *world) start() *modelProcess {
	p := &modelProcess{producer: w.broker.producer()}
	r := testRelay(w.t, func(c *Config) {
		c.Store, c.Publisher, c.BatchSize, c.TopicSettings, c.IdlePollMax = w.m, p.producer, w.batch, modelSettings, time.Second
		c.PublishTimeout, c.Rests = 2*time.Second, len(w.processes)%2 == 1
	})
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.ended.Go(func() { r.runLeader(ctx) })
	p.ended.Go(func() { r.loop(ctx, "dead_letter", r.sendLetters, r.letters) })
	return p
}

func (w *world) do(s modelStep) {
	switch s.what {
	case "write":
		x := &modelWriter{memoryTx: w.m.begin()}
		w.write(x, s)
		w.end(x, true)
	case "open":
		if len(w.writers) < 4 {
			w.writers = append(w.writers, &modelWriter{memoryTx: w.m.begin()})
		}
	case "insert", "prepare", "commit", "roll back":
		if len(w.writers) == 0 {
			return
		}
		x := w.writers[s.n%len(w.writers)]
		switch {
		case s.what == "insert" && !x.prepared:
			w.write(x, s)
		case s.what == "prepare":
			x.insertAll()
			x.prepare()
		case s.what == "commit" || s.what == "roll back":
			w.end(x, s.what == "commit")
		}
	case "topic":
		w.broker.set(func() { w.broker.topics[s.topic] = topicState(s.n % 4) })
	case "partition":
		w.broker.set(func() { w.broker.parts[partitionName{s.topic, int32(s.n % modelPartitions)}] = topicState(s.n % 3) })
	case "brokers":
		w.broker.set(func() { w.broker.none = s.flag })
	case "land":
		w.processes[s.n%2].producer.land(1 + s.n%3)
	case "cut":
		w.mayRepeat = true
		w.m.cut(s.flag)
	case "crash", "stop":
		w.mayRepeat = true
		w.replace(s.n%2, s.what == "crash", s.n%4)
	case "settle":
		w.mayRepeat = true
		w.m.mu.Lock()
		defer w.m.mu.Unlock()
		failed := false
		once := func() error {
			if failed {
				return nil
			}
			failed = true
			return errTest
		}
		if w.m.unanswered = once; s.flag {
			w.m.unanswered, w.m.fail = nil, func(call string) error {
				if call != "settle" {
					return nil
				}
				return once()
			}
		}
	case "operate":
		w.operate(s.flag, s.n)
	}
}

// write writes an event. The writers of a key take its lock before they draw an id, but where the topic is in commit order.
func (w *world) write(x *modelWriter, s modelStep) {
	e := Event{Topic: s.topic, Payload: []byte{}}
	if s.key != "-" {
		e.Key = []byte(s.key)
		name := s.topic + "/" + s.key
		if other := w.locks[name]; s.topic != inCommitOrder && other != nil && other != x {
			return
		}
		w.locks[name] = x
	}
	id := x.draw()
	x.ids = append(x.ids, id)
	fails := []int{0, 0, 0, 0, 0, 1, 2, 9, -1}[s.n%9]
	w.broker.set(func() { w.broker.fails[id] = fails })
	w.bad[id], w.delayed[id] = fails != 0, s.wait > 0
	insert := func() { x.insert(id, e, s.wait) }
	if s.flag && s.key == "-" { // the id is drawn, and the row comes late, with the transaction's id
		x.drawn = append(x.drawn, insert)
		return
	}
	insert()
}

func (x *modelWriter) insertAll() {
	for _, insert := range x.drawn {
		insert()
	}
	x.drawn = nil
}

func (w *world) end(x *modelWriter, commit bool) {
	x.insertAll()
	if !commit {
		for _, id := range x.ids {
			w.rolled[id] = true
		}
	}
	x.end(commit)
	maps.DeleteFunc(w.locks, func(_ string, by *modelWriter) bool { return by == x })
	w.writers = slices.DeleteFunc(w.writers, func(o *modelWriter) bool { return o == x })
}

// replace ends a process and begins another. A crashed process hands nothing over; some of its client's records arrive.
func (w *world) replace(n int, crash bool, arrives int) {
	p := w.processes[n]
	if crash {
		w.deaths++
		w.m.mu.Lock()
		leads := w.m.leader != nil && len(w.m.terms) > 0
		w.m.mu.Unlock()
		p.producer.die(arrives)
		if leads {
			w.m.cut(true)
		}
	}
	p.stop()
	w.processes[n] = w.start()
	w.processes = append(w.processes, p) // it is waited for at the end
}

// operate is people: they look after halted keys and circuit breakers, and skip events that wait.
func (w *world) operate(again bool, n int) {
	for _, id := range w.m.heldBy(CauseHalted) {
		event := w.held(id)
		if again && w.m.state(event) == DeadLettered {
			w.broker.set(func() { w.broker.fails[event] = 0 })
			w.m.redrive(event)
		} else if !again {
			w.m.release(id)
		}
	}
	for _, id := range w.m.heldBy(CauseBreaker) {
		if n%3 == 0 {
			w.m.giveUp(id)
		} else {
			w.m.release(id)
		}
	}
	if n%4 == 0 && !again && w.m.lastID > 0 {
		if id := int64(n)%w.m.lastID + 1; w.m.skip(id, "a mistake") {
			w.skipped[id] = true
		}
	}
}

// held is the event that a hold comes from.
func (w *world) held(hold int64) int64 {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if h := w.m.holds[hold]; h != nil {
		return int64(h.EventID[14])<<8 | int64(h.EventID[15])
	}
	return 0
}

// heal ends all faults and lets the processes work until nothing waits.
func (w *world) heal() error {
	w.broker.set(func() {
		w.broker.topics, w.broker.parts, w.broker.none = map[string]topicState{}, map[partitionName]topicState{}, false
	})
	w.m.mu.Lock()
	w.m.fail, w.m.unanswered = nil, nil
	w.m.mu.Unlock()
	for len(w.writers) > 0 {
		w.end(w.writers[0], true)
	}
	began := time.Now()
	for ; time.Since(began) < 15*time.Minute; time.Sleep(500 * time.Millisecond) {
		for _, p := range w.processes {
			p.producer.land(1 << 20)
		}
		w.m.mu.Lock()
		var kept []int64
		for id, x := range w.m.exceptions {
			if h := w.m.holds[x.Hold]; h != nil && h.Cause == CauseBreaker {
				kept = append(kept, id)
			}
		}
		done := len(w.m.holds) == 0 && len(w.m.skips) == 0 && len(w.m.gaps) == 0
		for _, x := range w.m.exceptions {
			done = done && x.State == DeadLettered
		}
		w.m.mu.Unlock()
		if done && w.m.waiting() == 0 {
			return nil
		}
		w.broker.set(func() {
			for _, id := range kept {
				w.broker.fails[id] = 0
			}
		})
		w.operate(true, 1)
	}
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	for _, h := range w.m.holds {
		return fmt.Errorf("hold %s is left: %s", describeHold(&h.HoldChange), h.asked)
	}
	return fmt.Errorf("events still wait, or gaps %v are left", w.m.gaps)
}

// check judges the log: first occurrences of a key in order, nothing invented, nothing lost.
func (w *world) check() error {
	if err := w.m.check(); err != nil {
		return err
	}
	kept := map[int64]bool{} // that a circuit breaker has kept
	breakers := map[int64]bool{}
	for i := range w.m.receipts {
		for _, h := range w.m.receipts[i].Holds {
			breakers[h.ID] = h.Scope == ScopeFailure
		}
		for _, x := range w.m.receipts[i].Exceptions {
			kept[x.ID] = kept[x.ID] || breakers[x.Hold]
		}
	}
	last, seen := map[string]int64{}, map[int64]bool{}
	for _, r := range w.broker.arrived() {
		if w.rolled[r.id] {
			return fmt.Errorf("event %d arrived, and was rolled back", r.id)
		}
		if seen[r.id] && !w.mayRepeat {
			return fmt.Errorf("event %d arrived twice although no relay died and nothing was lost", r.id)
		}
		if seen[r.id] {
			continue
		}
		seen[r.id] = true
		if r.key == "" || w.delayed[r.id] || w.skipped[r.id] || kept[r.id] && r.at.topic != halts {
			continue
		}
		if r.id < last[r.key] {
			return fmt.Errorf("event %d of %s arrived after %d", r.id, r.key, last[r.key])
		}
		last[r.key] = r.id
	}
	for id, row := range w.m.rows {
		x := w.m.exceptions[id]
		switch {
		case !row.tx.committed:
		case x == nil && !seen[id]:
			return fmt.Errorf("event %d is published, but never arrived", id)
		case x != nil && !w.bad[id] && !w.skipped[id] && (x.code != CodeWorkerKilled || w.deaths < 3):
			return fmt.Errorf("event %d was given up for nothing of its own: %s %s", id, x.class, x.code)
		}
	}
	return nil
}

// happen plays a script, in a bubble.
func happen(t *testing.T, batch int, script []modelStep) (err error) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, batch)
		for _, s := range script {
			if s.what == "time" {
				time.Sleep(s.wait)
				synctest.Wait()
				continue
			}
			w.do(s)
		}
		err = w.heal()
		for _, p := range w.processes {
			p.stop()
		}
		for _, p := range w.processes {
			p.ended.Wait()
		}
		err = cmp.Or(w.check(), err)
		if err != nil {
			err = fmt.Errorf("%w; the log is %v; the receipts:\n%s", err, w.broker.arrived(), w.story())
		}
	})
	return err
}

// story is all receipts, for people.
func (w *world) story() (s string) {
	for i := range w.m.receipts {
		r := &w.m.receipts[i]
		s += fmt.Sprintf("position %d events %v gaps %v\n%s\n", r.Position, r.Events, r.Gaps, describe(r))
	}
	return s
}

// TestProtocol drives whole relays, with a store and a broker in memory, through random writes, late commits, outages, lost
// settlements, takeovers, crashes and people's acts. At the end everything must have arrived in order or been given up.
func TestProtocol(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		kinds := []string{"write", "write", "write", "write", "write", "write", "open", "insert", "insert", "insert", "commit", "commit", "roll back", "prepare",
			"topic", "topic", "partition", "partition", "land", "operate", "operate", "time", "time", "time", "time", "time", "time"}
		if rapid.Bool().Draw(rt, "processes fail") {
			kinds = append(kinds, "brokers", "cut", "crash", "stop", "settle")
		}
		step := rapid.Custom(func(rt *rapid.T) modelStep {
			s := modelStep{what: rapid.SampledFrom(kinds).Draw(rt, "what"), n: rapid.IntRange(0, 1<<16).Draw(rt, "n"), flag: rapid.Bool().Draw(rt, "flag")}
			switch s.what {
			case "write", "insert":
				s.topic, s.key = rapid.SampledFrom(modelTopics).Draw(rt, "topic"), rapid.SampledFrom([]string{"a", "bb", "-"}).Draw(rt, "key")
				s.wait = rapid.SampledFrom([]time.Duration{0, 0, 0, 0, 0, 0, 0, 3 * time.Second}).Draw(rt, "delay")
			case "topic", "partition":
				s.topic = rapid.SampledFrom(modelTopics).Draw(rt, "topic")
			case "time":
				s.wait = rapid.SampledFrom([]time.Duration{100 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second}).Draw(rt, "passes")
			}
			return s
		})
		n := rapid.IntRange(1, 120).Draw(rt, "steps") // rapid prefers short ones
		script := rapid.SliceOfN(step, n, n).Draw(rt, "script")
		if err := happen(t, rapid.IntRange(1, 6).Draw(rt, "batch"), script); err != nil {
			rt.Fatal(err)
		}
	})
}
