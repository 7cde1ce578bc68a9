package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/loop"
)

// Two desks with one consumer group would share the partitions, and each would miss the dead letters that the other reads. So each
// commit says whose it is, and a group with commits of another desk is not joined.

// ErrOtherDesk is wrapped by the error of a Poll whose group belongs to another desk.
var ErrOtherDesk = errors.New("the consumer group belongs to another desk")

const (
	// deskMetadata begins the metadata of a commit. The identity of the desk follows.
	deskMetadata = "postrider-desk="
	// deskPause is the time between two looks at a group that belongs to another desk.
	deskPause = 10 * time.Second
	// deskRetry is the time between two looks while no broker answers.
	deskRetry = 500 * time.Millisecond
)

// membership knows whose the group is.
type membership struct {
	group, desk string
	earlier     []string
	// admitted says that the group was looked at. It is false again when an assignment showed a commit of another desk.
	admitted atomic.Bool
	// refused is when that was last said.
	refused time.Time
}

func newMembership(c Config) *membership {
	m := &membership{group: c.Group, desk: c.Desk, earlier: c.EarlierDesks}
	m.admitted.Store(c.Desk == "") // it reads the topics from the start
	return m
}

// check returns an error for the metadata of a commit that another desk made. A commit without a desk is nobody's.
func (m *membership) check(metadata string) error {
	desk, named := strings.CutPrefix(metadata, deskMetadata)
	if !named || desk == m.desk || slices.Contains(m.earlier, desk) {
		return nil
	}
	return fmt.Errorf("%w: the offsets of the group %s were committed by the desk %s, and this is the desk %s; give this one a group and a dead-letter topic of its own (dlq.group, for example %s.2, and dlq.topic), or name that one in collector.earlier_desks if this one takes its place",
		ErrOtherDesk, m.group, desk, m.desk, m.group)
}

// fetched checks the commits of an assignment.
func (m *membership) fetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	if m.desk == "" {
		return nil
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := m.check(value(p.Metadata)); err != nil {
					m.admitted.Store(false)
					return err
				}
			}
		}
	}
	for _, t := range resp.Topics { // of brokers before 3.0
		for _, p := range t.Partitions {
			if err := m.check(value(p.Metadata)); err != nil {
				m.admitted.Store(false)
				return err
			}
		}
	}
	return nil
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// sign returns the context with which commits say whose they are.
func (m *membership) sign(ctx context.Context) context.Context {
	if m.desk == "" {
		return ctx
	}
	metadata := deskMetadata + m.desk
	return kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				req.Topics[i].Partitions[j].Metadata = &metadata
			}
		}
		return nil
	})
}

// GroupDesk returns the desk that committed offsets of a group; empty where none says so.
func GroupDesk(ctx context.Context, admin *kadm.Client, group string) (desk string, err error) {
	offsets, err := admin.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the offsets of the group %s: %w", group, err)
	}
	offsets.Each(func(o kadm.OffsetResponse) {
		if of, named := strings.CutPrefix(o.Metadata, deskMetadata); named && o.Err == nil {
			desk = max(desk, of)
		}
	})
	return desk, nil
}

// admit looks whose the group is before this member joins it. It waits while no broker answers.
func (s *Source) admit(ctx context.Context) error {
	m := s.member
	if m.admitted.Load() {
		return nil
	}
	if !m.refused.IsZero() {
		s.client.PurgeTopicsFromConsuming(s.client.GetConsumeTopics()...)
		if err := loop.Sleep(ctx, time.Until(m.refused.Add(deskPause))); err != nil {
			return err
		}
	}
	for {
		err := s.lookAtGroup(ctx)
		var said *kerr.Error
		switch {
		case err == nil:
			m.admitted.Store(true)
			s.client.AddConsumeTopics(s.topics...)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrOtherDesk), errors.As(err, &said) && !said.Retriable:
			m.refused = time.Now()
			return fmt.Errorf("dead-letter source: %w", err)
		case errors.Is(err, kgo.ErrClientClosed):
			return err
		}
		if err := loop.Sleep(ctx, deskRetry); err != nil {
			return err
		}
	}
}

func (s *Source) lookAtGroup(ctx context.Context) error {
	offsets, err := kadm.NewClient(s.client).FetchOffsets(ctx, s.group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("read the offsets of the group %s: %w", s.group, err)
	}
	for _, o := range offsets.Sorted() {
		if err := s.member.check(o.Metadata); err != nil {
			return err
		}
	}
	return nil
}
