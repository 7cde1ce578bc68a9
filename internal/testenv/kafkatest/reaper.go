package kafkatest

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reaper takes members of classic groups that died out of their group. kfake times a member out from the answer to
// its JoinGroup on; one whose connection is gone by then is never timed out, and keeps its partitions for good. Apache
// Kafka times it out like any other.
type reaper struct {
	broker *Broker

	ctx    context.Context // until the broker is closed
	mu     sync.Mutex
	last   map[groupMember]life
	going  sync.WaitGroup
	closed bool
}

type groupMember struct{ group, member string }

type life struct {
	at      time.Time     // of its last request
	session time.Duration // as it said when it joined
}

// reapDead has a kfake broker watched until close is called.
func reapDead(b *Broker) (closed func()) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &reaper{broker: b, ctx: ctx, last: map[groupMember]life{}}
	for _, key := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.OffsetCommit, kmsg.LeaveGroup} {
		b.Cluster.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			f.see(r)
			return nil, nil, false
		})
	}
	return func() {
		f.mu.Lock()
		f.closed = true
		f.mu.Unlock()
		cancel()
		f.going.Wait()
	}
}

// see notes which members live. A member that was silent for two sessions is taken out of its group.
func (f *reaper) see(r kmsg.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var alive groupMember
	switch r := r.(type) {
	case *kmsg.JoinGroupRequest:
		alive = groupMember{r.Group, r.MemberID}
		if r.MemberID != "" {
			f.last[alive] = life{session: time.Duration(r.SessionTimeoutMillis) * time.Millisecond}
		}
	case *kmsg.SyncGroupRequest:
		alive = groupMember{r.Group, r.MemberID}
	case *kmsg.HeartbeatRequest:
		alive = groupMember{r.Group, r.MemberID}
	case *kmsg.OffsetCommitRequest:
		alive = groupMember{r.Group, r.MemberID}
	case *kmsg.LeaveGroupRequest:
		for _, m := range r.Members {
			delete(f.last, groupMember{r.Group, m.MemberID})
		}
		return
	}
	now := time.Now()
	if l, known := f.last[alive]; known {
		l.at = now
		f.last[alive] = l
	}
	for m, l := range f.last {
		if m.group == alive.group && now.Sub(l.at) > 2*l.session && !f.closed {
			delete(f.last, m)
			f.going.Go(func() { f.reap(m) }) // kfake answers nothing while it asks us
		}
	}
}

func (f *reaper) reap(m groupMember) {
	client, err := f.broker.newClient()
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(f.ctx, callTimeout)
	defer cancel()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = m.group
	one := kmsg.NewLeaveGroupRequestMember()
	one.MemberID = m.member
	req.Members = append(req.Members, one)
	_, _ = req.RequestWith(ctx, client) // an unknown member has gone by itself; without the broker no member waits
}
