package console

import (
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/series"
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

// lately is how long ago the newest dead letter of a cause may be that still burns.
const lately = 15 * time.Minute

// sayNow is how everything stands, the worst first.
func sayNow(f *figures) say {
	for i := range f.Status.Operations {
		if o := &f.Status.Operations[i]; o.State == dlq.Halted {
			s := sayOperation(o)
			s.Name, s.Path = "Look at what failed again", "/operations/"+o.UUID.String()+"?outcome=came_back#items"
			return s
		}
	}
	held, isHeld := sayHeld(f)
	switch worst := worstBurning(f); {
	case worst != nil && worst.Parts.Template != "" && hasBreaker(f):
		return held // events come before tasks
	case worst != nil:
		return sayBurning(f, worst)
	case isHeld:
		return held
	}
	if wait := f.Status.Outbox.OldestDueSeconds; wait >= 60 {
		return say{Mark: "waiting", Text: fmt.Sprintf("%s wait to be sent; the oldest for %s.", some(f.Status.Outbox.Due, "event", "events"), ageText(seconds(wait))),
			More: "Nothing is lost: they stay in the table, in order. A relay that leads and brokers that answer send them."}
	}
	if f.Open > 0 {
		worst := &f.Causes[0]
		s := say{Mark: "waiting", Text: fmt.Sprintf("%s open; nothing was given up in the last %s.", some(f.Open, "cause is", "causes are"), ageText(lately)),
			More: fmt.Sprintf("The worst is %s: %s open.", quoted(worst.Title), count(worst.Pending)), Name: "Look at the cause", Path: "/causes/" + worst.UUID.String()}
		return s
	}
	return sayCalm(f)
}

// worstBurning is the worst cause whose dead letters still come, or came a moment ago; one with an open circuit breaker comes
// before the others, because more events wait than were given up. It is nil where there is none.
func worstBurning(f *figures) *cause {
	var worst *cause
	for i := range f.Causes {
		c := &f.Causes[i]
		if f.At.Sub(c.LastSeenAt) > lately {
			continue
		}
		if breakerOf(f, clip(c.Where(), 120)) != nil {
			return c
		}
		if worst == nil {
			worst = c
		}
	}
	return worst
}

// sayBurning is about the worst cause that burns, and the others of its place.
func sayBurning(f *figures, worst *cause) say {
	place := func(c *cause) string { return clip(c.Where(), 120) }
	var causes, opened int64
	first := f.At
	for i := range f.Causes {
		c := &f.Causes[i]
		if f.At.Sub(c.LastSeenAt) > lately || place(c) != place(worst) {
			continue
		}
		causes++
		opened += c.Pending
		if c.FirstSeenAt.Before(first) {
			first = c.FirstSeenAt
		}
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
	s.More = sentence(clip(worst.Title, 300))
	if hold := breakerOf(f, place(worst)); hold != nil {
		s.More += fmt.Sprintf(" The circuit breaker of %s is open for %s since %s: %s with it wait behind it, and the other events of the topic go on.",
			clip(hold.Topic, 120), clip(text(hold.FailureCode), 80), hold.HeldAt.UTC().Format("15:04"), some(hold.Parked, "event that fails", "events that fail"))
	} else if worst.Parts.Template == "" {
		s.More += " Nothing is lost: what was given up is kept, and can be sent again."
		switch {
		case !f.Own || f.Status.Outbox.HoldCount > 0:
		case f.Sources:
			s.More += " No hold is open in the desk’s own database."
		default:
			s.More += " No hold is open: all other events go on."
		}
	}
	return s
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

// hasBreaker reports whether a circuit breaker is open.
func hasBreaker(f *figures) bool {
	return slices.ContainsFunc(f.Status.Outbox.Holds, func(h api.Hold) bool { return h.Scope == relay.ScopeFailure && !h.Draining })
}

// sayHeld is about holds, the one with most behind it first.
func sayHeld(f *figures) (say, bool) {
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
	if !f.Own {
		return say{Mark: "fine", Text: "No cause is open at your sources.", More: "What waits in their outboxes, and what is held back there, is on the page Sources."}
	}
	var arrived float64
	if n := len(f.Short); n > 0 {
		var sum int64
		last := f.Short[max(0, n-12):]
		for _, p := range last {
			sum += p.Delivered
		}
		arrived = float64(sum) / (float64(len(last)) * series.Short.Step().Seconds())
	}
	text, more := "All is well.", "No cause is open, and nothing is held back."
	if f.Sources {
		text, more = "No cause is open. Of the desk’s own outbox:", "Nothing is held back in the desk’s own database. The other databases are on the page Sources."
	}
	switch {
	case arrived > 0 && f.Known:
		half, unit := latencyText(f.Half)
		text += fmt.Sprintf(" %s a second arrive, half of them within %s %s.", rateNoun(arrived), half, words[unit])
	case arrived > 0:
		text += fmt.Sprintf(" %s a second arrive.", rateNoun(arrived))
	default:
		text += " No event arrived in the last minute."
	}
	return say{Mark: "fine", Text: text, More: more}
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

func quoted(text string) string { return "“" + clip(text, 120) + "”" }

// holdWords are what a hold is for people.
type holdWords struct {
	// Who is what it holds, Verb how it stands, What is why, and Waits is what it waits for. Whole is Who with whole names.
	Who, Whole, Verb, What, Waits string
	// Person says that it waits for a person.
	Person bool
	// Try is the button that ends its wait.
	Try string
	// Event is the event that a person has to decide about; empty for none.
	Event string
}

// held is what a hold holds.
func held(h api.Hold, topic, key string) string {
	switch h.Scope {
	case relay.ScopeKey:
		return "Key " + key + " of " + topic
	case relay.ScopePartition:
		return "Partition " + text(h.Partition) + " of " + topic
	case relay.ScopeFailure:
		return "The circuit breaker of " + topic
	case relay.ScopeDeadLetter:
		return "Dead-letter topic " + topic
	}
	return "Topic " + topic
}

// wordsOf says what a hold holds, and what it waits for.
func wordsOf(h api.Hold) holdWords {
	w := holdWords{Verb: "is held", Try: "Try one now"}
	w.Who, w.Whole = held(h, clip(h.Topic, 120), clip(text(h.Key), 80)), held(h, h.Topic, text(h.Key))
	if h.Scope == relay.ScopeFailure {
		w.Verb = "is open for " + clip(text(h.FailureCode), 80)
	}
	tried := "It is tried again by itself."
	if h.NextProbeAt != nil {
		tried = "It is tried at " + h.NextProbeAt.UTC().Format("15:04:05") + "; if that goes well, all go on."
	}
	switch h.Cause {
	case relay.CauseHalted:
		w.What, w.Waits, w.Person, w.Event = "one of its events was given up, and the later ones wait behind it to keep their order", "Waits for you: send that event again, or let the key go on without it.", true, text(h.EventID)
	case relay.CauseBreaker:
		w.What, w.Waits = "too many events failed with one code at once, so events that fail with it wait; the others go on", "Waits for a try. "+tried
		w.Person, w.Try = h.NextProbeAt == nil, "Try all now"
	case relay.CauseRoute:
		w.What, w.Waits = "the topic is missing, or refuses us", "Waits for the topic, or for the right to write to it. "+tried
	case relay.CauseInfrastructure:
		w.What, w.Waits = "the brokers do not take its records", "Waits for the brokers; nothing to do here. "+tried
	case relay.CauseRedrive:
		w.What, w.Waits = "a redrive goes first", "Waits for that redrive."
		w.Try = "End the hold"
	default:
		w.What, w.Waits = "an event failed and is tried again first", "Waits for the next attempt. "+tried
	}
	if h.Asked != nil {
		w.Waits = "A person has asked for its end; the relay that leads does it now."
	}
	return w
}
