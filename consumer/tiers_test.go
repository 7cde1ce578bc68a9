package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

var p0 = Partition{"orders", 0}

// TestTiers: a message that always fails is tried at once and after each delay, never early, and then given up with
// its bytes, while others pass.
func TestTiers(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 4, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 1})
		bad := rec("orders", "k", "bad")
		bad.Headers = []message.Header{{Name: message.HeaderEventID, Value: []byte("e-1")}, {Name: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}, {Name: "null"}}
		f.write(bad, rec("orders", "k", "good"))
		written := time.Now()
		var ids []string
		s := &script{do: func(_ context.Context, m *Message) error {
			if string(m.Value) == "bad" {
				ids = append(ids, m.EventID()+m.TraceID()[:2])
				if o := m.Origin(); o.Topic != "orders" || o.Partition != 0 || o.Offset != 0 || !o.Timestamp.Equal(written) {
					t.Errorf("attempt %d has the origin %+v", m.Attempt(), o)
				}
				if m.Attempt() > 1 && m.FirstFailedAt().Before(written) {
					t.Errorf("attempt %d failed first at %v", m.Attempt(), m.FirstFailedAt())
				}
				return errBroken
			}
			return nil
		}}
		_, stop := run(t, f, Config{Concurrency: concurrency}, s)
		time.Sleep(time.Hour)
		calls := s.of("bad")
		var topics []string
		for i, c := range calls {
			topics = append(topics, c.topic)
			if c.n != i+1 {
				t.Errorf("call %d is attempt %d", i+1, c.n)
			}
			if i == 0 {
				continue
			}
			if waited, delay := c.at.Sub(calls[i-1].end), DefaultDelays()[i-1]; waited < delay || waited > delay+time.Second {
				t.Errorf("attempt %d came after %v, want %v and at most 1s more", c.n, waited, delay)
			}
		}
		want(t, "read from", topics, []string{"orders", "orders.g.retry.1s", "orders.g.retry.10s", "orders.g.retry.30s", "orders.g.retry.2m"})
		want(t, "ids", ids, []string{"e-10a", "e-10a", "e-10a", "e-10a", "e-10a"})
		if len(s.of("good")) != 1 || s.of("good")[0].at.Sub(written) > time.Second {
			t.Errorf("the message behind it: %+v", s.of("good"))
		}
		letters := f.records(DefaultDeadLetterTopic)
		if len(letters) != 1 {
			t.Fatalf("%d dead letters, want 1", len(letters))
		}
		l := letters[0]
		if string(l.Value) != "bad" || string(l.Key) != "k" || header(l.Headers, message.HeaderAttempts) != "5" || header(l.Headers, message.HeaderErrorClass) != "record" ||
			header(l.Headers, message.HeaderOriginOffset) != "0" || header(l.Headers, message.HeaderConsumerGroup) != "g" || header(l.Headers, message.HeaderEventID) != "e-1" ||
			header(l.Headers, message.HeaderRetryTopic) != "orders.g.retry" || header(l.Headers, message.HeaderErrorMessage) != "broken" ||
			header(l.Headers, message.HeaderLastTopic) != "orders.g.retry.2m" || header(l.Headers, HeaderRetryDue) != "" || header(l.Headers, "kafka_dlt-original-topic") != "orders" {
			t.Errorf("the dead letter is %q: %q", l.Value, l.Headers)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if f.at(p0) != 2 {
			t.Errorf("committed %d, want 2", f.at(p0))
		}
	})
}

// TestGivenUpAtOnce: a message that no attempt can mend goes to the dead-letter topic with its own bytes, null or not.
func TestGivenUpAtOnce(t *testing.T) {
	t.Parallel()
	decode := JSON(func(_ context.Context, _ *Message, v map[string]int) error {
		if v["panic"] > 0 {
			panic("as asked")
		}
		return nil
	})
	for name, c := range map[string]struct {
		h           Handler
		value       []byte
		classify    func(error) Class
		class, code string
		category    message.Category
	}{
		"validation": {h: HandlerFunc(func(context.Context, *Message) error {
			return fmt.Errorf("outer: %w", PermanentAs(message.Validation, errBroken))
		}), value: []byte("x"), class: letterPermanent, code: CodeFailed, category: message.Validation},
		"transient": {h: HandlerFunc(func(context.Context, *Message) error { return PermanentAs(message.Transient, errBroken) }),
			value: []byte("x"), class: letterPermanent, code: CodeFailed, category: message.Transient},
		"the outermost mark counts": {h: HandlerFunc(func(context.Context, *Message) error { return Permanent(PermanentAs(message.Transient, errBroken)) }),
			value: []byte("x"), class: letterPermanent, code: CodeFailed},
		"no category": {h: HandlerFunc(func(context.Context, *Message) error { return PermanentAs("serious", errBroken) }),
			value: []byte("x"), class: letterPermanent, code: CodeFailed},
		"permanent":           {h: HandlerFunc(func(context.Context, *Message) error { return fmt.Errorf("outer: %w", Permanent(errBroken)) }), value: []byte("x"), class: letterPermanent, code: CodeFailed},
		"undecodable":         {h: decode, value: []byte{0xff, 0}, class: letterPermanent, code: CodeUndecodable},
		"tombstone":           {h: decode, value: nil, class: letterPermanent, code: CodeUndecodable},
		"a predicate's panic": {h: decode, value: []byte(`{"panic":1}`), class: letterPermanent, code: CodePanic, classify: func(err error) Class { return map[bool]Class{true: ClassPermanent}[errors.As(err, new(*PanicError))] }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"orders": 1})
				f.write(Record{Topic: "orders", Value: c.value})
				cfg := Config{}
				if c.classify != nil {
					cfg.Classify = []func(error) Class{c.classify}
				}
				run(t, f, cfg, c.h)
				time.Sleep(time.Second)
				ls := f.records(DefaultDeadLetterTopic)
				if len(ls) != 1 || string(ls[0].Value) != string(c.value) || (ls[0].Value == nil) != (c.value == nil) || ls[0].Key != nil {
					t.Fatalf("dead letters %+v", ls)
				}
				if class, code := header(ls[0].Headers, message.HeaderErrorClass), header(ls[0].Headers, message.HeaderErrorCode); class != c.class || code != c.code {
					t.Errorf("class %s, code %s; want %s, %s", class, code, c.class, c.code)
				}
				if got := header(ls[0].Headers, message.HeaderErrorCategory); got != string(c.category) {
					t.Errorf("the category is %q, want %q", got, c.category)
				}
				if stack := header(ls[0].Headers, message.HeaderErrorStack); (c.code == CodePanic) != strings.Contains(stack, "tiers_test.go") {
					t.Errorf("the stack is %q", stack)
				}
			})
		})
	}
}

// TestRedriven: a message that comes to the retry topic, or to a tier, without our bookkeeping or with another group's
// is tried at once, as new. The retry topic is read whatever the mode and the delays are.
func TestRedriven(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy Policy
		topic  string
	}{
		"the retry topic":        {Policy{}, "orders.g.retry"},
		"a tier":                 {Policy{}, "orders.g.retry.1s"},
		"with other delays":      {Policy{Delays: []time.Duration{time.Hour}}, "orders.g.retry"},
		"with another mode":      {Policy{Mode: Ordered}, "orders.g.retry"},
		"with no second attempt": {Policy{Delays: []time.Duration{}}, "orders.g.retry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"orders": 1, c.topic: 1})
				plain, other := rec(c.topic, "k", "plain"), rec(c.topic, "k", "other")
				plain.Headers = []message.Header{{Name: "replay_id", Value: []byte("r:1")}, {Name: "replay_of", Value: []byte("record:x")}}
				m := &Message{Topic: "orders"}
				m.failed(time.Now())
				other.Headers = retryRecord(m, "x", "another", failure{}, time.Now().Add(time.Hour)).Headers
				f.write(plain, other)
				s := &script{do: func(_ context.Context, m *Message) error {
					if m.Attempt() != 1 || string(m.Value) == "plain" && (m.ReplayID() != "r:1" || m.ReplayOf() != "record:x") {
						t.Errorf("%s is attempt %d, replay %q of %q", m.Value, m.Attempt(), m.ReplayID(), m.ReplayOf())
					}
					return nil
				}}
				began := time.Now()
				run(t, f, Config{Policy: c.policy}, s)
				synctest.Wait()
				want(t, "handled", s.values(), []string{"plain", "other"})
				if time.Since(began) > 0 {
					t.Errorf("took %v", time.Since(began))
				}
			})
		})
	}
}

// TestRedrivenKeepsItsOrigin: a message that was sent again to the retry topic and fails again says, through the tiers
// and in its dead letter, where the group read it first. If another group failed at it, or its origin cannot be read,
// it came from the retry topic.
func TestRedrivenKeepsItsOrigin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy         Policy
		header, origin string
	}{
		"through the tiers": {Policy{}, "orders/2/77@1700000000123#g", "orders/2/77@1700000000123#g"},
		"at once":           {Policy{Mode: Ordered, Delays: []time.Duration{}}, "orders/2/77@1700000000123#g", "orders/2/77@1700000000123#g"},
		"without a group":   {Policy{}, "orders/2/77", "orders/2/77#g"},
		"another group":     {Policy{}, "orders/2/77@1700000000123#other", "orders.g.retry/0/0#g"},
		"unreadable":        {Policy{}, "orders/77", "orders.g.retry/0/0#g"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"orders": 1, "orders.g.retry": 1})
				r := rec("orders.g.retry", "k", "bad")
				r.Headers = []message.Header{{Name: dialect.HeaderReplayOrigin, Value: []byte(c.header)}, {Name: message.HeaderHops, Value: []byte("2")}}
				f.write(r)
				attempts := 0
				run(t, f, Config{Policy: c.policy}, HandlerFunc(func(_ context.Context, m *Message) error {
					if attempts++; m.Attempt() != attempts {
						t.Errorf("attempt %d is told as %d", attempts, m.Attempt())
					}
					return errBroken
				}))
				time.Sleep(time.Hour)
				ls := f.records(DefaultDeadLetterTopic)
				if len(ls) != 1 {
					t.Fatalf("%d dead letters", len(ls))
				}
				l := dlq.Decode(dlq.Record{Topic: "x.dlq", Key: ls[0].Key, Value: ls[0].Value, Headers: ls[0].Headers})
				got, ok := dialect.ParseFailedRecord(l.Subject.ID)
				if !strings.Contains(c.header, "@") || strings.HasPrefix(c.origin, "orders.g.retry") {
					got.Timestamp = time.Time{} // that of the retry topic's record, or none
				}
				if !ok || got.String() != c.origin || l.Hops != 2 {
					t.Errorf("the letter is about %s, after %d hops; want %s, 2", got, l.Hops, c.origin)
				}
			})
		})
	}
}

// TestFormerTiers: messages in tiers of a former delay or mode are handled when they are due; other topics with similar
// names are left alone.
func TestFormerTiers(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]Policy{"delays": {Delays: []time.Duration{time.Second}}, "mode": {Mode: Blocking, Delays: []time.Duration{time.Second}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"orders": 1, "orders.g.retry.2h": 1, "orders.g.retry.120m": 1, "orders.h.retry.2h": 1, "orders.g.retry.x": 1})
				for topic := range f.partitions {
					m := &Message{Topic: "orders", Value: []byte(topic)}
					m.failed(time.Now())
					f.write(retryRecord(m, topic, "g", failure{}, time.Now().Add(2*time.Hour)))
				}
				s, began := &script{}, time.Now()
				run(t, f, Config{Policy: policy}, s)
				pass(3 * time.Hour)
				if calls := s.of("orders.g.retry.2h"); len(calls) != 1 || calls[0].at.Sub(began) != 2*time.Hour || calls[0].n != 2 || len(s.values()) != 2 {
					t.Errorf("handled %v, and %+v", s.values(), calls)
				}
			})
		})
	}
}

// TestClockOfOthers: a due time that no tier of ours can have set does not keep a message for longer than a tier.
func TestClockOfOthers(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 2, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 1, "orders.g.retry.1s": 1})
		m := &Message{Topic: "orders", Value: []byte("v")}
		m.failed(time.Now())
		f.write(retryRecord(m, "orders.g.retry.1s", "g", failure{}, time.Now().Add(1000*time.Hour)))
		s, began := &script{}, time.Now()
		run(t, f, Config{Concurrency: concurrency}, s)
		time.Sleep(time.Hour)
		if calls := s.of("v"); len(calls) != 1 || calls[0].at.Sub(began) != 2*time.Minute {
			t.Errorf("calls %v", calls)
		}
	})
}
