package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

// maxListed is how many refused letters a result names.
const maxListed = 100

// Result is what one call of Run did.
type Result struct {
	// Sent letters were acknowledged; Skipped were left alone, by reason; NotMatching were not asked for.
	Sent        int64          `json:"sent"`
	Skipped     map[Skip]int64 `json:"skipped"`
	NotMatching int64          `json:"not_matching"`
	// Refusals are the first hundred letters that the broker refused for good.
	Refusals []Refusal `json:"refused"`
	// Missed is how many offsets retention deleted before they were read.
	Missed int64 `json:"missed"`
	// Remaining is how many offsets of the round are left to look at; the next call goes on with them.
	Remaining int64 `json:"remaining"`
}

// Left is how many letters were left alone.
func (r *Result) Left() (n int64) {
	for _, some := range r.Skipped {
		n += some
	}
	return n
}

// Refusal is a letter whose message the broker refuses for good.
type Refusal struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Target is where the message was to go, Code and Message why it cannot.
	Target  string `json:"target"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("topic %s refuses the message of the letter %s, partition %d, offset %d: %s: %s",
		r.Target, r.Topic, r.Partition, r.Offset, r.Code, r.Message)
}

// Run carries out a plan of this Replay. It commits as it goes, in the order of offsets, and only messages that were
// acknowledged. With every error it returns its result so far. The error says that a letter was refused (*Refusal),
// that a right or topic is missing, that another process goes on with the replay (ErrTakenOver), or that ctx ended;
// then Run has waited a few seconds for the sent messages, and committed. After each of these errors the same call goes
// on.
func (r *Replay) Run(ctx context.Context, p Plan) (_ Result, err error) {
	w := &work{Replay: r, round: p.round, again: p.again, label: p.Label, result: Result{Skipped: map[Skip]int64{}, Refusals: []Refusal{}}}
	w.pace.rate = r.options.Rate
	w.progress.Records = p.Records
	if p.round == nil {
		return w.result, errors.New("replay: the plan is of no round; make it with Plan")
	}
	w.result.Remaining = w.round.left()
	if err := p.Problem(); err != nil {
		return w.result, err
	}
	if w.result.Remaining == 0 {
		return w.result, nil
	}
	ctx = w.span.begin(ctx, r, w.result.Remaining)
	defer func() { w.span.end(&w.result, err) }()
	if err := r.begin(ctx, w.round); err != nil {
		return w.result, err
	}
	err = r.read(ctx, w.round.spans(), 0, func(c Chunk, _ int64) error { return w.treat(ctx, c) })
	w.result.Remaining = w.round.left()
	return w.result, err
}

// work is a Run under way.
type work struct {
	*Replay
	round    *round
	again    *again
	label    string
	pace     pace
	result   Result
	progress Progress
	span     span
}

// item is a record in hand.
type item struct {
	record *dlq.Record
	verdict
}

// sends reports whether the item has a message, or may have one that must be fetched.
func (i *item) sends() bool { return i.wanted && (i.skip == "" || i.points != nil) }

// treat sends or skips the letters of a chunk, batch by batch.
func (w *work) treat(ctx context.Context, c Chunk) error {
	w.result.Missed += c.Missed
	items := make([]item, len(c.Records))
	for i := range c.Records {
		items[i] = item{&c.Records[i], w.options.decide(&c.Records[i], w.round.since, w.round.until, w.label)}
		w.again.decide(&items[i].verdict) // once more when its message was fetched, which may have another name
	}
	for len(items) > 0 {
		n := w.cut(items)
		if err := w.batchOf(ctx, items[:n]); err != nil {
			return err
		}
		if items = items[n:]; w.full() && (len(items) > 0 || w.more(c)) {
			return errEnough
		}
	}
	before := w.round.left()
	for id, next := range c.Next {
		if p := w.round.partitions[id]; p.next < next {
			p.next = next
		}
	}
	w.progress.Looked += before - w.round.left()
	w.observe(w.progress)
	return w.commit(ctx)
}

// more reports whether anything is left behind a chunk.
func (w *work) more(c Chunk) bool {
	for id, p := range w.round.partitions {
		if max(p.next, c.Next[id]) < p.End {
			return true
		}
	}
	return false
}

// full reports whether no more messages may be sent.
func (w *work) full() bool { return w.options.Max > 0 && w.result.Sent >= w.options.Max }

// cut returns how many items the next batch has.
func (w *work) cut(items []item) int {
	room := w.pace.most(w.batch)
	if w.options.Max > 0 {
		room = int(min(int64(room), w.options.Max-w.result.Sent))
	}
	pointing := 0
	for n := range items {
		if !items[n].sends() {
			continue
		}
		if items[n].points != nil {
			pointing++
		}
		if room == 0 || pointing > maxPointing {
			return n
		}
		room--
	}
	return len(items)
}

// batchOf sends the messages of items and moves on behind the items that are done with, in each partition up to the
// first that is not.
func (w *work) batchOf(ctx context.Context, items []item) error {
	if err := w.fetch(ctx, items, w.round, w.label, 0); err != nil {
		return errors.Join(err, w.commit(ctx))
	}
	for i := range items {
		w.again.decide(&items[i].verdict)
	}
	var ms []relay.Message
	var of []int // of ms, the item
	for i := range items {
		if items[i].sends() {
			ms, of = append(ms, items[i].message), append(of, i)
		}
	}
	if err := w.pace.wait(ctx, len(ms)); err != nil {
		return err
	}
	outcomes, err := w.send(ctx, ms)
	open := map[int]bool{} // items that are not done with
	for n, i := range of {
		switch o := outcomes[n]; o.Class {
		case relay.Delivered:
		case relay.Permanent, relay.Record:
			refusal := &Refusal{w.options.From, items[i].record.Partition, items[i].record.Offset, items[i].message.Topic, o.Code, o.Message}
			if len(w.result.Refusals) < maxListed {
				w.result.Refusals = append(w.result.Refusals, *refusal)
			}
			if w.options.SkipRefused {
				items[i].skip = Refused
				continue
			}
			open[i] = true
			if err == nil {
				err = refusal
			}
		default:
			open[i] = true
		}
	}
	w.move(items, open)
	w.observe(w.progress)
	if saved := w.commit(ctx); err == nil {
		err = saved
	}
	return err
}

// move goes behind the items that are done with.
func (w *work) move(items []item, open map[int]bool) {
	stopped := map[int32]bool{}
	before := w.round.left()
	for i := range items {
		it := &items[i]
		p := w.round.partitions[it.record.Partition]
		if open[i] {
			stopped[it.record.Partition] = true
		}
		if stopped[it.record.Partition] {
			continue
		}
		p.next = it.record.Offset + 1
		switch {
		case !it.wanted:
			w.result.NotMatching++
			w.progress.NotMatching++
		case it.skip != "":
			w.result.Skipped[it.skip]++
			w.progress.Left++
			p.Left++
		default:
			w.result.Sent++
			w.progress.Sent++
			p.Sent++
			w.span.sent(&it.message)
		}
	}
	w.progress.Looked += before - w.round.left()
}

// commit saves how far it is, also when ctx has ended: acknowledged messages count.
func (w *work) commit(ctx context.Context) error {
	if ctx.Err() == nil {
		err := w.save(ctx, w.round)
		if ctx.Err() == nil {
			return err
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if err := w.save(last, w.round); err != nil {
		return err
	}
	return ctx.Err()
}
