package check

import (
	"bytes"
	"container/list"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// side is one of the two programs that send a row.
type side int

const (
	theirs side = iota // the connector
	ours               // Postrider, into the shadow
)

// other is the side whose record a record of this side waits for.
func (s side) other() side { return 1 - s }

var sideNames = [...]string{"Debezium", "Postrider"}

const (
	// pairsWindow bounds the bytes that wait on one side. Its topics share it evenly: one that stands still stops no other.
	pairsWindow = 32 << 20
	// recordCost is what a record that waits needs beside its own bytes, about.
	recordCost = 512
	// remembered is how many ids are known after their pair was compared: a copy of one of them is no record without a pair.
	remembered = 100_000
)

// pairs joins the records of two sides by their topics and ids, and compares each pair when its second record comes. Records of a
// key are compared in their order, too.
type pairs struct {
	// wait is how long a record waits for its pair.
	wait time.Duration
	// prefix begins the topics of our side.
	prefix string
	// partition and timestamp say whether a column has them; otherwise each side chooses its own.
	partition, timestamp bool
	// began is when the shadow did.
	began time.Time
	found func(Difference)

	byID    map[pairID]*waiting
	byKey   [2]map[key][]*waiting // in the order of the topic
	arrived [2]list.List          // of *waiting, the oldest first
	flows   [2]map[string]*flow   // by topic, without the prefix
	// paired is where the first pair is in each partition of the connector's topics.
	paired map[place]int64
	done   recent
	count  Progress
}

// pairID is what the two records of a pair have in common. Another table may have the same ids, in other topics.
type pairID struct{ topic, id string }

// flow is how a topic is read on one side.
type flow struct {
	bytes   int // of its records that wait
	paused  bool
	resumed time.Time // when it was paused last, the end of that
}

// key is what has an order. Its partition counts where a column chooses it.
type key struct {
	topic, key string
	partition  int32
}

// waiting is a record whose pair has not come.
type waiting struct {
	side   side
	id     string
	record *kgo.Record // of our side without the prefix of its topic
	since  time.Time
	// early says that it was there before the comparison began: its pair may have been further back.
	early bool
	// overtaken is the id of a record of its key that is behind it on this side, and before it on the other.
	overtaken string
	at        *list.Element
}

func (w *waiting) pair() pairID { return pairID{w.record.Topic, w.id} }

func newPairs(f Follow) *pairs {
	return &pairs{wait: f.Wait, prefix: f.Shadow.Prefix, partition: f.Shadow.Definition.Partition != "", timestamp: f.Shadow.Definition.Timestamp != "", found: f.Found,
		began: f.Shadow.Since, paired: map[place]int64{}, byID: map[pairID]*waiting{}, byKey: [2]map[key][]*waiting{{}, {}}, flows: [2]map[string]*flow{{}, {}},
		done: recent{late: map[pairID]bool{}}}
}

// turns returns the topics of a side that are far enough ahead of the other side from now on, and those that are not any more.
func (p *pairs) turns(of side, now time.Time) (pause, resume []string) {
	share := pairsWindow / max(1, len(p.flows[of]))
	for topic, f := range p.flows[of] {
		full := f.bytes >= share || f.paused && f.bytes > share/2
		switch {
		case full && !f.paused:
			f.paused = true
			pause = append(pause, p.topic(of, topic))
		case !full && f.paused:
			f.paused, f.resumed = false, now
			resume = append(resume, p.topic(of, topic))
		}
	}
	return pause, resume
}

// topic is the name of a topic on one side.
func (p *pairs) topic(of side, bare string) string {
	if of == ours {
		return p.prefix + bare
	}
	return bare
}

// unread says that the topic of the other side was not read all the time in which a record waited.
func (p *pairs) unread(w *waiting) bool {
	f := p.flows[w.side.other()][w.record.Topic]
	return f != nil && (f.paused || f.resumed.After(w.since))
}

// add takes the next record of a side.
func (p *pairs) add(of side, r *kgo.Record, id string, early bool, now time.Time) {
	if of == ours {
		bare := *r
		bare.Topic = strings.TrimPrefix(r.Topic, p.prefix)
		r = &bare
	}
	w := &waiting{side: of, id: id, record: r, since: now, early: early}
	pair := w.pair()
	first, there := p.byID[pair]
	switch {
	case there && first.side == of:
		p.count.Copies++
	case there:
		p.compare(first, w)
	case p.done.late[pair]:
		p.done.late[pair] = false
		p.count.Late++
	case p.done.has(pair):
		p.count.Copies++
	default:
		w.record = cloneRecord(r)
		p.byID[pair] = w
		w.at = p.arrived[of].PushBack(w)
		if p.flows[of][r.Topic] == nil {
			p.flows[of][r.Topic] = &flow{}
		}
		p.flows[of][r.Topic].bytes += size(w.record)
		if k, ordered := p.key(r); ordered {
			p.byKey[of][k] = append(p.byKey[of][k], w)
		}
	}
}

// key is what a record has an order in; records without a key have none.
func (p *pairs) key(r *kgo.Record) (k key, ordered bool) {
	k = key{topic: r.Topic, key: string(r.Key)}
	if p.partition {
		k.partition = r.Partition
	}
	return k, r.Key != nil
}

// compare compares a pair: the record that waited, and the one that came now.
func (p *pairs) compare(first, second *waiting) {
	// What waits of its key on the side of the second came there before it, and comes on the other side behind it. What waits
	// before the first comes on the side of the second behind it.
	p.overtake(second, len(p.waitingOf(second)))
	p.overtake(first, slices.Index(p.waitingOf(first), first))
	p.remove(first)
	pair := [2]*waiting{}
	pair[first.side], pair[second.side] = first, second
	their, our := pair[theirs].record, pair[ours].record
	at := place{their.Topic, their.Partition}
	if from, there := p.paired[at]; !there || their.Offset < from {
		p.paired[at] = their.Offset
	}
	expected := Expected{Topic: our.Topic, Key: our.Key, Value: our.Value, Headers: our.Headers}
	if p.partition {
		expected.Partition = &our.Partition
	}
	if p.timestamp {
		expected.Timestamp = &our.Timestamp
	}
	parts := compare(their, expected)
	if first.overtaken != "" {
		order := [2]string{}
		order[first.side], order[second.side] = "before "+first.overtaken, "behind "+first.overtaken
		parts = append(parts, Part{Part: "order of the key", Theirs: order[theirs], Ours: order[ours]})
	}
	p.count.Compared++
	p.done.add(first.pair(), false)
	if len(parts) > 0 {
		p.count.Differing++
		p.found(Difference{Topic: their.Topic, Partition: their.Partition, Offset: their.Offset, ID: first.id, Parts: parts})
	}
}

// waitingOf are the records that wait on the side of a record, of its key.
func (p *pairs) waitingOf(w *waiting) []*waiting {
	if k, ordered := p.key(w.record); ordered {
		return p.byKey[w.side][k]
	}
	return nil
}

// overtake marks the first n of the records that wait beside w. A mark is never behind one that is not marked.
func (p *pairs) overtake(w *waiting, n int) {
	queue := p.waitingOf(w)
	for i := n - 1; i >= 0 && queue[i].overtaken == ""; i-- {
		queue[i].overtaken = w.id
	}
}

// remove forgets a record that waited.
func (p *pairs) remove(w *waiting) {
	delete(p.byID, w.pair())
	p.arrived[w.side].Remove(w.at)
	p.flows[w.side][w.record.Topic].bytes -= size(w.record)
	if k, ordered := p.key(w.record); ordered {
		queue := p.byKey[w.side][k]
		i := slices.Index(queue, w)
		if queue = slices.Delete(queue, i, i+1); len(queue) == 0 {
			delete(p.byKey[w.side], k)
		} else {
			p.byKey[w.side][k] = queue
		}
	}
}

// expire reports the records that have waited too long, and forgets them.
func (p *pairs) expire(now time.Time) {
	for of := range p.arrived {
		for e := p.arrived[of].Front(); e != nil; e = p.arrived[of].Front() {
			w := e.Value.(*waiting)
			if now.Sub(w.since) < p.wait {
				break
			}
			p.remove(w)
			p.done.add(w.pair(), true)
			switch {
			case w.early || p.beforeShadow(w):
				continue
			case p.unread(w):
				p.count.Unread++
				continue
			}
			p.count.Missing++
			says := [2]string{}
			says[w.side], says[w.side.other()] = "there", fmt.Sprintf("none after %v", p.wait)
			p.found(Difference{Topic: p.topic(w.side, w.record.Topic), Partition: w.record.Partition, Offset: w.record.Offset, ID: w.id, Parts: []Part{{Part: "record", Theirs: says[theirs], Ours: says[ours]}}})
		}
	}
}

// beforeShadow says that a record of the connector is of a row that may be older than the shadow: it came soon after the shadow
// began, and before each pair of its partition. The connector sends in the order of commits, and no writer was under way when the shadow began.
func (p *pairs) beforeShadow(w *waiting) bool {
	from, there := p.paired[place{w.record.Topic, w.record.Partition}]
	return w.side == theirs && w.since.Sub(p.began) < p.wait && (!there || w.record.Offset < from)
}

// progress is how far it has come.
func (p *pairs) progress() Progress {
	n := p.count
	for of := range p.arrived {
		for e := p.arrived[of].Front(); e != nil; e = e.Next() {
			if w := e.Value.(*waiting); !w.early {
				if n.Waiting[w.side.other()]++; n.Waiting[w.side.other()] == 1 {
					n.Since[w.side.other()] = w.since
				}
			}
		}
	}
	return n
}

// cloneRecord is a record without what was read with it, and without the headers that are not compared.
func cloneRecord(r *kgo.Record) *kgo.Record {
	own := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
	for _, h := range compared(r.Headers) {
		own.Headers = append(own.Headers, kgo.RecordHeader{Key: strings.Clone(h.Key), Value: bytes.Clone(h.Value)})
	}
	return own
}

func size(r *kgo.Record) int {
	n := recordCost + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// recent are the last ids that were dealt with.
type recent struct {
	ids  []pairID
	next int
	// late says of each whether its pair had not come.
	late map[pairID]bool
}

func (r *recent) has(id pairID) bool {
	_, there := r.late[id]
	return there
}

func (r *recent) add(id pairID, late bool) {
	if r.late[id] = late; len(r.ids) < remembered {
		r.ids = append(r.ids, id)
		return
	}
	delete(r.late, r.ids[r.next])
	r.ids[r.next] = id
	r.next = (r.next + 1) % remembered
}
