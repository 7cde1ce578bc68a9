package postgres

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

// failAgain lets a consumer group give up the next n redriven messages that wait in the outbox. The group's letters are
// recorded before Follow sees that the messages were delivered.
func (r *redriving) failAgain(n int, letter func(e sent, n int) dlq.Record) (opened []uuid.UUID) {
	r.t.Helper()
	for i, e := range r.sent()[:n] {
		opened = append(opened, r.record(dlq.Decode(letter(e, i))))
	}
	r.deliver(n)
	return opened
}

// TestConsumersThatFailAgainHaltAnOperation: each message reaches its topic, and the group that gave it up does so again.
func TestConsumersThatFailAgainHaltAnOperation(t *testing.T) {
	t.Parallel()
	ours := func(e sent, place dlq.Place, offset int64) dlq.Record {
		return givenUpBy(t, "billing", offset, place, message.Header{Name: message.HeaderEventID, Value: []byte(message.RedriveEventID(headerOf(e, message.HeaderRedriveOf)).String())},
			message.Header{Name: dlq.HeaderReplayID, Value: []byte(headerOf(e, dlq.HeaderReplayID))})
	}
	for name, c := range map[string]struct {
		target string
		letter func(e sent, n int) dlq.Record
		same   bool // the letter is one of the same investigation
	}{
		"read anew in its topic": {"", func(e sent, n int) dlq.Record { return ours(e, dlq.Place{}, int64(500+n)) }, false},
		"in its retry topic": {dlq.TargetGroup, func(e sent, n int) dlq.Record {
			return ours(e, dlq.Place{Topic: "orders.billing.retry", Offset: int64(1 + n)}, int64(n))
		}, true},
		"another library": {"", func(e sent, n int) dlq.Record {
			return dlq.Record{Topic: "x.dlq", Offset: int64(500 + n), Timestamp: dlqtest.Start, Value: []byte("v"),
				Headers: []message.Header{{Name: dlq.HeaderReplayID, Value: []byte(headerOf(e, dlq.HeaderReplayID))}}}
		}, false},
	} {
		for way, options := range map[string]dlq.OperationOptions{"a canary": {Canary: 2}, "a rate": {Rate: 30}} {
			r := newRedriving(t)
			var entries []uuid.UUID
			for n := range 8 {
				entries = append(entries, r.record(dlq.Decode(givenUpBy(t, "billing", int64(n), dlq.Place{}))))
			}
			options.Target = c.target
			o := r.plan(all, options)
			r.command(o.UUID, dlq.Start)
			out := r.step()
			opened := r.failAgain(out, c.letter)
			r.step()
			o = r.operation(o.UUID)
			if o.State != dlq.Halted || o.CameBack != int64(out) || o.Delivered != 0 || o.Done != int64(out) || !strings.Contains(o.Error, "became dead letters again") {
				t.Fatalf("%s, %s: %d were sent: %+v", name, way, out, o)
			}
			for i, second := range opened {
				e, err := r.investigations.Show(t.Context(), second)
				if err != nil || e.Status != dlq.Pending || (second == entries[i]) != c.same || !c.same && e.PredecessorUUID != entries[i] {
					t.Errorf("%s, %s: after %s: %+v, %v", name, way, entries[i], e, err)
				}
				if status, _ := r.status(entries[i]); (status == dlq.Pending) != c.same {
					t.Errorf("%s, %s: the first one is %s", name, way, status)
				}
			}
		}
	}
}

// TestALetterThatComesLaterIsNotCounted: Follow saw the delivery before; docs/desk.md says this of canaries.
func TestALetterThatComesLaterIsNotCounted(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.record(dlq.Decode(givenUpBy(t, "billing", 1, dlq.Place{})))
	o := r.plan(all, dlq.OperationOptions{})
	r.command(o.UUID, dlq.Start)
	r.step()
	e := r.sent()[0]
	r.deliver(1)
	later := r.record(dlq.Decode(givenUpBy(t, "billing", 500, dlq.Place{}, message.Header{Name: dlq.HeaderReplayID, Value: []byte(headerOf(e, dlq.HeaderReplayID))})))
	r.follow()
	if o = r.operation(o.UUID); o.Delivered != 1 || o.CameBack != 0 {
		t.Errorf("%+v", o)
	}
	if got, err := r.investigations.Show(t.Context(), later); err != nil || got.PredecessorUUID != entry {
		t.Errorf("%+v, %v", got, err)
	}
}
