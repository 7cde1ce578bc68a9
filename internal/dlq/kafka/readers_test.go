package kafka

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// commit lets a group read a topic, as far as brokers know.
func commit(t *testing.T, b *kafkatest.Broker, group, topic string) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, At: 1, LeaderEpoch: -1})
	if err := b.Admin(t).CommitAllOffsets(within(t, patience), group, offsets); err != nil {
		t.Fatal(err)
	}
}

// TestReaders: groups that read a topic, and topics that do not exist.
func TestReaders(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 1, nil)
		commit(t, b, topic+"-mail", topic)
		newSource(t, b, nil, topic) // a member without a commit
		o := newOriginals(t, b, 0)
		for ctx := within(t, patience); ; {
			got, err := o.Readers(ctx, []string{topic, topic + ".missing"})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(got.Groups[topic])
			if slices.Equal(got.Groups[topic], []string{topic, topic + "-mail"}) && slices.Equal(got.Missing, []string{topic + ".missing"}) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// TestASickGroupHidesNoOther: it is named with what the brokers said, whichever question it did not answer.
func TestASickGroupHidesNoOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys []kmsg.Key
		err  *kerr.Error
		want string // of the sick group; it is a reader where its offsets are known
	}{
		"no offsets, forbidden":   {[]kmsg.Key{kmsg.OffsetFetch}, kerr.GroupAuthorizationFailed, kerr.GroupAuthorizationFailed.Message},
		"no members, forbidden":   {[]kmsg.Key{kmsg.DescribeGroups, kmsg.OffsetFetch}, kerr.GroupAuthorizationFailed, kerr.GroupAuthorizationFailed.Message},
		"no members, broken":      {[]kmsg.Key{kmsg.DescribeGroups, kmsg.OffsetFetch}, kerr.UnknownServerError, kerr.UnknownServerError.Message},
		"a coordinator that fell": {[]kmsg.Key{kmsg.DescribeGroups, kmsg.OffsetFetch, kmsg.FindCoordinator}, kerr.CoordinatorNotAvailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Kfake(t)
			topic := b.Topic(t, 1, nil)
			var groups []string
			for i := range 5 {
				groups = append(groups, fmt.Sprintf("%s-%d", topic, i))
				commit(t, b, groups[i], topic)
			}
			sick := groups[2]
			b.Cluster.Fault(kfake.Fault{Keys: c.keys, Group: sick, Err: c.err, Count: -1})
			o := newOriginals(t, b, 0)
			o.share = 0.1 // the sick one takes all of it
			got, err := o.Readers(within(t, patience), []string{topic})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(got.Groups[topic])
			if well := slices.Delete(slices.Clone(groups), 2, 3); !slices.Equal(got.Groups[topic], well) {
				t.Errorf("readers are %q, want %q", got.Groups[topic], well)
			}
			if len(got.Unasked) != 1 || got.Unasked[0].Group != sick || got.Unasked[0].Why == "" || c.want != "" && got.Unasked[0].Why != c.want {
				t.Errorf("not asked are %q", got.Unasked)
			}
		})
	}
}

// TestReadersRefused: a login that may not list groups learns that, and not that the brokers are slow.
func TestReadersRefused(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t)
	b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListGroups}, TopLevel: true, Err: kerr.ClusterAuthorizationFailed, Count: -1})
	if _, err := newOriginals(t, b, 0).Readers(within(t, patience), []string{"orders"}); !errors.Is(err, dlq.ErrReadersRefused) {
		t.Errorf("%v", err)
	}
}
