package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/dlq"
)

// maxPointing is how many messages that letters only point to are in memory at once.
const maxPointing = 64

// fetch asks for the messages that letters only point to, and decides about these letters anew. Brokers that do not
// answer are waited for, until limit if that is not 0.
func (r *Replay) fetch(ctx context.Context, items []item, now *round, label string, limit time.Duration) error {
	var pointing []*item
	for i := range items {
		if items[i].points != nil {
			pointing = append(pointing, &items[i])
		}
	}
	if len(pointing) == 0 {
		return nil
	}
	if r.originals != nil {
		err := r.mend(ctx, "fetch the records that letters point to", limit, func(ctx context.Context) error { return r.fetchSome(ctx, pointing) })
		if err != nil {
			return err
		}
	}
	for _, it := range pointing {
		switch l := it.points; l.OriginalRecord {
		case dlq.OriginalFetched:
			it.verdict = r.options.decideLetter(it.record, *l, now.since, now.until, label)
			it.fetched = true
		case dlq.OriginalRefused:
			it.skip = PayloadRefused
		}
		it.points = nil
	}
	return nil
}

// fetchSome asks for what was not answered yet. Its error says that brokers have more to answer.
func (r *Replay) fetchSome(ctx context.Context, items []*item) error {
	items = slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return answered(it.points.OriginalRecord) })
	places := make([]dlq.Place, len(items))
	for i, it := range items {
		places[i], _ = it.points.Pointer()
	}
	asking, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	var waiting error
	for i, o := range r.originals.Fetch(asking, places) {
		if state := items[i].points.Complete(o); !answered(state) && waiting == nil {
			waiting = fmt.Errorf("%s, partition %d, offset %d: %s", places[i].Topic, places[i].Partition, places[i].Offset,
				errors.Join(o.Err, errors.New(string(state))))
		}
	}
	return waiting
}

// answered reports whether asking again at once tells nothing new.
func answered(s dlq.OriginalState) bool {
	return s != "" && (!s.Passing() || s == dlq.OriginalRefused)
}
