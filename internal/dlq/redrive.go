package dlq

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

// Headers of a redriven message. They are not reserved, because consumers and other tools read and write them.
const (
	// HeaderReplayOf names the message that is sent again: "event:<event id>" or
	// "record:<topic>/<partition>/<offset>".
	HeaderReplayOf = "replay_of"
	// HeaderReplayID is the same for each copy of one redrive and differs between redrives, so that an inbox
	// takes a later, legitimate one for new: "<investigation>:<generation>".
	HeaderReplayID = "replay_id"
	// HeaderReplayTraceparent is the traceparent that the message had. A redrive is a trace of its own, recorded if that
	// one was, and the relay's span of it links there. Absent where the message had none that could be read.
	HeaderReplayTraceparent = tracecontext.HeaderReplay
	// HeaderReplayOrigin says where which group first read a record that is sent again, where its letter says so.
	HeaderReplayOrigin = dialect.HeaderReplayOrigin
)

// DefaultMaxHops is how often a message is sent again in all, by redrives and replays, unless the request says
// otherwise: a message that comes back dead each time is skipped in the end. MaxMaxHops is the most that may be said.
const (
	DefaultMaxHops = 3
	MaxMaxHops     = 1000
)

// Origin is the value of the header HeaderReplayOrigin when a letter's message is sent again; empty if the letter does
// not say where it was read.
func (l *Letter) Origin() string {
	if l.Subject.Type != SubjectRecord || l.OriginTopic == "" || l.OriginPartition == nil || l.OriginOffset == nil {
		return ""
	}
	return l.Subject.recordID()
}

// FirstSentAs is what inboxes know a letter's message by since it was first sent: the value of message.HeaderRedriveOf when
// the message is sent again. dlq_redrive_letters says the same. Empty for the letter of a task.
func (l *Letter) FirstSentAs() string {
	for _, h := range l.Headers {
		if h.Name == message.HeaderRedriveOf {
			if _, valid := message.ValidRedriveOf(string(h.Value)); valid {
				return string(h.Value)
			}
		}
	}
	switch {
	case l.EventID != uuid.Nil:
		return "event:" + l.EventID.String()
	case l.Subject.Type == SubjectRecord:
		place, _, _ := strings.Cut(l.Subject.recordID(), "#")
		return "record:" + place
	}
	return ""
}

// FailedGroup is the consumer group that gave a letter's message up. If the relay gave up a redrive, it is the group that
// the redrive was for. Empty where no group is known.
func (l *Letter) FailedGroup() string {
	if l.ConsumerGroup != "" {
		return l.ConsumerGroup
	}
	for _, h := range l.Headers {
		if h.Name == message.HeaderRedriveFor {
			return string(h.Value)
		}
	}
	return ""
}

// maxRedriveID is the length of the longest redrive id in bytes; see the table dlq_redrive.
const maxRedriveID = 128

// CameFrom names the redrive that a letter's message was sent by, as far as the letter says it: the event that was given
// up, and the id of the redrive in the message's header. A record names no event: any producer may write that header. Of
// another source than MainSource, it can be a redrive of an investigation of that source alone.
func (l *Letter) CameFrom() (event uuid.UUID, redrive string) {
	if l.Subject.Type != SubjectRecord {
		event = l.EventID
	}
	for _, h := range l.Headers {
		if text := string(h.Value); h.Name == HeaderReplayID && storableText(text, maxRedriveID) == text {
			return event, text
		}
	}
	return event, ""
}

// SkipReason says why an investigation was skipped.
type SkipReason string

const (
	// AlreadyQueued: an earlier redrive of it is on its way.
	AlreadyQueued SkipReason = "already_queued"
	// TaskSubject: it is about a task, which is resolved through its steps.
	TaskSubject SkipReason = "task_subject"
	// NotPending: it was closed.
	NotPending SkipReason = "not_pending"
	// PayloadGone: its letter refers to a message that is no longer where it was.
	PayloadGone SkipReason = "payload_gone"
	// PayloadTooLarge: the message is larger than the outbox takes.
	PayloadTooLarge SkipReason = "payload_too_large"
	// NoTarget: the letter does not say where the message came from, and no target was given.
	NoTarget SkipReason = "no_target"
	// Busy: the relay has its key in work; ask again.
	Busy SkipReason = "busy"
	// KeyHalted: another event halts its key, and only that event can set it going; the message would wait behind it.
	KeyHalted SkipReason = "key_halted"
	// HaltsKey: it halts its key, and was to be sent elsewhere. Only the event itself, in its place, sets its key going,
	// changed or not; anything else would wait behind it, or leave the key halted for good.
	HaltsKey SkipReason = "halts_key"
	// Arrived: its event was redriven by hand, and has arrived.
	Arrived SkipReason = "delivered"
	// NoRetryTopic: it was to go to the retry topic of the consumer group that failed, and its letter names none.
	NoRetryTopic SkipReason = "no_retry_topic"
	// TooManyHops: its message was sent again as often as MaxHops allows.
	TooManyHops SkipReason = "too_many_hops"
	// Refused: the outbox does not take the message as it is.
	Refused SkipReason = "refused"
	// UnreadableHeaders: some of its headers are not what the outbox allows, for example have no name, and not all of these
	// were given.
	UnreadableHeaders SkipReason = "unreadable_headers"
	// OnlyCopy: it halts its key and was to be changed in its place, but only its row has the whole of what the edit
	// replaces.
	OnlyCopy SkipReason = "only_copy"
	// DeadLetterTopic: it would go to the dead-letter topic that it came from.
	DeadLetterTopic SkipReason = "dead_letter_topic"
	// ReservedTopic: it would go to a topic that Kafka or Postrider alone writes.
	ReservedTopic SkipReason = "reserved_topic"
	// TopicNotAllowed: it is of a source, and would go to a topic that its source may not write to.
	TopicNotAllowed SkipReason = "topic_not_allowed"
	// HoldsKey: it was to be purged without letting go of the key that it holds.
	HoldsKey SkipReason = "holds_key"
	// EntryPurged: the investigation is gone.
	EntryPurged SkipReason = "purged"
	// SourceAway: its source answers no commands.
	SourceAway SkipReason = "source_away"
	// SourceForgotten: people said that its source is gone for good.
	SourceForgotten SkipReason = "source_forgotten"
	// Stale: in its source the event has moved on since it was given up.
	Stale SkipReason = "stale"
	// NoKey: its event halts no key.
	NoKey SkipReason = "no_key"
	// Undone: its source sent it again, and was set back to a time before.
	Undone SkipReason = "undone"
	// EventGone: its source does not have the event any more, or its letter does not name it.
	EventGone SkipReason = "gone"
)

// SkipReasons returns every reason.
func SkipReasons() []SkipReason {
	return []SkipReason{AlreadyQueued, TaskSubject, NotPending, PayloadGone, PayloadTooLarge, NoTarget, Busy, KeyHalted,
		HaltsKey, Arrived, NoRetryTopic, TooManyHops, Refused, UnreadableHeaders, OnlyCopy, DeadLetterTopic, ReservedTopic, TopicNotAllowed, HoldsKey, EntryPurged,
		SourceAway, SourceForgotten, Stale, NoKey, Undone, EventGone}
}

// TargetGroup as a target is the retry topic of the consumer group that failed, which its letters name in the header
// message.HeaderRetryTopic: the other groups of the topic do not get the message again. TargetOrigin is the topic that each
// message was bound for or came from.
const (
	TargetGroup  = "group"
	TargetOrigin = "origin"
)

// reservedTopic reports whether Kafka keeps the topic for itself.
func reservedTopic(topic string) bool { return strings.HasPrefix(topic, "__") }

// checkTarget says why a target that a request names can never be written.
func checkTarget(target string) error {
	if target == "" {
		return nil
	}
	if err := message.ValidTopic(target); err != nil {
		return fmt.Errorf("%w: target: %w", ErrRequest, err)
	}
	if reservedTopic(target) {
		return fmt.Errorf("%w: the target %s is a topic that Kafka keeps for itself; give another one", ErrRequest, target)
	}
	return nil
}

// Final reports whether a further redrive would skip the investigation, too, whatever it asks for.
func (r SkipReason) Final() bool {
	return r == TaskSubject || r == NotPending || r == Arrived || r == EntryPurged
}

// Passing reports whether the reason may be gone when the same redrive is started later: what stands in the way is on its way,
// or others can take it away.
func (r SkipReason) Passing() bool {
	switch r {
	case AlreadyQueued, Busy, KeyHalted, HaltsKey, OnlyCopy, HoldsKey, PayloadGone, PayloadTooLarge, SourceAway, Stale, Undone:
		return true
	}
	return false
}

// Explain says what a reason means and what to do.
func (r SkipReason) Explain() string {
	switch r {
	case AlreadyQueued:
		return "a redrive of it is on its way"
	case TaskSubject:
		return "it is about a task: repair its steps, or retry the task"
	case NotPending:
		return "it is closed"
	case PayloadGone:
		return "its letter only refers to its message, which is not there; postrider dlq fetch asks again for the record that a letter points to"
	case PayloadTooLarge:
		return "its message is larger than the outbox takes; raise the limit with postrider.outbox_set_max_payload_bytes"
	case NoTarget:
		return "its letter does not say where it came from; give a target topic"
	case Busy:
		return "the relay has its key in work; ask again"
	case KeyHalted:
		return "another event halts its key; redrive or skip that one first"
	case HaltsKey:
		return "it halts its key: send it to its own topic, or let its key go first (postrider outbox release)"
	case Arrived:
		return "its event was redriven by hand and has arrived; close it"
	case NoRetryTopic:
		return "its letter names no retry topic of a consumer group; give a target topic"
	case TooManyHops:
		return "its message was sent again as often as the limit of hops allows, and became a dead letter each time; find out why, then raise the limit (max_hops)"
	case Refused:
		return "the outbox does not take its message as it is; edit it"
	case UnreadableHeaders:
		return "some of its headers cannot be read, or have no name or a control character in it; the letter has them as they are (postrider dlq show): give all of these (--header), send each as the text of its value (--header-text), or send it without any (--header-none)"
	case OnlyCopy:
		return "it halts its key, and only its row has the whole of what the edit replaces: let its key go first (postrider outbox release)"
	case DeadLetterTopic:
		return "it would go to the dead-letter topic that it came from; give another target"
	case ReservedTopic:
		return "it would go to a topic that Kafka or Postrider alone writes; give another target"
	case TopicNotAllowed:
		return "it would go to a topic that its source may not write to (topics.allow); give a topic of its source as the target"
	case HoldsKey:
		return "it holds a key: redrive it, or purge it and let its key go (release_keys)"
	case EntryPurged:
		return "it was purged"
	case SourceAway:
		return "its source answers no commands; postrider sources says what is wrong with it"
	case SourceForgotten:
		return "its source was forgotten, and is asked nothing any more: close it, or send its message from its letter (postrider replay)"
	case Stale:
		return "in its source the event has moved on: it was redriven or given up again there; look again when its next letter is here"
	case NoKey:
		return "its event halts no key, so that there is none to let go: it never did, or the key went on before"
	case Undone:
		return "its source was set back to a time before it sent it again, so that nothing was sent: redrive it again"
	case EventGone:
		return "its source does not have the event that its letter names: it was delivered or closed there, or the letter is forged; close it"
	}
	return string(r)
}

// Skip is an investigation that was skipped: nothing was done with it.
type Skip struct {
	Entry  uuid.UUID
	Reason SkipReason
	// Detail says more; empty where Reason.Explain says all.
	Detail string
}

// Explain says why, and what to do.
func (s Skip) Explain() string { return cmp.Or(s.Detail, s.Reason.Explain()) }

// Edit changes a message before it is sent again. The letter keeps the original.
type Edit struct {
	// Payload replaces the payload, where not nil; an empty one is an empty value.
	Payload []byte
	// Tombstone replaces the payload by Kafka's null.
	Tombstone bool
	// Headers replace the message's headers, where not nil.
	Headers []message.Header
}

// Replacement is the payload that an edit gives, if it gives one; e may be nil.
func (e *Edit) Replacement() (payload []byte, given bool) {
	if e == nil {
		return nil, false
	}
	return e.Payload, e.Payload != nil || e.Tombstone
}

// ErrRequest is wrapped by errors about what was asked for.
var ErrRequest = errors.New("request refused")

// MaxRedrive is how many investigations a RedriveRequest may name: they are sent in one transaction. More is the work of
// an operation.
const MaxRedrive = 10_000

// MaxWait is the longest RedriveRequest.Wait.
const MaxWait = time.Hour

// RedriveRequest asks for messages to be sent again.
type RedriveRequest struct {
	// Entries are the investigations, each once, MaxRedrive at most. Required.
	Entries []uuid.UUID
	// Target is the topic to send to, TargetGroup or TargetOrigin. Defaults to the retry topic of the group that failed,
	// where the message's letter names one, and otherwise to where the message was bound for or came from.
	Target string
	// MaxHops is how often a message is sent again in all, 1 to MaxMaxHops; its letter counts. What goes back to its own
	// place in the outbox is no other message, and always may. Defaults to DefaultMaxHops.
	MaxHops int
	// Edit, if not nil, changes the message; then there must be one entry.
	Edit *Edit
	// Repair, if not nil, gives headers to messages with headers that cannot be read; without it, and without an Edit of
	// headers, these messages are skipped.
	Repair *Repair
	// Operation is the operation that asks, if any.
	Operation uuid.UUID
	// Wait is how long it waits for what other sources answer, MaxWait at most. Then a source that is away is asked, too.
	// Defaults to two seconds, and a source that is away is not asked.
	Wait time.Duration
	// Actor is who asks. Required.
	Actor string
	// Written, if not nil, is told once what is sent or asked for, when that is committed and before the answers of sources are
	// waited for.
	Written func(Requeued)
}

// Check reports why a request is invalid.
func (r RedriveRequest) Check() error {
	seen := make(map[uuid.UUID]bool, len(r.Entries))
	for _, id := range r.Entries {
		if seen[id] {
			return fmt.Errorf("%w: investigation %s is named twice", ErrRequest, id)
		}
		seen[id] = true
	}
	switch {
	case len(r.Entries) == 0:
		return fmt.Errorf("%w: no investigation is named", ErrRequest)
	case len(r.Entries) > MaxRedrive:
		return fmt.Errorf("%w: %d investigations are named, the limit is %d; an operation sends more", ErrRequest, len(r.Entries), MaxRedrive)
	case r.Actor == "":
		return fmt.Errorf("%w: the actor is missing", ErrRequest)
	case r.MaxHops < 0 || r.MaxHops > MaxMaxHops:
		return fmt.Errorf("%w: the limit of hops is %d, it must be 1 to %d", ErrRequest, r.MaxHops, MaxMaxHops)
	case r.Wait < 0 || r.Wait > MaxWait:
		return fmt.Errorf("%w: it is to wait %s for answers of sources, it must be up to %s", ErrRequest, r.Wait, MaxWait)
	case r.Edit != nil && len(r.Entries) != 1:
		return fmt.Errorf("%w: %d investigations are named; a message is edited alone", ErrRequest, len(r.Entries))
	case r.Edit != nil && r.Edit.Tombstone && r.Edit.Payload != nil:
		return fmt.Errorf("%w: the edit has a payload and is a tombstone", ErrRequest)
	}
	if err := checkTarget(r.Target); err != nil {
		return err
	}
	if r.Repair != nil {
		if err := r.Repair.Check(); err != nil {
			return err
		}
	}
	if r.Edit != nil {
		return checkHeaders(r.Edit.Headers)
	}
	return nil
}

// Requeued says what a redrive did, or would do; or which keys were let go, where Entries are the investigations whose keys go on.
type Requeued struct {
	Entries []uuid.UUID
	Skipped []Skip
	// Asked are the investigations among Entries whose source was asked, and has not answered yet.
	Asked []uuid.UUID
	// Stopped are the tasks of the events that were sent, where only a retry moves them.
	Stopped []StoppedTask
	// Reaches says where the messages go, by topic, and whom they reach there.
	Reaches []Reach
}

// Answer notes what a source answered about an investigation that is in Asked.
func (q *Requeued) Answer(entry uuid.UUID, answer, detail string) {
	is := func(id uuid.UUID) bool { return id == entry }
	if !slices.ContainsFunc(q.Asked, is) {
		return
	}
	q.Asked = slices.DeleteFunc(q.Asked, is)
	if answer == AnswerInPlace || answer == AnswerNew || answer == AnswerReleased {
		return
	}
	q.Entries = slices.DeleteFunc(q.Entries, is)
	skip := Skip{Entry: entry, Reason: SkipReason(answer)}
	if detail != "" {
		skip.Detail = skip.Reason.Explain() + ": " + detail
	}
	q.Skipped = append(q.Skipped, skip)
}

// StoppedTask is a task in the dead-letter state of its machine. An event of it that is sent again does not bring it back; a
// retry of the task does.
type StoppedTask struct {
	// UUID is the id of the task.
	UUID uuid.UUID
	// State is the state that it is in.
	State string
}

// Followed counts redrives that ended. A redrive came back if the relay gave it up again, or if a consumer group did,
// and its letter was here already when it was seen that the topic had acknowledged the redrive.
type Followed struct {
	Delivered, CameBack int
	// More says that the call had no more time while most of what it looked at had ended.
	More bool
}

func (f Followed) plus(o Followed) Followed {
	return Followed{f.Delivered + o.Delivered, f.CameBack + o.CameBack, f.More || o.More}
}
