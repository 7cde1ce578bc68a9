package kafka

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// The broker keeps a record and its answer is never a good one, or it does not take the record at all.
// The publisher cannot know what became of the record, and cannot ask the client to let go of it.
var silences = []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.NotLeaderForPartition,
	kerr.NotEnoughReplicas, kerr.KafkaStorageError, kerr.LeaderNotAvailable, kerr.ThrottlingQuotaExceeded}

const bound = 10 * time.Second

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for _, err := range silences {
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testNoAnswer(t, err) })
		})
	}
}

// TestShortSilence: a leader that moves, a replica that lags: the call does not notice but for the time.
func TestShortSilence(t *testing.T) {
	t.Parallel()
	for _, err := range silences {
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := kafkatest.Virtual(t)
				topic := b.Topic(t, 2, nil)
				fault(b, kmsg.Produce, topic, err, 1)
				ms := messages(topic, 5, keys(4)...)
				began := time.Now()
				wantAll(t, publish(t, newPublisher(t, b, nil), ms...), relay.Delivered)
				if took := time.Since(began); took > time.Second {
					t.Errorf("took %v", took)
				}
				wantTopic(t, b, topic, ms...)
			})
		})
	}
}

func testNoAnswer(t *testing.T, err *kerr.Error) {
	b := kafkatest.Virtual(t)
	silent, other := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
	p := newPublisher(t, b, nil)
	f := fault(b, kmsg.Produce, silent, err, 0)
	first := append(messages(silent, 2, "a", "b"), messages(other, 2, "x")...)
	const unknown = "infrastructure UNKNOWN_OUTCOME"

	began := time.Now()
	out := publish(t, p, first...)
	if took := time.Since(began); took > 2*patience {
		t.Errorf("Publish took %v although all but one partition had answered; its patience is %v", took, patience)
	}
	wantOutcomes(t, out, unknown, unknown, unknown, unknown, "delivered", "delivered")

	// Again, with new messages. If the first ones failed, new ones of the silent topic would overtake
	// them; the others must not wait for anything.
	began = time.Now()
	second := append(append(first[:4:4], messages(silent, 1, "c")...), messages(other, 2, "y")...)
	wantOutcomes(t, publish(t, p, second...), unknown, unknown, unknown, unknown, "withheld", "delivered", "delivered")
	// The client may take its 10 ms before it sends. Who waits for the record that is away waits for a part of its patience.
	if took := time.Since(began); took >= patience/10 {
		t.Errorf("a batch with a record that is still away took %v: its shards were locked all that time", took)
	}

	time.Sleep(time.Minute)
	f.Remove()
	time.Sleep(time.Minute)
	wantAll(t, publish(t, p, second[:5]...), relay.Delivered)
	wantTopic(t, b, silent, second...)
	wantTopic(t, b, other, append(first[4:6:6], second[5:]...)...)
	if len(p.pending) != 0 || p.flights.Load() != 0 {
		t.Errorf("%d flights are remembered, all have landed", len(p.pending))
	}
	wantClients(t, p, 2, 2)
}

// TestFailsAfterTheBound: the record is refused when no call waits for it any more. It is sent anew.
func TestFailsAfterTheBound(t *testing.T) {
	t.Parallel()
	for _, err := range []*kerr.Error{kerr.InvalidRecord, kerr.CorruptMessage, kerr.TopicAuthorizationFailed, kerr.ProducerFenced} {
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := kafkatest.Virtual(t)
				topic := b.Topic(t, 1, nil)
				p := newPublisher(t, b, nil)
				f := fault(b, kmsg.Produce, topic, kerr.NotLeaderForPartition, 0)
				ms := messages(topic, 3, "a", "b")
				wantAll(t, publish(t, p, ms...), relay.Infrastructure)
				f.Remove()
				f = fault(b, kmsg.Produce, topic, err, 1)
				if err := f.Wait(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				wantAll(t, publish(t, p, ms...), relay.Delivered)
				wantTopic(t, b, topic, ms...)
			})
		})
	}
}

// TestFailsWhileAttached: as before, but the refusal comes during the call that asks again. Failed among
// others it proves nothing, so the message is left for the next call.
func TestFailsWhileAttached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic, other := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		f := fault(b, kmsg.Produce, topic, kerr.NotLeaderForPartition, 0)
		ms := messages(topic, 3, "a")
		wantAll(t, publish(t, p, ms...), relay.Infrastructure)
		f.Remove()
		fault(b, kmsg.Produce, topic, kerr.InvalidRecord, 1)
		fault(b, kmsg.Produce, other, kerr.NotLeaderForPartition, 4) // keeps the call for a second
		out := publish(t, p, append(messages(other, 1, "x"), ms...)...)
		wantOutcomes(t, out, "delivered", "withheld", "withheld", "withheld")
		wantAll(t, publish(t, p, ms...), relay.Delivered)
		wantTopic(t, b, topic, ms...)
	})
}

// TestSuspectAtTheBound: a suspect that cannot be tried alone in time is left for the next call, and so
// is one whose trial has no outcome.
func TestSuspectAtTheBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		topic, silent := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		f := fault(b, kmsg.Produce, silent, kerr.NotLeaderForPartition, 0)
		fault(b, kmsg.Produce, topic, kerr.InvalidRecord, 1)
		ms := append(messages(topic, 2, "a", "b"), messages(silent, 1, "c")...)
		wantOutcomes(t, publish(t, p, ms...), "withheld", "withheld", "withheld", "withheld", "infrastructure UNKNOWN_OUTCOME")
		f.Remove()

		fault(b, kmsg.Produce, topic, kerr.InvalidRecord, 1)
		// The first trial is answered by the second fault, which hides that the broker took it.
		f = fault(b, kmsg.Produce, topic, kerr.RequestTimedOut, 0)
		wantOutcomes(t, publish(t, p, ms[:4]...), "infrastructure UNKNOWN_OUTCOME", "withheld", "withheld", "withheld")
		f.Remove()
		time.Sleep(time.Minute)
		wantAll(t, publish(t, p, ms...), relay.Delivered)
		wantTopic(t, b, topic, ms...)
		wantTopic(t, b, silent, ms...)
	})
}

// TestNoTimeLeft: a call without time sends nothing.
func TestNoTimeLeft(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, nil)
	sent := b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Count: -1, Observe: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := newPublisher(t, b, nil)
	wantAll(t, p.Publish(ctx, messages(topic, 3, "a", "b")), relay.Withheld)
	wantClients(t, p, 1, 1)
	if n := sent.Hits(); n > 0 {
		t.Errorf("%d produce requests", n)
	}
}
