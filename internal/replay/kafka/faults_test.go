package kafka

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/replay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestBrokerFaultsPass has the brokers answer with one error for ten minutes of virtual time, in the middle of a
// replay. It waits and logs the reason; then every letter is there, in the order of keys.
func TestBrokerFaultsPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key kmsg.Key
		err *kerr.Error
	}{
		{kmsg.Produce, kerr.NotEnoughReplicas}, {kmsg.Produce, kerr.NotEnoughReplicasAfterAppend}, {kmsg.Produce, kerr.RequestTimedOut},
		{kmsg.Produce, kerr.NotLeaderForPartition}, {kmsg.Fetch, kerr.NotLeaderForPartition}, {kmsg.Fetch, kerr.KafkaStorageError},
		{kmsg.OffsetCommit, kerr.CoordinatorNotAvailable}, {kmsg.OffsetCommit, kerr.RequestTimedOut}, {kmsg.OffsetFetch, kerr.CoordinatorLoadInProgress},
	} {
		t.Run(fmt.Sprint(c.key, " ", c.err.Message), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := kafkatest.Virtual(t)
				from, to := b.Topic(t, 2, nil), b.Topic(t, 2, nil)
				const n = 200
				produce(t, b, letters(from, to, 2, n)...)
				var once sync.Once
				fail := func() {
					fault := b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{c.key}, Err: c.err, Count: -1})
					time.AfterFunc(10*time.Minute, func() { fault.Remove() })
				}
				waited := false
				r := newReplay(t, b, replay.Options{From: from}, 20, func(p replay.Progress) {
					waited = waited || p.Waiting != ""
					if p.Sent >= 60 && !p.Planning {
						once.Do(fail)
					}
				})
				p, err := r.Plan(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if c.key == kmsg.Fetch { // the reader is ahead of the sender, and has all
					once.Do(fail)
				}
				began := time.Now()
				res, err := r.Run(t.Context(), p)
				if err != nil || res.Sent != n || res.Remaining != 0 {
					t.Fatalf("%+v, %v after %v", res, err, time.Since(began))
				}
				if time.Since(began) < 10*time.Minute {
					t.Errorf("it ended after %v of ten minutes", time.Since(began))
				}
				if !waited {
					t.Error("it did not say that it waits")
				}
				ids, last := map[string]string{}, map[string]int{}
				for _, r := range b.ReadAll(t, to, n) {
					value, id := string(r.Value), header(r, "replay_id")
					if before, again := ids[value]; again && before != id {
						t.Errorf("%s has the ids %s and %s", value, before, id)
					} else if again {
						continue
					}
					ids[value] = id
					var i int
					if _, err := fmt.Sscan(value, &i); err != nil {
						t.Fatal(err)
					}
					if before, known := last[string(r.Key)]; known && before > i {
						t.Errorf("%s: %d after %d", r.Key, i, before)
					}
					last[string(r.Key)] = i
				}
				if len(ids) != n {
					t.Errorf("%d of %d are there", len(ids), n)
				}
			})
		})
	}
}

// TestFinalFaultsEndIt has the brokers answer with errors that waiting does not mend.
func TestFinalFaultsEndIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key  kmsg.Key
		err  *kerr.Error
		want string
	}{
		{kmsg.OffsetCommit, kerr.GroupAuthorizationFailed, "commit where the replay begins: commit offsets of the consumer group postrider-replay-"},
		{kmsg.OffsetFetch, kerr.GroupAuthorizationFailed, "read the offsets of the consumer group postrider-replay-"},
		{kmsg.OffsetCommit, kerr.OffsetMetadataTooLarge, "OFFSET_METADATA_TOO_LARGE"},
		{kmsg.Fetch, kerr.TopicAuthorizationFailed, "TOPIC_AUTHORIZATION_FAILED"},
		{kmsg.Produce, kerr.TopicAuthorizationFailed, "does not take messages: TOPIC_AUTHORIZATION_FAILED"},
		{kmsg.Produce, kerr.InvalidRecord, "INVALID_RECORD"},
	} {
		t.Run(fmt.Sprint(c.key, " ", c.err.Message), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := kafkatest.Virtual(t)
				from, to := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
				produce(t, b, letters(from, to, 1, 10)...)
				b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{c.key}, Err: c.err, Count: -1})
				r := newReplay(t, b, replay.Options{From: from}, 20, nil)
				p, err := r.Plan(t.Context())
				if err == nil {
					_, err = r.Run(t.Context(), p)
				}
				wantError(t, err, c.want)
				if err != nil && strings.Contains(err.Error(), "waiting") {
					t.Error(err)
				}
			})
		})
	}
}

// TestRate keeps a rate through real requests under virtual time.
func TestRate(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{2, 50, 400} {
		synctest.Test(t, func(t *testing.T) {
			b := kafkatest.Virtual(t)
			from, to := b.Topic(t, 2, nil), b.Topic(t, 2, nil)
			n := int(rate * 10)
			produce(t, b, letters(from, to, 2, n)...)
			r := newReplay(t, b, replay.Options{From: from, Rate: rate}, 500, nil)
			p, err := r.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if res, err := r.Run(t.Context(), p); err != nil || res.Sent != int64(n) {
				t.Fatalf("%+v, %v", res, err)
			}
			rs := b.ReadAll(t, to, n)
			slices.SortFunc(rs, func(a, b *kgo.Record) int { return a.Timestamp.Compare(b.Timestamp) })
			took := rs[len(rs)-1].Timestamp.Sub(rs[0].Timestamp).Seconds()
			last := rs[len(rs)-1].Timestamp
			before := slices.IndexFunc(rs, func(r *kgo.Record) bool { return r.Timestamp.Equal(last) })
			if got := float64(before) / took; got < 0.95*rate || got > 1.05*rate {
				t.Errorf("%.2f a second, want %v", got, rate)
			}
		})
	}
}
