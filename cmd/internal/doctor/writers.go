package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	dlqkafka "github.com/postrider/postrider/internal/dlq/kafka"
)

// checkLetterWriters looks at who may write to the dead-letter topics of relays: there, and there alone, a record is believed to be the
// dead letter of an event.
func checkLetterWriters(ctx context.Context, p *patient) ([]result, error) {
	var out []result
	var alone, closed []string
	for _, topic := range p.topics.letters {
		writers, err := p.writersOf(ctx, topic)
		switch {
		case errors.Is(err, kerr.SecurityDisabled):
			return skip("", "these brokers have no authorizer: every client may write to every topic, and forge the dead letters of relays"), nil
		case errors.Is(err, kerr.ClusterAuthorizationFailed):
			return skip("grant Describe on the cluster to this client", "this client may not see who may write to the dead-letter topics of relays: %s", shorten(p.topics.letters)), nil
		case err != nil:
			return nil, err
		}
		own := "User:" + p.Settings.Kafka.SASLUsername
		others := slices.DeleteFunc(slices.Clone(writers), func(w string) bool { return w == own })
		switch {
		case slices.Contains(writers, "User:*"):
			out = append(out, warn(fmt.Sprintf("remove the ACL that lets User:* write to %s; consumers write to dlq.consumer_topic", topic),
				"every client may write to %s, and forge dead letters of events", topic)...)
		case len(writers) == 0:
			closed = append(closed, topic)
		case len(others) > 0 && len(writers) > 1:
			out = append(out, warn(fmt.Sprintf("let relays alone write to %s; consumers write to dlq.consumer_topic. If these are all logins of relays, it is well", topic),
				"several logins may write to %s, and forge dead letters of events: %s", topic, shorten(writers))...)
		default:
			alone = append(alone, fmt.Sprintf("%s (%s)", topic, writers[0]))
		}
	}
	if len(alone) > 0 {
		out = append(out, well("one login may write to each: %s", shorten(alone))...)
	}
	if len(closed) > 0 {
		out = append(out, well("no ACL lets a client write to %s: super users alone do, or every client where allow.everyone.if.no.acl.found is true", shorten(closed))...)
	}
	return out, nil
}

// writersOf returns the principals that ACLs let write to a topic, sorted, whether by its name, by a prefix of it or to all topics.
func (p *patient) writersOf(ctx context.Context, topic string) ([]string, error) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAllow
	resp, err := req.RequestWith(ctx, p.Kafka)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, err
	}
	var writers []string
	for _, r := range resp.Resources {
		prefix := r.ResourcePatternType == kmsg.ACLResourcePatternTypePrefixed && strings.HasPrefix(topic, r.ResourceName)
		if r.ResourceName != topic && r.ResourceName != "*" && !prefix {
			continue
		}
		for _, a := range r.ACLs {
			if a.Operation == kmsg.ACLOperationWrite || a.Operation == kmsg.ACLOperationAll {
				writers = append(writers, a.Principal)
			}
		}
	}
	slices.Sort(writers)
	return slices.Compact(writers), nil
}

// judgeGroup says whether the group of the collectors belongs to another desk.
func (p *patient) judgeGroup(ctx context.Context) ([]result, error) {
	group := p.Settings.DLQ.Group
	of, err := dlqkafka.GroupDesk(ctx, p.admin, group)
	if err != nil || of == "" || slices.Contains(p.Settings.Collector.EarlierDesks, of) {
		return nil, err
	}
	var desk string
	if err := p.Database.QueryRow(ctx, "select source_uuid::text from postrider.outbox_source").Scan(&desk); err != nil || strings.EqualFold(desk, of) {
		return nil, err
	}
	return fail(fmt.Sprintf("give this desk a group and a dead-letter topic of its own (dlq.group, for example %s.2, and dlq.topic); if it takes the place of the other desk, name that in collector.earlier_desks", group),
		"the consumer group %s belongs to the desk %s, and this is the desk %s: its collectors read nothing", group, of, desk), nil
}
