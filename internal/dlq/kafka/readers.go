package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/kgolog"
)

// shareProtocol is what brokers call the protocol of share groups.
const shareProtocol = "share"

var _ dlq.Readers = (*Originals)(nil)

// Readers implements dlq.Readers.
func (o *Originals) Readers(ctx context.Context, topics []string) (dlq.Reading, error) {
	asking := ctx
	if until, bounded := ctx.Deadline(); bounded { // what is known by then is still answered in time
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, time.Duration(o.share*float64(time.Until(until))))
		defer cancel()
	}
	q := question{ctx: asking, admin: o.admin, topics: topics, failed: map[string]error{}}
	q.reading.Groups = map[string][]string{}
	listed, err := o.admin.ListGroups(asking)
	var some *kadm.ShardErrors
	switch {
	case errors.As(err, &some) && !some.AllFailed:
		q.reading.Unlisted = len(some.Errs)
	case err != nil:
		return dlq.Reading{}, refused(fmt.Errorf("list consumer groups: %w", err))
	}
	var groups, shares []string
	for _, g := range listed.Sorted() {
		if g.ProtocolType == shareProtocol {
			shares = append(shares, g.Group)
		} else {
			groups = append(groups, g.Group)
		}
	}
	// Side by side: a group whose coordinator gives no answer takes all the time of its question, and none of the others'.
	var questions sync.WaitGroup
	questions.Go(q.askForTopics)
	questions.Go(func() { q.askForOffsets(groups) })
	questions.Go(func() { q.askForMembers(groups) })
	questions.Go(func() { q.askForSharers(shares) })
	questions.Wait()
	if ctx.Err() != nil {
		return dlq.Reading{}, fmt.Errorf("ask for the readers of topics in %d groups: %w", len(listed), context.Cause(ctx))
	}
	return q.answer(), nil
}

// question is what is asked about the readers of topics, and what is known so far.
type question struct {
	ctx    context.Context
	admin  *kadm.Client
	topics []string

	mu      sync.Mutex
	reading dlq.Reading
	// failed has the groups that gave no answer, and why.
	failed map[string]error
}

// reads notes that a group reads a topic.
func (q *question) reads(group, topic string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if slices.Contains(q.topics, topic) && !slices.Contains(q.reading.Groups[topic], group) {
		q.reading.Groups[topic] = append(q.reading.Groups[topic], group)
	}
}

// fails notes why a group gave no answer. A group that ended meanwhile reads nothing.
func (q *question) fails(group string, err error) {
	if err != nil && !groupEnded(err) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.failed[group] = err
	}
}

// answer is all that is known. A group that is known to read all the topics is not in doubt.
func (q *question) answer() dlq.Reading {
	for group, err := range q.failed {
		known := func(topic string) bool { return slices.Contains(q.reading.Groups[topic], group) }
		if slices.ContainsFunc(q.topics, func(topic string) bool { return !known(topic) }) {
			q.reading.Unasked = append(q.reading.Unasked, dlq.UnaskedGroup{Group: group, Why: kgolog.InShort(err)})
		}
	}
	slices.SortFunc(q.reading.Unasked, func(a, b dlq.UnaskedGroup) int { return cmp.Compare(a.Group, b.Group) })
	return q.reading
}

// askForTopics finds the topics that do not exist. If the brokers do not say it, none is called missing.
func (q *question) askForTopics() {
	there, err := q.admin.ListTopicsWithInternal(q.ctx, q.topics...)
	if err != nil {
		return
	}
	for _, topic := range q.topics {
		if errors.Is(there[topic].Err, kerr.UnknownTopicOrPartition) {
			q.mu.Lock()
			q.reading.Missing = append(q.reading.Missing, topic)
			q.mu.Unlock()
		}
	}
}

// askForOffsets finds the groups that have committed offsets.
func (q *question) askForOffsets(groups []string) {
	if len(groups) == 0 { // which the client would take for all
		return
	}
	for group, f := range q.admin.FetchManyOffsets(q.ctx, groups...) {
		q.fails(group, f.Err)
		for topic := range f.Fetched {
			q.reads(group, topic)
		}
	}
}

// askForMembers finds the groups that have members: a group that has just begun has no offsets.
func (q *question) askForMembers(groups []string) {
	var newer []string // of the consumer protocol of KIP-848, which this question is not about
	q.describe(groups, func(groups []string) (answered []string, err error) {
		described, err := q.admin.DescribeGroups(q.ctx, groups...)
		for _, g := range described {
			answered = append(answered, g.Group)
			for _, topic := range g.JoinTopics() {
				q.reads(g.Group, topic)
			}
			if groupEnded(g.Err) {
				newer = append(newer, g.Group)
			}
			q.fails(g.Group, g.Err)
		}
		return answered, err
	})
	q.describe(newer, func(groups []string) (answered []string, err error) {
		described, err := q.admin.DescribeConsumerGroups(q.ctx, groups...)
		var auth *kadm.AuthError
		if err != nil && !errors.As(err, &auth) && q.ctx.Err() == nil {
			return groups, nil // an older broker, which has no such groups: their offsets are known
		}
		for _, g := range described {
			answered = append(answered, g.Group)
			for _, topic := range g.SubscribedTopics() {
				q.reads(g.Group, topic)
			}
			q.fails(g.Group, g.Err)
		}
		return answered, err
	})
}

// askForSharers finds the share groups that have members.
func (q *question) askForSharers(groups []string) {
	q.describe(groups, func(groups []string) (answered []string, err error) {
		described, err := q.admin.DescribeShareGroups(q.ctx, groups...)
		for _, g := range described {
			answered = append(answered, g.GroupID)
			for _, topic := range g.SubscribedTopics() {
				q.reads(g.GroupID, topic)
			}
			q.fails(g.GroupID, g.Err)
		}
		return answered, err
	})
}

// describe asks about groups, and notes the ones that got no answer. The client gives up at the first group that the login
// may not describe; such a question is asked again by halves, until that group is alone.
func (q *question) describe(groups []string, ask func([]string) (answered []string, err error)) {
	if len(groups) == 0 {
		return
	}
	answered, err := ask(groups)
	var auth *kadm.AuthError
	if errors.As(err, &auth) && len(groups) > 1 {
		q.describe(groups[:len(groups)/2], ask)
		q.describe(groups[len(groups)/2:], ask)
		return
	}
	for _, group := range groups {
		if !slices.Contains(answered, group) {
			q.fails(group, err)
		}
	}
}

// refused adds to an error of authorization what dlq.Readers says of it.
func refused(err error) error {
	var auth *kadm.AuthError
	if errors.As(err, &auth) || errors.Is(err, kerr.GroupAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return fmt.Errorf("%w: %w", dlq.ErrReadersRefused, err)
	}
	return err
}

// groupEnded reports whether a group ended while it was asked about, or is none of the kind that was asked about.
func groupEnded(err error) bool {
	return errors.Is(err, kerr.GroupIDNotFound) || errors.Is(err, kerr.InvalidGroupID) || errors.Is(err, kerr.UnsupportedVersion)
}
