package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/postrider/postrider/internal/dlq"
)

// shareProtocol is what brokers call the protocol of share groups.
const shareProtocol = "share"

var _ dlq.Readers = (*Originals)(nil)

// Readers implements dlq.Readers.
func (o *Originals) Readers(ctx context.Context, topics []string) (map[string][]string, error) {
	listed, err := o.admin.ListGroups(ctx)
	if err != nil {
		return nil, refused(fmt.Errorf("list consumer groups: %w", err))
	}
	readers := map[string][]string{}
	reads := func(group, topic string) {
		if slices.Contains(topics, topic) && !slices.Contains(readers[topic], group) {
			readers[topic] = append(readers[topic], group)
		}
	}
	var groups, shares []string
	for _, g := range listed.Sorted() {
		if g.ProtocolType == shareProtocol {
			shares = append(shares, g.Group)
		} else {
			groups = append(groups, g.Group)
		}
	}
	var failures []error
	if len(groups) > 0 {
		for _, f := range o.admin.FetchManyOffsets(ctx, groups...) {
			failures = append(failures, f.Err)
			for topic := range f.Fetched {
				reads(f.Group, topic)
			}
		}
		if err := o.members(ctx, groups, reads); err != nil {
			failures = append(failures, err)
		}
	}
	if len(shares) > 0 {
		described, err := o.admin.DescribeShareGroups(ctx, shares...)
		failures = append(failures, err)
		for _, g := range described {
			failures = append(failures, g.Err)
			for _, topic := range g.SubscribedTopics() {
				reads(g.GroupID, topic)
			}
		}
	}
	if ctx.Err() != nil { // the list would not be whole
		return nil, fmt.Errorf("ask for the offsets of %d groups: %w", len(listed), context.Cause(ctx))
	}
	for _, err := range failures {
		if err = refused(err); err != nil && !groupEnded(err) {
			return nil, err
		}
	}
	return readers, nil
}

// members tells reads which topics members of the groups subscribe to: a group that has just begun has no offsets.
func (o *Originals) members(ctx context.Context, groups []string, reads func(group, topic string)) error {
	described, err := o.admin.DescribeGroups(ctx, groups...)
	if err != nil {
		return err
	}
	var newer []string // of the consumer protocol of KIP-848, which this question is not about
	for _, g := range described {
		for _, topic := range g.JoinTopics() {
			reads(g.Group, topic)
		}
		if g.Err != nil {
			newer = append(newer, g.Group)
		}
	}
	if len(newer) == 0 {
		return nil
	}
	found, err := o.admin.DescribeConsumerGroups(ctx, newer...)
	if err != nil {
		return nil // an older broker: their offsets are known
	}
	for _, g := range found {
		for _, topic := range g.SubscribedTopics() {
			reads(g.Group, topic)
		}
	}
	return nil
}

// refused adds to an error of authorization what dlq.Readers says of it.
func refused(err error) error {
	var auth *kadm.AuthError
	if errors.As(err, &auth) || errors.Is(err, kerr.GroupAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return fmt.Errorf("%w: %w", dlq.ErrReadersRefused, err)
	}
	return err
}

// groupEnded reports whether a group ended while it was asked about.
func groupEnded(err error) bool {
	return errors.Is(err, kerr.GroupIDNotFound) || errors.Is(err, kerr.InvalidGroupID) || errors.Is(err, kerr.UnsupportedVersion)
}
