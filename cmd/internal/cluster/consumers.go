package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/postrider/postrider/cmd/internal/api"
)

// standingAfter is for how long a group that is behind commits nothing before a partition counts as standing. Clients commit
// every few seconds by themselves (auto.commit.interval.ms is 5 s by default).
const standingAfter = 30 * time.Second

// groupPartition is a partition that a group reads.
type groupPartition struct {
	group, topic string
	partition    int32
}

// standing is since when a group is behind with the same committed offset.
type standing struct {
	committed int64
	since     time.Time
}

// Consumers describes the groups that read topics which Postrider uses, by name. used are these topics.
func (c *Cluster) Consumers(ctx context.Context, used api.Topics) (api.ConsumerGroups, error) {
	topics := map[string]bool{}
	var names []string
	for _, t := range used.Items {
		if t.Exists {
			topics[t.Name], names = true, append(names, t.Name)
		}
	}
	at := c.cfg.Now()
	found, err := c.groups(ctx, topics)
	if err != nil {
		return api.ConsumerGroups{}, err
	}
	var ends kadm.ListedOffsets
	if len(names) > 0 { // the client would take none for all
		if ends, err = c.admin.ListEndOffsets(ctx, names...); err != nil && len(ends) == 0 {
			return api.ConsumerGroups{}, c.refused("read where the topics end", err)
		}
	}
	c.markStanding(found, ends, at)
	out := api.ConsumerGroups{List: api.ListOf(found.groups, ""), LookedAt: api.Time(at)}
	out.Incomplete = api.OrNull(found.incomplete)
	return out, nil
}

// foundGroups are groups as the brokers answered.
type foundGroups struct {
	groups []api.ConsumerGroup
	// listed are the names of all groups. unread are the groups with some offsets that could not be read, refused the groups
	// with none that could.
	listed, unread, refused map[string]bool
	// incomplete is why groups may be missing; empty where all brokers answered.
	incomplete string
}

// groups are the groups with members or committed offsets in one of the topics, without ends.
func (c *Cluster) groups(ctx context.Context, topics map[string]bool) (foundGroups, error) {
	found := foundGroups{listed: map[string]bool{}, unread: map[string]bool{}, refused: map[string]bool{}}
	listed, err := c.admin.ListGroups(ctx)
	if err != nil {
		if shards, is := errors.AsType[*kadm.ShardErrors](err); ctx.Err() != nil || len(listed) == 0 && (!is || shards.AllFailed) {
			return found, c.refused("list consumer groups (the login needs Describe on groups)", err)
		}
		found.incomplete = "a broker did not list its groups: " + c.inShort("list consumer groups", err)
	}
	all := map[string]*api.ConsumerGroup{}
	var sharing, others []string
	for _, g := range listed {
		v := &api.ConsumerGroup{Name: g.Group, Protocol: api.ProtocolClassic, State: g.State, Collector: g.Group == c.cfg.Settings.DLQ.Group, Topics: []string{}, Partitions: []api.ConsumedPartition{}}
		all[g.Group], found.listed[g.Group] = v, true
		if g.ProtocolType == "share" {
			v.Protocol, sharing = api.ProtocolShare, append(sharing, g.Group)
		} else {
			others = append(others, g.Group)
		}
	}
	if err := c.describeGroups(ctx, all, others, topics, found); err != nil {
		return found, err
	}
	if len(sharing) > 0 {
		described, err := c.admin.DescribeShareGroups(ctx, sharing...)
		if err != nil && len(described) == 0 {
			return found, c.refused("describe share groups", err)
		}
		for _, name := range sharing {
			g, is := described[name]
			if !is {
				g.Err = cmp.Or(err, errNotDescribed)
			}
			c.fill(all[name], g.GroupState, len(g.Members), g.SubscribedTopics(), topics, g.Err)
		}
	}
	found.groups = make([]api.ConsumerGroup, 0, len(all))
	for _, g := range all {
		if len(g.Topics) > 0 || g.Collector || found.refused[g.Name] { // a refused one may read any topic
			slices.Sort(g.Topics)
			found.groups = append(found.groups, *g)
		}
	}
	slices.SortFunc(found.groups, func(a, b api.ConsumerGroup) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// errNotDescribed is about a group that the brokers left out of their answer.
var errNotDescribed = errors.New("no broker describes it")

// describeGroups fills in the groups that are no share groups: their members, and their committed offsets in the topics. It
// notes in found the groups whose offsets could not all be read.
func (c *Cluster) describeGroups(ctx context.Context, all map[string]*api.ConsumerGroup, names []string, topics map[string]bool, found foundGroups) error {
	if len(names) == 0 {
		return nil
	}
	described, err := c.admin.DescribeGroups(ctx, names...)
	if err != nil && len(described) == 0 {
		return c.refused("describe consumer groups", err)
	}
	var newer []string // groups of KIP-848, which this question is not about
	for _, name := range names {
		g, is := described[name]
		if !is {
			c.fill(all[name], "", 0, nil, topics, cmp.Or(err, errNotDescribed))
			continue
		}
		if g.Err != nil || g.State == "Dead" {
			newer = append(newer, name)
			continue
		}
		c.fill(all[name], g.State, len(g.Members), g.JoinTopics(), topics, nil)
	}
	if len(newer) > 0 {
		again, _ := c.admin.DescribeConsumerGroups(ctx, newer...) // an older broker does not know the question
		for _, name := range newer {
			g, is := again[name]
			if is && g.Err == nil {
				all[name].Protocol = api.ProtocolConsumer
				c.fill(all[name], g.State, len(g.Members), g.SubscribedTopics(), topics, nil)
			} else {
				c.fill(all[name], "", 0, nil, topics, described[name].Err)
			}
		}
	}
	for _, answer := range c.admin.FetchManyOffsets(ctx, names...) {
		g := all[answer.Group]
		if answer.Err != nil {
			g.Problem, found.unread[g.Name], found.refused[g.Name] = api.OrNull("its offsets cannot be read: "+c.inShort("read the offsets of the group "+g.Name, answer.Err)), true, true
			continue
		}
		for _, o := range answer.Fetched.Sorted() {
			if o.Err != nil {
				found.unread[g.Name] = true
			}
			if !topics[o.Topic] || o.Err != nil || o.At < 0 {
				continue
			}
			reads(g, o.Topic)
			g.Partitions = append(g.Partitions, api.ConsumedPartition{Topic: o.Topic, Partition: o.Partition, Committed: o.At})
		}
	}
	return ctx.Err()
}

// fill writes what a description of a group says.
func (c *Cluster) fill(g *api.ConsumerGroup, state string, members int, subscribed []string, topics map[string]bool, problem error) {
	if state != "" {
		g.State = state
	}
	g.Members = members
	if problem != nil {
		g.Problem = api.OrNull("it cannot be described: " + c.inShort("describe the group "+g.Name, problem))
	}
	for _, topic := range subscribed {
		if topics[topic] {
			reads(g, topic)
		}
	}
}

// reads adds a topic that a group reads.
func reads(g *api.ConsumerGroup, topic string) {
	if !slices.Contains(g.Topics, topic) {
		g.Topics = append(g.Topics, topic)
	}
}

// markStanding says of each partition how far the group is behind, and whether it stands. It remembers since when, from one
// answer to the next, for as long as the group is there and behind. A broker that does not answer is no progress.
func (c *Cluster) markStanding(found foundGroups, ends kadm.ListedOffsets, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.behind
	c.behind = make(map[groupPartition]standing, len(before))
	for here, last := range before {
		if found.unread[here.group] || found.incomplete != "" && !found.listed[here.group] {
			c.behind[here] = last
		}
	}
	for i := range found.groups {
		g := &found.groups[i]
		for j := range g.Partitions {
			p := &g.Partitions[j]
			here := groupPartition{g.Name, p.Topic, p.Partition}
			last, known := before[here]
			end, there := ends.Lookup(p.Topic, p.Partition)
			if !there || end.Err != nil || end.Offset < 0 {
				if known {
					c.behind[here] = last
				}
				continue
			}
			lag := max(end.Offset-p.Committed, 0)
			p.End, p.Lag = &end.Offset, &lag
			g.Lag += lag
			if lag == 0 {
				delete(c.behind, here)
				continue
			}
			if !known || last.committed != p.Committed {
				last = standing{p.Committed, at}
			}
			c.behind[here] = last
			p.BehindSince = api.TimeOrNull(last.since)
			if p.Standing = at.Sub(last.since) >= standingAfter; p.Standing {
				g.Standing++
			}
		}
	}
}
