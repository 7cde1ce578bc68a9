package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// ErrTakenOver is wrapped by the error of a replay that another process goes on with.
var ErrTakenOver = errors.New("another process goes on with this replay")

// A replay goes in rounds: each ends where the topic ended when the round began. The metadata of the committed offsets
// says what a round is about, so that a process that goes on with it needs nothing else.

// note is that metadata. It is far below Kafka's limit of 4096 bytes.
type note struct {
	Version int `json:"postrider_replay"`
	// About is what Options.about says, or its digest where that is long.
	About string `json:"about"`
	// Topic is the id of the topic that is read, if brokers have topic ids.
	Topic string `json:"topic,omitempty"`
	// Generation is 1, or the time when the latest replay with Again began, in Unix milliseconds.
	Generation int64 `json:"generation"`
	// Since and Until are the bounds in time, in Unix milliseconds; 0 is none.
	Since int64 `json:"since,omitempty"`
	Until int64 `json:"until,omitempty"`
	// First and End bound the round in this partition.
	First int64 `json:"first"`
	End   int64 `json:"end"`
	// Sent and Left are how many letters of the round were sent, and left alone, in this partition.
	Sent int64 `json:"sent"`
	Left int64 `json:"left"`
	// Owner is the process that goes on with it.
	Owner string `json:"owner"`
}

const noteVersion = 1

// longestAbout is how long the text in a note is at most, as JSON.
const longestAbout = 1000

func shortAbout(about string) string {
	if text, _ := json.Marshal(about); len(text) > longestAbout {
		return "digest " + digest(about)
	}
	return about
}

// position is where a round is in one partition.
type position struct {
	note
	next int64
	// saved is the offset that was committed last.
	saved int64
}

// RoundKind says how a round came about.
type RoundKind string

const (
	// First: nothing was replayed under this name yet.
	First RoundKind = "first"
	// Resumed: an earlier call did not come to its end.
	Resumed RoundKind = "resumed"
	// Next: an earlier call came to its end, and this one goes on behind it.
	Next RoundKind = "next"
	// Again: the letters of an earlier replay are replayed once more.
	Again RoundKind = "again"
)

// round is one round of a replay.
type round struct {
	kind       RoundKind
	generation int64
	since      time.Time
	until      time.Time
	partitions map[int32]*position
}

// label is the end of the replay ids of a round.
func (r *round) label(run string) string {
	if run == "" {
		return strconv.FormatInt(r.generation, 10)
	}
	return run + ":" + strconv.FormatInt(r.generation, 10)
}

// sorted are the partitions in order.
func (r *round) sorted() []int32 { return slices.Sorted(maps.Keys(r.partitions)) }

// spans are the offsets that are left to read.
func (r *round) spans() map[int32]Span {
	spans := map[int32]Span{}
	for id, p := range r.partitions {
		if p.next < p.End {
			spans[id] = Span{p.next, p.End}
		}
	}
	return spans
}

// left is how many offsets are left to look at.
func (r *round) left() (n int64) {
	for _, s := range r.spans() {
		n += s.To - s.From
	}
	return n
}

// readRound finds out where a replay stands and which round comes now. Nothing is written.
func (r *Replay) readRound(ctx context.Context, topic Topic) (*round, error) {
	o := &r.options
	bounds, err := r.cluster.Bounds(ctx, o.From)
	if err != nil {
		return nil, err
	}
	for _, p := range o.Partitions {
		if _, there := bounds[p]; !there {
			return nil, fmt.Errorf("%w: topic %s has no partition %d; it has %d", ErrRequest, o.From, p, len(bounds))
		}
	}
	offsets, err := r.cluster.CommittedOffsets(ctx, o.group(), o.From)
	if err != nil {
		return nil, err
	}
	before := map[int32]*position{}
	for id, o := range offsets {
		p, err := r.readCommitted(topic, o)
		if err != nil {
			return nil, err
		}
		before[id] = p
	}
	now := &round{kind: First, generation: 1, since: o.Since.At, until: o.Until.At, partitions: map[int32]*position{}}
	unfinished := false
	for _, p := range before {
		unfinished = unfinished || p.next < p.End
		now.kind, now.generation = Next, max(now.generation, p.Generation)
	}
	switch {
	case unfinished && o.Again:
		return nil, fmt.Errorf("%w: this replay was begun and did not come to its end; go on with it first, without --again, or name another one with --run", ErrRequest)
	case unfinished:
		one := slices.Collect(maps.Values(before))[0] // a round is committed whole when it begins
		return &round{kind: Resumed, generation: now.generation, since: moment(one.Since), until: moment(one.Until), partitions: before}, nil
	case o.Again:
		now.kind, now.generation = Again, time.Now().UnixMilli()
	}
	for id, b := range bounds {
		if len(o.Partitions) > 0 && !slices.Contains(o.Partitions, id) {
			continue
		}
		if o.Offsets != nil {
			b = Span{max(b.From, o.Offsets.From), min(b.To, o.Offsets.To)}
		}
		if last, known := before[id]; known && now.kind == Next {
			b.From = max(b.From, last.next)
		}
		b.To = max(b.To, b.From)
		now.partitions[id] = &position{next: b.From, note: note{
			Version: noteVersion, About: shortAbout(o.about()), Topic: topic.ID, Generation: now.generation,
			Since: milli(now.since), Until: milli(now.until), First: b.From, End: b.To,
		}}
	}
	return now, nil
}

// readCommitted reads the offset and the note that were committed for a partition, and refuses a note that is not of this
// replay.
func (r *Replay) readCommitted(topic Topic, committed CommittedOffset) (*position, error) {
	o := &r.options
	p := &position{next: committed.Offset, saved: committed.Offset}
	if json.Unmarshal([]byte(committed.Note), &p.note) != nil || p.Version == 0 {
		return nil, fmt.Errorf("%w: the consumer group %s has offsets that are not a replay's; give another name (--run) or group (--group)", ErrRequest, o.group())
	}
	switch {
	case p.Version != noteVersion:
		return nil, fmt.Errorf("%w: the replay %s was begun by another version of postrider; give another name (--run)", ErrRequest, o.group())
	case p.About != shortAbout(o.about()):
		return nil, fmt.Errorf("%w: the replay %s was begun as %q, and cannot go on as %q; give another name (--run)", ErrRequest,
			o.group(), p.About, shortAbout(o.about()))
	case p.Topic != topic.ID:
		return nil, fmt.Errorf("%w: topic %s was deleted and made anew since the replay %s began; give another name (--run)", ErrRequest,
			o.From, o.group())
	}
	return p, nil
}

func milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// begin takes the round over, so that a process that had it finds out, and freezes where it ends.
func (r *Replay) begin(ctx context.Context, now *round) error {
	offsets := map[int32]CommittedOffset{}
	for id, p := range now.partitions {
		p.Owner, p.saved = r.owner, p.next
		offsets[id] = p.committed()
	}
	if len(offsets) == 0 {
		return nil
	}
	return r.mend(ctx, "commit where the replay begins", beginLimit, func(ctx context.Context) error {
		return r.cluster.CommitOffsets(ctx, r.options.group(), r.options.From, offsets)
	})
}

func (p *position) committed() CommittedOffset {
	text, _ := json.Marshal(p.note) // numbers and valid text always can be
	return CommittedOffset{p.next, string(text)}
}

// save commits how far the round is. It looks first whether the round is still ours, so that two processes that were
// started by accident do not undo each other's progress; the one that began last goes on.
func (r *Replay) save(ctx context.Context, now *round) error {
	var changed []int32
	for id, p := range now.partitions {
		if p.next != p.saved {
			changed = append(changed, id)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return r.mend(ctx, "commit how far the replay is", 0, func(ctx context.Context) error {
		there, err := r.cluster.CommittedOffsets(ctx, r.options.group(), r.options.From)
		if err != nil {
			return err
		}
		offsets := map[int32]CommittedOffset{}
		for _, id := range changed {
			var n note
			if json.Unmarshal([]byte(there[id].Note), &n) != nil || n.Owner != r.owner {
				return Final(fmt.Errorf("%w (consumer group %s)", ErrTakenOver, r.options.group()))
			}
			offsets[id] = now.partitions[id].committed()
		}
		if err := r.cluster.CommitOffsets(ctx, r.options.group(), r.options.From, offsets); err != nil {
			return err
		}
		for _, id := range changed {
			now.partitions[id].saved = now.partitions[id].next
		}
		return nil
	})
}
