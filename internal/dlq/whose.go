package dlq

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/postrider/postrider/message"
)

// CodeNotOfARelay is the error code of a record that says it is the dead letter of an event or a task, and was read from a topic
// that relays do not write to.
const CodeNotOfARelay = "NOT_OF_A_RELAY"

// Whose tells whose the records of dead-letter topics are: by the topics, which brokers let their writers alone write to, and not by
// what a record says of itself. Its zero value takes every topic for a relay's, and believes each record its source.
type Whose struct {
	// Relays are the topics that only relays write to. A record of another topic is never the dead letter of an event or a task.
	// Nil stands for every topic.
	Relays []string
	// Owners returns the named sources that may write to a topic, in order. A topic without one is the desk's own source's. Nil
	// stands for the word of each record.
	Owners func(topic string) []string
	// Desk is the identity of this desk, and EarlierDesks are desks that it takes the place of. Dead letters of relays whose source
	// obeys another desk are that one's. Empty takes the letters of all.
	Desk         string
	EarlierDesks []string
}

func (w Whose) ofRelay(topic string) bool { return w.Relays == nil || slices.Contains(w.Relays, topic) }

// otherDesk returns the desk whose letter a record is, where that is another one.
func (w Whose) otherDesk(r Record) string {
	if w.Desk == "" || !w.ofRelay(r.Topic) {
		return ""
	}
	desk := lastHeader(r.Headers, message.HeaderDesk)
	if desk == w.Desk || slices.Contains(w.EarlierDesks, desk) {
		return ""
	}
	return desk
}

// letter makes a decoded letter of a record one of its source.
func (w Whose) letter(r Record, l Letter) Letter {
	if l.Subject.Type != SubjectRecord && !w.ofRelay(r.Topic) {
		l = broken(r, CodeNotOfARelay, "", fmt.Errorf("the record says that it is the dead letter of an event or a task, but relays do not write to the topic %s", r.Topic))
	}
	l.Hops = message.Hops(r.Headers)
	if l.Subject.Type != SubjectRecord {
		l.ofSource(sourceOf(r.Headers))
		return l
	}
	if w.Owners == nil {
		l.Source = sourceOf(r.Headers)
		return l
	}
	owners := w.Owners(r.Topic)
	if source := sourceOf(r.Headers); !isMain(source) && w.Relays != nil && w.ofRelay(r.Topic) {
		owners = []string{source} // its relay wrote the header
	}
	if len(owners) > 0 {
		// Only these sources write to the dead-letter topic. The ids of its letters are theirs, so none takes the place of another
		// source's, whatever record it names.
		l.Source = chooseOwner(owners, r.Headers)
		l.ownedBy(l.Source)
		return l
	}
	l.Source = chooseOwner(w.Owners(l.OriginTopic), r.Headers)
	return l
}

// chooseOwner returns the source among the owners of a topic that the headers name, or the first where they name none of them. It is
// MainSource without owners: the outbox of the desk's own database may write to every topic.
func chooseOwner(owners []string, hs []message.Header) string {
	switch source := sourceOf(hs); {
	case len(owners) == 0:
		return MainSource
	case slices.Contains(owners, source):
		return source
	}
	return owners[0]
}

// ownedRecord is the id of a record's subject with the name of a source before it.
var ownedRecord = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}/([^/#]+/[0-9]+/[0-9])`)

// recordID returns the subject's id of a record without the name of a source. dlq_redrive_letters does the same.
func (s Subject) recordID() string { return ownedRecord.ReplaceAllString(s.ID, "$1") }
