package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/relay/outbox"
)

const (
	modelShards = 4
	modelGrace  = 25 * time.Second
	// modelRetries is how long the retries of one event take.
	modelRetries = 4 * time.Second
)

// modelWorker is in one stage of a cycle.
type modelWorker struct {
	process  int
	shards   []int16
	plan     *plan
	outcomes []Outcome
}

// world is two processes with two workers each, a store, a broker, and what is true about them.
type world struct {
	store     *modelStore
	broker    *modelBroker
	processes []*modelProducer
	workers   []*modelWorker
	fails     map[int64]int // how often an event is refused before it is accepted; negative is for ever
	onTime    map[int64]bool
	nextID    int64
	mayRepeat bool // something happened after which copies are allowed
}

func newWorld() *world {
	w := &world{store: newModelStore(), fails: map[int64]int{}, onTime: map[int64]bool{}}
	w.broker = &modelBroker{state: map[string]topicState{}, parts: map[partitionName]topicState{}, refuse: func(id int64) Class {
		switch n := w.fails[id]; {
		case n < 0:
			return Permanent
		case n > 0:
			w.fails[id]--
			return Record
		}
		return Delivered
	}}
	for process := range 2 {
		w.processes = append(w.processes, newModelProducer(w.broker))
		w.workers = append(w.workers, &modelWorker{process: process}, &modelWorker{process: process})
	}
	return w
}

// write adds an event. One of the topic in commit order may stay uncommitted for a while, and so be
// committed after later ones; the writers of the other topics serialise on their keys.
func (w *world) write(topic, key string, fails int, delay time.Duration, open bool) {
	w.nextID++
	e := unkeyed(w.nextID)
	e.Topic, e.Shard = topic, int16(w.nextID%modelShards)
	if key != "-" {
		e.Key = []byte(key)
		e.Shard = int16((len(topic) + len(key)) % modelShards)
	}
	w.fails[e.ID], w.onTime[e.ID] = fails, delay == 0
	w.store.write(e, delay)
	if open && topic == inCommitOrder {
		w.store.open[e.ID] = true
	}
}

// The topics: one continues after an event that was given up, one halts its keys, one is in commit order.
const (
	continues     = "t"
	halts         = "uu"
	inCommitOrder = "vvv"
)

// modelRules are the settings of those topics.
func modelRules() rules {
	r := rulesOf(TopicSettings{})
	r.settings = func(topic string) *TopicSettings {
		s := TopicSettings{Retry: outbox.RetryPolicy{MaxAttempts: 3, Base: time.Second, Max: 2 * time.Second}, CommitOrder: topic == inCommitOrder}
		if topic == halts {
			s.AfterLastAttempt = PolicyHaltKey
		}
		s = s.withDefaults()
		return &s
	}
	return r
}

// halted are the holds that wait for somebody.
func (w *world) halted() []*modelHold {
	var hs []*modelHold
	for _, h := range w.store.holds {
		if h.Cause == CauseHalted {
			hs = append(hs, h)
		}
	}
	slices.SortFunc(hs, func(a, b *modelHold) int { return int(a.ID - b.ID) })
	return hs
}

// operate is somebody who looks after the halted keys: the event is mended and put back, or left out.
func (w *world) operate(again bool) {
	for _, h := range w.halted() {
		if again {
			if w.store.find(h.event).state == outbox.Exhausted && !w.store.locked[w.store.find(h.event).Shard] {
				w.fails[h.event] = 0
				w.store.redrive(h)
			}
		} else {
			w.store.releaseHold(h)
		}
	}
}

func (w *world) claim(x *modelWorker, shards []int16, limit int) {
	if x.plan != nil {
		return
	}
	mine, b := w.store.claim(shards, limit)
	if len(mine) == 0 {
		return
	}
	x.shards = mine
	x.plan = newPlan(b, modelRules())
}

func (w *world) publish(x *modelWorker) {
	if x.plan == nil || x.outcomes != nil {
		return
	}
	x.outcomes = w.processes[x.process].publish(x.plan.batch, x.plan)
}

// settle ends a worker's cycle. The commit may fail, and its answer may be lost.
func (w *world) settle(x *modelWorker, commits, answered bool) {
	if x.plan == nil || x.outcomes == nil {
		return
	}
	var delivered []int64
	for i := range x.outcomes {
		x.plan.settle(i, &x.outcomes[i])
		if x.outcomes[i].Class == Delivered {
			delivered = append(delivered, x.plan.batch.Events[x.plan.events[i]].ID)
		}
	}
	if commits {
		w.store.settle(x.plan.settlement())
	}
	if !commits || !answered {
		w.mayRepeat = true
		w.processes[x.process].remember(delivered)
	}
	w.drop(x)
}

func (w *world) drop(x *modelWorker) {
	w.store.release(x.shards)
	x.shards, x.plan, x.outcomes = nil, nil, nil
}

// crash ends a process: its locks are free, its memory is gone, some of what its client held arrives.
func (w *world) crash(process, arrives int) {
	w.mayRepeat = true
	w.processes[process].land(arrives)
	w.processes[process] = newModelProducer(w.broker)
	for _, x := range w.workers {
		if x.process == process {
			w.drop(x)
		}
	}
}

func (w *world) returnAll() {
	for shard := range int16(modelShards) {
		w.store.returnScheduled(shard)
	}
	var ids []int64
	for id := range w.store.holds {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		w.store.returnHold(id, 2, modelGrace)
	}
}

// heal ends all faults and lets the processes work until nothing waits. That must be so soon after the
// last hold's probe and the last event's time have come: one probe each is enough.
func (w *world) heal() (took time.Duration, done bool) {
	w.broker.state, w.broker.parts = map[string]topicState{}, map[partitionName]topicState{}
	w.store.open = map[int64]bool{}
	for _, p := range w.processes {
		p.land(len(p.client))
	}
	for _, x := range w.workers {
		w.publish(x)
		w.settle(x, true, true)
	}
	latest := w.store.latest() + 2*time.Second + time.Duration(w.store.waiting())*100*time.Millisecond // two come back at a turn
	for _, n := range w.fails {
		if n > 0 {
			latest += modelRetries
		}
	}
	for took = 0; took <= latest; took += 250 * time.Millisecond {
		for range 3 {
			w.operate(true)
			w.returnAll()
			for i, x := range w.workers {
				w.claim(x, []int16{int16(i), int16(i+1) % modelShards}, 5)
				w.publish(x)
				w.settle(x, true, true)
			}
		}
		if w.store.waiting() == 0 {
			return took, true
		}
		w.store.now += 250 * time.Millisecond
	}
	return took, false
}

// check judges the log: first occurrences of a key in order, nothing invented, nothing lost.
func (w *world) check() error {
	last, seen := map[subject]int64{}, map[int64]bool{}
	for _, r := range w.broker.log {
		e := w.store.find(r.id)
		if seen[r.id] && !w.mayRepeat {
			return fmt.Errorf("event %d arrived twice although no answer was missing and nobody died", r.id)
		}
		if seen[r.id] {
			continue
		}
		seen[r.id] = true
		if !e.HasKey() || !w.onTime[r.id] { // undelayed events may overtake a delayed one
			continue
		}
		k := keySubject(e.Topic, e.Key)
		if r.id < last[k] {
			return fmt.Errorf("event %d of %v arrived after %d", r.id, k, last[k])
		}
		last[k] = r.id
	}
	for _, e := range w.store.events {
		switch {
		case e.state == outbox.Published && !seen[e.ID]:
			return fmt.Errorf("event %d is published, but never arrived", e.ID)
		case e.state == outbox.Exhausted && w.fails[e.ID] == 0 && e.Attempts < 3 && e.Topic != halts:
			return fmt.Errorf("event %d was given up after %d attempts for nothing of its own", e.ID, e.Attempts)
		}
	}
	return nil
}

// TestProtocol drives the decisions of the relay, with a store and a broker in memory, through random
// writes, interleavings, outages, lost commits and crashes. At the end everything must have arrived in
// order or been given up, soon after the last fault.
func TestProtocol(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.store.rng = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "luck") }
		topic := rapid.SampledFrom([]string{continues, halts, inCommitOrder})
		worker := rapid.SampledFrom(w.workers)
		actions := map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				fails := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2, 9, -1}).Draw(t, "fails")
				delay := rapid.SampledFrom([]time.Duration{0, 0, 0, 0, 0, 3 * time.Second, time.Minute}).Draw(t, "delay")
				w.write(topic.Draw(t, "topic"), rapid.SampledFrom([]string{"", "a", "b", "-"}).Draw(t, "key"), fails, delay,
					rapid.Bool().Draw(t, "uncommitted"))
			},
			"crowd": func(t *rapid.T) { // many of one key, and one of another behind them in the same shard
				on := topic.Draw(t, "topic")
				for range rapid.IntRange(4, 8).Draw(t, "events") {
					w.write(on, "a", 0, 0, false)
				}
				w.write(on, "b", 0, 0, false)
			},
			"commit": func(t *rapid.T) {
				var open []int64
				for id := range w.store.open {
					open = append(open, id)
				}
				if len(open) > 0 {
					slices.Sort(open)
					delete(w.store.open, rapid.SampledFrom(open).Draw(t, "committed"))
				}
			},
			"operate": func(t *rapid.T) { w.operate(rapid.Bool().Draw(t, "again")) },
			"partition": func(t *rapid.T) {
				state := rapid.SampledFrom([]topicState{up, silent, away}).Draw(t, "state")
				w.broker.parts[partitionName{topic.Draw(t, "topic"), rapid.Int32Range(0, modelPartitions-1).Draw(t, "partition")}] = state
				w.mayRepeat = w.mayRepeat || state == silent
			},
			"claim": func(t *rapid.T) {
				first := rapid.Int16Range(0, modelShards-1).Draw(t, "first shard")
				shards := []int16{first, (first + 1) % modelShards}
				w.claim(worker.Draw(t, "worker"), shards, rapid.IntRange(1, 5).Draw(t, "limit"))
			},
			"publish": func(t *rapid.T) { w.publish(worker.Draw(t, "worker")) },
			"settle": func(t *rapid.T) {
				how := rapid.SampledFrom([]string{"well", "well", "well", "lost", "unanswered"}).Draw(t, "how")
				w.settle(worker.Draw(t, "worker"), how != "lost", how == "well")
			},
			"return": func(*rapid.T) { w.returnAll() },
			"time": func(t *rapid.T) {
				w.store.now += rapid.SampledFrom([]time.Duration{300 * time.Millisecond, 2 * time.Second, modelGrace}).Draw(t, "passes")
			},
			"fault": func(t *rapid.T) {
				state := rapid.SampledFrom([]topicState{up, silent, away, missing}).Draw(t, "state")
				w.broker.state[topic.Draw(t, "topic")] = state
				w.mayRepeat = w.mayRepeat || state == silent // the other process does not know what this one's client holds
			},
			"land": func(t *rapid.T) { w.processes[rapid.IntRange(0, 1).Draw(t, "process")].land(1) },
			"crash": func(t *rapid.T) {
				w.crash(rapid.IntRange(0, 1).Draw(t, "process"), rapid.IntRange(0, 3).Draw(t, "arrive"))
			},
			"cycle": func(t *rapid.T) { // more often than single steps, things go their way
				x := worker.Draw(t, "worker")
				w.returnAll()
				w.claim(x, []int16{0, 1, 2, 3}, 5)
				w.publish(x)
				w.settle(x, true, true)
			},
		}
		t.Repeat(actions)
		took, done := w.heal()
		if !done {
			t.Fatalf("%d events still wait after %v without a fault", w.store.waiting(), took)
		}
		if err := w.check(); err != nil {
			t.Fatalf("%v; the log is %v", err, w.broker.log)
		}
	})
}
