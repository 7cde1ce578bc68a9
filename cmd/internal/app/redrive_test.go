package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

// smallTopic takes messages up to this size.
const smallTopic = 2000

var small = map[string]string{"max.message.bytes": fmt.Sprint(smallTopic)}

// mend lets the topic take what it refused.
func (r *redriveRig) mend() {
	r.t.Helper()
	limit := "100000"
	results, err := r.broker.Admin(r.t).AlterTopicConfigs(r.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, r.topic)
	if err != nil || results[0].Err != nil {
		r.t.Fatalf("raise the limit of the topic: %v, %v", err, results)
	}
}

// TestFromDeadLetterToResolved: an event is too large for its topic. Redriven too early it dies again, and another
// investigation goes on; when the topic takes it, the redrive arrives, and the investigation closes by itself.
func TestFromDeadLetterToResolved(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		r := newRedriveRig(t, b, small, nil)
		r.operate()
		large := "2 " + strings.Repeat("x", smallTopic)
		r.write("k", "1", large, "3")
		first := r.pending(1)[0]
		r.redriveOne(first.UUID)
		r.closed(first.UUID, dlq.Cancelled)
		second := r.pending(1)[0]
		if second.PredecessorUUID != first.UUID || second.UUID == first.UUID {
			t.Fatalf("%+v", second)
		}
		r.mend()
		r.redriveOne(second.UUID)
		e := r.closed(second.UUID, dlq.ManuallyResolved)
		if e.ResolvedBy != "postrider" || e.ResolutionNotes != "redriven, and delivered: "+second.UUID.String()+":1" {
			t.Errorf("%+v", e)
		}
		records := r.broker.ReadAll(t, r.topic, 3)
		last := records[len(records)-1]
		if len(records) != 3 || string(last.Value) != large || string(last.Key) != "k" || header(last, "trace") != "t-1" ||
			header(last, dlq.HeaderReplayID) != second.UUID.String()+":1" || !strings.HasPrefix(header(last, dlq.HeaderReplayOf), "event:") {
			t.Errorf("%d records, the last has %v", len(records), last.Headers)
		}
		done, err := access.NewStore(r.pool).History(t.Context(), access.DoneFilter{})
		var said []string // the newest first
		for _, one := range done {
			said = append(said, one.Action+" by "+one.Actor)
		}
		// The collector closed the first when the relay had given it up again.
		if err != nil || !slices.Equal(said, []string{"dlq.resolve by postrider", "dlq.requeue by ada", "dlq.resolve by postrider", "dlq.requeue by ada"}) {
			t.Errorf("the audit log: %q, %v", said, err)
		}
	})
}

// TestAHaltedKeyIsRedrivenInItsPlace: later events wait; a redrive that comes too early adds to the investigation; then
// all arrives in order.
func TestAHaltedKeyIsRedrivenInItsPlace(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		r := newRedriveRig(t, b, small, func(c *config.Config) { c.Outbox.AfterLastAttempt = "halt_key" })
		r.operate()
		r.write("k", "1", "2 "+strings.Repeat("x", smallTopic), "3", "4")
		r.write("other", "a")
		entry := r.pending(1)[0]
		r.ended(r.startOperation(dlq.OperationOptions{}))
		eventually(t, "it came back", func() (bool, string) {
			e, err := r.people.Show(t.Context(), entry.UUID)
			return err == nil && e.Status == dlq.Pending && len(e.Letters) == 2, fmt.Sprintf("%+v, %v", e, err)
		})
		r.mend()
		r.write("k", "5")
		r.ended(r.startOperation(dlq.OperationOptions{}))
		r.closed(entry.UUID, dlq.ManuallyResolved)
		var got []string
		for _, rec := range r.broker.ReadAll(t, r.topic, 6) {
			if string(rec.Key) == "k" {
				v, _, _ := strings.Cut(string(rec.Value), " ")
				got = append(got, v)
			}
		}
		if strings.Join(got, " ") != "1 2 3 4 5" {
			t.Errorf("the key arrived as %q", got)
		}
		r.pending(0)
	})
}

// TestAHaltedKeyIsRepairedInItsPlace: the event whose headers no broker can have is given others, and goes before the
// events that wait behind it.
func TestAHaltedKeyIsRepairedInItsPlace(t *testing.T) {
	t.Parallel()
	r := newRedriveRig(t, kafkatest.Kfake(t), nil, func(c *config.Config) { c.Outbox.AfterLastAttempt = "halt_key" })
	r.operate()
	r.write("k", "1")
	_, err := r.pool.Exec(t.Context(), `insert into postrider.outbox_event (topic, key, payload, headers) values ($1, 'k', '2', '{"tenant": "acme", "priority": 5}')`, r.topic)
	r.must(err)
	r.write("k", "3", "4")
	entry := r.pending(1)[0].UUID
	if o := r.ended(r.startOperation(dlq.OperationOptions{})); o.Skipped != 1 || o.Plan.Unreadable != 1 {
		t.Fatalf("no request said which headers to send: %+v", o)
	}
	if o := r.ended(r.startOperation(dlq.OperationOptions{Headers: [][]string{{"priority", "5"}}})); o.Delivered != 1 {
		t.Fatalf("%+v", o)
	}
	r.closed(entry, dlq.ManuallyResolved)
	var got []string
	for _, rec := range r.broker.ReadAll(t, r.topic, 4) {
		text := string(rec.Value)
		for _, h := range rec.Headers {
			if text == "2" || strings.HasPrefix(text, "2 ") {
				if h.Key != message.HeaderEventID {
					text += " " + h.Key + "=" + string(h.Value)
				}
			}
		}
		got = append(got, text)
	}
	if strings.Join(got, ", ") != "1, 2 tenant=acme priority=5, 3, 4" {
		t.Errorf("the key arrived as %q", got)
	}
}

// TestClosingAHaltedKeyLetsItGo: that event will not be sent any more; the events behind it go on, in order.
func TestClosingAHaltedKeyLetsItGo(t *testing.T) {
	t.Parallel()
	r := newRedriveRig(t, kafkatest.Kfake(t), small, func(c *config.Config) { c.Outbox.AfterLastAttempt = "halt_key" })
	r.operate()
	r.write("k", "1", "2 "+strings.Repeat("x", smallTopic), "3", "4")
	entry := r.pending(1)[0]
	o, err := r.PlanOperation(r.ctx, dlq.NewOperation{Kind: dlq.OpResolve, Name: "not worth it", Actor: "ada", Scope: dlq.Scope{Entries: []uuid.UUID{entry.UUID}}})
	r.must(err)
	_, err = r.Command(r.ctx, o.UUID, dlq.Start, "")
	r.must(err)
	r.ended(o.UUID)
	var got []string
	for _, rec := range r.broker.ReadAll(t, r.topic, 3) {
		got = append(got, string(rec.Value))
	}
	if strings.Join(got, " ") != "1 3 4" {
		t.Errorf("the key arrived as %q", got)
	}
}

// TestTwoRedriveTheSameAtOnce, each with an operation and by hand, while two operators work.
func TestTwoRedriveTheSameAtOnce(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		const n = 300
		r := newRedriveRig(t, b, nil, nil)
		r.dead(n)
		entries := r.pending(n)
		r.operate()
		r.operate()
		var ops []uuid.UUID
		for range 2 {
			ops = append(ops, r.startOperation(dlq.OperationOptions{Rate: 1000}))
		}
		var byHand int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for _, e := range entries[:20] {
					done, err := r.Redrive(r.ctx, dlq.RedriveRequest{Entries: []uuid.UUID{e.UUID}, Actor: "ada"})
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					byHand += len(done.Entries)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		sum := byHand
		for _, id := range ops {
			o := r.ended(id)
			if o.Done+o.Skipped != n || o.Failed != 0 || o.Delivered != o.Done || o.CameBack != 0 {
				t.Errorf("%+v", o)
			}
			sum += int(o.Done)
		}
		if sum != n {
			t.Errorf("%d were redriven, want %d", sum, n)
		}
		r.wantEach(n)
		r.pending(0)
	})
}

// TestOperatorsThatAreKilled: each is killed while it works, and the next goes on where it was.
func TestOperatorsThatAreKilled(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		const n, kills = 3000, 3
		r := newRedriveRig(t, b, nil, nil)
		r.dead(n)
		id := r.startOperation(dlq.OperationOptions{Rate: 4000, Canary: 50})
		done := func() int64 {
			o, err := r.Operation(t.Context(), id)
			r.must(err)
			return o.Done
		}
		for range kills {
			before := done()
			kill := r.startOperator()
			patiently(t, "progress", func() (bool, string) { return done() > before, fmt.Sprint(before) })
			kill()
		}
		if at := done(); at == 0 || at == n {
			t.Errorf("the last was killed at %d of %d", at, n)
		}
		r.startOperator()
		o := r.ended(id)
		if o.Done != n || o.Delivered != n || o.Skipped+o.Failed+o.CameBack != 0 {
			t.Errorf("%+v", o)
		}
		r.wantOnce(n)
		r.pending(0)
	})
}

// TestBrokersAwayDuringAnOperation: it waits with its messages in the outbox, and ends by itself. The fake refuses what
// is produced; the real broker is killed, and started again.
func TestBrokersAwayDuringAnOperation(t *testing.T) {
	t.Parallel()
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		b := kafkatest.Kfake(t)
		operateWhileAway(t, b, func() (back func()) {
			return b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1}).Remove
		})
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		own := kafkatest.Own(t, kafkajars.Options{})
		operateWhileAway(t, &kafkatest.Broker{Kind: kafkatest.KindJars, Version: own.Version(), Addrs: []string{own.Addr()}}, func() (back func()) {
			if err := own.Kill(); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := own.Restart(ctx); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

func operateWhileAway(t *testing.T, b *kafkatest.Broker, away func() (back func())) {
	t.Helper()
	const n, canary = 600, 20
	r := newRedriveRig(t, b, nil, nil)
	r.dead(n)
	r.operate()
	id := r.startOperation(dlq.OperationOptions{Rate: 200, Canary: canary})
	now := func() dlq.Operation {
		o, err := r.Operation(t.Context(), id)
		r.must(err)
		return o
	}
	patiently(t, "the canary arrived", func() (bool, string) {
		o := now()
		return o.Delivered >= canary, fmt.Sprintf("%+v", o)
	})
	_, err := r.Command(r.ctx, id, dlq.Pause, "")
	r.must(err)
	patiently(t, "what was sent arrived", func() (bool, string) { // records in the air when a broker dies may be copied
		o := now()
		return o.Delivered == o.Done, fmt.Sprintf("%+v", o)
	})
	if o := now(); o.State != dlq.Paused || o.Done == n {
		t.Fatalf("too late: %+v", o)
	}
	back := away()
	_, err = r.Command(r.ctx, id, dlq.Resume, "")
	r.must(err)
	patiently(t, "all are in the outbox", func() (bool, string) {
		o := now()
		return o.Done == n && !o.TreatedAt.IsZero(), fmt.Sprintf("%+v", o)
	})
	if o := now(); o.State != dlq.Running || o.Delivered == n {
		t.Errorf("while the brokers are away: %+v", o)
	}
	back()
	if o := r.ended(id); o.Delivered != n || o.CameBack+o.Skipped != 0 {
		t.Errorf("%+v", o)
	}
	r.wantOnce(n)
	r.pending(0)
}
