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
	silent map[groupMember]*time.Timer // goes off when a member was silent for two sessions
	// sessions are as long as the members said when they joined.
	sessions map[groupMember]time.Duration
	going    sync.WaitGroup
	closed   bool
}

type groupMember struct{ group, member string }

// reapDead has a kfake broker watched until close is called.
func reapDead(b *Broker) (closed func()) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &reaper{broker: b, ctx: ctx, silent: map[groupMember]*time.Timer{}, sessions: map[groupMember]time.Duration{}}
	for _, key := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.OffsetCommit, kmsg.LeaveGroup} {
		b.Cluster.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			f.see(r)
			return nil, nil, false
		})
	}
	return func() {
		f.mu.Lock()
		f.closed = true
		for _, timer := range f.silent {
			timer.Stop()
		}
		f.mu.Unlock()
		cancel()
		f.going.Wait()
	}
}

// see notes which members live. A member that was silent for two sessions is taken out of its group: by a timer, because
// a member that waits for the dead one to join asks for nothing.
func (f *reaper) see(r kmsg.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var alive groupMember
	switch r := r.(type) {
	case *kmsg.JoinGroupRequest:
		alive = groupMember{r.Group, r.MemberID}
		if r.MemberID != "" {
			f.sessions[alive] = time.Duration(r.SessionTimeoutMillis) * time.Millisecond
		}
	case *kmsg.SyncGroupRequest:
		alive = groupMember{r.Group, r.MemberID}
	case *kmsg.HeartbeatRequest:
		alive = groupMember{r.Group, r.MemberID}
	case *kmsg.OffsetCommitRequest:
		alive = groupMember{r.Group, r.MemberID}
	case *kmsg.LeaveGroupRequest:
		for _, m := range r.Members {
			f.forget(groupMember{r.Group, m.MemberID})
		}
		return
	}
	session, known := f.sessions[alive]
	if !known || f.closed {
		return
	}
	if timer := f.silent[alive]; timer != nil {
		timer.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(2*session, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.silent[alive] == timer && !f.closed { // and no request came meanwhile
			f.forget(alive)
			f.going.Go(func() { f.reap(alive) })
		}
	})
	f.silent[alive] = timer
}

// forget forgets a member. The caller holds f.mu.
func (f *reaper) forget(m groupMember) {
	if timer := f.silent[m]; timer != nil {
		timer.Stop()
	}
	delete(f.silent, m)
	delete(f.sessions, m)
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
