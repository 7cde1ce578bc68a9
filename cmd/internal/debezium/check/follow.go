package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/internal/wire"
)

// Follow compares the topics of a connector with those of its shadow until it is stopped.
type Follow struct {
	// Kafka returns a client of the brokers that both write to. Required.
	Kafka func(...kgo.Opt) (*kgo.Client, error)
	// Shadow is how the table is forwarded: the prefix of its topics, the header of the id, and whether columns have partition
	// and timestamp. Required.
	Shadow adopt.Forward
	// Runs reports whether the shadow is there still; when it is not, the comparison ends. Nil is always. Its errors are said.
	Runs func(context.Context) (bool, error)
	// Found is told each difference once. Required.
	Found func(Difference)
	// Say is told how far it has come, and what is not as it should be. Required.
	Say func(format string, args ...any)
	// Every is the time between two words of how far it has come. Defaults to 10 s.
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
	// Copies is how many records had an id that was there before, and Others how many had none.
	Copies, Others int
	// Waiting is how many records are not there yet on each side, and Since when the other side had the oldest.
	Waiting [2]int
	Since   [2]time.Time
}

// Same says that nothing differed.
func (p Progress) Same() bool { return p.Differing == 0 && p.Missing == 0 }

func (p Progress) String() string {
	text := fmt.Sprintf("compared %d, differing %d", p.Compared, p.Differing)
	for _, n := range []struct {
		what  string
		count int
	}{{"without a pair in time", p.Missing}, {"late", p.Late}, {"copies", p.Copies}, {"without an id", p.Others}} {
		if n.count > 0 {
			text += fmt.Sprintf(", %s %d", n.what, n.count)
		}
	}
	for of, n := range p.Waiting {
		if n > 0 {
			text += fmt.Sprintf("; not yet by %s %d, since %s", sideNames[of], n, p.Since[of].UTC().Format(time.TimeOnly))
		}
	}
	return text
}

// askLimit bounds one question about topics, after which the comparison goes on.
const askLimit = 15 * time.Second

// following is one run of Follow.
type following struct {
	Follow
	pairs   *pairs
	admin   *kadm.Client
	readers [2]*kgo.Client
	// ends are where the partitions ended when they were met; records before are early.
	ends map[place]int64
	// known are the partitions that are read.
	known map[place]bool
}

// Run compares until ctx ends or the shadow does. An error says why it could not go on.
func (f Follow) Run(ctx context.Context) (Progress, error) {
	f.Every, f.Wait, f.Last = cmp.Or(f.Every, 10*time.Second), cmp.Or(f.Wait, time.Minute), cmp.Or(f.Last, 1000)
	asking, err := f.Kafka()
	if err != nil {
		return Progress{}, err
	}
	defer asking.Close()
	g := &following{Follow: f, pairs: newPairs(f), admin: kadm.NewClient(asking), ends: map[place]int64{}, known: map[place]bool{}}
	met, err := g.meet(ctx)
	switch {
	case err != nil:
		return Progress{}, err
	case len(met[ours]) == 0:
		return Progress{}, fmt.Errorf("there is no topic TOPIC whose shadow %sTOPIC is there: create a shadow for each topic of the connector", f.Shadow.Prefix)
	}
	ctx, stop := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	var batches [2]chan kgo.Fetches
	for of := range met {
		// Less than by default is fetched ahead: both sides are bounded.
		g.readers[of], err = f.Kafka(kgo.ConsumePartitions(met[of]), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxBytes(8<<20), kgo.FetchMaxPartitionBytes(1<<20))
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

// run takes what was read, a side that is far ahead excepted: so what waits is bounded.
func (g *following) run(ctx context.Context, batches [2]chan kgo.Fetches) (Progress, error) {
	tick := time.NewTicker(g.Every)
	defer tick.Stop()
	for {
		open := batches
		for of := range open {
			if g.pairs.full(side(of)) {
				open[of] = nil
			}
		}
		var err error
		over := false
		select {
		case fetched := <-open[theirs]:
			err = g.take(theirs, fetched)
		case fetched := <-open[ours]:
			err = g.take(ours, fetched)
		case <-tick.C:
			over = g.tick(ctx)
		case <-ctx.Done():
			over = true
		}
		if ctx.Err() != nil {
			err = nil // it was stopped
		}
		if over || err != nil {
			return g.pairs.progress(), err
		}
	}
}

// take gives the records of a side to the pairs.
func (g *following) take(of side, fetched kgo.Fetches) error {
	for _, failed := range fetched.Errors() {
		return fmt.Errorf("read %s, partition %d: %w", failed.Topic, failed.Partition, failed.Err)
	}
	name, now := cmp.Or(g.Shadow.Definition.IDHeader, wire.HeaderID), time.Now()
	fetched.EachRecord(func(r *kgo.Record) {
		id := header(r, name)
		if id == "" {
			g.pairs.count.Others++
			return
		}
		g.pairs.add(of, r, id, r.Offset < g.ends[place{r.Topic, r.Partition}], now)
	})
	return nil
}

// tick says how far it has come, and looks for new topics. It reports whether the shadow has ended.
func (g *following) tick(ctx context.Context) (over bool) {
	g.pairs.expire(time.Now())
	g.Say("%s", g.pairs.progress())
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	if g.Runs != nil {
		runs, err := g.Runs(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			g.Say("whether %s has its shadow still is not known: %v", g.Shadow.Table, err)
		case err == nil && !runs:
			g.Say("%s has no shadow any more: the comparison ends", g.Shadow.Table)
			return true
		}
	}
	met, err := g.meet(ctx)
	if err != nil && ctx.Err() == nil {
		g.Say("new topics are not looked for: %v", err)
	}
	for of, partitions := range met {
		if len(partitions) > 0 {
			g.readers[of].AddConsumePartitions(partitions)
		}
	}
	return false
}

// meet returns the partitions that are not read yet, of the shadow's topics and of the connector's topics that they stand
// beside: a topic from its last records on, and a new partition of a topic that is read from its beginning.
func (g *following) meet(ctx context.Context) (met [2]map[string]map[int32]kgo.Offset, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	listed, err := g.admin.ListTopics(ctx)
	if err != nil {
		return met, fmt.Errorf("list the topics: %w", err)
	}
	met = [2]map[string]map[int32]kgo.Offset{{}, {}}
	var fresh []string
	for _, shadow := range slices.Sorted(maps.Keys(listed)) {
		live, is := strings.CutPrefix(shadow, g.Shadow.Prefix)
		if !is || !listed.Has(live) {
			continue
		}
		for of, topic := range [2]string{theirs: live, ours: shadow} {
			if !g.known[place{topic, 0}] {
				if fresh = append(fresh, topic); of == int(ours) {
					g.Say("comparing %s with %s", live, shadow)
				}
				continue
			}
			for _, p := range listed[topic].Partitions {
				if !g.known[place{topic, p.Partition}] {
					g.read(met[of], topic, p.Partition, kgo.NewOffset().AtStart())
				}
			}
		}
	}
	if len(fresh) == 0 {
		return met, nil
	}
	begin, end, _, err := ranges(ctx, g.admin, fresh, g.Last)
	if err != nil {
		return met, err
	}
	maps.Copy(g.ends, end)
	for topic, partitions := range begin {
		of := theirs
		if strings.HasPrefix(topic, g.Shadow.Prefix) {
			of = ours
		}
		for partition, from := range partitions {
			g.read(met[of], topic, partition, from)
		}
	}
	return met, nil
}

// read notes that a partition is read.
func (g *following) read(met map[string]map[int32]kgo.Offset, topic string, partition int32, from kgo.Offset) {
	if met[topic] == nil {
		met[topic] = map[int32]kgo.Offset{}
	}
	met[topic][partition] = from
	g.known[place{topic, partition}] = true
}
