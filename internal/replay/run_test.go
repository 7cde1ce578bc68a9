package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/message"
)

// numbered are n foreign letters over all partitions of l.
func numbered(l *letters, n int) {
	for i := range n {
		l.add(int32(i%len(l.records)), foreign(i, fmt.Append(nil, "k", i%4)))
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	l := newLetters(2, "payments", "orders")
	numbered(l, 20)
	l.add(1, dlq.Record{Value: []byte("what is this")}, dlqtest.Event(1, 1), dlqtest.Event(1, 1), dlqtest.Task(1, 1))
	l.add(0, foreign(300, nil))
	r := newReplay(t, l, optionsOf(func(o *Options) {
		m, err := ParseMatch("key!=k3")
		if err != nil {
			t.Fatal(err)
		}
		o.Match = []Match{m}
	}), 5)
	p, err := r.Plan(t.Context())
	if err != nil || p.Problem() != nil {
		t.Fatal(err, p.Problem())
	}
	got := fmt.Sprintf("%s %d records, %d match, %d sent, %d not; %v %v, %d bytes, %d keys, %d repeated, %d split, %d keyless, %d copies, %v",
		p.Round, p.Records, p.Matching, p.Sending, p.NotMatching, p.Targets, p.Skipped, p.Bytes, p.Keys, p.Repeated, p.Split, p.Keyless, p.Copies, p.Newest.Sub(*p.Oldest))
	want := "first 25 records, 20 match, 18 sent, 5 not; map[orders:2 payments:16] map[task_subject:1 undecodable:1], 79 bytes, 4 keys, 4 repeated, 0 split, 1 keyless, 1 copies, 5m0s"
	if got != want {
		t.Errorf("plan\n%s\nwant\n%s", got, want)
	}
	if len(l.sent) > 0 || len(l.offsets) > 0 {
		t.Error("the plan changed something")
	}
	l.add(0, foreign(999, []byte("late"))) // not part of it
	res, err := r.Run(t.Context(), p)
	if err != nil || res.Sent != 18 || res.NotMatching != 5 || res.Left() != 2 || res.Remaining != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	ofKey := []string{}
	for _, m := range l.sent {
		if string(m.Key) == "k1" {
			ofKey = append(ofKey, string(m.Value))
		}
	}
	if !slices.Equal(ofKey, []string{"1", "5", "9", "13", "17"}) {
		t.Errorf("of k1: %v", ofKey)
	}
	if slices.Contains(l.values(), "999") {
		t.Error("a letter that was written after the plan was sent")
	}
}

// TestOnlyTheNewestLetterOfAMessage: a message that was sent again and came back has two letters, and is sent once, also
// when the conditions leave the later letter out, and when the round is carried out in two calls.
func TestOnlyTheNewestLetterOfAMessage(t *testing.T) {
	t.Parallel()
	first := foreign(1, []byte("k"))
	decoded := dlq.Decode(first)
	of := decoded.FirstSentAs()
	again := func(n int, hops string) dlq.Record {
		return set(set(foreign(n, []byte("k")), message.HeaderHops, hops), message.HeaderRedriveOf, of)
	}
	back := again(7, "1")
	for name, c := range map[string]struct {
		records []dlq.Record
		change  func(*Options)
		sent    []string
		again   int64
	}{
		"alone":                {records: []dlq.Record{first}, sent: []string{"1"}},
		"came back":            {records: []dlq.Record{first, foreign(2, nil), back}, sent: []string{"2", "7"}, again: 1},
		"came back twice":      {records: []dlq.Record{first, back, again(9, "2")}, sent: []string{"9"}, again: 2},
		"another group":        {records: []dlq.Record{first, set(back, "kafka_dlt-original-consumer-group", "shipping")}, sent: []string{"1", "7"}},
		"an older one is gone": {records: []dlq.Record{first, again(9, "2")}, sent: []string{"9"}, again: 1},
		"in two calls":         {records: []dlq.Record{first, foreign(2, nil), back}, change: func(o *Options) { o.Max = 1 }, sent: []string{"2", "7"}, again: 1},
	} {
		l := newLetters(1, "payments", "orders")
		l.add(0, c.records...)
		p, res, err := replayAll(t, l, optionsOf(c.change))
		if err != nil || p.Skipped[SentAgain] != c.again || p.Sending != int64(len(c.sent)) || p.Problem() != nil {
			t.Fatalf("%s: plan %+v, %v", name, p, err)
		}
		for res.Remaining > 0 {
			if _, res, err = replayAll(t, l, optionsOf(c.change)); err != nil {
				t.Fatal(name, err)
			}
		}
		if got := l.values(); !slices.Equal(got, c.sent) {
			t.Errorf("%s: sent %v, want %v", name, got, c.sent)
		}
	}
}

// TestRounds repeats the same replay.
func TestRounds(t *testing.T) {
	t.Parallel()
	l := newLetters(2, "payments", "sandbox")
	numbered(l, 10)
	step := func(what string, change func(*Options), kind RoundKind, sent int) []relay.Message {
		t.Helper()
		before := len(l.sent)
		p, res, err := replayAll(t, l, optionsOf(change))
		if err != nil || p.Round != kind || int(res.Sent) != sent || len(l.sent)-before != sent {
			t.Fatalf("%s: %v round, %+v, %v", what, p.Round, res, err)
		}
		return l.sent[before:]
	}
	ids := func(ms []relay.Message) (all []string) {
		for i := range ms {
			all = append(all, headerOf(&ms[i], dlq.HeaderReplayID))
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	first := ids(step("first", nil, First, 10))
	step("nothing new", nil, Next, 0)
	numbered(l, 4)
	first = append(first, ids(step("what came since", nil, Next, 4))...)
	again := ids(step("again", func(o *Options) { o.Again = true }, Again, 14))
	step("nothing new after again", nil, Next, 0)
	named := ids(step("named", func(o *Options) { o.Run = "incident-7" }, First, 14))
	elsewhere := ids(step("elsewhere", func(o *Options) { o.To = "sandbox" }, First, 14))
	part := ids(step("a part", func(o *Options) { o.Partitions = []int32{1} }, First, 7))
	window := ids(step("a range", func(o *Options) { o.Partitions, o.Offsets = []int32{1}, &Span{2, 5} }, First, 3))
	if len(first) != 14 || len(again) != 14 || len(named) != 14 {
		t.Errorf("%d, %d and %d ids", len(first), len(again), len(named))
	}
	for _, id := range first {
		if slices.Contains(again, id) || slices.Contains(named, id) || slices.Contains(elsewhere, id) {
			t.Errorf("id %s was used for another replay", id)
		}
		if strings.Count(id, ":") != 1 || !strings.HasSuffix(id, ":1") {
			t.Errorf("id %s", id)
		}
	}
	for _, id := range slices.Concat(part, window) {
		if !slices.Contains(first, id) {
			t.Errorf("the same letter to the same topic has another id, %s", id)
		}
	}
	if !strings.Contains(named[0], ":incident-7:1") {
		t.Errorf("id %s", named[0])
	}
}

// TestMaxGoesOn replays a few, and then the rest.
func TestMaxGoesOn(t *testing.T) {
	t.Parallel()
	l := newLetters(2, "payments")
	numbered(l, 20)
	few := optionsOf(func(o *Options) { o.Max = 7 })
	for i, want := range []int64{7, 7, 6} {
		p, res, err := replayAll(t, l, few)
		if err != nil || res.Sent != want || p.AlreadySent != int64(7*i) || (res.Remaining > 0) != (i < 2) {
			t.Fatalf("%d: %+v, %d before, %v", i, res, p.AlreadySent, err)
		}
		numbered(l, 1) // not of this round
	}
	if vs := l.values(); len(vs) != 20 {
		t.Errorf("%v", vs)
	}
	p, _, err := replayAll(t, l, few)
	if err != nil || p.Round != Next || p.Sending != 3 {
		t.Errorf("%s, %d, %v", p.Round, p.Sending, err)
	}
}

func TestRefusesToGoOn(t *testing.T) {
	t.Parallel()
	begun := func() *letters {
		l := newLetters(1, "payments")
		numbered(l, 10)
		if _, _, err := replayAll(t, l, optionsOf(func(o *Options) { o.Run, o.Max = "x", 3 })); err != nil {
			t.Fatal(err)
		}
		return l
	}
	for name, c := range map[string]struct {
		spoil  func(*letters)
		change func(*Options)
		want   string
	}{
		"other conditions":  {change: func(o *Options) { o.To = "payments" }, want: `was begun as "from orders.dlq, to original", and cannot go on as "from orders.dlq, to payments"`},
		"another topic":     {spoil: func(l *letters) { l.id = "two" }, want: "deleted and made anew"},
		"again":             {change: func(o *Options) { o.Again = true }, want: "did not come to its end"},
		"another's offsets": {change: func(o *Options) { o.Group = "payment-service" }, want: "offsets that are not a replay's"},
		"another version":   {change: func(o *Options) { o.Group = "newer" }, want: "another version"},
		"no such topic":     {spoil: func(l *letters) { l.name = "gone" }, want: "topic orders.dlq does not exist"},
		"no such target":    {change: func(o *Options) { o.Run, o.To = "y", "gone" }, want: "topic gone does not exist"},
		"no such partition": {change: func(o *Options) { o.Run, o.Partitions = "y", []int32{4} }, want: "has no partition 4; it has 1"},
	} {
		l := begun()
		l.offsets["payment-service"] = map[int32]CommittedOffset{0: {4, ""}}
		l.offsets["newer"] = map[int32]CommittedOffset{0: {4, `{"postrider_replay": 2}`}}
		if c.spoil != nil {
			c.spoil(l)
		}
		before := len(l.sent)
		_, _, err := replayAll(t, l, optionsOf(func(o *Options) {
			o.Run = "x"
			if c.change != nil {
				c.change(o)
			}
		}))
		if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), c.want) || len(l.sent) != before {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissingTargets(t *testing.T) {
	t.Parallel()
	l := newLetters(1, "orders")
	l.add(0, dlqtest.Event(1, 1), foreign(1, nil), foreign(2, nil))
	p, res, err := replayAll(t, l, optionsOf(nil))
	if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "2 letters would go to topics that do not exist (1, the first are [payments])") ||
		!strings.Contains(err.Error(), "topic!=payments") {
		t.Error(err)
	}
	if len(l.sent)+len(l.offsets) > 0 || res.Sent > 0 || !slices.Equal(p.Missing, []string{"payments"}) {
		t.Errorf("%+v, %v were sent, %v committed", res, l.values(), l.offsets)
	}
}

// TestRefused has the broker refuse one message for good.
func TestRefused(t *testing.T) {
	t.Parallel()
	refusing := func() *letters {
		l := newLetters(2, "payments")
		numbered(l, 20)
		l.answer = func(m *relay.Message) relay.Outcome {
			if string(m.Value) == "9" { // of k1, in partition 1 at offset 4
				return relay.Outcome{Class: relay.Permanent, Code: "MESSAGE_TOO_LARGE", Message: "too \x1b[2J large"}
			}
			return relay.Outcome{}
		}
		return l
	}
	l := refusing()
	_, res, err := replayAll(t, l, optionsOf(nil))
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Partition != 1 || refusal.Offset != 4 || refusal.Target != "payments" ||
		!strings.Contains(err.Error(), "topic payments refuses the message of the letter orders.dlq, partition 1, offset 4: MESSAGE_TOO_LARGE") {
		t.Fatal(err)
	}
	if at := l.offsets[(&Options{From: source, To: ToOriginal}).group()][1].Offset; at != 4 {
		t.Errorf("partition 1 is committed up to %d, not to the refused one at 4", at)
	}
	if res.Remaining == 0 || res.Left() != 0 || len(res.Refusals) != 1 {
		t.Errorf("%+v", res)
	}
	l.answer = nil // the topic was mended
	if _, res, err = replayAll(t, l, optionsOf(nil)); err != nil || res.Remaining != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	for i := range 20 {
		if !slices.Contains(l.values(), fmt.Sprint(i)) {
			t.Errorf("%d was not sent", i)
		}
	}

	l = refusing()
	_, res, err = replayAll(t, l, optionsOf(func(o *Options) { o.SkipRefused = true }))
	if err != nil || res.Sent != 19 || res.Skipped[Refused] != 1 || res.Remaining != 0 || len(l.sent) != 19 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestRecordsThatMayPass: a message that fails alone for a reason that may pass is tried five times.
func TestRecordsThatMayPass(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{4, 5} {
		synctest.Test(t, func(t *testing.T) {
			l := newLetters(1, "payments")
			numbered(l, 3)
			tries := 0
			l.answer = func(m *relay.Message) relay.Outcome {
				if string(m.Value) == "1" && tries < failures {
					tries++
					return relay.Outcome{Class: relay.Record, Code: "CORRUPT_MESSAGE", Message: "cosmic rays"}
				}
				return relay.Outcome{}
			}
			_, res, err := replayAll(t, l, optionsOf(nil))
			if refused := errors.As(err, new(*Refusal)); refused != (failures == maxAttempts) || res.Remaining == 0 == refused {
				t.Errorf("%d failures: %+v, %v", failures, res, err)
			}
		})
	}
}

// TestOutagesAreWaitedOut takes everything away in turns, for hours.
func TestOutagesAreWaitedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLetters(2, "payments")
		numbered(l, 40)
		began := time.Now()
		away := func(from, to time.Duration) bool { return time.Since(began) > from && time.Since(began) < to }
		l.answer = func(*relay.Message) relay.Outcome {
			if away(25*time.Minute, 90*time.Minute) {
				return relay.Outcome{Class: relay.Infrastructure, Code: "NOT_ENOUGH_REPLICAS", Message: "away"}
			}
			return relay.Outcome{}
		}
		l.saving = func() error {
			time.Sleep(20 * time.Minute)
			if away(3*time.Hour, 5*time.Hour) {
				return errNetwork
			}
			return nil
		}
		var waits []string
		r, err := New(Config{Cluster: l, Publisher: l, Options: optionsOf(nil), Batch: 5, Observer: func(p Progress) {
			if p.Waiting != "" {
				waits = append(waits, p.Waiting)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.Run(t.Context(), p)
		if err != nil || res.Sent != 40 || len(l.sent) != 40 || res.Remaining != 0 {
			t.Errorf("%+v, %v, %d", res, err, len(l.sent))
		}
		all := strings.Join(slices.Compact(waits), "\n")
		if !strings.Contains(all, "send: topic payments: NOT_ENOUGH_REPLICAS: away") || !strings.Contains(all, "commit how far the replay is: the network is away") {
			t.Errorf("it waited for %s", all)
		}
	})
}

// TestNothingWaitsForEverBeforeItBegins: a cluster that answers the first question, or none, and then gives nothing may
// be the wrong one.
func TestNothingWaitsForEverBeforeItBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, hang := range map[string]func(l *letters){
			"silent brokers": func(l *letters) { l.silent = true },
			"no letters":     func(l *letters) { l.waiting = "topic orders.dlq: its leader is away" },
			"no commits":     func(l *letters) { l.saving = func() error { return errNetwork } },
		} {
			l := newLetters(1, "payments")
			numbered(l, 5)
			hang(l)
			began := time.Now()
			r := newReplay(t, l, optionsOf(nil), 5)
			p, err := r.Plan(t.Context())
			if err == nil {
				_, err = r.Run(t.Context(), p)
			}
			if !errors.Is(err, ErrNoBroker) || time.Since(began) > contactLimit+beginLimit+longestPause || len(l.sent) > 0 {
				t.Errorf("%s: %v after %v, %d sent", name, err, time.Since(began), len(l.sent))
			}
		}
	})
}

// TestNoBrokerAtTheStart gives up, because an address may be wrong.
func TestNoBrokerAtTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLetters(1)
		l.away = errNetwork
		began := time.Now()
		_, _, err := replayAll(t, l, optionsOf(nil))
		if !errors.Is(err, errNetwork) || l.asked < 4 || time.Since(began) > contactLimit {
			t.Errorf("%v after %d questions", err, l.asked)
		}
		l.away = Final(errNetwork)
		l.asked = 0
		if _, _, err := replayAll(t, l, optionsOf(nil)); !errors.Is(err, errNetwork) || l.asked != 1 || strings.Contains(err.Error(), "help") {
			t.Errorf("%v after %d questions", err, l.asked)
		}
	})
}

// TestRouteEndsIt: a topic that takes no message ends the replay, and no letter counts as refused.
func TestRouteEndsIt(t *testing.T) {
	t.Parallel()
	l := newLetters(1, "payments")
	numbered(l, 10)
	l.answer = func(m *relay.Message) relay.Outcome {
		if string(m.Value) >= "3" {
			return relay.Outcome{Class: relay.Route, Code: "TOPIC_AUTHORIZATION_FAILED", Message: "not allowed"}
		}
		return relay.Outcome{}
	}
	_, res, err := replayAll(t, l, optionsOf(func(o *Options) { o.SkipRefused = true }))
	if err == nil || !strings.Contains(err.Error(), "topic payments does not take messages: TOPIC_AUTHORIZATION_FAILED") || res.Sent != 3 || res.Remaining != 7 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestStopped ends a replay in the middle: acknowledged messages are committed.
func TestStopped(t *testing.T) {
	t.Parallel()
	l := newLetters(2, "payments")
	numbered(l, 40)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := newReplay(t, l, optionsOf(nil), 5)
	p, err := r.Plan(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l.answer = func(*relay.Message) relay.Outcome {
		if len(l.sent) == 12 {
			stop()
		}
		return relay.Outcome{}
	}
	res, err := r.Run(ctx, p)
	if !errors.Is(err, context.Canceled) || res.Sent < 12 || int(res.Sent) != len(l.sent) || res.Remaining != 40-res.Sent {
		t.Errorf("%+v, %v, %d were sent", res, err, len(l.sent))
	}
	l.answer = nil
	if _, res, err = replayAll(t, l, optionsOf(nil)); err != nil || len(l.sent) != 40 {
		t.Errorf("%+v, %v, %d were sent in all", res, err, len(l.sent))
	}
}

// TestTakenOver starts a replay while another process has it: the newer one goes on.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	l := newLetters(1, "payments")
	numbered(l, 40)
	older := newReplay(t, l, optionsOf(nil), 5)
	p, err := older.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.answer = func(*relay.Message) relay.Outcome {
		if len(l.sent) == 12 {
			l.answer = nil
			if _, res, err := replayAll(t, l, optionsOf(nil)); err != nil || res.Remaining != 0 {
				t.Errorf("the newer one: %+v, %v", res, err)
			}
		}
		return relay.Outcome{}
	}
	if _, err := older.Run(t.Context(), p); !errors.Is(err, ErrTakenOver) {
		t.Errorf("the older one: %v", err)
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(l.values())))); n != 40 {
		t.Errorf("%d different ones were sent", n)
	}
}

// TestRetentionGoesAhead deletes letters that were not read.
func TestRetentionGoesAhead(t *testing.T) {
	t.Parallel()
	l := newLetters(1, "payments")
	numbered(l, 20)
	if _, _, err := replayAll(t, l, optionsOf(func(o *Options) { o.Max = 3 })); err != nil {
		t.Fatal(err)
	}
	l.first[0] = 10
	p, res, err := replayAll(t, l, optionsOf(nil))
	if err != nil || p.Missed != 7 || res.Missed != 7 || res.Sent != 10 || res.Remaining != 0 {
		t.Errorf("%d missed, %+v, %v", p.Missed, res, err)
	}
}
