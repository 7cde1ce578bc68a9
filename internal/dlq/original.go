package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// Some letters have neither key nor value and only say where the record is that they are about: letters of share groups,
// of failures to produce in Kafka Streams, and of messages that were too large for the letter. The record is fetched
// from there, as long as its topic keeps it.

// Place is where a record is.
type Place struct {
	Topic     string
	Partition int32
	Offset    int64
}

// OriginalState says what became of asking for the record that a letter points to. Empty if it was not asked for.
type OriginalState string

const (
	// OriginalFetched: its bytes are in the letter.
	OriginalFetched OriginalState = "fetched"
	// OriginalDeleted: retention or a DeleteRecords request deleted it.
	OriginalDeleted OriginalState = "deleted"
	// OriginalCompacted: compaction removed it, because a later record has its key.
	OriginalCompacted OriginalState = "compacted"
	// OriginalMarker: the place is that of a transaction's marker, which no producer wrote as a record.
	OriginalMarker OriginalState = "marker"
	// OriginalAbsent: the partition ends before the place, or is not there.
	OriginalAbsent OriginalState = "absent"
	// OriginalOther: another record is there, by its timestamp: the topic was deleted and made anew.
	OriginalOther OriginalState = "other_record"
	// OriginalNoTopic: the topic does not exist.
	OriginalNoTopic OriginalState = "no_topic"
	// OriginalNoLeader: its partition has no leader; it may be asked for later.
	OriginalNoLeader OriginalState = "no_leader"
	// OriginalRefused: the topic may not be read by this client; it may be asked for later.
	OriginalRefused OriginalState = "refused"
	// OriginalUnanswered: the brokers did not answer in time, or had not answered just before, or there was too much to
	// ask for at once; it may be asked for later.
	OriginalUnanswered OriginalState = "unanswered"
)

// OriginalStates returns every state.
func OriginalStates() []OriginalState {
	return []OriginalState{OriginalFetched, OriginalDeleted, OriginalCompacted, OriginalMarker, OriginalAbsent, OriginalOther,
		OriginalNoTopic, OriginalNoLeader, OriginalRefused, OriginalUnanswered}
}

// Passing reports whether asking again later may help.
func (s OriginalState) Passing() bool {
	return s == OriginalNoLeader || s == OriginalRefused || s == OriginalUnanswered
}

// Original is the answer about a record that a letter points to.
type Original struct {
	State OriginalState
	// Key and Value are exact bytes, nil is Kafka's null; with Headers and Timestamp they are the record's, if it was
	// fetched.
	Key, Value []byte
	Headers    []message.Header
	Timestamp  time.Time
	// Retention is how long the topic keeps records by their timestamps (retention.ms); negative where that is without
	// end, the topic does not delete by age, or it is not known.
	Retention time.Duration
	// Err says more about a state that is not OriginalFetched; may be nil.
	Err error
}

// DefaultOriginalsTimeout is the default of Config.OriginalsTimeout.
const DefaultOriginalsTimeout = 3 * time.Second

// originalsPause is how long nothing is asked for after a round of questions that all stayed without an answer: the
// letters go on, and each round of them would wait for nothing.
const originalsPause = 30 * time.Second

// errNotAsked is noted in letters that are not asked for because of originalsPause.
var errNotAsked = errors.New("not asked for: nothing asked for before it was answered")

// Pointer returns the place that a letter points to, if its value, or both key and value, are missing.
func (l *Letter) Pointer() (Place, bool) {
	missing := l.PayloadKind == Reference || l.Key == nil && l.Payload == nil
	if !missing || l.OutboxID != nil || l.Subject.Type != SubjectRecord ||
		l.OriginTopic == "" || l.OriginPartition == nil || l.OriginOffset == nil {
		return Place{}, false
	}
	return Place{l.OriginTopic, *l.OriginPartition, *l.OriginOffset}, true
}

// fetch completes letters that only point to a record, as far as the record is there and time allows. left is that time,
// from which fetch takes what it needs. The other letters stay as they are.
func (c *Collector) fetch(ctx context.Context, letters []Letter, left *time.Duration) {
	if c.originals == nil {
		return
	}
	var places []Place
	var pointing []*Letter
	for i := range letters {
		if place, points := letters[i].Pointer(); points {
			places, pointing = append(places, place), append(pointing, &letters[i])
		}
	}
	if len(places) == 0 {
		return
	}
	if time.Now().Before(c.askAgain) {
		for _, l := range pointing {
			l.Complete(Original{State: OriginalUnanswered, Retention: -1, Err: errNotAsked})
		}
		return
	}
	asking, cancel := context.WithTimeout(ctx, *left)
	defer cancel()
	began, inTime := time.Now(), *left > 0
	passing := 0
	for i, o := range c.originals.Fetch(asking, places) {
		state := pointing[i].Complete(o)
		c.metrics.originals.WithLabelValues(string(state)).Inc()
		if state.Passing() {
			passing++
		}
	}
	*left -= time.Since(began)
	if passing == len(places) && inTime {
		c.askAgain = time.Now().Add(originalsPause)
	}
}

// Complete puts the record that a letter points to into the letter, and notes in its metadata what became of it and
// until when the record is kept. It returns the state, which is OriginalOther for a record that is not the one.
func (l *Letter) Complete(o Original) OriginalState {
	if o.State == OriginalFetched {
		if at := l.CreatedAt; !at.IsZero() && at.UnixMilli() != o.Timestamp.UnixMilli() {
			o.State = OriginalOther
		} else {
			l.take(o)
		}
	}
	l.OriginalRecord = o.State
	note := map[string]any{"state": o.State, "topic": l.OriginTopic, "partition": *l.OriginPartition, "offset": *l.OriginOffset, "gone_at": nil}
	if gone := l.goneAt(o); !gone.IsZero() {
		note["gone_at"] = timeText(gone)
	}
	if o.Err != nil {
		note["error"] = storableText(o.Err.Error(), maxMessageBytes)
	}
	l.addMetadata("original", note)
	return o.State
}

// goneAt is when retention deletes the record that a completed letter points to, as far as the answer tells. It is zero
// if retention does not delete it, if the time is not known, or if the record is not there.
func (l *Letter) goneAt(o Original) time.Time {
	at := l.CreatedAt
	if l.OriginalRecord == OriginalFetched {
		at = storableTime(o.Timestamp)
	}
	if o.Retention < 0 || at.IsZero() || l.OriginalRecord != OriginalFetched && !l.OriginalRecord.Passing() {
		return time.Time{}
	}
	return storableTime(at.Add(o.Retention))
}

// Completed is a stored snapshot of the investigation that the letter opened, with the message that was fetched since.
// The snapshot of another letter stays as it is.
func (r *Redactor) Completed(stored json.RawMessage, l Letter) json.RawMessage {
	var before, after map[string]json.RawMessage
	var of deadLetter
	if json.Unmarshal(stored, &before) != nil || json.Unmarshal(before["dead_letter"], &of) != nil || of.LetterID != l.ID ||
		json.Unmarshal(r.Snapshot(l), &after) != nil {
		return stored
	}
	for _, name := range []string{"event_id", "key", "key_kind", "key_truncated", "payload", "payload_kind", "payload_encoding", "payload_bytes",
		"payload_truncated", "original_record", "headers", "headers_truncated"} {
		if value, there := after[name]; there {
			before[name] = value
		} else {
			delete(before, name)
		}
	}
	return marshal(before)
}

// take puts the bytes of the record into the letter.
func (l *Letter) take(o Original) {
	l.Key, l.Payload = o.Key, o.Value
	l.KeyKind, _ = kindOf(o.Key)
	l.PayloadKind, l.PayloadBytes = kindOf(o.Value)
	if slices.ContainsFunc(l.Headers, func(h message.Header) bool { return !message.Reserved(h.Name) }) {
		return // the letter brought them
	}
	brought := l.Headers // at most what the message was first sent as
	for _, h := range o.Headers {
		if slices.ContainsFunc(brought, func(b message.Header) bool { return b.Name == h.Name }) {
			continue
		}
		if h.Name != message.HeaderEventID {
			l.Headers = append(l.Headers, h)
		} else if id, err := uuid.ParseBytes(h.Value); err == nil && l.EventID == uuid.Nil {
			l.EventID = id
		}
	}
}

// addMetadata adds a member to the letter's metadata.
func (l *Letter) addMetadata(name string, value any) {
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal(l.Metadata, &all) // an object, or nothing
	all[name] = marshal(value)
	l.Metadata = marshal(all)
}

// TopicsOf returns the topics of places, each once.
func TopicsOf(places []Place) []string {
	topics := map[string]bool{}
	for _, p := range places {
		topics[p.Topic] = true
	}
	return slices.Sorted(maps.Keys(topics))
}
