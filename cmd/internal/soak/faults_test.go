package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/postrider/postrider/internal/testenv/history"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
)

// fault is something to break: play breaks it, leaves it so for a while, and repairs it.
type fault struct {
	name string
	// touches says what it breaks; two faults that touch the same are not played together. Empty is
	// everything.
	touches []string
	play    func() error
}

func (f fault) clashes(other fault) bool {
	return len(f.touches) == 0 || len(other.touches) == 0 ||
		slices.ContainsFunc(f.touches, func(thing string) bool { return slices.Contains(other.touches, thing) })
}

// played are the faults that a run has played, with when, and what went wrong in playing them.
type played struct {
	playing sync.Mutex
	faults  []history.Fault
	errs    []error
}

// play plays one fault and notes when.
func (p *played) play(f fault) {
	from := time.Now()
	err := f.play()
	to := time.Now()
	p.playing.Lock()
	defer p.playing.Unlock()
	p.faults = append(p.faults, history.Fault{Name: f.name, From: from, To: to})
	if err != nil {
		p.errs = append(p.errs, fmt.Errorf("%s: %w", f.name, err))
	}
}

// deck deals every fault once, in a random order, on processes chosen at random.
func (s *stage) deck(rng *rand.Rand) []fault {
	relay := rng.IntN(relays)
	step := steps[rng.IntN(len(steps))]
	deck := append(s.processFaults(rng, relay, step), s.postgresFaults(rng)...)
	deck = append(deck, s.networkFaults(rng)...)
	deck = append(deck, s.topicFaults(rng)...)
	if s.jars != nil {
		deck = append(deck, s.brokerFaults(rng)...)
	}
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

func nthProcess(i int) string { return fmt.Sprintf("process %d", i) }

// between is a random time.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}

func (s *stage) outage(rng *rand.Rand) time.Duration {
	return between(rng, s.pace.outageMin, s.pace.outageMax)
}

func (s *stage) processFaults(rng *rand.Rand, relay int, step string) []fault {
	stopped := s.pace.idle + s.pace.publish + s.outage(rng)
	other := rng.IntN(relays)
	return []fault{
		{"kill -9 of a relay at a step", []string{nthProcess(0), nthProcess(1)}, func() error {
			return s.dieAt(s.actors[relay], step)
		}},
		{"kill -9 of both relays", []string{nthProcess(0), nthProcess(1)}, func() error {
			s.actors[0].kill()
			s.actors[1].kill()
			return nil
		}},
		{"SIGSTOP of a relay past every timeout", []string{nthProcess(other)}, func() error {
			return s.stopAndGoOn(s.actors[other], stopped)
		}},
		{"kill -9 of the collector", []string{nthProcess(relays)}, func() error {
			s.actors[relays].kill()
			return nil
		}},
	}
}

// dieAt has a relay die at a step of its cycle, and notes that it did. It has as many lives for it as outlast any fault
// that is played at the same time. Where nothing waits behind a hold nothing is taken: then it was killed all the same.
func (s *stage) dieAt(a *actor, step string) error {
	lives, patience := 3, 20*time.Second
	if step == "taken" {
		lives = 1
	}
	for range lives {
		dies := s.comesTo(a, step)
		stop := func() {}
		if step == "led" {
			stop = s.makesWay(dies)
		}
		died := dies.dieAt(step, patience)
		stop()
		if died {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.diedAt[step]++
			return nil
		}
		rest(2 * restartPause)
	}
	if step == "taken" {
		return nil
	}
	return fmt.Errorf("%s came to the step %q in none of %d lives", a.name, step, lives)
}

// comesTo chooses the relay that comes to a step next: mostly that which leads, and for the first steps of a leadership the
// other, for which the leader makes way. Any relay sends letters.
func (s *stage) comesTo(a *actor, step string) *actor {
	if strings.HasPrefix(step, "letters") {
		return a
	}
	var worker string
	if err := s.pool.QueryRow(context.Background(), `select worker from postrider.outbox_receipt where note = 'began' order by number desc limit 1`).Scan(&worker); err != nil {
		return a // the database is away, too
	}
	for i := range relays {
		cmd, _, _ := s.actors[i].now(false)
		if !strings.Contains(worker, fmt.Sprintf(":%d:", cmd.Process.Pid)) {
			continue
		}
		if step == "leading" || step == "led" {
			return s.actors[(i+1)%relays]
		}
		return s.actors[i]
	}
	return a
}

// makesWay kills the other relays now and then, so that this one leads, however long it takes to start.
func (s *stage) makesWay(a *actor) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var killing sync.WaitGroup
	killing.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(2 * time.Second):
			}
			for _, other := range s.actors[:relays] {
				if other != a && ctx.Err() == nil {
					other.kill()
				}
			}
		}
	})
	return func() {
		cancel()
		killing.Wait()
	}
}

// stopAndGoOn freezes a process for a time.
func (s *stage) stopAndGoOn(a *actor, d time.Duration) error {
	if err := a.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	rest(d)
	return a.signal(syscall.SIGCONT)
}

func (s *stage) postgresFaults(rng *rand.Rand) []fault {
	down, crashed, times := s.outage(rng), s.outage(rng), 1+rng.IntN(4)
	proxy, n, before := rng.IntN(relays+1), 1+rng.IntN(5), rng.IntN(2) == 0
	window := between(rng, s.pace.outageMin, s.pace.outageMax)
	return []fault{
		{"PostgreSQL restarted", []string{"postgres"}, func() error { return s.restartPostgres(false, down) }},
		{"PostgreSQL crashed", []string{"postgres"}, func() error { return s.restartPostgres(true, crashed) }},
		{"connections of the relays terminated", []string{"postgres"}, func() error {
			for range times {
				if _, err := s.pool.Exec(context.Background(), `select pg_terminate_backend(pid) from pg_stat_activity
					where application_name = 'postrider' and pid <> pg_backend_pid()`); err != nil {
					return err
				}
				rest(200 * time.Millisecond)
			}
			return nil
		}},
		{"commits of a relay or the collector cut", []string{"commits"}, func() error {
			cutCommits(s.commits[proxy], before, n, window)
			return nil
		}},
		{"answers to the writers' commits lost", []string{"writers"}, func() error {
			cutCommits(s.writersCommits, false, 10*n, window)
			return nil
		}},
	}
}

// cutCommits loses the next n commits, or the answers to them, within a time.
func cutCommits(p *pgproxy.Proxy, before bool, n int, within time.Duration) {
	all := func([]string) bool { return true }
	if before {
		p.CutBeforeCommit(n, all)
	} else {
		p.CutAfterCommit(n, all)
	}
	rest(within)
	p.CutAfterCommit(0, all)
}

// networkFaults break the links of one process to PostgreSQL, to Kafka or to both. When they are healed
// what waited in them goes on, or the connections are reset, as by a router that forgot them.
func (s *stage) networkFaults(rng *rand.Rand) []fault {
	var faults []fault
	for _, f := range []struct {
		name          string
		toPG, toKafka bool
		condition     Condition
	}{
		{"cut off from PostgreSQL", true, false, Condition{NothingUp: true, NothingDown: true}},
		{"cut off from Kafka", false, true, Condition{NothingUp: true, NothingDown: true}},
		{"cut off from both", true, true, Condition{NothingUp: true, NothingDown: true}},
		{"no answers from PostgreSQL", true, false, Condition{NothingDown: true}},
		{"no answers from Kafka", false, true, Condition{NothingDown: true}},
		{"slow links", true, true, Condition{Delay: between(rng, 2*time.Millisecond, 60*time.Millisecond), Slice: 512 + rng.IntN(8<<10)}},
	} {
		who, d, reset := rng.IntN(relays+1), s.outage(rng), rng.IntN(2) == 0
		var links []*Link
		var touches []string
		if f.toPG {
			links, touches = append(links, s.pgLinks[who]), append(touches, fmt.Sprintf("pg link %d", who))
		}
		if f.toKafka {
			links, touches = append(links, s.kafkaLinks[who]), append(touches, fmt.Sprintf("kafka link %d", who))
			if s.jars == nil {
				touches = append(touches, "kafka links")
			}
		}
		faults = append(faults, fault{f.name, touches, func() error {
			for _, l := range links {
				l.Set(f.condition)
			}
			rest(d)
			for _, l := range links {
				if reset {
					l.Cut()
				}
				l.Set(Condition{})
			}
			return nil
		}})
	}
	return faults
}

func (s *stage) topicFaults(rng *rand.Rand) []fault {
	missing, lowered := s.outage(rng), s.outage(rng)
	topic := s.topics.plain[rng.IntN(len(s.topics.plain))]
	return []fault{
		{"topic deleted and recreated", nil, func() error { return s.rebirth(0) }},
		{"topic missing", nil, func() error { return s.rebirth(missing) }},
		// A batch is over this limit, and no event alone: none may be given up.
		{"message limit lowered", []string{"broker", "topics"}, func() error {
			ctx := context.Background()
			if err := s.admin.limit(ctx, topic, 4*PayloadBytes); err != nil {
				return err
			}
			rest(lowered)
			return s.admin.limit(ctx, topic, 1048588)
		}},
	}
}

func (s *stage) brokerFaults(rng *rand.Rand) []fault {
	down, killed, frozen := s.outage(rng), s.outage(rng), between(rng, s.pace.frozenMin, s.pace.frozenMax)
	broker := []string{"broker"}
	return []fault{
		{"broker restarted", broker, func() error {
			return s.restartBroker(func(ctx context.Context) error { return s.jars.Stop(ctx) }, down)
		}},
		{"broker kill -9", broker, func() error {
			return s.restartBroker(func(context.Context) error { return s.jars.Kill() }, killed)
		}},
		{"broker SIGSTOP", broker, func() error {
			if err := s.jars.Pause(); err != nil {
				return err
			}
			rest(frozen)
			return s.jars.Resume()
		}},
	}
}

func (s *stage) restartBroker(end func(context.Context) error, down time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := end(ctx); err != nil {
		return err
	}
	rest(down)
	return s.jars.Restart(ctx)
}

// rebirth deletes the mortal topic and creates it again, at once or after a time. Its records are read
// before. A record that it acknowledged after that is destroyed with it.
func (s *stage) rebirth(missing time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	name := s.topics.mortal
	from := time.Now()
	records, err := ReadTopics(ctx, s.direct, name)
	if err != nil {
		return err
	}
	if err := s.admin.remove(ctx, name); err != nil {
		return err
	}
	rest(missing)
	s.mu.Lock()
	s.lives = append(s.lives, records)
	s.destroyed = append(s.destroyed, history.Fault{Name: name, From: from, To: time.Now().Add(noting)})
	s.mu.Unlock()
	return s.createTopic(ctx, name)
}

// noting is how long a relay takes, at most, to note an acknowledgement.
const noting = 500 * time.Millisecond
