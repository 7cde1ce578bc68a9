package kafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
)

// positions knows where reading stands, which the client does not tell: to notice records that were deleted before they
// were read, and to begin a recreated topic at its start.
type positions struct {
	mu   sync.Mutex
	next map[consumer.Partition]int64
	// anew are topics that were recreated, with the partitions that have a commit of ours since: before that the group
	// may have an offset of the old topic for them.
	anew map[string]map[int32]bool
}

// adjust is called with the committed offsets of partitions that this member just took over.
func (p *positions) adjust(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, of := range offsets {
		since, anew := p.anew[topic]
		for id, o := range of {
			at := consumer.Partition{Topic: topic, ID: id}
			if delete(p.next, at); anew && !since[id] {
				of[id] = kgo.NewOffset().AtStart()
			} else if n := o.EpochOffset().Offset; n >= 0 {
				p.next[at] = n
			}
		}
	}
	return offsets, nil
}

// read takes note of what was fetched, and returns how many offsets before it were deleted unread. Offsets that are
// missing for another reason (transaction markers, compaction) are not before the start of the log.
func (p *positions) read(at consumer.Partition, f *kgo.FetchPartition) (missed int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next, known := p.next[at]; known {
		missed = max(min(f.LogStartOffset, f.Records[0].Offset)-next, 0)
	}
	p.next[at] = f.Records[len(f.Records)-1].Offset + 1
	return missed
}

func (p *positions) recreate(topics []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, topic := range topics {
		p.anew[topic] = map[int32]bool{}
	}
}

func (p *positions) committed(at map[string]map[int32]kgo.EpochOffset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, since := range p.anew {
		for id := range at[topic] {
			since[id] = true
		}
	}
}
