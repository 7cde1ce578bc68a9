package kafka

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/replay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestReplaysExactBytes replays records with any bytes.
func TestReplaysExactBytes(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		from, to := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		var want []string
		for i, v := range [][]byte{nil, {}, {0}, []byte("text"), []byte("\x1b]0;title\x07\x1b[2J\u202e"), bytes.Repeat([]byte{0xff}, 100_000)} {
			r := letter(from, to, 0, i, v, v)
			produce(t, b, r)
			want = append(want, shown(&kgo.Record{Key: v, Value: v, Headers: slices.Concat(r.Headers[:4], []kgo.RecordHeader{
				{Key: "replay_of", Value: fmt.Appendf(nil, "record:%s/0/%d", to, i)},
				{Key: "replay_origin", Value: fmt.Appendf(nil, "%s/0/%d", to, i)}, {Key: "postrider-hops", Value: []byte("1")},
				{Key: "postrider-redrive-of", Value: fmt.Appendf(nil, "record:%s/0/%d", to, i)}})}))
		}
		p, res, err := replayAll(t, b, replay.Options{From: from})
		if err != nil || res.Sent != int64(len(want)) || p.Targets[to] != res.Sent || !p.Newest.Equal(written.Add(5*time.Millisecond)) {
			t.Fatalf("%+v, %+v, %v", p, res, err)
		}
		var got, ids []string
		for _, r := range b.ReadAll(t, to, len(want)) {
			got, ids = append(got, shown(r)), append(ids, header(r, "replay_id"))
			if r.Timestamp.Before(written.Add(time.Minute)) {
				t.Errorf("the timestamp is the letter's: %v", r.Timestamp)
			}
		}
		slices.Sort(got) // keyless and keyed have no order among each other
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("read\n%.3000q\nwant\n%.3000q", got, want)
		}
		slices.Sort(ids)
		if n := len(slices.Compact(ids)); n != len(want) {
			t.Errorf("%d replay ids", n)
		}
		if p, res, err = replayAll(t, b, replay.Options{From: from}); err != nil || p.Round != replay.Next || res.Sent != 0 {
			t.Errorf("once more: %s, %+v, %v", p.Round, res, err)
		}
	})
}

// TestTransactions replays committed records, and neither waits behind markers nor reads aborted ones.
func TestTransactions(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		from, to := b.Topic(t, 2, nil), b.Topic(t, 2, nil)
		writer := b.Client(t, kgo.TransactionalID(from), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		ctx := within(t, patience)
		for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
			if err := writer.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			rs := letters(from, to, 2, 10)
			for n, r := range rs {
				r.Value = fmt.Append(nil, i*100+n)
			}
			if err := writer.ProduceSync(ctx, rs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := writer.EndTransaction(ctx, end); err != nil {
				t.Fatal(err)
			}
		}
		p, res, err := replayAll(t, b, replay.Options{From: from})
		if err != nil || p.Sending != 20 || res.Sent != 20 || res.Remaining != 0 || p.Records != 2*(4*5+4) {
			t.Fatalf("%+v, %+v, %v", p, res, err)
		}
		for _, r := range b.ReadAll(t, to, 20) {
			if v := string(r.Value); len(v) == 3 && v[0] != '2' {
				t.Errorf("%s was aborted", v)
			}
		}
	})
}

// TestOrder keeps the order of each source partition per key, over several calls.
func TestOrder(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		from, to := b.Topic(t, 3, nil), b.Topic(t, 4, nil)
		const n = 1000
		produce(t, b, letters(from, to, 3, n)...)
		o := replay.Options{From: from, Run: "in-order", Max: 300}
		for remaining := int64(1); remaining > 0; {
			p, res, err := replayAll(t, b, o)
			if err != nil {
				t.Fatal(err)
			}
			if left := p.Sending - res.Sent; res.Sent != min(300, p.Sending) || left != res.Remaining || left < 100 && left > 0 {
				t.Fatalf("%+v %+v", p, res)
			}
			remaining = res.Remaining
		}
		last, seen := map[string]int{}, 0
		for _, r := range b.ReadAll(t, to, n) {
			var i int
			if _, err := fmt.Sscan(string(r.Value), &i); err != nil {
				t.Fatal(err)
			}
			if before, known := last[string(r.Key)]; known && before >= i {
				t.Errorf("%s: %d after %d", r.Key, i, before)
			}
			last[string(r.Key)] = i
			seen++
		}
		if seen != n {
			t.Errorf("%d records", seen)
		}
		offsets, err := b.Admin(t).FetchOffsets(within(t, patience), "postrider-replay-in-order")
		if err != nil || offsets[from][0].At != 334 || offsets[from][1].At != 333 {
			t.Errorf("offsets %v, %v", offsets, err)
		}
	})
}

func TestTopicsThatAreMissing(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		from, gone := b.Topic(t, 1, nil), b.Topic(t, 1, nil)+"-gone"
		produce(t, b, letters(from, gone, 1, 5)...)
		_, _, err := replayAll(t, b, replay.Options{From: from})
		wantError(t, err, "5 letters would go to topics that do not exist", gone)
		_, _, err = replayAll(t, b, replay.Options{From: from, To: gone})
		wantError(t, err, "topic "+gone+" does not exist, and is not created")
		_, _, err = replayAll(t, b, replay.Options{From: gone})
		wantError(t, err, "topic "+gone+" does not exist")
		if topics, err := b.Admin(t).ListTopics(within(t, patience), gone); err != nil || topics.Has(gone) {
			t.Errorf("%v, %v: it was created", topics, err)
		}
	})
}

// TestRetention deletes letters after the replay began.
func TestRetention(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		from, to := b.Topic(t, 2, nil), b.Topic(t, 1, nil)
		produce(t, b, letters(from, to, 2, 40)...)
		if _, res, err := replayAll(t, b, replay.Options{From: from, Max: 3}); err != nil || res.Sent != 3 {
			t.Fatalf("%+v, %v", res, err)
		}
		offsets := kadm.Offsets{}
		offsets.AddOffset(from, 0, 15, -1)
		offsets.AddOffset(from, 1, 20, -1) // all of it
		if deleted, err := b.Admin(t).DeleteRecords(within(t, patience), offsets); err != nil || deleted.Error() != nil {
			t.Fatal(err, deleted.Error())
		}
		p, res, err := replayAll(t, b, replay.Options{From: from})
		if err != nil || res.Sent != 5 || res.Missed != 32 || p.Missed != 32 || res.Remaining != 0 {
			t.Errorf("%d missed in the plan, %+v, %v", p.Missed, res, err)
		}
	})
}

// TestRecreatedSource deletes the topic of letters in the middle, and makes it anew.
func TestRecreatedSource(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		from, to := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		produce(t, b, letters(from, to, 1, 20)...)
		if _, res, err := replayAll(t, b, replay.Options{From: from, Max: 3}); err != nil || res.Sent != 3 {
			t.Fatalf("%+v, %v", res, err)
		}
		admin, ctx := b.Admin(t), within(t, patience)
		if _, err := admin.DeleteTopic(ctx, from); err != nil {
			t.Fatal(err)
		}
		for topics, err := admin.ListTopics(ctx, from); topics.Has(from) && topics[from].Err == nil; topics, err = admin.ListTopics(ctx, from) {
			if err != nil {
				t.Fatal(err)
			}
		}
		b.CreateTopic(t, from, 1, nil)
		produce(t, b, letters(from, to, 1, 30)...)
		// Brokers forget the offsets of a deleted topic sooner or later; where they did, it is the first round again.
		p, res, err := replayAll(t, b, replay.Options{From: from})
		if err == nil && (p.Round != replay.First || res.Sent != 30) {
			t.Errorf("%s, %+v", p.Round, res)
		}
		if err != nil {
			wantError(t, err, "deleted and made anew")
		}
	})
}

// TestGroupOfOthers refuses to write into the group of a consumer that is at work, and of one that was.
func TestGroupOfOthers(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		from, to := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		produce(t, b, letters(from, to, 1, 5)...)
		member := b.Client(t, kgo.ConsumerGroup(from), kgo.ConsumeTopics(to), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		produce(t, b, &kgo.Record{Topic: to, Value: []byte("x")})
		if err := member.PollFetches(within(t, patience)).Err(); err != nil {
			t.Fatal(err)
		}
		_, res, err := replayAll(t, b, replay.Options{From: from, Group: from})
		wantError(t, err, "has members", "--group")
		if res.Sent != 0 {
			t.Errorf("%+v", res)
		}
		offsets := kadm.Offsets{}
		offsets.AddOffset(from, 0, 2, -1)
		if err := b.Admin(t).CommitAllOffsets(within(t, patience), from+"-past", offsets); err != nil {
			t.Fatal(err)
		}
		_, _, err = replayAll(t, b, replay.Options{From: from, Group: from + "-past"})
		wantError(t, err, "offsets that are not a replay's")
	})
}

// TestTooLarge has the broker refuse one message among others.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		from, to := b.Topic(t, 1, nil), b.Topic(t, 1, map[string]string{"max.message.bytes": "20000"})
		rs := letters(from, to, 1, 20)
		rs[7].Value = bytes.Repeat([]byte("x"), 30_000)
		produce(t, b, rs...)
		_, res, err := replayAll(t, b, replay.Options{From: from})
		wantError(t, err, "topic "+to+" refuses the message of the letter "+from+", partition 0, offset 7: MESSAGE_TOO_LARGE")
		if res.Remaining != 13 {
			t.Errorf("%+v", res)
		}
		_, res, err = replayAll(t, b, replay.Options{From: from, SkipRefused: true})
		if err != nil || res.Skipped[replay.Refused] != 1 || res.Sent != 12 || res.Remaining != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		values := map[string]bool{}
		for _, r := range b.ReadAll(t, to, 19) {
			values[string(r.Value)] = true
		}
		if len(values) != 19 {
			t.Errorf("%d different ones are there", len(values))
		}
	})
}

// TestWrongAddress ends soon where no broker is.
func TestWrongAddress(t *testing.T) {
	t.Parallel()
	cluster, err := New(Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cluster.Topics(ctx, "t"); err == nil || replay.IsFinal(err) || !strings.Contains(err.Error(), "ask for topics") {
		t.Error(err)
	}
	for _, cfg := range []Config{{}, {Brokers: []string{"x:1"}, MaxRecords: -1}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}
