package replay

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/message"
)

// Skip says why a letter that was asked for is left alone.
type Skip string

const (
	// Undecodable: its headers are a broken set of ours, or they are of no known dialect and no topic is given to send it to.
	Undecodable Skip = "undecodable"
	// PayloadGone: it only refers to its message, which is in the outbox, or no longer where it was.
	PayloadGone = Skip(dlq.PayloadGone)
	// PayloadRefused: it only refers to its message, in a topic that the login may not read.
	PayloadRefused Skip = "payload_refused"
	// TaskSubject: it is about a task.
	TaskSubject = Skip(dlq.TaskSubject)
	// NoTarget: it does not say where the message came from.
	NoTarget = Skip(dlq.NoTarget)
	// NoRetryTopic: it names no retry topic of the group that failed.
	NoRetryTopic = Skip(dlq.NoRetryTopic)
	// SourceTopic: its message came from the topic that is being read.
	SourceTopic Skip = "source_topic"
	// UnreadableHeaders: some headers of its event cannot be read, and no option says what to send instead.
	UnreadableHeaders = Skip(dlq.UnreadableHeaders)
	// Wired: its topic gets records as Debezium's event router makes them, and the letter has the event as it was written.
	Wired Skip = "wired"
	// TooManyHops: its message was replayed too often.
	TooManyHops Skip = "too_many_hops"
	// SentAgain: its message was sent again before, and came back as a later letter, which is sent instead.
	SentAgain Skip = "sent_again"
	// Refused: the broker refuses its message for good.
	Refused = Skip(dlq.Refused)
)

// Explain says what a reason means and what to do.
func (s Skip) Explain() string {
	switch s {
	case Undecodable:
		return "its headers are of no dialect that is known: give a topic (--to) to send it as it is; or they are a broken set of ours"
	case PayloadGone:
		return "it has no message in it, and only says where that is: in the outbox, from where the desk sends it (postrider dlq requeue), or in a record that is gone"
	case PayloadRefused:
		return "it has no message in it, and the login may not read the record that it points to: allow Read on that topic, and replay again (--again)"
	case TaskSubject:
		return "it is about a task: repair its steps, or retry the task"
	case NoTarget:
		return "it does not say where its message came from; give a topic (--to)"
	case NoRetryTopic:
		return "it names no retry topic of a consumer group; give a topic (--to)"
	case SourceTopic:
		return "its message came from the topic that is read; give another (--to)"
	case UnreadableHeaders:
		return "some headers of its event cannot be read: give headers (--header), send each as the text of its value (--header-text), or send it without any (--header-none); --match error=INVALID_HEADERS is about such letters alone"
	case Wired:
		return "its topic gets records as Debezium's event router makes them, and the letter has the event as it was written: the desk sends it through the outbox (postrider dlq requeue)"
	case TooManyHops:
		return "its message was replayed as often as --max-hops allows, and came back dead each time"
	case SentAgain:
		return "its message was sent again before, and came back as a later letter, which stands for it"
	case Refused:
		return "the broker refuses its message for good"
	}
	return string(s)
}

// verdict says what the replay does with a record of the dead-letter topic.
type verdict struct {
	// wanted is false for a letter that the conditions leave out.
	wanted bool
	// skip is why a wanted letter is left alone; empty for a letter that is sent as message.
	skip    Skip
	message relay.Message
	// id and at are the letter's identity and time.
	id string
	at time.Time
	// of names the letter's message, which keeps its name when it is sent again, and the group that gave it up. hops is how
	// often it had been sent again by then.
	of   string
	hops int
	// points is set for a letter that only points to its message, as long as that was not asked for; fetched says that the
	// message was there.
	points  *dlq.Letter
	fetched bool
}

// ofGroup stands between the name of a message and the group: what one group gave up, another may never have got again.
const ofGroup = "\x00"

// decide says what becomes of one record. since and until are the frozen bounds, label the end of the replay ids.
func (o *Options) decide(r *dlq.Record, since, until time.Time, label string) verdict {
	return o.decideLetter(r, o.decodeOne(*r), since, until, label)
}

// decideLetter is decide of a record that was read.
func (o *Options) decideLetter(r *dlq.Record, l dlq.Letter, since, until time.Time, label string) verdict {
	v := verdict{id: l.ID, at: l.DeadLetteredAt(), of: l.FirstSentAs() + ofGroup + l.FailedGroup(), hops: l.Hops}
	if !since.IsZero() && v.at.Before(since) || !until.IsZero() && (v.at.IsZero() || !v.at.Before(until)) {
		return v
	}
	for _, m := range o.Match {
		if !m.fits(r, &l) {
			return v
		}
	}
	v.wanted = true
	target, skip := o.target(&l)
	_, unreadable := l.InvalidHeaders()
	if unreadable && o.Repair != nil && o.Repair.Mends(l.Headers) {
		l.Headers, unreadable = o.Repair.Apply(l.Headers), false
	}
	switch {
	case l.Subject.Type == dlq.SubjectTask:
		v.skip = TaskSubject
	case l.Dialect == dlq.DialectUnknown && (l.ErrorCode != "" || o.To == ToOriginal || o.To == ToRetry): // with a code it is a broken one of ours
		v.skip = Undecodable
	case l.PayloadKind == dlq.Reference || l.KeyKind == dlq.Reference:
		v.skip = PayloadGone
		if _, points := l.Pointer(); points {
			v.points = &l
		}
	case skip != "":
		v.skip = skip
	case target == o.From:
		v.skip = SourceTopic
	case unreadable:
		v.skip = UnreadableHeaders
	case o.To == ToOriginal && l.Dialect == dlq.DialectPostrider && valueOf(r, message.HeaderWire) != "":
		v.skip = Wired
	case l.Hops >= o.MaxHops:
		v.skip = TooManyHops
	default:
		v.message = relay.Message{
			ID: relay.MessageID{EventID: recordID(r)}, Topic: target, Key: l.Key, Value: l.Payload,
			Headers: headersOf(&l, replayID(l.ID, target, label)),
		}
		if o.To == ToOriginal && l.Dialect == dlq.DialectPostrider { // another topic has partitions of its own
			if n, err := strconv.ParseInt(valueOf(r, message.HeaderPartition), 10, 32); err == nil && n >= 0 {
				v.message.Partition = new(int32(n))
			}
			if at, err := time.Parse(time.RFC3339Nano, valueOf(r, message.HeaderTimestamp)); err == nil {
				v.message.Timestamp = at
			}
		}
	}
	return v
}

// valueOf is the value of a header of a record; empty where it has none.
func valueOf(r *dlq.Record, name string) string {
	for _, h := range r.Headers {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// target is where a letter's message goes, or why it cannot.
func (o *Options) target(l *dlq.Letter) (string, Skip) {
	switch o.To {
	case ToOriginal:
		if message.ValidTopic(l.OriginTopic) != nil {
			return "", NoTarget
		}
		return l.OriginTopic, ""
	case ToRetry:
		if l.RetryTopic == "" {
			return "", NoRetryTopic
		}
		return l.RetryTopic, ""
	}
	return o.To, ""
}

// recordID identifies a record within this process, where letters that are copies of each other are two messages.
func recordID(r *dlq.Record) (id uuid.UUID) {
	binary.BigEndian.PutUint32(id[:], uint32(r.Partition))
	binary.BigEndian.PutUint64(id[8:], uint64(r.Offset))
	return id
}

// space is the name space of the uuids in replay ids.
var space = uuid.MustParse("4d5a1f0e-93c7-5b52-8e0a-7a6c1f2d9b43")

// replayID is the same whenever the same letter is sent to the same topic by the same replay. It has at most 128 bytes,
// as the ids of the desk have.
func replayID(letter, target, label string) string {
	return uuid.NewSHA1(space, []byte(letter+"\x00"+target)).String() + ":" + label
}

// headersOf are the headers of a message that is sent again: its own, in order, and the new ones. Headers of ours and
// of an earlier replay are left out, because they would pile up. traceparent is one of its own: the trace of the
// message goes on. The event id is that of the event that was first sent, and for a record one that is made of its place:
// it is the same in every replay, so that a group which has handled the message leaves it alone.
func headersOf(l *dlq.Letter, id string) []message.Header {
	hs := make([]message.Header, 0, len(l.Headers)+7)
	for _, h := range l.Headers {
		if !message.Reserved(h.Name) && h.Name != dlq.HeaderReplayOf && h.Name != dlq.HeaderReplayID && h.Name != dlq.HeaderReplayOrigin {
			hs = append(hs, h)
		}
	}
	hs = append(hs,
		message.Header{Name: dlq.HeaderReplayOf, Value: []byte(replayOf(l))},
		message.Header{Name: dlq.HeaderReplayID, Value: []byte(id)})
	if origin := l.Origin(); origin != "" {
		hs = append(hs, message.Header{Name: dlq.HeaderReplayOrigin, Value: []byte(origin)})
	}
	of := l.FirstSentAs()
	hs = append(hs,
		message.Header{Name: message.HeaderHops, Value: strconv.AppendInt(nil, int64(l.Hops+1), 10)},
		message.Header{Name: message.HeaderRedriveOf, Value: []byte(of)})
	if group := l.FailedGroup(); group != "" {
		hs = append(hs, message.Header{Name: message.HeaderRedriveFor, Value: []byte(group)})
	}
	return append(hs, message.Header{Name: message.HeaderEventID, Value: []byte(message.RedriveEventID(of).String())})
}

// replayOf names the message that is sent again, as the desk's redrives do.
func replayOf(l *dlq.Letter) string {
	switch {
	case l.EventID != uuid.Nil:
		return "event:" + l.EventID.String()
	case l.OriginTopic != "" && l.OriginPartition != nil && l.OriginOffset != nil:
		return fmt.Sprintf("record:%s/%d/%d", l.OriginTopic, *l.OriginPartition, *l.OriginOffset)
	}
	return fmt.Sprintf("record:%s/%d/%d", l.DLQTopic, l.DLQPartition, l.DLQOffset)
}
