package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/internal/wire"
)

// Follow compares the topics of a connector with the topics of its shadow until it is stopped.
type Follow struct {
	// Kafka returns a client of the brokers that both write to. Required.
	Kafka func(...kgo.Opt) (*kgo.Client, error)
	// Shadow is how the table is forwarded: the prefix of its topics, the header of the id, and whether columns have partition
	// and timestamp. Required.
	Shadow adopt.Forward
	// Now returns how the table is forwarded now, nil where it is not; the comparison ends when this is another shadow or none. Nil
	// leaves it out. Its errors are said.
	Now func(context.Context) (*adopt.Forward, error)
	// Found is told each difference once, the first 20 between two lines of progress. Required.
	Found func(Difference)
	// Say prints progress and problems. Required.
	Say func(format string, args ...any)
	// Every is the time between two lines of progress. Defaults to 10 s.
	Every time.Duration
	// Wait is how long a record waits for its pair before it is a difference. Defaults to 1 min.
	Wait time.Duration
	// Last is how many records of each topic are read that were there before, so that pairs that are half there are met.
	// Defaults to 1000.
	Last int
}

// Progress is how far a comparison has come. Arrays have Debezium first, then Postrider.
type Progress struct {
	// Compared is how many pairs were compared, and Differing how many of these differ.
	Compared, Differing int
	// Missing is how many records had no pair in time, and Late how many pairs came later; these are not compared.
	Missing, Late int
	// Unread is how many records had no pair in time, while the other topic was not read because it was too far ahead.
	Unread int
	// Copies is how many records had an id that was there before, and Others how many had none, or one above 256 bytes.
	Copies, Others int
	// Waiting is how many records are not there yet on each side, and Since is when the oldest record without its pair was read, on
	// the other side.
	Waiting [2]int
	Since   [2]time.Time
}

// Same says that nothing differed. It holds as well where nothing was compared.
func (p Progress) Same() bool { return p.Differing == 0 && p.Missing == 0 }

func (p Progress) String() string {
	text := fmt.Sprintf("compared %d, differing %d", p.Compared, p.Differing)
	for _, n := range []struct {
		what  string
		count int
	}{{"without a pair in time", p.Missing}, {"late", p.Late}, {"not read in time", p.Unread}, {"copies", p.Copies}, {"without an id", p.Others}} {
		if n.count > 0 {
			text += fmt.Sprintf(", %s %d", n.what, n.count)
		}
	}
	for of, n := range p.Waiting {
		if n > 0 {
			text += fmt.Sprintf("; not yet by %s %d, since %s", sideNames[of], n, p.Since[of].UTC().Format(time.RFC3339))
		}
	}
	return text
}

const (
	// askLimit bounds one question about topics or the shadow, after which the comparison goes on.
	askLimit = 15 * time.Second
	// lookEvery is the longest time between two looks at the shadow and at new topics.
	lookEvery = 10 * time.Second
	// longestID bounds the ids that are kept; a longer one is no event's.
	longestID = 256
)

// following is one run of Follow.
type following struct {
	Follow
	pairs   *pairs
	admin   *kadm.Client
	readers [2]*kgo.Client
	// ends are where the partitions ended when they were found; records before are early.
	ends map[source]int64
	// known are the partitions that are read.
	known map[source]bool
	// shown is how many differences there were since the last line of progress.
	shown int
}

// source is a partition as one side reads it: a topic may be the connector's and, by its name, a shadow as well.
type source struct {
	of side
	place
}

// partitions are where to begin in partitions of topics.
type partitions map[string]map[int32]kgo.Offset

// Run compares until ctx ends or the shadow does. An error says why it could not go on.
func (f Follow) Run(ctx context.Context) (Progress, error) {
	f.Every, f.Wait, f.Last = cmp.Or(f.Every, 10*time.Second), cmp.Or(f.Wait, time.Minute), cmp.Or(f.Last, 1000)
	asking, err := f.Kafka()
	if err != nil {
		return Progress{}, err
	}
	defer asking.Close()
	g := newFollowing(f)
	g.admin = kadm.NewClient(asking)
	found, err := g.newPartitions(ctx)
	switch {
	case err != nil:
		return Progress{}, err
	case len(found[ours]) == 0:
		return Progress{}, fmt.Errorf("no topic has a shadow: create the topic %sTOPIC for each topic TOPIC of the connector; the forwarding into the shadow goes on", f.Shadow.Prefix)
	}
	ctx, stop := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	var batches [2]chan kgo.Fetches
	for of := range found {
		// Less than by default is fetched ahead: both sides are bounded.
		g.readers[of], err = f.Kafka(kgo.ConsumePartitions(found[of]), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxBytes(8<<20), kgo.FetchMaxPartitionBytes(1<<20))
		if err != nil {
			return Progress{}, err
		}
		defer g.readers[of].Close()
		batches[of] = make(chan kgo.Fetches)
		reading.Go(func() {
			for ctx.Err() == nil {
				select {
				case batches[of] <- g.readers[of].PollRecords(ctx, 1000):
				case <-ctx.Done():
				}
			}
		})
	}
	return g.run(ctx, batches)
}

func newFollowing(f Follow) *following {
	g := &following{Follow: f, ends: map[source]int64{}, known: map[source]bool{}}
	f.Found = g.differs
	g.pairs = newPairs(f)
	return g
}

// run takes what was read, and has a topic that is far ahead not read for a while: so what waits is bounded.
func (g *following) run(ctx context.Context, batches [2]chan kgo.Fetches) (Progress, error) {
	look, progress := time.NewTicker(min(g.Every, g.Wait, lookEvery)), time.NewTicker(g.Every)
	defer look.Stop()
	defer progress.Stop()
	for {
		var err error
		over := false
		select {
		case fetched := <-batches[theirs]:
			err = g.addFetched(theirs, fetched)
		case fetched := <-batches[ours]:
			err = g.addFetched(ours, fetched)
		case <-look.C:
			over = g.look(ctx)
		case <-progress.C:
			g.more()
			g.Say("%s", g.pairs.progress())
		case <-ctx.Done():
			over = true
		}
		now := time.Now()
		g.pairs.expire(now)
		for of, reader := range g.readers {
			pause, resume := g.pairs.turns(side(of), now)
			if len(pause) > 0 {
				reader.PauseFetchTopics(pause...)
			}
			if len(resume) > 0 {
				reader.ResumeFetchTopics(resume...)
			}
		}
		if ctx.Err() != nil {
			err = nil // it was stopped
		}
		if over || err != nil {
			g.more()
			return g.pairs.progress(), err
		}
	}
}

// differs tells a difference, where there were few since the last line of progress.
func (g *following) differs(d Difference) {
	if g.shown++; g.shown <= mostDifferences {
		g.Found(d)
	}
}

// more says how many differences were not told since the last line of progress.
func (g *following) more() {
	if n := g.shown - mostDifferences; n > 0 {
		g.Say("and %d more differ, which are not shown", n)
	}
	g.shown = 0
}

// addFetched gives the records of a side to the pairs.
func (g *following) addFetched(of side, fetched kgo.Fetches) error {
	for _, failed := range fetched.Errors() {
		if _, is := errors.AsType[*kgo.ErrDataLoss](failed.Err); is { // the client goes on behind what is lost
			g.Say("read %s, partition %d: %v", failed.Topic, failed.Partition, failed.Err)
			continue
		}
		return fmt.Errorf("read %s, partition %d: %w", failed.Topic, failed.Partition, failed.Err)
	}
	name, now := cmp.Or(g.Shadow.Definition.IDHeader, wire.HeaderID), time.Now()
	fetched.EachRecord(func(r *kgo.Record) {
		id := header(r, name)
		if id == "" || len(id) > longestID {
			g.pairs.count.Others++
			return
		}
		g.pairs.add(of, r, id, r.Offset < g.ends[source{of, place{r.Topic, r.Partition}}], now)
	})
	return nil
}

// look asks whether the shadow goes on, and has new partitions read. It reports whether the comparison is over.
func (g *following) look(ctx context.Context) (over bool) {
	if why := g.ended(ctx); why != "" {
		g.Say("%s", why)
		return true
	}
	found, err := g.newPartitions(ctx)
	if err != nil && ctx.Err() == nil {
		g.Say("new topics are not looked for: %v", err)
	}
	for of := range found {
		if len(found[of]) > 0 {
			g.readers[of].AddConsumePartitions(found[of])
		}
	}
	return false
}

// ended says why there is nothing more to compare, empty where there is.
func (g *following) ended(ctx context.Context) string {
	if g.Now == nil {
		return ""
	}
	asking, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	now, err := g.Now(asking)
	switch {
	case ctx.Err() != nil: // it was stopped
	case err != nil:
		g.Say("whether %s has its shadow still is not known: %v", g.Shadow.Table, err)
	case now == nil || now.Mode != adopt.ModeShadow:
		return g.Shadow.Table + " has no shadow any more: the comparison ends"
	case now.Prefix != g.Shadow.Prefix || !reflect.DeepEqual(now.Definition, g.Shadow.Definition):
		return "the shadow of " + g.Shadow.Table + " was changed: the comparison ends; run --follow again"
	}
	return ""
}

// newPartitions returns the partitions that are not read yet, of the shadow's topics and of the connector's topics that they stand
// beside: a topic from its last records on, and a new partition of a topic that is read from its beginning.
func (g *following) newPartitions(ctx context.Context) (found [2]partitions, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	listed, err := g.admin.ListTopics(ctx)
	if err != nil {
		return found, fmt.Errorf("list the topics: %w", err)
	}
	found = [2]partitions{{}, {}}
	var fresh [2][]string // a topic and its shadow have the same index
	for _, shadow := range slices.Sorted(maps.Keys(listed)) {
		live, is := strings.CutPrefix(shadow, g.Shadow.Prefix)
		if !is || !listed.Has(live) {
			continue
		}
		names := [2]string{theirs: live, ours: shadow}
		for of, topic := range names {
			if !g.known[source{ours, place{shadow, 0}}] {
				fresh[of] = append(fresh[of], topic)
				continue
			}
			for _, p := range listed[topic].Partitions {
				if at := (source{side(of), place{topic, p.Partition}}); !g.known[at] {
					g.markRead(found[of], at, kgo.NewOffset().AtStart())
				}
			}
		}
	}
	if len(fresh[ours]) == 0 {
		return found, nil
	}
	var begin [2]map[string]map[int32]kgo.Offset
	var end [2]map[place]int64
	for of, topics := range fresh {
		if begin[of], end[of], _, err = ranges(ctx, g.admin, topics, g.Last); err != nil {
			return found, err
		}
	}
	for i, shadow := range fresh[ours] {
		live := fresh[theirs][i]
		if len(begin[theirs][live]) == 0 || len(begin[ours][shadow]) == 0 {
			continue // one of both was deleted meanwhile
		}
		g.Say("comparing %s with %s", live, shadow)
		for of, topic := range [2]string{theirs: live, ours: shadow} {
			for partition, from := range begin[of][topic] {
				at := source{side(of), place{topic, partition}}
				g.ends[at] = end[of][at.place]
				g.markRead(found[of], at, from)
			}
		}
	}
	return found, nil
}

// markRead notes that a partition is read.
func (g *following) markRead(found partitions, at source, from kgo.Offset) {
	if found[at.topic] == nil {
		found[at.topic] = map[int32]kgo.Offset{}
	}
	found[at.topic][at.partition] = from
	g.known[at] = true
}
