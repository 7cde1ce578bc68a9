package doctor

import (
	"context"
	"time"

	"github.com/postrider/postrider/cmd/internal/plural"
)

// lateLetters counts dead letters that no collector has read though they were written long ago. A few of them are no lag
// worth a word, and still somebody waits for each.
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
			late += max(0, first.Offset-next)
		}
	}
	return late, nil
}

// judgeLate says what late dead letters are a sign of.
func judgeLate(late int64, l limits) []result {
	if late == 0 {
		return nil
	}
	return warn("look at the log of the processes with the role collector: a partition whose letters are not read, or a database that refuses them; see CollectorLagging in docs/runbook.md",
		"%s for more than %v, and no collector has recorded that", plural.Of(late, "dead letter has been in its topic", "dead letters have been in their topics"), l.lateLetter)
}
