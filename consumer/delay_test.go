package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/message"
)

// dueIn makes a record that is due so long after the start of the test.
func dueIn(key, value string, d time.Duration) Record {
	r := rec("orders", key, value)
	r.Headers = append(r.Headers, message.Header{Name: "due", Value: []byte(time.Now().Add(d).Format(time.RFC3339Nano))})
	return r
}

// dueOf reads it.
func dueOf(m *Message) time.Time { return instant(m.text("due")) }

// TestDelay: a message is handled when it is due, to the millisecond, whatever the mode; no attempt is spent, and what
// waits for it is what the mode says.
func TestDelay(t *testing.T) {
	t.Parallel()
	delays := []time.Duration{time.Second, 10 * time.Second, time.Minute}
	for mode, want := range map[Mode]string{
		Tiers:    "next 0s, now 0s, other 0s, soon 500ms, late 3m5s",
		Ordered:  "now 0s, other 0s, soon 500ms, late 3m5s, next 3m5s",
		Blocking: "now 0s, soon 500ms, late 3m5s, next 3m5s, other 3m5s",
	} {
		inBothLanes(t, 3, func(t *testing.T, concurrency int) {
			if mode == Blocking && concurrency > 0 || mode == Ordered && concurrency == 0 {
				return // the mode decides about the lane
			}
			f := newFake(map[string]int{"orders": 1})
			began := time.Now()
			f.write(dueIn("a", "now", -time.Hour), dueIn("b", "soon", 500*time.Millisecond), dueIn("c", "late", 3*time.Minute+5*time.Second), rec("orders", "c", "next"), rec("orders", "d", "other"))
			var handled []string
			s := &script{do: func(_ context.Context, m *Message) error {
				handled = append(handled, fmt.Sprintf("%s %v", m.Value, time.Since(began).Round(time.Millisecond)))
				if m.Attempt() != 1 {
					t.Errorf("%s is handled at attempt %d", m.Value, m.Attempt())
				}
				return nil
			}}
			run(t, f, Config{Concurrency: concurrency, Policy: Policy{Mode: mode, Delays: delays}}, Delay(dueOf, s))
			pass(10 * time.Minute)
			if len(handled) == 5 { // messages that are due at once come in any order
				slices.Sort(handled[:strings.Count(want, " 0s")])
			}
			if got := strings.Join(handled, ", "); got != want {
				t.Errorf("%s: handled %s, want %s", mode, got, want)
			}
			if n := len(f.records(DefaultDeadLetterTopic)); n != 0 || f.at(p0) != 5 {
				t.Errorf("%s: %d dead letters, committed %d", mode, n, f.at(p0))
			}
		})
	}
}

// TestDelayThenFailure: a delayed message that fails has all its attempts, counted from when it was due.
func TestDelayThenFailure(t *testing.T) {
	t.Parallel()
	inBothLanes(t, 2, func(t *testing.T, concurrency int) {
		f := newFake(map[string]int{"orders": 1})
		began, tries := time.Now(), []time.Duration{}
		f.write(dueIn("a", "x", 25*time.Second))
		h := Delay(dueOf, HandlerFunc(func(context.Context, *Message) error {
			tries = append(tries, time.Since(began).Round(time.Second))
			return errors.New("broken")
		}))
		run(t, f, Config{Concurrency: concurrency, Policy: Policy{Delays: []time.Duration{time.Second, 10 * time.Second}}}, h)
		pass(5 * time.Minute)
		if want := []time.Duration{25 * time.Second, 26 * time.Second, 36 * time.Second}; !slices.Equal(tries, want) {
			t.Errorf("tried after %v, want %v", tries, want)
		}
		ls := f.records(DefaultDeadLetterTopic)
		if len(ls) != 1 || header(ls[0].Headers, message.HeaderAttempts) != "3" || header(ls[0].Headers, message.HeaderOriginTopic) != "orders" {
			t.Errorf("dead letters %v", ls)
		}
	})
}
