package dlq

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// leftForLater is why an operation leaves an item for its next batch. It is not reported: the item still waits.
const leftForLater SkipReason = "later"

// Candidate is an investigation whose message is to be sent again: what its store has read, and what was decided.
type Candidate struct {
	// Entry is the investigation, Subject what it is about, and Status where it stands.
	Entry   uuid.UUID
	Subject SubjectType
	Status  Status
	// Source is the investigation's; empty counts as MainSource.
	Source string
	// UnderWay says that its newest redrive has not ended, or ended and its letter is not here yet.
	UnderWay bool
	// Letter is the id of its newest letter; empty where it has none. The fields that follow are the letter's.
	Letter string
	// ReadAt is where the letter was read.
	ReadAt Place
	// Origin is where the message was bound for or came from. Its topic is empty where the letter does not say it; partition
	// and offset are 0 where they are not known.
	Origin Place
	// Task is the task that the event belongs to; uuid.Nil for none.
	Task uuid.UUID
	// Event and OutboxID name the event of the outbox that was given up, as its letter says; uuid.Nil and nil for a record. OutboxID
	// is nil for an event of another source, which the desk never looks for in its own outbox: that source knows it by SourceOutboxID.
	Event                    uuid.UUID
	OutboxID, SourceOutboxID *int64
	// Episode is how often that event was given up.
	Episode int32
	// Group is the consumer group that gave the message up; empty where none did, or it is not known.
	Group string
	// RetryTopic is the retry topic of that group; empty where the letter names none.
	RetryTopic string
	// Misplaced says that the relay gave the event up because a service wrote it for a topic of Postrider's own.
	Misplaced bool
	// NotAllowed says that the relay gave the event up because its source may not write to its topic.
	NotAllowed bool
	// Hops is how often the message was sent again.
	Hops int
	// Unreadable says that some of its headers cannot be read. Then Readable are the others, or nil where the letter only
	// refers to them.
	Unreadable bool
	Readable   []message.Header
	// Bytes is about how large the message is.
	Bytes int64

	// Skip is why the investigation is skipped; empty where its message is sent. This and what follows is decided.
	Skip SkipReason
	// Detail says more about a Skip; empty where SkipReason.Explain says all.
	Detail string
	// Target is the topic that the message is sent to.
	Target string
	// Headers are sent instead of the message's own, where not nil.
	Headers []message.Header
	// InPlace says that the event itself was redriven in its place.
	InPlace bool
	// NewEvent and NewID are the event that carries the message; in its place they are Event and OutboxID.
	NewEvent uuid.UUID
	NewID    int64
}

// Size is about how many bytes the database has to write for the message; 0 where it is not sent.
func (c *Candidate) Size() int {
	if c.Skip != "" {
		return 0
	}
	return 1024 + int(c.Bytes)
}

// RedrivePlan decides about the messages of a request, in steps. Between the steps its caller asks the outbox, and notes
// in a candidate what the outbox refused: a candidate with a Skip is passed over by all later steps.
type RedrivePlan struct {
	// Request is what was asked for.
	Request RedriveRequest
	// Own are the topics that Postrider itself writes.
	Own []string
	// Owners returns the named sources that may write to a topic; see Whose. Nil lets records go to every topic.
	Owners func(topic string) []string
	// Named reports whether the settings name a source. Nil names none: of a source that they do not name they do not say where its
	// events may go.
	Named func(source string) bool
	// Candidates are in the order in which their messages were written, as far as that is known. The messages of one key are
	// sent again in this order.
	Candidates []*Candidate
}

// PlanRedrive decides what can be told without looking at the outbox.
func PlanRedrive(req RedriveRequest, own []string, owners func(topic string) []string, named func(source string) bool, candidates []*Candidate) *RedrivePlan {
	slices.SortFunc(candidates, compareOrigins)
	p := &RedrivePlan{req, own, owners, named, candidates}
	for _, c := range candidates {
		p.chooseTarget(c)
		if c.Skip == "" {
			p.chooseHeaders(c)
		}
	}
	return p
}

// compareOrigins compares two candidates by when their messages were written.
func compareOrigins(a, b *Candidate) int {
	return cmp.Or(
		cmp.Compare(a.Origin.Topic, b.Origin.Topic),
		cmp.Compare(value(a.OutboxID), value(b.OutboxID)),
		cmp.Compare(a.Origin.Partition, b.Origin.Partition),
		cmp.Compare(a.Origin.Offset, b.Origin.Offset),
		cmp.Compare(a.ReadAt.Topic, b.ReadAt.Topic),
		cmp.Compare(a.ReadAt.Partition, b.ReadAt.Partition),
		cmp.Compare(a.ReadAt.Offset, b.ReadAt.Offset),
		slices.Compare(a.Entry[:], b.Entry[:]))
}

// chooseTarget decides where the message goes, and whether the investigation lets it go.
func (p *RedrivePlan) chooseTarget(c *Candidate) {
	toGroup := p.Request.Target == TargetGroup
	switch p.Request.Target {
	case "":
		c.Target = cmp.Or(c.RetryTopic, c.Origin.Topic)
	case TargetGroup:
		c.Target = c.RetryTopic
	case TargetOrigin:
		c.Target = c.Origin.Topic
	default:
		c.Target = p.Request.Target
	}
	switch {
	case c.Subject == SubjectTask:
		c.Skip = TaskSubject
	case c.UnderWay:
		c.Skip = AlreadyQueued
	case c.Status != Pending:
		c.Skip = NotPending
	case c.Letter == "":
		c.Skip = PayloadGone
	case c.Subject == SubjectEvent && !c.namesEvent():
		c.Skip = EventGone
	case c.Target == c.ReadAt.Topic:
		c.Skip = DeadLetterTopic
	case reservedTopic(c.Target), slices.Contains(p.Own, c.Target) && !p.ownPlace(c):
		c.Skip = ReservedTopic
	case message.ValidTopic(c.Target) == nil && !p.ownedAlike(c):
		c.Skip = TopicNotAllowed
	case message.ValidTopic(c.Target) == nil:
	case toGroup:
		c.Skip = NoRetryTopic
	default:
		c.Skip = NoTarget
	}
}

// namesEvent reports whether the letter of an event says which event of its source it is about.
func (c *Candidate) namesEvent() bool {
	if c.Event == uuid.Nil || c.Episode == 0 {
		return false
	}
	return c.OutboxID != nil || c.ofSource() && c.SourceOutboxID != nil
}

// chooseHeaders decides which headers are sent instead of the message's own, if any. A message with headers that cannot
// be read is skipped if the request does not say what to send: without these headers it would be another message. So it
// is if the request gives some of them and not all.
func (p *RedrivePlan) chooseHeaders(c *Candidate) {
	edit, repair := p.Request.Edit, p.Request.Repair
	switch {
	case edit != nil && edit.Headers != nil:
		c.Headers = edit.Headers
	case !c.Unreadable:
	case repair == nil, c.Readable == nil && !repair.None, !repair.Mends(c.Readable):
		c.Skip = UnreadableHeaders
	default:
		c.Headers = repair.Apply(c.Readable)
	}
}

// Edited reports whether the message that is sent differs from the one that was given up.
func (p *RedrivePlan) Edited(c *Candidate) bool { return p.Request.Edit != nil || c.Headers != nil }

// Refusal is the error of a request that names a target which is the dead-letter topic that a message came from, or one
// of Postrider's own topics; otherwise nil. An operation skips such a message instead.
func (p *RedrivePlan) Refusal() error {
	for _, c := range p.Candidates {
		switch {
		case c.Target != p.Request.Target:
		case c.Skip == DeadLetterTopic:
			return RefuseOwnDeadLetters(c.Target, 1, c.Entry)
		case c.Skip == ReservedTopic:
			return RefuseOwnTopic(c.Target)
		}
	}
	return nil
}

// RefuseOwnTopic returns the error about a target that Postrider itself writes. It wraps ErrRequest.
func RefuseOwnTopic(target string) error {
	return fmt.Errorf("%w: the target %s is a topic that Postrider itself writes; give a topic of a service", ErrRequest, target)
}

// RefuseOwnDeadLetters returns the error about a target that is the dead-letter topic of so many of the messages, for example of
// an investigation. It wraps ErrRequest.
func RefuseOwnDeadLetters(target string, messages int64, entry uuid.UUID) error {
	return fmt.Errorf("%w: the target %s is the dead-letter topic that %d of the messages came from (investigation %s); sent there, they would come back as dead letters",
		ErrRequest, target, messages, entry)
}

// LeaveForLater leaves the messages beyond so many bytes to the next batch of their operation, all from the first that
// does not fit. The first message of all always fits.
func (p *RedrivePlan) LeaveForLater(limit int) {
	bytes := 0
	for i, c := range p.Candidates {
		if bytes += c.Size(); i == 0 || bytes <= limit {
			continue
		}
		for _, c := range p.Candidates[i:] {
			c.Skip = leftForLater
		}
		return
	}
}

// Events are the candidates that are events of the outbox, by the events' ids. Until CheckOutbox that is what their letters say, and
// several may have one id.
func (p *RedrivePlan) Events() []*Candidate {
	var events []*Candidate
	for _, c := range p.Candidates {
		if c.Skip == "" && c.OutboxID != nil && c.Event != uuid.Nil {
			events = append(events, c)
		}
	}
	slices.SortStableFunc(events, func(a, b *Candidate) int { return cmp.Compare(*a.OutboxID, *b.OutboxID) })
	return events
}

func (p *RedrivePlan) byOutboxID() map[int64]*Candidate {
	byID := map[int64]*Candidate{}
	for _, c := range p.Events() {
		byID[*c.OutboxID] = c
	}
	return byID
}

// CheckOutbox compares letters with the outbox. It skips the events that the outbox does not have as their letters say, and the
// ones that a person already redrove in the outbox by hand: they are on their way, or have arrived. How often an event was given
// up the outbox says, and not its letter. standings has one for each of Events, in the same order.
func (p *RedrivePlan) CheckOutbox(standings []EventStanding) {
	for i, c := range p.Events() {
		changed := p.Edited(c) || c.Target != c.Origin.Topic
		switch s := standings[i]; {
		case s.State == "":
			c.Skip = EventGone
		case s.waits():
			c.Skip = AlreadyQueued
		case s.State == eventPublished && !changed:
			c.Skip = Arrived
		default:
			c.Episode = s.Episode
		}
	}
}

// CheckKeys skips the events whose key would not let them go: behind are the ids of events whose key is halted by another
// one, halting of events that halt their key themselves. It returns the events to be redriven in their place.
func (p *RedrivePlan) CheckKeys(halting, behind []int64) (inPlace []*Candidate) {
	byID := p.byOutboxID()
	for _, id := range behind {
		if c := byID[id]; c.Target == c.Origin.Topic {
			c.Skip = KeyHalted
		}
	}
	for _, id := range halting {
		c := byID[id]
		if c.Target != c.Origin.Topic {
			c.Skip = HaltsKey
			continue
		}
		inPlace = append(inPlace, c)
	}
	return inPlace
}

// RedrivenInPlace notes that the outbox took an event in its place.
func (c *Candidate) RedrivenInPlace() {
	c.InPlace, c.NewEvent, c.NewID = true, c.Event, *c.OutboxID
}

// ofSource reports whether it is an event of another source. What is sent again of it, and how, that source decides.
func (c *Candidate) ofSource() bool { return c.Subject == SubjectEvent && !isMain(c.Source) }

// Sources are the sources of what is sent, sorted, each once.
func (p *RedrivePlan) Sources() []string {
	var sources []string
	for _, c := range p.Sent() {
		sources = append(sources, cmp.Or(c.Source, MainSource))
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// OfSources are the candidates that are events of other sources, which are asked to send them again.
func (p *RedrivePlan) OfSources() []*Candidate {
	return slices.DeleteFunc(p.Sent(), func(c *Candidate) bool { return !c.ofSource() })
}

// SentHere are the others that were not skipped: the desk's own outbox sends them.
func (p *RedrivePlan) SentHere() []*Candidate {
	return slices.DeleteFunc(p.Sent(), (*Candidate).ofSource)
}

// SkipSource skips the events of a source that has answered nothing since a time.
func (p *RedrivePlan) SkipSource(source string, since time.Time) {
	for _, c := range p.OfSources() {
		if c.Source == source {
			c.Skip = SourceAway
			c.Detail = fmt.Sprintf("the source %s has answered nothing since %s, and nothing was done; postrider sources says what is wrong with it", source, timeText(since.Truncate(time.Second)))
		}
	}
}

// SkipForgotten skips the events of a source that is gone for good.
func (p *RedrivePlan) SkipForgotten(source string) {
	for _, c := range p.OfSources() {
		if c.Source == source {
			c.Skip = SourceForgotten
		}
	}
}

// NewEvents returns the candidates that are sent as new events, and skips the ones that were sent too often. It comes after
// the events that are redriven in their place, which are no further hop.
func (p *RedrivePlan) NewEvents() (fresh []*Candidate) {
	for _, c := range p.Candidates {
		switch {
		case c.Skip != "" || c.InPlace || c.ofSource():
		case c.Hops >= cmp.Or(p.Request.MaxHops, DefaultMaxHops):
			c.Skip = TooManyHops
		default:
			c.Episode = 0
			fresh = append(fresh, c)
		}
	}
	return fresh
}

// Sent are the candidates that were not skipped.
func (p *RedrivePlan) Sent() []*Candidate {
	return slices.DeleteFunc(slices.Clone(p.Candidates), func(c *Candidate) bool { return c.Skip != "" })
}

// InPlace returns the events that were redriven in their place.
func (p *RedrivePlan) InPlace() (events []int64) {
	for _, c := range p.Sent() {
		if c.InPlace {
			events = append(events, *c.OutboxID)
		}
	}
	return events
}

// Result says what the redrive did.
func (p *RedrivePlan) Result() Requeued {
	done := Requeued{Reaches: reaches(p.Sent())}
	for _, c := range p.Candidates {
		if c.Skip != "" {
			done.Skipped = append(done.Skipped, Skip{Entry: c.Entry, Reason: c.Skip, Detail: c.Detail})
			continue
		}
		done.Entries = append(done.Entries, c.Entry)
		if c.ofSource() {
			done.Asked = append(done.Asked, c.Entry)
		}
	}
	return done
}

// eventPublished is the state of an event that its topic has acknowledged.
const eventPublished = "published"

// EventStanding is the state of an event that was given up before; the zero value is an event that is gone.
type EventStanding struct {
	// State is a state of the function outbox_standing, for example "published".
	State string
	// Episode is how often the event was given up.
	Episode int32
}

// waits reports whether the event is to be sent to its topic.
func (s EventStanding) waits() bool {
	return slices.Contains([]string{"pending", "parked", "scheduled"}, s.State)
}

// eventGone is the outcome of a redrive whose event is gone. Its topic took it, unless its letter is here, which the store
// finds out.
const eventGone RedriveState = "gone"

// RedriveUndone is the outcome of a redrive in another source whose event stands where it stood before: see Undone.
const RedriveUndone = "undone"

// Undone reports whether an event that another source has redriven in its place, after it had been given up so many times, stands
// where it stood before: the database of the source was set back.
func (s EventStanding) Undone(episode int32) bool {
	return episode > 0 && s.Episode == episode && s.State != "" && s.State != eventPublished && !s.waits()
}

// OutcomeOf returns what became of a redrive whose event had been given up so many times before, and stands like this now:
// Queued, Delivered, CameBack, or "gone" where the event is gone.
func (s EventStanding) OutcomeOf(episode int32) RedriveState {
	switch {
	case s.State == "":
		return eventGone
	case s.Episode > episode:
		return CameBack
	case s.State == eventPublished:
		return Delivered
	}
	return Queued
}

// EndedRedrive is a redrive whose outcome was noted now.
type EndedRedrive struct {
	Entry uuid.UUID
	// Redrive is its id.
	Redrive string
	// Operation made it; nil if none did.
	Operation *uuid.UUID
	// Outcome is Delivered or CameBack, by the topic.
	Outcome RedriveState
}

// Came returns what a redrive counts as: Delivered, or CameBack, also if its topic took it and it is in diedAgain: a
// consumer group gave its message up again.
func (e EndedRedrive) Came(diedAgain map[string]bool) RedriveState {
	if _, died := diedAgain[e.Redrive]; died || e.Outcome != Delivered {
		return CameBack
	}
	return Delivered
}

// CountEnded counts redrives that ended, together and by operation, as Came says.
func CountEnded(ended []EndedRedrive, diedAgain map[string]bool) (Followed, map[uuid.UUID]Followed) {
	var all Followed
	byOperation := map[uuid.UUID]Followed{}
	for _, e := range ended {
		one := Followed{Delivered: 1}
		if e.Came(diedAgain) == CameBack {
			one = Followed{CameBack: 1}
		}
		all = all.plus(one)
		if e.Operation != nil {
			byOperation[*e.Operation] = byOperation[*e.Operation].plus(one)
		}
	}
	return all, byOperation
}

// ArrivedOf returns the redrives whose message its topic took, by id. A redrive in diedAgain with the value true is left
// out: a consumer group gave the message up again, and its letter is in the same investigation and would be closed over.
// With the value false the letter opened another investigation, where the work goes on.
func ArrivedOf(ended []EndedRedrive, diedAgain map[string]bool) []EndedRedrive {
	arrived := slices.DeleteFunc(slices.Clone(ended), func(e EndedRedrive) bool { return e.Outcome != Delivered || diedAgain[e.Redrive] })
	slices.SortFunc(arrived, func(a, b EndedRedrive) int { return cmp.Compare(a.Redrive, b.Redrive) })
	return arrived
}
