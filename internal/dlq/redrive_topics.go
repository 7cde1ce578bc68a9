package dlq

import (
	"slices"
	"strings"
)

// ownPlace reports whether the message goes back to where the relay was to send it. What Postrider wrote for one of its own
// topics goes there again.
func (p *RedrivePlan) ownPlace(c *Candidate) bool {
	return c.Subject == SubjectEvent && c.Target == c.Origin.Topic && !c.Misplaced
}

// ownedAlike reports whether the source of a record may write to the topic that its message would go to: any producer may have
// written the topics that the letter names. The retry topic of a group belongs with the topic that the group reads. An event of a
// source may go where its source may write, and to its origin if it was not given up for that: what Postrider wrote there about a
// task goes everywhere. An event of main may go everywhere.
func (p *RedrivePlan) ownedAlike(c *Candidate) bool {
	if c.ofSource() {
		back := c.Target == c.Origin.Topic && !c.NotAllowed
		return back || p.Owners == nil || p.Named == nil || !p.Named(c.Source) || slices.Contains(p.Owners(c.Target), c.Source)
	}
	if p.Owners == nil || c.Subject != SubjectRecord {
		return true
	}
	topic := c.Target
	if retry := c.Origin.Topic + "." + c.Group + ".retry"; topic == retry || strings.HasPrefix(topic, retry+".") { // see consumer.RetryTopic
		topic = c.Origin.Topic
	}
	if !isMain(c.Source) {
		return slices.Contains(p.Owners(topic), c.Source)
	}
	// Its own topic may have come to a named source since it was given up.
	return topic == c.Origin.Topic || len(p.Owners(topic)) == 0
}
