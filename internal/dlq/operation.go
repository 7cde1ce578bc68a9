package dlq

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// OperationKind is what an operation does to each investigation of its scope.
type OperationKind string

const (
	// OpRedrive sends the messages again.
	OpRedrive OperationKind = "redrive"
	// OpResolve closes the investigations.
	OpResolve OperationKind = "resolve"
	// OpPurge removes the investigations.
	OpPurge OperationKind = "purge"
)

// RefuseClosed returns the error about a plan of so many named investigations that are all closed: a redrive sends the messages of
// open ones, and only these can be closed. It wraps ErrRequest, and is nil where the plan can do something.
func (k OperationKind) RefuseClosed(closed bool, named int) error {
	if !closed || k == OpPurge {
		return nil
	}
	return fmt.Errorf("%w: nothing is open among the investigations named, %d in all; name one at least that is", ErrRequest, named)
}

// OperationState is where an operation stands.
type OperationState string

const (
	// Planned: its scope is frozen, nothing was done.
	Planned OperationState = "planned"
	// Canary: the first few are out, the rest waits for what becomes of them.
	Canary OperationState = "canary"
	// Running: items are being treated, or redriven ones are on their way.
	Running OperationState = "running"
	// Paused by the command Pause.
	Paused OperationState = "paused"
	// Halted by itself: too many came back dead. It can be resumed.
	Halted OperationState = "halted"
	// Aborted by the command Abort, for good. What was sent stays sent.
	Aborted OperationState = "aborted"
	// Completed: every item was treated.
	Completed OperationState = "completed"
)

// Ended reports whether an operation will do nothing more.
func (s OperationState) Ended() bool { return s == Aborted || s == Completed }

// Scope says which investigations an operation is about: the named ones, or the pending ones that were opened until it
// was planned and that the group or the filter selects. Exactly one way is given. For OpPurge the filter may name
// another status; its limit and offset do not count.
type Scope struct {
	// Entries are named when an operation is planned. An operation that is read has none here: they are its items, all of
	// them, and their number is Operation.Items.
	Entries []uuid.UUID `json:"-"`
	Group   uuid.UUID   `json:"group,omitzero"`
	Filter  *Filter     `json:"filter,omitempty"`
}

// OperationFilter selects operations. The empty one selects all.
type OperationFilter struct {
	// Open leaves out operations that have ended.
	Open bool
	// Group selects the operations whose scope is this group. Defaults to uuid.Nil, operations of any scope.
	Group uuid.UUID
}

// OperationOptions say how an operation goes about it.
type OperationOptions struct {
	// Target is the topic to send to; or group, the retry topic of the consumer group that failed; or origin, where each
	// message was bound for or came from. Defaults to group for a letter that names a retry topic, and to origin for the
	// others.
	Target string `json:"target,omitempty"`
	// MaxHops is how often a message is sent again in all, by redrives and replays; 0, or absent, is 3.
	MaxHops int `json:"max_hops,omitempty"`
	// Rate is how many investigations are treated a second at most; 0 does not limit. Defaults to 0.
	Rate float64 `json:"rate,omitempty"`
	// Canary is how many are sent first; the rest waits until what became of them is known. Defaults to 0, no canary.
	Canary int `json:"canary,omitempty"`
	// HaltRatio stops the operation when more than this share of the messages with a known outcome came back dead: from 0,
	// as soon as HaltMinimum did, to 1, never. Defaults to 0.1.
	HaltRatio *float64 `json:"halt_ratio,omitempty"`
	// HaltMinimum is how many must have come back dead before HaltRatio counts, from 1. It does not apply to a canary: all
	// its outcomes are known when the rest is decided about. Defaults to 3.
	HaltMinimum *int `json:"halt_minimum,omitempty"`
	// Headers, pairs of name and value, are given to messages with headers that cannot be read, with the ones that can.
	// Without it, HeadersAsText and NoHeaders, these messages are skipped. It needs the scope redrive:edit, and is shown
	// redacted. Defaults to none.
	Headers [][]string `json:"headers,omitempty"`
	// HeadersAsText sends each header that cannot be read as the text of its own value: 5 as "5". A plan is refused if one of
	// these headers is among Headers, too. It needs the scope redrive:edit. Defaults to false.
	HeadersAsText bool `json:"headers_as_text,omitempty"`
	// NoHeaders sends messages with headers that cannot be read without any. It needs the scope redrive:edit. Defaults to
	// false.
	NoHeaders bool `json:"no_headers,omitempty"`
	// Notes are written into the investigations that the kind resolve closes. Defaults to none.
	Notes string `json:"notes,omitempty"`
	// Status is what the kind resolve closes them as. Defaults to manually_resolved.
	Status Status `json:"status,omitempty"`
	// ReleaseKeys lets the kind purge release the keys that its investigations hold. Without it, investigations that hold a
	// key are skipped. Defaults to false.
	ReleaseKeys bool `json:"release_keys,omitempty"`
}

// Defaults of OperationOptions.
const (
	DefaultHaltRatio   = 0.1
	DefaultHaltMinimum = 3
)

// HaltsAt returns HaltRatio and HaltMinimum, or their defaults.
func (o *OperationOptions) HaltsAt() (ratio float64, minimum int) {
	ratio, minimum = DefaultHaltRatio, DefaultHaltMinimum
	if o.HaltRatio != nil {
		ratio = *o.HaltRatio
	}
	if o.HaltMinimum != nil {
		minimum = *o.HaltMinimum
	}
	return ratio, minimum
}

// Repair is what Headers, HeadersAsText and NoHeaders say; nil for none of them.
func (o *OperationOptions) Repair() *Repair {
	if len(o.Headers) == 0 && !o.HeadersAsText && !o.NoHeaders {
		return nil
	}
	p := &Repair{AsText: o.HeadersAsText, None: o.NoHeaders}
	for _, h := range o.Headers {
		p.Headers = append(p.Headers, message.Header{Name: h[0], Value: []byte(h[1])})
	}
	return p
}

// NewOperation is an operation to be planned.
type NewOperation struct {
	Kind OperationKind
	// Name names it for people, for example after the incident. Operations that have not ended all have different names.
	// Required.
	Name string
	// Reason is why. Defaults to none.
	Reason string
	// Actor is who plans it. Required.
	Actor   string
	Scope   Scope
	Options OperationOptions
}

// minRate is the lowest rate, one in about three hours.
const minRate = 0.0001

// Check reports why it is invalid, and sets the defaults.
func (n *NewOperation) Check() error {
	ways := 0
	for _, given := range []bool{len(n.Scope.Entries) > 0, n.Scope.Group != uuid.Nil, n.Scope.Filter != nil} {
		if given {
			ways++
		}
	}
	o := &n.Options
	ratio, minimum := o.HaltsAt()
	switch {
	case !slices.Contains([]OperationKind{OpRedrive, OpResolve, OpPurge}, n.Kind):
		return fmt.Errorf("%w: kind %q is not known; it is redrive, resolve or purge", ErrRequest, n.Kind)
	case strings.TrimSpace(n.Name) == "" || len(n.Name) > 200:
		return fmt.Errorf("%w: its name has %d bytes, it must have 1 to 200", ErrRequest, len(n.Name))
	case n.Actor == "":
		return fmt.Errorf("%w: the actor is missing", ErrRequest)
	case ways == 0:
		return fmt.Errorf("%w: its scope is missing; give ids, a group or a filter", ErrRequest)
	case ways > 1:
		return fmt.Errorf("%w: its scope has several of ids, group and filter; give one of them", ErrRequest)
	case o.Rate != 0 && !(o.Rate >= minRate && o.Rate <= 1e6): // negated, so that NaN is refused
		return fmt.Errorf("%w: the rate is %g, it must be 0 (no limit) or %g to 1000000 a second", ErrRequest, o.Rate, minRate)
	case o.Canary < 0:
		return fmt.Errorf("%w: the canary is %d, it must not be negative", ErrRequest, o.Canary)
	case !(ratio >= 0 && ratio <= 1):
		return fmt.Errorf("%w: the halt ratio is %g, it must be 0 to 1", ErrRequest, ratio)
	case minimum < 1:
		return fmt.Errorf("%w: the halt minimum is %d, it must be 1 or more; 1 lets the first that comes back dead count", ErrRequest, minimum)
	case n.Kind != OpRedrive && (o.Target != "" || o.Canary != 0 || o.MaxHops != 0):
		return fmt.Errorf("%w: only redriving has a target, a canary and a limit of hops", ErrRequest)
	case o.MaxHops < 0 || o.MaxHops > MaxMaxHops:
		return fmt.Errorf("%w: the limit of hops is %d, it must be 1 to %d", ErrRequest, o.MaxHops, MaxMaxHops)
	case n.Kind != OpPurge && o.ReleaseKeys:
		return fmt.Errorf("%w: release_keys goes with purging; redriving and closing release keys by themselves", ErrRequest)
	case n.Kind != OpResolve && (o.Status != "" || o.Notes != ""):
		return fmt.Errorf("%w: status and notes go with closing", ErrRequest)
	case o.Status == Pending || o.Status != "" && !slices.Contains(Statuses(), o.Status):
		return fmt.Errorf("%w: an investigation is not closed as %q", ErrRequest, o.Status)
	}
	if err := cmp.Or(plain("notes", o.Notes, MaxNotes), plain("name", n.Name, 200), plain("reason", n.Reason, MaxNotes)); err != nil {
		return err
	}
	for i, h := range o.Headers {
		if len(h) != 2 {
			return fmt.Errorf("%w: header %d is not a pair of name and value", ErrRequest, i+1)
		}
	}
	if p := o.Repair(); p != nil {
		if err := p.Check(); err != nil {
			return err
		}
		if n.Kind != OpRedrive {
			return fmt.Errorf("%w: only redriving gives headers", ErrRequest)
		}
	}
	if err := checkTarget(o.Target); err != nil {
		return err
	}
	if err := n.Scope.checkFilter(n.Kind); err != nil {
		return err
	}
	o.HaltRatio, o.HaltMinimum = &ratio, &minimum
	if o.Status == "" && n.Kind == OpResolve {
		o.Status = ManuallyResolved
	}
	return nil
}

// checkFilter reports why the filter of an operation is invalid.
func (s Scope) checkFilter(kind OperationKind) error {
	if s.Filter == nil {
		return nil
	}
	if status := s.Filter.Status; status != "" && status != Pending && kind != OpPurge {
		return fmt.Errorf("%w: the filter selects investigations that are %s, and only pending ones are redriven or closed", ErrRequest, status)
	}
	search := Search{Filter: *s.Filter}
	search.Filter.Limit, search.Filter.Offset = 0, 0
	return search.Check()
}

// Plan is what an operation would do, as it looked when it was planned.
type Plan struct {
	// Items is how many investigations are in its scope.
	Items int64 `json:"items"`
	// Bytes is the size of their payloads.
	Bytes int64 `json:"bytes"`
	// Topics counts them by where they would be sent; the name is empty where nothing says it.
	Topics map[string]int64 `json:"topics"`
	// Keys is how many keys their messages have, without the messages that halt their key. Where a topic goes on after its
	// last attempt, later events of these keys may have gone before: each message sent again comes after them.
	Keys int64 `json:"keys"`
	// Redriven is how many were redriven before.
	Redriven int64 `json:"redriven"`
	// Tasks is how many are about tasks, which are not redriven.
	Tasks int64 `json:"tasks"`
	// Halting is how many halt their key, and go back to their place. Of events of other sources than main their dead letters say
	// it.
	Halting int64 `json:"halting"`
	// Unreadable is how many have headers that cannot be read; they are skipped unless the options say what to send.
	Unreadable int64 `json:"unreadable_headers"`
	// LeftOut counts by reason the items of a redrive that would be skipped as things stand, among the first Foreseen.
	// Empty where none would be, and for other kinds.
	LeftOut map[SkipReason]int64 `json:"left_out"`
	// Foreseen is how many of the first items were looked at for LeftOut: all of them, or 10,000. 0 for other kinds.
	Foreseen int64 `json:"foreseen"`
	// Overlapping is how many of the items other operations have yet to treat, too.
	Overlapping int64 `json:"overlapping"`
	// Overlaps are these operations, the ones with the most of the items first. Each item is treated by the operation that
	// comes to it first; the other one treats it again, or skips it while its message is on its way.
	Overlaps []Overlap `json:"overlaps"`
}

// SkipsAll reports whether a redrive would skip all its items whenever it was started. Of more than MaxForeseen it is not known.
func (p *Plan) SkipsAll() bool {
	var left int64
	for reason, n := range p.LeftOut {
		if !reason.Passing() {
			left += n
		}
	}
	return p.Items > 0 && left >= p.Items
}

// MaxForeseen is how many items a plan looks at one by one, for Plan.LeftOut.
const MaxForeseen = 10_000

// Overlap is another operation, not ended, that has yet to treat items of a plan.
type Overlap struct {
	// UUID is the operation.
	UUID uuid.UUID `json:"operation_uuid"`
	// Name is its name.
	Name string `json:"name"`
	// State is the state that it had when the plan was made.
	State OperationState `json:"state"`
	// Items is how many items of the plan it has yet to treat.
	Items int64 `json:"items"`
}

// Operation is one treatment of many investigations.
type Operation struct {
	UUID   uuid.UUID
	Kind   OperationKind
	Name   string
	Reason string
	Actor  string
	State  OperationState
	Scope  Scope
	// Sources are those of all that may be in its scope, sorted; AllSources where that takes any.
	Sources []string
	Options OperationOptions
	Plan    Plan
	// Items are in its scope; Done, Skipped and Failed of them were treated.
	Items, Done, Skipped, Failed int64
	// Delivered and CameBack of the done ones have ended: their topic acknowledged them, or they came back dead. They came
	// back if the relay gave them up again, or if a consumer group did and its letter was here when the delivery was seen.
	Delivered, CameBack int64
	// ForgivenDelivered and ForgivenCameBack of these had ended when a person last resumed it after it halted. They do not
	// count for HaltRatio any more.
	ForgivenDelivered, ForgivenCameBack int64
	// Reaches says where the messages of a redrive would go, by topic, and whom they reach.
	Reaches []Reach
	// Error is why it halted.
	Error string
	// The times are zero where it has not come so far.
	CreatedAt, StartedAt, TreatedAt, FinishedAt, UpdatedAt time.Time
}

// SeenWith reports whether a person with these sources sees the operation; nil is a person with all.
func (o *Operation) SeenWith(sources []string) bool {
	return sources == nil || !slices.ContainsFunc(o.Sources, func(s string) bool { return !slices.Contains(sources, s) })
}

// Command changes the state of an operation.
type Command string

const (
	// Start begins a planned operation.
	Start Command = "start"
	// Pause stops a running one after the batch in hand.
	Pause Command = "pause"
	// Resume goes on with a paused or halted one. What made it halt is not counted again.
	Resume Command = "resume"
	// Abort ends one for good.
	Abort Command = "abort"
	// Withdraw ends a plan: as Abort does, but only while nothing of it was started. The audit log has it as Abort.
	Withdraw Command = "withdraw"
)

// Action is what the audit log calls a command.
func (c Command) Action() string {
	if c == Withdraw {
		c = Abort
	}
	return "operation." + string(c)
}

// CheckCommandReason reports why the reason of a command is invalid: it is text of at most MaxNotes bytes.
func CheckCommandReason(reason string) error { return plain("reason", reason, MaxNotes) }

// ErrExists is wrapped by errors about planning an operation under the name of one that has not ended: an operator who
// plans twice would otherwise start one and watch the other.
var ErrExists = errors.New("the name is taken")

// ErrSource is wrapped by errors about a source that is not as a request needs it.
var ErrSource = errors.New("source refused")

// ErrState is wrapped by errors about a command that does not fit the state of an operation.
var ErrState = errors.New("operation refused")

// Next returns the state after a command; canary says whether the first few are still to be sent or waited for.
// Commands that change nothing are allowed, so that they can be repeated. Only Abort is allowed of one that has ended: the
// others would be answered as if something went on.
func (s OperationState) Next(c Command, canary bool) (OperationState, error) {
	begun := Running
	if canary {
		begun = Canary
	}
	switch {
	case c == Start && s == Planned, c == Resume && (s == Paused || s == Halted):
		return begun, nil
	case (c == Start || c == Resume) && (s == Running || s == Canary):
		return s, nil
	case c == Pause && (s == Running || s == Canary || s == Paused):
		return Paused, nil
	case c == Abort && s != Completed, c == Withdraw && s == Planned:
		return Aborted, nil
	}
	remedy := ""
	switch {
	case s.Ended():
		remedy = "; it has ended, and more is done by a new operation"
	case c == Start:
		remedy = "; it has begun, and resume goes on with it"
	case c == Withdraw:
		remedy = "; it has begun, and abort ends it"
	}
	return s, fmt.Errorf("%w: it is %s, and cannot be told to %s%s", ErrState, s, c, remedy)
}

// States of an Item.
const (
	// ItemWaiting: its turn has not come.
	ItemWaiting = "waiting"
	// ItemDone: its message was sent, or its investigation was closed or purged.
	ItemDone = "done"
	// ItemSkipped: nothing was done with its investigation; Item.Reason says why.
	ItemSkipped = "skipped"
	// ItemFailed: the outbox refused its message.
	ItemFailed = "failed"
)

// Item is one investigation in the scope of an operation.
type Item struct {
	// Place is its number in the scope, from 1: the order in which items are treated.
	Place int64
	// Entry is the investigation.
	Entry uuid.UUID
	// State is ItemWaiting, ItemDone, ItemSkipped or ItemFailed.
	State string
	// Reason is the SkipReason of an item that was skipped or failed; empty otherwise.
	Reason string
	// Outcome is ItemSent, ItemDelivered or ItemCameBack, if its message was sent again; empty otherwise.
	Outcome string
	// Successor is the investigation that goes on, if the message came back dead and opened one; uuid.Nil otherwise. A
	// message that a consumer group gave up in its retry topic comes back to the same investigation.
	Successor uuid.UUID
	// The fields below describe the investigation. They are empty once it is removed.

	// Topic is the topic that its message was bound for or came from; empty for a task.
	Topic string
	// Key is the key of its message as the snapshot has it, at most MaxItemKey characters of it; bytes that are not UTF-8
	// are replaced. Nil for a task, for Kafka's null, and where the snapshot has none.
	Key *string
	// EventID is the event of the outbox that its message was; uuid.Nil for none.
	EventID uuid.UUID
	// TaskUUID is the task that it is about, or that its event belongs to; uuid.Nil for neither.
	TaskUUID uuid.UUID
	// DLQReason is why its subject was dead-lettered.
	DLQReason Reason
	// ErrorCode is the code of its error; empty for none.
	ErrorCode string
}

// MaxItemKey is how much of a key an Item has, in characters. A key may be as long as a message.
const MaxItemKey = 200

// Outcomes of an Item whose message was sent again.
const (
	// ItemSent: it is on its way.
	ItemSent = "sent"
	// ItemDelivered: its topic acknowledged it.
	ItemDelivered = "delivered"
	// ItemCameBack: it was given up again; see Operation.CameBack.
	ItemCameBack = "came_back"
)

// ItemFilter selects items of an operation. Its zero value selects all.
type ItemFilter struct {
	// State is the only state wanted. Defaults to any.
	State string
	// Outcome is the only outcome wanted. Defaults to any.
	Outcome string
}
