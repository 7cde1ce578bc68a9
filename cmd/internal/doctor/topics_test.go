package doctor

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

var errAway = errors.New("away")

// TestTheListIsAskedOfAnyBroker: where some answer, and do not say which topics there are, the next one is asked; where
// none says so, nothing that rests on it is called well.
func TestTheListIsAskedOfAnyBroker(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t, kfake.NumBrokers(3))
	s := newSubject(t, pgtest.New(t), b)
	var refusing, asked atomic.Int32
	b.Cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		if !req.(*kmsg.MetadataRequest).IncludeTopicAuthorizedOperations { // the client's own
			return nil, nil, false
		}
		asked.Add(1)
		if b.Cluster.CurrentNode() >= refusing.Load() {
			return nil, nil, false
		}
		return nil, errAway, true // its connection is cut
	})
	for _, n := range []int32{0, 1, 2} {
		refusing.Store(n)
		asked.Store(0)
		r := s.examine(t, nil)
		if rest := r.rest("state collector", "state leader", "database pg_trgm", "topics replication"); !r.OK || len(rest) > 0 || asked.Load() == 0 {
			t.Errorf("%d brokers do not say: %d were asked, %+v", n, asked.Load(), rest)
		}
	}
	refusing.Store(3)
	r := s.examine(t, nil)
	r.want(t, "topics", "list", Failed, "no broker says which topics there are", "broker 0", "broker 1", "broker 2")
	for _, c := range checks() {
		if c.group == "topics" && c.name != "list" || c.name == "records" || c.name == "collector" {
			r.want(t, c.group, c.name, Skipped, "the list of topics could not be read")
		}
	}
}

// TestNothingIsWellThatIsNotThere: without a topic nothing can be said of leaders, copies, sizes and rights.
func TestNothingIsWellThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	s.flags["dlq.topic"], s.flags["tasks.lifecycle_topic"] = "no-letters", "no-life"
	r := s.examine(t, nil)
	r.want(t, "topics", "existence", Failed, "no-letters")
	for _, name := range []string{"leaders", "replication", "message size", "dead letters"} {
		r.want(t, "topics", name, Skipped, "there is no topic to look at")
	}
	r.want(t, "clock", "records", Skipped, "there is no topic to look at")
	r.want(t, "topics", "rights", Skipped, "no-letters", "no-life")
	for _, f := range r.Findings {
		if f.Group == "topics" && f.Check == "rights" && f.Verdict == OK {
			t.Errorf("%+v", f)
		}
	}
}
