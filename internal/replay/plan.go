package replay

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// maxCounted is how many keys, and how many letters, are told apart in a plan: some 40 MB each. Of more, the counts
// say at least.
const maxCounted = 1 << 20

// Plan says what a replay would do. Nothing was sent or committed for it.
type Plan struct {
	// Run is the name of the replay and Group the consumer group that keeps how far it is.
	Run string `json:"run"`
	// DefaultName says that the name was made from the options. If the round of a default name is the first, brokers
	// may have forgotten the offsets of an earlier one.
	DefaultName bool   `json:"default_name"`
	Group       string `json:"group"`
	From        string `json:"from"`
	To          string `json:"to"`
	// Round says whether it is the first, one that goes on, one behind the last, or all again.
	Round RoundKind `json:"round"`
	// Label ends the replay ids of the round.
	Label string `json:"label"`
	// Partitions say which offsets are read, in order. Records written later do not belong to the round.
	Partitions []PartitionPlan `json:"partitions"`
	// Records is how many offsets are left to look at; compacted records and markers count, too.
	Records int64 `json:"records"`
	// Matching letters meet the conditions: Sending of them would be sent, and Skipped counts the rest by reason.
	Matching    int64          `json:"matching"`
	Sending     int64          `json:"sending"`
	NotMatching int64          `json:"not_matching"`
	Skipped     map[Skip]int64 `json:"skipped"`
	// Fetched letters only point to their message; it was read from the record that they point to.
	Fetched int64 `json:"fetched"`
	// Bytes is the size of the keys and payloads that would be sent.
	Bytes int64 `json:"bytes"`
	// Targets counts the messages to be sent by topic; the topics in Missing do not exist.
	Targets map[string]int64 `json:"targets"`
	Missing []string         `json:"missing_topics"`
	// AlreadySent and AlreadyLeft were sent and left alone by earlier calls of this round.
	AlreadySent int64 `json:"already_sent"`
	AlreadyLeft int64 `json:"already_left"`
	// Copies are letters that are there more than once; they are sent with the same id.
	Copies int64 `json:"copies"`
	// Keys is how many keys, by topic, the messages have. Repeated keys have several messages, which keep the order of
	// their letters. Split keys have letters in several partitions, and the order across partitions is not known.
	// Keyless messages have no order.
	Keys     int64 `json:"keys"`
	Repeated int64 `json:"keys_repeated"`
	Split    int64 `json:"keys_split"`
	Keyless  int64 `json:"keyless"`
	// Capped says that there were too many keys or letters to tell all apart: these counts are at least.
	Capped bool `json:"capped"`
	// Oldest and Newest bound when the letters to be sent were written; null where none says.
	Oldest *time.Time `json:"oldest"`
	Newest *time.Time `json:"newest"`
	// Missed is how many offsets retention has deleted before they were read.
	Missed int64 `json:"missed"`

	round *round
	again *again
}

// PartitionPlan says what of one partition is read: offsets from Next to before End, of a round that began at First.
type PartitionPlan struct {
	Partition int32 `json:"partition"`
	First     int64 `json:"first"`
	Next      int64 `json:"next"`
	End       int64 `json:"end"`
}

// Plan reads the letters and says what Run would do with them. Errors about the options wrap ErrRequest.
func (r *Replay) Plan(ctx context.Context) (Plan, error) {
	o := &r.options
	p := Plan{Run: o.run(), DefaultName: o.Run == "", Group: o.group(), From: o.From, To: o.To, Skipped: map[Skip]int64{},
		Targets: map[string]int64{}, Missing: []string{}}
	var topic Topic
	err := r.mend(ctx, "look at the topics", contactLimit, func(ctx context.Context) error {
		names := []string{o.From}
		if o.To != ToOriginal && o.To != ToRetry {
			names = append(names, o.To)
		}
		there, err := r.cluster.Topics(ctx, names...)
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, exists := there[name]; !exists {
				return fmt.Errorf("%w: topic %s does not exist, and is not created", ErrRequest, name)
			}
		}
		topic = there[o.From]
		p.round, err = r.readRound(ctx, topic)
		return err
	})
	if err != nil {
		return p, err
	}
	p.Round, p.Label, p.Records = p.round.kind, p.round.label(o.Run), p.round.left()
	p.Partitions = []PartitionPlan{}
	for _, id := range p.round.sorted() {
		at := p.round.partitions[id]
		p.Partitions = append(p.Partitions, PartitionPlan{id, at.First, at.next, at.End})
		p.AlreadySent += at.Sent
		p.AlreadyLeft += at.Left
	}
	if err := r.survey(ctx, &p); err != nil {
		return p, err
	}
	return p, r.findTargets(ctx, &p)
}

// survey reads the rest of the round and counts.
func (r *Replay) survey(ctx context.Context, p *Plan) error {
	census := newCensus()
	p.again = newAgain()
	looked := int64(0)
	note := func(it *item) {
		p.again.add(&it.verdict)
		p.count(&it.verdict)
		if it.wanted && it.skip == "" {
			census.add(&it.verdict, it.record.Partition)
		}
	}
	err := r.read(ctx, p.round.spans(), beginLimit, func(c Chunk, passed int64) error {
		looked += passed
		p.Missed += c.Missed
		var pointing []item
		for i := range c.Records {
			it := item{&c.Records[i], r.options.decide(&c.Records[i], p.round.since, p.round.until, p.Label)}
			if it.points != nil {
				pointing = append(pointing, it)
			} else {
				note(&it)
			}
			if len(pointing) < maxPointing && i+1 < len(c.Records) {
				continue
			}
			if err := r.fetch(ctx, pointing, p.round, p.Label, beginLimit); err != nil {
				return err
			}
			for k := range pointing {
				note(&pointing[k])
			}
			pointing = pointing[:0]
		}
		r.observe(Progress{Planning: true, Records: p.Records, Looked: looked, Sent: p.Sending})
		return nil
	})
	p.Keys, p.Repeated, p.Split = census.tally()
	p.Copies, p.Capped = census.copies, census.capped || p.again.capped
	p.again.takeOut(p)
	return err
}

// count adds one letter to the plan.
func (p *Plan) count(v *verdict) {
	switch {
	case !v.wanted:
		p.NotMatching++
		return
	case v.skip != "":
		p.Matching++
		p.Skipped[v.skip]++
		return
	}
	p.Matching++
	p.Sending++
	if v.fetched {
		p.Fetched++
	}
	p.Targets[v.message.Topic]++
	p.Bytes += int64(len(v.message.Key) + len(v.message.Value))
	if v.message.Key == nil {
		p.Keyless++
	}
	if at := v.at; !at.IsZero() {
		if p.Oldest == nil || at.Before(*p.Oldest) {
			p.Oldest = &at
		}
		if p.Newest == nil || at.After(*p.Newest) {
			p.Newest = &at
		}
	}
}

// findTargets looks which of the topics to send to do not exist.
func (r *Replay) findTargets(ctx context.Context, p *Plan) error {
	names := slices.Sorted(maps.Keys(p.Targets))
	if len(names) == 0 {
		return nil
	}
	return r.mend(ctx, "look at the topics to send to", beginLimit, func(ctx context.Context) error {
		there, err := r.cluster.Topics(ctx, names...)
		if err != nil {
			return err
		}
		p.Missing = slices.DeleteFunc(names, func(name string) bool { _, exists := there[name]; return exists })
		return nil
	})
}

// Problem says why the plan cannot be carried out; nil if it can. The error wraps ErrRequest.
func (p *Plan) Problem() error {
	if len(p.Missing) == 0 {
		return nil
	}
	var letters int64
	for _, name := range p.Missing {
		letters += p.Targets[name]
	}
	shown := p.Missing[:min(len(p.Missing), 10)]
	return fmt.Errorf("%w: %d letters would go to topics that do not exist (%d, the first are %v); create them, or leave the letters out with a condition such as topic!=%s",
		ErrRequest, letters, len(p.Missing), shown, p.Missing[0])
}

// read polls the ranges to their end. passed is how many offsets a chunk went on. After limit without any, if that is not
// 0, it fails.
func (r *Replay) read(ctx context.Context, spans map[int32]Span, limit time.Duration, each func(c Chunk, passed int64) error) error {
	if len(spans) == 0 {
		return nil
	}
	left := maps.Clone(spans)
	reader, err := r.cluster.Read(r.options.From, spans)
	if err != nil {
		return err
	}
	defer reader.Close()
	wentOn := time.Now()
	for len(left) > 0 {
		c, err := reader.Poll(ctx)
		if err != nil {
			return err
		}
		if len(c.Next) > 0 {
			wentOn = time.Now()
		}
		if c.Waiting != "" {
			if limit > 0 && time.Since(wentOn) > limit {
				return fmt.Errorf("read: %w for %v: %s", ErrNoBroker, limit, c.Waiting)
			}
			r.waiting("read", c.Waiting)
		}
		passed := int64(0)
		for id, next := range c.Next {
			s := left[id]
			passed += next - s.From
			if s.From = next; s.From >= s.To {
				delete(left, id)
			} else {
				left[id] = s
			}
		}
		if err := each(c, passed); err != nil {
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		}
	}
	return nil
}

// errEnough ends reading early.
var errEnough = errors.New("enough was read")

// census tells keys and letters apart.
type census struct {
	seed    maphash.Seed
	keys    map[uint64]keyed
	letters map[uint64]struct{}
	copies  int64
	capped  bool
}

// keyed holds the partition of a key's first letter, and whether the key is repeated and split.
type keyed struct {
	partition       int32
	repeated, split bool
}

func newCensus() *census {
	return &census{seed: maphash.MakeSeed(), keys: map[uint64]keyed{}, letters: map[uint64]struct{}{}}
}

// add counts a letter that is sent. Different keys with one hash of 64 bits are one key here, which a million of them
// meet once in millions of times.
func (c *census) add(v *verdict, partition int32) {
	id := maphash.String(c.seed, v.id)
	if _, known := c.letters[id]; known {
		c.copies++
	} else if c.room(len(c.letters)) {
		c.letters[id] = struct{}{}
	}
	m := &v.message
	if m.Key == nil {
		return
	}
	h := hashOf(c.seed, m)
	k, known := c.keys[h]
	switch {
	case known:
		k.repeated = true
		k.split = k.split || k.partition != partition
	case c.room(len(c.keys)):
		k.partition = partition
	default:
		return
	}
	c.keys[h] = k
}

func hashOf(seed maphash.Seed, m *relay.Message) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(m.Topic)
	_ = h.WriteByte(0)
	_, _ = h.Write(m.Key)
	return h.Sum64()
}

// room reports whether one more can be told apart.
func (c *census) room(n int) bool {
	c.capped = c.capped || n >= maxCounted
	return n < maxCounted
}

func (c *census) tally() (keys, repeated, split int64) {
	for _, k := range c.keys {
		if k.repeated {
			repeated++
		}
		if k.split {
			split++
		}
	}
	return int64(len(c.keys)), repeated, split
}
