package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/history"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// pace is how fast a run plays.
type pace struct {
	// total is how long faults are played; 0 plays the brief deck once.
	total time.Duration
	rate  int
	// publish and idle are the relays' PublishTimeout and idle_in_transaction_session_timeout.
	publish, idle time.Duration
	// outages, freezes of the broker and the healing between them are random within these bounds.
	outageMin, outageMax, frozenMin, frozenMax, healMin, healMax time.Duration
	// calmEvery so many faults nothing fails for the aftermath and this long; 0 is never.
	calmEvery int
	calm      time.Duration
	// patience is how long an event may be under way outside of all faults and aftermaths, and how long the
	// backlog may take after the last of them. With the aftermath it is at least the minute that the longest
	// pause of a probe is (a missing topic's), during which an event rightfully waits.
	// TestPatience says how it goes with the calms of a long run.
	patience time.Duration
}

// aftermath is how long after a fault its copies may come: a batch in hand may wait for its broker, for
// its database and for the next probe of its hold.
const aftermath = 15 * time.Second

// brief shares the machine with all other tests: its patience tells what stands still from what is slow.
var brief = pace{patience: 4 * time.Minute, rate: 400, publish: time.Second, idle: 2 * time.Second,
	outageMin: 300 * time.Millisecond, outageMax: time.Second, frozenMin: 2 * time.Second, frozenMax: 3 * time.Second,
	healMin: 200 * time.Millisecond, healMax: 500 * time.Millisecond}

// long has the machine to itself. Its patience is less than what a relay waits for a database that does not answer
// at all: the other relay must carry the events meanwhile.
var long = pace{patience: 45 * time.Second, rate: 1000, publish: 3 * time.Second, idle: 6 * time.Second,
	outageMin: time.Second, outageMax: 8 * time.Second, frozenMin: 5 * time.Second, frozenMax: 20 * time.Second,
	healMin: time.Second, healMax: 6 * time.Second, calmEvery: 7, calm: 18 * time.Second}

// TestNemesis breaks everything around two relays and a collector, one thing after the other and now and
// then two at once, while writers go on, and judges the whole: nothing lost, invented, out of order or
// stuck, no copy that no fault explains, and one investigation for each dead letter. It runs on a real
// broker, and where there is none and in `make soak` on kfake.
func TestNemesis(t *testing.T) {
	t.Parallel()
	brokers, p := []string{"kafka"}, brief
	if !kafkatest.Real(t).Real() {
		brokers = []string{"kfake"}
	}
	if total := duration(t, 0); total > 0 {
		brokers, p = []string{"kfake", "kafka"}, long
		p.total = total
	}
	for _, broker := range brokers {
		t.Run(broker, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, broker == "kafka", p)
			s.perform(buildtest.Program(t, "cmd/internal/soak/crashchild"), buildtest.Program(t, "cmd/postrider"))
			newNemesis(s, seed(t)).run()
		})
	}
}

// nemesis is one run.
type nemesis struct {
	*stage
	seed  uint64
	rng   *rand.Rand
	began time.Time

	heard  sync.Mutex
	writes []history.Write

	played

	lettersAt []time.Time // when dead letters were appended
}

func newNemesis(s *stage, seed uint64) *nemesis {
	return &nemesis{stage: s, seed: seed, rng: rand.New(rand.NewPCG(seed, 79)), began: time.Now()}
}

func (n *nemesis) run() {
	fmt.Fprintf(os.Stderr, "soak: %s on %s: SOAK_SEED=%d\n", n.t.Name(), n.broker, n.seed)
	w := &Workload{Pool: n.openPool(n.writersCommits.URL()), Topics: n.topics.all(), Keys: 500, Rate: n.pace.rate,
		PoisonEvery: 150, Limits: map[string]int{n.topics.strict: 2 * strictLimit}, Seed: n.seed,
		Heard: func(write history.Write) {
			n.heard.Lock()
			defer n.heard.Unlock()
			n.writes = append(n.writes, write)
		}}
	if err := w.Prepare(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	writing, stopWriting := context.WithCancel(n.t.Context())
	defer stopWriting()
	written := make(chan error, 1)
	go func() { written <- w.Run(writing) }()
	watching, stopWatching := context.WithCancel(n.t.Context())
	defer stopWatching()
	seen := make(chan []history.Fault, 1)
	go func() { seen <- n.watch(watching) }()
	rest(n.pace.calm + time.Second) // what comes before any fault must come once
	n.torment()
	ended := time.Now()
	rest(n.pace.calm)
	stopWriting()
	if err := <-written; err != nil {
		n.t.Fatal(err)
	}
	enough := aftermath + n.pace.patience
	drained := n.drain(ended.Add(enough))
	n.collected(ended.Add(enough))
	took := time.Since(ended)
	n.stop()
	stopWatching()
	n.faults = append(n.faults, unplayed(<-seen, n.faults)...)

	h := n.history()
	v := h.Check()
	n.t.Logf("%s", n.report(h, v, drained, took))
	if page := os.Getenv("SOAK_PAGE"); page != "" && n.jars != nil { // of the real broker alone
		if err := renewPage(page, n.t.Name(), n.pageOf(h, v)); err != nil {
			n.t.Error(err)
		}
	}
	if err := errors.Join(errors.Join(n.errs...), n.failures(), v.Err()); err != nil {
		n.t.Errorf("%v\n%s", err, n.trace(h, v))
	}
	if !drained {
		n.t.Errorf("the backlog did not drain within %v of the last fault", enough)
	}
	if v.Delivered == 0 || v.DeadLettered == 0 || len(h.Faults) == 0 {
		n.t.Error("nothing was tested")
	}
}

// torment plays the faults.
func (n *nemesis) torment() {
	if n.pace.total == 0 {
		n.brief()
		return
	}
	var deck []fault
	for count := 1; time.Since(n.began) < n.pace.total; count++ {
		if len(deck) == 0 {
			deck = n.deck(n.rng)
		}
		var both sync.WaitGroup
		first := deck[0]
		deck = deck[1:]
		both.Go(func() { n.play(first) })
		if i := slices.IndexFunc(deck, func(f fault) bool { return !f.clashes(first) }); i >= 0 && n.rng.IntN(3) == 0 {
			second := deck[i]
			deck = slices.Delete(deck, i, i+1)
			rest(between(n.rng, 0, 2*time.Second))
			both.Go(func() { n.play(second) })
		}
		both.Wait()
		rest(between(n.rng, n.pace.healMin, n.pace.healMax))
		if n.pace.calmEvery > 0 && count%n.pace.calmEvery == 0 {
			rest(aftermath + n.pace.calm)
		}
	}
}

// brief plays once the faults that a run of seconds has the time for: on kfake the faults of the processes and
// of PostgreSQL, on a real broker the faults of the broker and the topics.
func (n *nemesis) brief() {
	var faults []fault
	for _, f := range n.deck(n.rng) {
		if slices.Contains(f.touches, "broker") || len(f.touches) == 0 {
			if n.jars != nil && f.name != "broker restarted" && f.name != "topic missing" {
				faults = append(faults, f)
			}
		} else if n.jars == nil && f.name != "slow links" && f.name != "cut off from both" {
			faults = append(faults, f)
		}
	}
	// In pairs, where they do not clash, to have done in half the time.
	for len(faults) > 0 {
		var both sync.WaitGroup
		first := faults[0]
		faults = faults[1:]
		both.Go(func() { n.play(first) })
		if i := slices.IndexFunc(faults, func(f fault) bool { return !f.clashes(first) }); i >= 0 {
			second := faults[i]
			faults = slices.Delete(faults, i, i+1)
			both.Go(func() { n.play(second) })
		}
		both.Wait()
		rest(between(n.rng, n.pace.healMin, n.pace.healMax))
	}
}
