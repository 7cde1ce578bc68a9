package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
)

// CodeNoSuchPartition: the event's writer chose a partition that the topic does not have.
const CodeNoSuchPartition = "NO_SUCH_PARTITION"

// noSuchPartition takes messages out of a batch whose partition does not exist, with the later ones of their keys. The
// client would fail such a record alone, and the topic's others would wait with it. A broker is asked where this process has
// not seen so many partitions. If it does not answer, the message stays in the batch.
func (p *Publisher) noSuchPartition(ctx context.Context, c *kgo.Client, ms []relay.Message, send []int, out []relay.Outcome) ([]int, []relay.Outcome) {
	var asked map[string]int32
	for _, i := range send {
		m := &ms[i]
		if m.Partition == nil || p.sizes.have(m.Topic, *m.Partition) {
			continue
		}
		if asked == nil {
			asked = map[string]int32{}
		}
		asked[m.Topic] = 0
	}
	if asked == nil {
		return send, out
	}
	countPartitions(ctx, c, asked)
	rest, blocked := make([]int, 0, len(send)), map[string]bool{}
	for _, i := range send {
		m := &ms[i]
		name := m.Topic + "\x00" + string(m.Key)
		switch n := asked[m.Topic]; {
		case m.Key != nil && blocked[name]:
			out = made(out, ms)
			out[i] = relay.Outcome{Class: relay.Withheld}
		case m.Partition != nil && n > 0 && *m.Partition >= n:
			blocked[name] = true
			out = made(out, ms)
			out[i] = relay.Outcome{Class: relay.Permanent, Code: CodeNoSuchPartition,
				Message: fmt.Sprintf("the event is for partition %d, and the topic %s has %d partitions, numbered from 0", *m.Partition, m.Topic, n)}
		default:
			rest = append(rest, i)
		}
	}
	return rest, out
}

// countPartitions asks a broker how many partitions topics have; a topic that it does not know stays as it is.
func countPartitions(ctx context.Context, c *kgo.Client, topics map[string]int32) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for topic := range topics {
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, asked)
	}
	res, err := req.RequestWith(ctx, c)
	if err != nil {
		return // the batch meets the same brokers, and says what is wrong with them
	}
	for i := range res.Topics {
		if t := &res.Topics[i]; t.Topic != nil && kerr.ErrorForCode(t.ErrorCode) == nil {
			topics[*t.Topic] = int32(len(t.Partitions))
		}
	}
}
