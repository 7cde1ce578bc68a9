package kafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
)

// positions knows the next offset to read of each partition, which the client does not tell. It serves to notice
// records that were deleted before they were read, and to begin a recreated topic at its start.
type positions struct {
	mu   sync.Mutex
	next map[consumer.Partition]int64
	// gone topics are no longer the topics that were subscribed to, and must be subscribed to again.
	gone map[string]struct{}
	// anew are topics that were found gone and subscribed to again.
	anew map[string]*recreated
}

// recreated is what happened to the partitions of a topic since it was found gone.
type recreated struct {
	// assigned partitions are of the new topic. A partition that this member had before was of the old topic: its
	// offset must not be committed, neither at its turn nor when it is revoked.
	assigned map[int32]bool
	// committed partitions have a commit of ours: before that the group may have an offset of the old topic for them.
	committed map[int32]bool
}

func newPositions() positions {
	return positions{next: map[consumer.Partition]int64{}, gone: map[string]struct{}{}, anew: map[string]*recreated{}}
}

// adjust is called with the committed offsets of partitions that this member just took over.
func (p *positions) adjust(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, of := range offsets {
		since, anew := p.anew[topic]
		for id, o := range of {
			at := consumer.Partition{Topic: topic, ID: id}
			if delete(p.next, at); anew && !since.committed[id] {
				of[id] = kgo.NewOffset().AtStart()
			} else if n := o.EpochOffset().Offset; n >= 0 {
				p.next[at] = n
			}
		}
	}
	return offsets, nil
}

// read takes note of the fetched records, and returns how many offsets before them were deleted unread. Offsets that
// are missing for another reason (transaction markers, compaction) are not before the start of the log.
func (p *positions) read(at consumer.Partition, f *kgo.FetchPartition) (missed int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next, known := p.next[at]; known {
		missed = max(min(f.LogStartOffset, f.Records[0].Offset)-next, 0)
	}
	p.next[at] = f.Records[len(f.Records)-1].Offset + 1
	return missed
}

// lost takes note that a topic is gone.
func (p *positions) lost(topic string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone[topic] = struct{}{}
}

// recreate returns the topics that are gone, once, and treats them as new ones from now on.
func (p *positions) recreate() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var topics []string
	for topic := range p.gone {
		topics = append(topics, topic)
		p.anew[topic] = &recreated{assigned: map[int32]bool{}, committed: map[int32]bool{}}
	}
	clear(p.gone)
	return topics
}

// assigned takes note of partitions that were taken over.
func (p *positions) assigned(ps []consumer.Partition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range ps {
		if r := p.anew[at.Topic]; r != nil {
			r.assigned[at.ID] = true
		}
	}
}

// toCommit returns the positions to commit, without topics that are gone, and the recreated topics among them.
func (p *positions) toCommit(all []consumer.Position) (at map[string]map[int32]kgo.EpochOffset, anew map[string]*recreated) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, anew = map[string]map[int32]kgo.EpochOffset{}, map[string]*recreated{}
	for _, one := range all {
		_, gone := p.gone[one.Topic]
		r := p.anew[one.Topic]
		if gone || r != nil && !r.assigned[one.ID] {
			continue
		}
		if r != nil {
			anew[one.Topic] = r
		}
		if at[one.Topic] == nil {
			at[one.Topic] = map[int32]kgo.EpochOffset{}
		}
		at[one.Topic][one.ID] = kgo.EpochOffset{Epoch: one.LeaderEpoch, Offset: one.Offset}
	}
	return at, anew
}

// committed takes note of the positions of toCommit that the broker has. A topic that was found gone in between is
// another one of anew by now, and stays without a commit.
func (p *positions) committed(anew map[string]*recreated, at map[string]map[int32]kgo.EpochOffset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, r := range anew {
		for id := range at[topic] {
			r.committed[id] = true
		}
	}
}
