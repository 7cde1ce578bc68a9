package doctor

import (
	"context"
	"time"

	"github.com/postrider/postrider/cmd/internal/plural"
	dlqkafka "github.com/postrider/postrider/internal/dlq/kafka"
)

// mostLate is how many late dead letters of a partition are counted one by one. Beyond, the offsets count.
const mostLate = 1000

// lateLetters counts dead letters that no collector has read though they were written long ago. A few of them are no lag
// worth a word, and still a person waits for each. They are read, because the last offset of a topic that transactions write
// is a marker: by offsets alone such a topic would be late for ever.
func lateLetters(ctx context.Context, p *patient, now time.Time) (late int64, err error) {
	if len(p.topics.letters) == 0 {
		return 0, nil
	}
	committed, err := p.admin.FetchOffsets(ctx, p.Settings.DLQ.Group)
	if err != nil {
		return 0, err
	}
	starts, err := p.admin.ListStartOffsets(ctx, p.topics.letters...)
	if err != nil {
		return 0, err
	}
	recent, err := p.admin.ListOffsetsAfterMilli(ctx, now.Add(-p.limits.lateLetter).UnixMilli(), p.topics.letters...)
	if err != nil {
		return 0, err
	}
	for topic, partitions := range recent {
		for partition, first := range partitions {
			start, known := starts.Lookup(topic, partition)
			if first.Err != nil || !known || start.Err != nil {
				continue // others say that
			}
			next := start.Offset
			if at, there := committed.Lookup(topic, partition); there && at.Err == nil {
				next = max(next, at.At)
			}
			if next >= first.Offset {
				continue
			}
			n, err := dlqkafka.CountRecords(ctx, p.Kafka, topic, partition, next, first.Offset, mostLate)
			if err != nil {
				return 0, err
			}
			if n == mostLate {
				n = first.Offset - next
			}
			late += n
		}
	}
	return late, nil
}

// judgeLate says what late dead letters are a sign of.
func judgeLate(late int64, l limits) []result {
	if late == 0 {
		return nil
	}
	return warn("look at the log of the processes with the role collector: a partition whose letters are not read, or a database that refuses "+
		"them; see CollectorLagging in docs/runbook.md", "%s for more than %v, and no collector has recorded that",
		plural.Of(late, "dead letter has been in its topic", "dead letters have been in their topics"), l.lateLetter)
}
