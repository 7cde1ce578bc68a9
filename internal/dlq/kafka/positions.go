package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

type adjustFunc = func(context.Context, map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error)

type partition struct {
	topic string
	id    int32
}

// positions knows where reading stands in each partition, which the client does not tell: to notice
// letters that were deleted before they were read, and to begin a recreated topic at its start.
type positions struct {
	mu sync.Mutex
	// next is the offset that should come next; negative or absent when that is not known.
	next map[partition]int64
	// recreated topics are read from their start until a partition has a commit of ours since: a commit of
	// the old topic's offsets may have landed on the new one, and following it would pass letters over.
	recreated map[string]map[int32]bool
}

func newPositions() *positions {
	return &positions{next: map[partition]int64{}, recreated: map[string]map[int32]bool{}}
}

// adjust is called with the committed offsets of partitions that this member just took over.
func (p *positions) adjust(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, partitions := range offsets {
		committed, recreated := p.recreated[topic]
		for id, offset := range partitions {
			next := offset.EpochOffset().Offset // negative for the start
			if recreated && !committed[id] {
				partitions[id], next = kgo.NewOffset().AtStart(), -1
			}
			p.next[partition{topic, id}] = next
		}
	}
	return offsets, nil
}

// recreate begins a topic anew.
func (p *positions) recreate(topic string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recreated[topic] = map[int32]bool{}
}

// read takes note of what was fetched from a partition, and returns how many offsets before it were
// deleted unread, with an error that names them. Offsets missing for another reason (transaction markers,
// compaction) are not before the start of the log.
func (p *positions) read(topic string, f *kgo.FetchPartition) (missed int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := partition{topic, f.Partition}
	next, known := p.next[at]
	first, last := f.Records[0].Offset, f.Records[len(f.Records)-1].Offset
	// What the client had fetched before retention deleted it comes behind a look that counted it; it is not counted again.
	p.next[at] = max(next, last+1)
	return unread(at, next, known, min(f.LogStartOffset, first))
}

// begins takes note of where a partition begins now, and returns the same as read. Neither of them counts an offset
// again that one of them has returned.
func (p *positions) begins(topic string, id int32, start int64) (missed int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := partition{topic, id}
	next, known := p.next[at]
	if missed, err = unread(at, next, known, start); err != nil {
		p.next[at] = start
	}
	return missed, err
}

// unread is how many offsets from the next on are before the start.
func unread(at partition, next int64, known bool, start int64) (missed int64, err error) {
	if !known || next < 0 || start <= next {
		return 0, nil
	}
	return start - next, fmt.Errorf("topic %s, partition %d: offsets %d to %d were deleted before they were read", at.topic, at.id, next, start-1)
}

// committed takes note of a commit.
func (p *positions) committed(topic string, id int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if partitions, recreated := p.recreated[topic]; recreated {
		partitions[id] = true
	}
}
