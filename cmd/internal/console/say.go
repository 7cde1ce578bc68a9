package console

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

// say is the one sentence of a page, with its mark.
type say struct {
	// Mark is failing, waiting, held, fine or quiet.
	Mark string
	// Text is the sentence; More is a paragraph under it, empty for none.
	Text, More string
	// Name and Path are of the one button; empty for none.
	Name, Path string
}

// lately is how long ago the newest letter of a cause may be that still burns.
const lately = 15 * time.Minute

// sayNow is how everything stands, the worst first.
func sayNow(f *figures) say {
	for i := range f.Status.Operations {
		if o := &f.Status.Operations[i]; o.State == dlq.Halted {
			s := sayOperation(o)
			s.Name, s.Path = "Look at what came back", "/operations/"+o.UUID.String()+"?outcome=came_back#items"
			return s
		}
	}
	if s, is := sayBurning(f); is {
		return s
	}
	if s, is := sayStanding(f); is {
		return s
	}
	if wait := f.Status.Outbox.OldestDueSeconds; wait >= 60 {
		return say{Mark: "waiting", Text: fmt.Sprintf("%s wait to be sent; the oldest for %s.", some(f.Status.Outbox.Due, "event", "events"), ageText(seconds(wait))),
			More: "Nothing is lost: they stay in the table, in order. A relay that leads and brokers that answer send them."}
	}
	if f.Open > 0 {
		worst := &f.Causes[0]
		s := say{Mark: "waiting", Text: fmt.Sprintf("%s open; nothing was given up in the last %s.", some(f.Open, "cause is", "causes are"), ageText(lately)),
			More: fmt.Sprintf("The largest is %s: %s open.", quoted(worst.title()), count(worst.Pending)), Name: "Look at the cause", Path: "/causes/" + worst.UUID.String()}
		return s
	}
	return sayCalm(f)
}

// sayBurning is about causes whose letters still come, or came a moment ago.
func sayBurning(f *figures) (say, bool) {
	var worst *cause
	place := func(c *cause) string { return clip(cmp.Or(text(c.Topic), c.Parts.Template, c.Parts.DLQTopic), 120) }
	var causes, opened int64
	first := f.At
	for i := range f.Causes {
		c := &f.Causes[i]
		if f.At.Sub(c.LastSeenAt) > lately {
			continue
		}
		if worst == nil {
			worst = c
		}
		if place(c) != place(worst) {
			continue
		}
		causes++
		opened += c.Pending
		if c.FirstSeenAt.Before(first) {
			first = c.FirstSeenAt
		}
	}
	if worst == nil {
		return say{}, false
	}
	noun := [2]string{"event", "events"}
	verb := "given up"
	if worst.Parts.Template != "" {
		noun, verb = [2]string{"task", "tasks"}, "in error"
	}
	of := "all of one cause"
	if causes > 1 {
		of = fmt.Sprintf("of %d causes", causes)
	} else if opened == 1 {
		of = "of one cause"
	}
	s := say{Mark: "failing", Name: "Look at the cause", Path: "/causes/" + worst.UUID.String()}
	s.Text = fmt.Sprintf("%s: %s %s in %s, %s.", place(worst), some(opened, noun[0], noun[1]), verb, spanText(f.At.Sub(first)), of)
	s.More = sentence(worst.title())
	if hold := breakerOf(f, place(worst)); hold != nil {
		s.More += fmt.Sprintf(" The circuit breaker of %s is open for %s since %s: %s with it wait behind it, and the other events of the topic go on.",
			clip(hold.Topic, 120), clip(text(hold.FailureCode), 80), hold.HeldAt.UTC().Format("15:04"), some(hold.Parked, "event that fails", "events that fail"))
	} else if worst.Parts.Template == "" {
		s.More += " Nothing is lost: what was given up is kept, and can be sent again."
		if f.Status.Outbox.HoldCount == 0 {
			s.More += " Nothing else stands."
		}
	}
	return s, true
}

// breakerOf is the open circuit breaker of a topic.
func breakerOf(f *figures, topic string) *api.Hold {
	for i := range f.Status.Outbox.Holds {
		if h := &f.Status.Outbox.Holds[i]; h.Scope == relay.ScopeFailure && clip(h.Topic, 120) == topic && !h.Draining {
			return h
		}
	}
	return nil
}

// sayStanding is about holds, the one with most behind it first.
func sayStanding(f *figures) (say, bool) {
	var worst *api.Hold
	for i := range f.Status.Outbox.Holds {
		if h := &f.Status.Outbox.Holds[i]; h.Cause != relay.CauseRetry && !h.Draining && (worst == nil || h.Parked > worst.Parked) {
			worst = h
		}
	}
	if worst == nil {
		return say{}, false
	}
	words := wordsOf(*worst)
	mark := "held"
	if !words.Person {
		mark = "waiting"
	}
	behind := some(worst.Parked, "event waits", "events wait")
	if worst.Parked == 0 {
		behind = "nothing waits"
	}
	return say{Mark: mark, Text: fmt.Sprintf("%s %s since %s: %s behind it.", words.Who, words.Verb, worst.HeldAt.UTC().Format("15:04"), behind),
		More: sentence(words.What) + " " + words.Waits}, true
}

// sayCalm is about nothing, which is what people want to see.
func sayCalm(f *figures) say {
	var arrived float64
	if n := len(f.Short); n > 0 {
		var sum int64
		last := f.Short[max(0, n-12):]
		for _, p := range last {
			sum += p.Delivered
		}
		arrived = float64(sum) / (float64(len(last)) * fine.Seconds())
	}
	text := "All is well."
	switch {
	case arrived > 0 && f.Known:
		half, unit := latencyText(f.Half)
		text += fmt.Sprintf(" %s a second arrive, half of them within %s %s.", rateNoun(arrived), half, words[unit])
	case arrived > 0:
		text += fmt.Sprintf(" %s a second arrive.", rateNoun(arrived))
	default:
		text += " No event arrived in the last minute."
	}
	return say{Mark: "fine", Text: text, More: "No cause is open, and nothing stands."}
}

var words = map[string]string{"ms": "milliseconds", "s": "seconds"}

func rateNoun(perSecond float64) string {
	if r := rate(perSecond); r != "1" {
		return r + " events"
	}
	return "1 event"
}

// spanText is how long something goes on, in words.
func spanText(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return some(max(int(d.Seconds()), 1), "second", "seconds")
	case d < 2*time.Hour:
		return some(int(d.Minutes()), "minute", "minutes")
	case d < 48*time.Hour:
		return some(int(d.Hours()), "hour", "hours")
	}
	return some(int(d.Hours()/24), "day", "days")
}

func (c *cause) title() string { return causeTitle(c.Message, c.Parts, c.Group.Title) }

// causeTitle is what is wrong, for people: the newest message where there is one, or else the message without what varies.
// The code stands elsewhere.
func causeTitle(newest string, parts dlq.Parts, title string) string {
	text := cmp.Or(parts.RootCause, newest, parts.Message, string(parts.Reason), title)
	if parts.RootCause != "" && parts.Message != "" {
		text = parts.RootCause + ": " + parts.Message
	}
	text = strings.TrimPrefix(text, "invalid outbox event: ")
	if text == "" {
		return "Nothing says what went wrong"
	}
	r, size := utf8.DecodeRuneInString(text)
	return clip(string(unicode.ToUpper(r))+text[size:], 300)
}

func quoted(text string) string { return "“" + clip(text, 120) + "”" }

// holdWords are what a hold is for people.
type holdWords struct {
	// Who is what it holds, Verb how it stands, What is why, and Waits is what it waits for.
	Who, Verb, What, Waits string
	// Person says that it waits for a person.
	Person bool
	// Event is the event that a person has to decide about; empty for none.
	Event string
}

// wordsOf says what a hold holds, and what it waits for.
func wordsOf(h api.Hold) holdWords {
	w := holdWords{Verb: "stands"}
	topic := clip(h.Topic, 120)
	switch h.Scope {
	case relay.ScopeKey:
		w.Who = fmt.Sprintf("Key %s of %s", clip(text(h.Key), 80), topic)
	case relay.ScopePartition:
		w.Who = fmt.Sprintf("Partition %s of %s", text(h.Partition), topic)
	case relay.ScopeFailure:
		w.Who, w.Verb = "The circuit breaker of "+topic, "is open for "+clip(text(h.FailureCode), 80)
	case relay.ScopeDeadLetter:
		w.Who = "Dead-letter topic " + topic
	default:
		w.Who = "Topic " + topic
	}
	tried := "It is tried again by itself."
	if h.NextProbeAt != nil {
		tried = "It is tried at " + h.NextProbeAt.UTC().Format("15:04:05") + "; if that goes well, all go on."
	}
	switch h.Cause {
	case relay.CauseHalted:
		w.What, w.Waits, w.Person, w.Event = "it stands behind an event that was given up", "Waits for you: send that event again, or let the key go on without it.", true, text(h.EventID)
	case relay.CauseBreaker:
		w.What, w.Waits = "too many events failed with one code at once, so those that fail with it wait; the others go on", "Waits for a try. "+tried
		w.Person = h.NextProbeAt == nil
	case relay.CauseRoute:
		w.What, w.Waits = "the topic is missing, or refuses us", "Waits for the topic, or for the right to write to it. "+tried
	case relay.CauseInfrastructure:
		w.What, w.Waits = "the brokers do not take its records", "Waits for the brokers; nothing to do here. "+tried
	case relay.CauseRedrive:
		w.What, w.Waits = "a redrive goes first", "Waits for that redrive."
	default:
		w.What, w.Waits = "an event failed and is tried again first", "Waits for the next attempt. "+tried
	}
	if h.Asked != nil {
		w.Waits = "A person has asked for its end; the relay that leads does it now."
	}
	return w
}
