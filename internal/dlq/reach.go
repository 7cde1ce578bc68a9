package dlq

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Reach says whom messages reach when they are sent to a topic. The plan of an operation has the first fields as JSON.
type Reach struct {
	// Topic is the topic.
	Topic string `json:"topic"`
	// Messages is how many are sent there.
	Messages int64 `json:"messages"`
	// Failed are the consumer groups that gave them up, in alphabetical order; none for what the relay gave up.
	Failed []string `json:"failed"`
	// Again says that groups have had some of them before: a group gave them up, and not the relay.
	Again bool `json:"again"`
	// FailedReads says that one of Failed is known to read the topic. False where that is not known.
	FailedReads bool `json:"-"`
	// Others are the other consumer groups that read the topic, in alphabetical order.
	Others []string `json:"-"`
	// Unasked are the groups that the brokers could not say it of, by name: each of them may read the topic, too.
	Unasked []UnaskedGroup `json:"-"`
	// Unlisted is how many brokers did not say which groups they have: groups of them are neither in Others nor in Unasked.
	Unlisted int `json:"-"`
	// Missing says that the topic does not exist. False where that is not known.
	Missing bool `json:"-"`
	// Unknown is why Others are not known; empty where they are.
	Unknown string `json:"-"`
}

// UnaskedGroup is a consumer group that the brokers could not be asked about.
type UnaskedGroup struct {
	// Group is its name.
	Group string
	// Why is what the brokers said, for people, without addresses.
	Why string
}

// namedGroups is how many groups a sentence names.
const namedGroups = 20

// NotAsked is Reach.Unknown as long as no broker was asked.
const NotAsked = "no broker was asked"

// Explain says it for people.
func (r Reach) Explain() string {
	if r.Missing {
		return fmt.Sprintf("the topic %s does not exist; messages for it wait in the outbox until it is created, by you or by a broker that creates topics, or give another target", r.Topic)
	}
	if r.Unknown != "" {
		return fmt.Sprintf("which consumer groups read %s is not known: %s; every group that reads it gets the messages", r.Topic, r.Unknown)
	}
	return r.readBy() + r.doubts()
}

// readBy says which groups are known to read the topic.
func (r Reach) readBy() string {
	names := firstOf(r.Others)
	group, read, get, other := "groups", "read", "they get", "other "
	if len(r.Others) == 1 {
		group, read, get = "group", "reads", "it gets"
	}
	if len(r.Failed) == 0 {
		other = ""
	}
	switch {
	case len(r.Others) == 0 && !r.FailedReads: // a retry topic that its group has left
		return fmt.Sprintf("no consumer group is known to read %s", r.Topic)
	case len(r.Others) == 0:
		return fmt.Sprintf("no other group than %s is known to read %s", strings.Join(r.Failed, ", "), r.Topic)
	case !r.Again:
		return fmt.Sprintf("%d %s %s %s: %s; no group has had the messages yet", len(r.Others), group, read, r.Topic, names)
	}
	return fmt.Sprintf("%d %s%s %s %s: %s; %s the messages again, and an inbox recognises them by the ids that they keep",
		len(r.Others), other, group, read, r.Topic, names, get)
}

// doubts says which groups and brokers gave no answer; empty where all did.
func (r Reach) doubts() string {
	text := ""
	if len(r.Unasked) > 0 {
		names := make([]string, len(r.Unasked))
		for i, g := range r.Unasked {
			names[i] = fmt.Sprintf("%s (%s)", g.Group, g.Why)
		}
		text = "; whether these groups read it is not known: " + firstOf(names)
	}
	switch r.Unlisted {
	case 0:
	case 1:
		text += "; groups of 1 broker that did not answer are not in this"
	default:
		text += fmt.Sprintf("; groups of %d brokers that did not answer are not in this", r.Unlisted)
	}
	return text
}

// firstOf names the first namedGroups groups, and says how many more there are.
func firstOf(names []string) string {
	if more := len(names) - namedGroups; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedGroups], ", "), more)
	}
	return strings.Join(names, ", ")
}

// reaches says of messages where they go and who gave them up, in the order of topics.
func reaches(sent []*Candidate) []Reach {
	byTopic := map[string]*Reach{}
	for _, c := range sent {
		r := byTopic[c.Target]
		if r == nil {
			r = &Reach{Topic: c.Target, Failed: []string{}, Unknown: NotAsked}
			byTopic[c.Target] = r
		}
		r.Messages++
		r.Again = r.Again || c.Subject == SubjectRecord
		if c.Group != "" && !slices.Contains(r.Failed, c.Group) {
			r.Failed = append(r.Failed, c.Group)
		}
	}
	all := make([]Reach, 0, len(byTopic))
	for _, r := range byTopic {
		slices.Sort(r.Failed)
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b Reach) int { return cmp.Compare(a.Topic, b.Topic) })
	return all
}
