package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/consumer"
)

// Client implements consumer.Client.
type Client struct {
	cfg   Config
	group string

	mu       sync.Mutex
	member   *kgo.Client        // nil until Open
	endWaits context.CancelFunc // ends what member waits for
	writer   *writer            // for everything
	alone    *writer            // for one record at a time
	closed   bool
	soloTurn sync.Mutex
	// awaiting looks for topics to read that do not exist; stopAwaiting is nil where all are there.
	awaiting     sync.WaitGroup
	stopAwaiting context.CancelFunc

	positions positions
}

var _ consumer.Client = (*Client)(nil)

// NewClient checks the configuration. It does not connect.
func NewClient(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("consumer client: %w", err)
	}
	return &Client{cfg: cfg, positions: newPositions()}, nil
}

// Open implements consumer.Client. While no broker answers it waits, and says so in the log.
func (c *Client) Open(ctx context.Context, s consumer.Subscription, e consumer.Events) error {
	c.group = s.Group
	c.cfg.Logger = cmp.Or(c.cfg.Logger, s.Logger, slog.New(slog.DiscardHandler))
	also, err := c.prepare(ctx, s)
	if err != nil {
		return err
	}
	s.Topics = append(slices.Clip(s.Topics), also...)
	tell := func(f func([]consumer.Partition)) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, m map[string][]int32) { f(partitions(m)) }
	}
	waits, endWaits := context.WithCancel(context.WithoutCancel(ctx))
	member, err := kgo.NewClient(c.cfg.member(s, []kgo.Opt{
		kgo.WithContext(waits),
		kgo.OnPartitionsAssigned(tell(func(ps []consumer.Partition) {
			e.Assigned(ps) // first, since it ends the lanes of topics that were deleted
			c.positions.assigned(ps)
		})),
		kgo.OnPartitionsRevoked(tell(e.Revoked)),
		kgo.OnPartitionsLost(tell(e.Lost)),
		kgo.AdjustFetchOffsetsFn(c.positions.adjust),
	})...)
	if err != nil {
		endWaits()
		return fmt.Errorf("kafka: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.member != nil {
		endWaits()
		member.Close()
		return errors.New("kafka: a client serves one consumer, once")
	}
	c.member, c.endWaits = member, endWaits
	return nil
}

func partitions(m map[string][]int32) []consumer.Partition {
	all := []consumer.Partition{}
	for topic, ids := range m {
		for _, id := range ids {
			all = append(all, consumer.Partition{Topic: topic, ID: id})
		}
	}
	return all
}

func single(p consumer.Partition) map[string][]int32 { return map[string][]int32{p.Topic: {p.ID}} }

// Pause implements consumer.Client.
func (c *Client) Pause(p consumer.Partition) { c.member.PauseFetchPartitions(single(p)) }

// Resume implements consumer.Client.
func (c *Client) Resume(p consumer.Partition) { c.member.ResumeFetchPartitions(single(p)) }

// Release implements consumer.Client.
func (c *Client) Release() { c.member.AllowRebalance() }

// Commit implements consumer.Client. Positions in deleted topics are left out: the group would keep them for the next
// topic of that name.
func (c *Client) Commit(ctx context.Context, positions []consumer.Position) error {
	at, anew := c.positions.toCommit(positions)
	if err := ctx.Err(); err != nil || len(at) == 0 { // Assigned ends a commit of the old topic before it lets the new one's pass
		return err
	}
	var errs []error
	c.member.CommitOffsetsSync(ctx, at, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					errs = append(errs, fmt.Errorf("topic %s, partition %d: %w", t.Topic, p.Partition, err))
				}
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.positions.committed(anew, at)
	return nil
}

// Close implements consumer.Client. Closing twice does nothing.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	member, endWaits, writers := c.member, c.endWaits, []*writer{c.writer, c.alone}
	first := !c.closed
	c.closed = true
	stopAwaiting := c.stopAwaiting
	c.mu.Unlock()
	if !first {
		return nil
	}
	if stopAwaiting != nil {
		stopAwaiting()
		c.awaiting.Wait()
	}
	var err error
	if member != nil {
		member.AllowRebalance()
		if err = member.LeaveGroupContext(ctx); errors.Is(err, kerr.UnknownMemberID) {
			err = nil // the group had put it out already
		}
		if err != nil {
			endWaits() // closing waits for the answer to JoinGroup, which comes when all other members have joined
		}
		member.CloseAllowingRebalance()
		member.AllowRebalance() // after a poll that came between, a goroutine of the client would wait for ever
		endWaits()
	}
	for _, w := range writers {
		if w != nil {
			w.client.Close()
		}
	}
	if err != nil {
		c.cfg.Logger.Warn("the group was not told that this member leaves, and will notice", slog.Any("err", err))
	}
	return err
}
