package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/migrations"
)

// topics are the topics that the doctor looks at, and what the brokers say of them.
type topics struct {
	// waits says of each topic that events were written for whether some of them wait.
	waits map[string]bool
	// letters are the dead-letter topics.
	letters []string
	details kadm.TopicDetails
	configs map[string]map[string]string
}

// names are all topics, sorted, each once.
func (t topics) names() []string {
	names := slices.Clone(t.letters)
	for name := range t.waits {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// there are the topics that exist.
func (t topics) there() []string {
	return slices.DeleteFunc(t.names(), func(name string) bool { return t.details[name].Err != nil || len(t.details[name].Partitions) == 0 })
}

// setting is a number among the settings of a topic; ok says that it is known.
func (t topics) setting(topic, name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(t.configs[topic][name], 10, 64)
	return n, err == nil
}

// EventTopics returns the topics of the newest events of the outbox, at most 10000, and of what is held, each with whether
// events for it wait.
func EventTopics(ctx context.Context, pool *pgxpool.Pool) (map[string]bool, error) {
	rows, err := pool.Query(ctx, topicsQuery)
	if err != nil {
		return nil, err
	}
	topics := map[string]bool{}
	var topic string
	var waits bool
	_, err = pgx.ForEachRow(rows, []any{&topic, &waits}, func() error {
		topics[topic] = waits
		return nil
	})
	return topics, err
}

func findTopics(ctx context.Context, p *patient) ([]result, error) {
	t := topics{waits: map[string]bool{}, letters: p.Settings.DLQTopics(), configs: map[string]map[string]string{}}
	if !p.lacks(migrations.PartTasks) {
		t.waits[p.Settings.Tasks.LifecycleTopic] = false
	}
	from := "the settings"
	var problem []result
	if p.schemaReady && !p.Pre {
		from += ", of the newest 10000 events and of what is held"
		events, err := EventTopics(ctx, p.Database)
		maps.Copy(t.waits, events)
		if err != nil {
			from = "the settings"
			problem = warn("", "the events' topics cannot be read from the outbox: %v", err)
		}
	}
	var err error
	if t.details, err = p.describeTopics(ctx, t.names()); err != nil {
		return append(problem, fail("look at the logs of the brokers, and at the network to each of them; what rests on the list is not checked", "%v", err)...), nil
	}
	p.topics, p.listRead = t, true
	if there := t.there(); len(there) > 0 {
		configs, err := p.admin.DescribeTopicConfigs(ctx, there...)
		if err != nil {
			return problem, err
		}
		for _, rc := range configs {
			if rc.Err != nil {
				continue // it is missed where it is needed
			}
			values := map[string]string{}
			for _, c := range rc.Configs {
				values[c.Key] = c.MaybeValue()
			}
			t.configs[rc.Name] = values
		}
	}
	return append(problem, well("%s: %s", plural.Of(len(t.names()), "topic is looked at", "topics are looked at"), "topics of "+from)...), nil
}

// oneBroker bounds a question that another broker can answer as well.
const oneBroker = 3 * time.Second

// describeTopics asks past what the client remembers: a topic that this client may not see would be remembered, and fail
// every later question about any other.
func (p *patient) describeTopics(ctx context.Context, names []string) (kadm.TopicDetails, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	answer, err := p.anyMetadata(ctx, req)
	if err != nil {
		return nil, err
	}
	details := kadm.TopicDetails{}
	for _, t := range answer.Topics {
		if t.Topic == nil {
			continue
		}
		d := kadm.TopicDetail{Topic: *t.Topic, Partitions: kadm.PartitionDetails{}, AuthorizedOperations: kadm.DecodeACLOperations(t.AuthorizedOperations), Err: kerr.ErrorForCode(t.ErrorCode)}
		for _, part := range t.Partitions {
			d.Partitions[part.Partition] = kadm.PartitionDetail{Topic: *t.Topic, Partition: part.Partition, Leader: part.Leader, Replicas: part.Replicas, ISR: part.ISR}
		}
		details[d.Topic] = d
	}
	return details, nil
}

// anyMetadata asks one broker after the other, until one says; twice, because a connection may have been closed since it
// was used.
func (p *patient) anyMetadata(ctx context.Context, req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
	var failed []string
	for range 2 {
		failed = nil
		for _, id := range p.answering {
			ctx, cancel := context.WithTimeout(ctx, oneBroker)
			answer, err := p.Kafka.Broker(int(id)).Request(ctx, req)
			cancel()
			if err == nil {
				return answer.(*kmsg.MetadataResponse), nil
			}
			failed = append(failed, fmt.Sprintf("broker %d: %v", id, err))
		}
	}
	if len(failed) == 0 {
		failed = []string{"not one answers"}
	}
	return nil, fmt.Errorf("no broker says which topics there are: %s", strings.Join(failed, "; "))
}

func checkExistence(_ context.Context, p *patient) ([]result, error) {
	var out []result
	var missing, unused, refused []string
	for _, name := range p.topics.names() {
		detail, known := p.topics.details[name]
		switch err := detail.Err; {
		case !known, errors.Is(err, kerr.UnknownTopicOrPartition):
			if p.topics.waits[name] || slices.Contains(p.topics.letters, name) {
				missing = append(missing, name)
			} else {
				unused = append(unused, name)
			}
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			refused = append(refused, name)
		case err != nil:
			out = append(out, fail("", "the brokers say of %s: %v", name, err)...)
		}
	}
	if len(missing) > 0 {
		const says = "missing: %s"
		if p.Settings.Kafka.AllowTopicCreation {
			out = append(out, warn("create them, with the partitions and replicas that you want: brokers create missing ones by their defaults, if they are set up to", says, shorten(missing))...)
		} else {
			out = append(out, fail("create them: their events, and the dead letters, wait until they are there", says, shorten(missing))...)
		}
	}
	if len(unused) > 0 {
		out = append(out, warn("create them before events are written for them", "missing, and nothing waits for them now: %s", shorten(unused))...)
	}
	if len(refused) > 0 {
		out = append(out, fail("grant Describe and Write on them to this client", "this client may not see: %s", shorten(refused))...)
	}
	if len(out) == 0 {
		out = well("all of them are there")
	}
	return out, nil
}

func checkLeaders(_ context.Context, p *patient) ([]result, error) {
	var leaderless, short, unknown []string
	for _, name := range p.topics.there() {
		least, known := p.topics.setting(name, "min.insync.replicas")
		if !known {
			unknown = append(unknown, name)
		}
		for _, partition := range p.topics.details[name].Partitions.Sorted() {
			where := fmt.Sprintf("%s/%d", name, partition.Partition)
			if partition.Leader < 0 {
				leaderless = append(leaderless, where)
			} else if known && int64(len(partition.ISR)) < least {
				short = append(short, fmt.Sprintf("%s (%d of %d)", where, len(partition.ISR), least))
			}
		}
	}
	var out []result
	if len(leaderless) > 0 {
		out = fail("start the brokers that lead them", "partitions without a leader take nothing: %s", shorten(leaderless))
	}
	if len(short) > 0 {
		out = append(out, fail("start the brokers that hold their other replicas, or lower min.insync.replicas of the topics",
			"partitions with fewer replicas in sync than min.insync.replicas take nothing: %s", shorten(short))...)
	}
	if len(unknown) > 0 {
		out = append(out, leastUnknown(unknown)...)
	}
	if len(out) == 0 {
		out = well("every partition has a leader and enough replicas in sync")
	}
	return out, nil
}

// leastUnknown says that of topics it is not known how many replicas must be in sync.
func leastUnknown(topics []string) []result {
	return skip("grant DescribeConfigs on them to this client", "min.insync.replicas is not shown: %s", shorten(topics))
}

func checkReplication(_ context.Context, p *patient) ([]result, error) {
	if len(p.brokers) < 2 {
		return well("there is one broker, so nothing is replicated"), nil
	}
	var single, one, unmovable, unknown []string
	for _, name := range p.topics.there() {
		replicas := p.topics.details[name].Partitions.NumReplicas()
		least, known := p.topics.setting(name, "min.insync.replicas")
		switch {
		case replicas < 2:
			single = append(single, name)
		case !known:
			unknown = append(unknown, name)
		case least < 2:
			one = append(one, name)
		case int(least) >= replicas:
			unmovable = append(unmovable, name)
		}
	}
	var out []result
	if len(single) > 0 {
		out = append(out, warn("give them three replicas", "topics with one replica, whose events are lost with its disk: %s", shorten(single))...)
	}
	if len(one) > 0 {
		out = append(out, warn("set min.insync.replicas of the topics to 2", "with min.insync.replicas 1 a broker that fails may take acknowledged events with it: %s", shorten(one))...)
	}
	if len(unmovable) > 0 {
		out = append(out, warn("set min.insync.replicas below the number of replicas", "topics that take nothing as soon as any of their brokers is restarted: %s", shorten(unmovable))...)
	}
	if len(unknown) > 0 {
		out = append(out, leastUnknown(unknown)...)
	}
	if len(out) == 0 {
		out = well("an acknowledged event is on two disks at least")
	}
	return out, nil
}

func checkTopicSize(_ context.Context, p *patient) ([]result, error) {
	var small, smallLetters, unknown []string
	ours := int64(p.Settings.Kafka.MaxMessageBytes)
	for _, name := range p.topics.there() {
		switch limit, known := p.topics.setting(name, "max.message.bytes"); {
		case !known:
			unknown = append(unknown, name)
		case limit >= ours:
		case slices.Contains(p.topics.letters, name):
			smallLetters = append(smallLetters, fmt.Sprintf("%s (%d)", name, limit))
		default:
			small = append(small, fmt.Sprintf("%s (%d)", name, limit))
		}
	}
	var out []result
	if len(smallLetters) > 0 {
		out = append(out, fail("raise max.message.bytes of the dead-letter topics to kafka.max_message_bytes, or lower that",
			"dead-letter topics that take less than kafka.max_message_bytes, %d, refuse letters with large payloads: %s", ours, shorten(smallLetters))...)
	}
	if len(small) > 0 {
		out = append(out, warn("raise max.message.bytes of the topics, or lower kafka.max_message_bytes",
			"topics that take less than kafka.max_message_bytes, %d: larger events become dead letters: %s", ours, shorten(small))...)
	}
	if len(unknown) > 0 {
		out = append(out, skip("grant DescribeConfigs on them to this client", "max.message.bytes is not shown: %s", shorten(unknown))...)
	}
	if len(out) == 0 {
		out = well("every topic takes what we send, up to %d bytes", ours)
	}
	return out, nil
}

// shortestRetention is how long dead letters should wait for a collector at least.
const shortestRetention = 24 * 60 * 60 * 1000 // milliseconds

func checkLetterTopics(_ context.Context, p *patient) ([]result, error) {
	var out []result
	var unknown []string
	for _, name := range p.topics.letters {
		values := p.topics.configs[name]
		if len(values) == 0 { // it is missing, or not shown
			unknown = append(unknown, name)
			continue
		}
		if policy := values["cleanup.policy"]; policy != "" && policy != "delete" {
			out = append(out, fail(fmt.Sprintf("set cleanup.policy of %s to delete", name),
				"cleanup.policy of %s is %s: of the letters of a key only the last would stay", name, policy)...)
		}
		if ms, known := p.topics.setting(name, "retention.ms"); known && ms >= 0 && ms < shortestRetention {
			out = append(out, warn(fmt.Sprintf("set retention.ms of %s to a week or more", name),
				"%s keeps letters for %d minutes: a collector that is away for longer misses some", name, ms/60_000)...)
		}
	}
	if len(unknown) > 0 {
		out = append(out, skip("create them, or grant DescribeConfigs on them to this client", "the settings of dead-letter topics are not shown: %s", shorten(unknown))...)
	}
	if len(out) == 0 {
		out = well("they keep letters until they are collected")
	}
	return out, nil
}

func checkTopicRights(ctx context.Context, p *patient) ([]result, error) {
	var write, read, unknown []string
	for _, name := range p.topics.names() {
		detail := p.topics.details[name]
		allowed := detail.AuthorizedOperations
		if detail.Err != nil || len(detail.Partitions) == 0 || len(allowed) == 0 { // missing, not to be seen, or these brokers do not say
			unknown = append(unknown, name)
			continue
		}
		if !may(allowed, kadm.OpWrite) {
			write = append(write, name)
		}
		if slices.Contains(p.topics.letters, name) && !may(allowed, kadm.OpRead) {
			read = append(read, name)
		}
	}
	var out []result
	if len(write) > 0 {
		out = append(out, fail("grant Write on them to this client", "this client may not write to: %s", shorten(write))...)
	}
	if len(read) > 0 {
		out = append(out, fail("grant Read on them to this client: the collector reads them", "this client may not read: %s", shorten(read))...)
	}
	group := p.Settings.DLQ.Group
	_, err := p.describeGroup(ctx, group)
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		out = append(out, fail("grant Read on the group to this client", "this client may not use the consumer group %s of the collector", group)...)
	case err != nil:
		return out, err
	}
	if len(unknown) > 0 {
		out = append(out, skip("create them, or grant Describe on them to this client", "the brokers do not say what this client may do with: %s", shorten(unknown))...)
	}
	if len(out) == 0 {
		out = well("this client may write to every topic, and collect dead letters")
	}
	return out, nil
}

// describeGroup describes a consumer group; a group that no client has used yet is empty. On a new cluster the first
// question makes the topic in which brokers keep groups, and it takes a moment until a broker coordinates them.
func (p *patient) describeGroup(ctx context.Context, group string) (kadm.DescribedGroup, error) {
	for {
		groups, err := p.admin.DescribeGroups(ctx, group)
		if err == nil {
			err = groups[group].Err
		}
		var failed *kadm.ShardErrors
		if errors.As(err, &failed) && len(failed.Errs) > 0 {
			err = failed.Errs[0].Err
		}
		switch {
		case errors.Is(err, kerr.GroupIDNotFound):
			return kadm.DescribedGroup{}, nil
		case errors.Is(err, kerr.CoordinatorNotAvailable), errors.Is(err, kerr.CoordinatorLoadInProgress):
			if loop.Sleep(ctx, 250*time.Millisecond) == nil {
				continue
			}
		}
		if err != nil {
			err = fmt.Errorf("the consumer group %s: %w", group, err)
		}
		return groups[group], err
	}
}

func may(allowed []kadm.ACLOperation, wanted kadm.ACLOperation) bool {
	return slices.Contains(allowed, wanted) || slices.Contains(allowed, kadm.OpAll)
}

func checkRecordTimes(ctx context.Context, p *patient) ([]result, error) {
	listed, err := p.admin.ListMaxTimestampOffsets(ctx, p.topics.there()...)
	if err != nil {
		return nil, err
	}
	var newest kadm.ListedOffset
	listed.Each(func(o kadm.ListedOffset) {
		if o.Err == nil && o.Timestamp > newest.Timestamp {
			newest = o
		}
	})
	ahead := time.Until(time.UnixMilli(newest.Timestamp))
	if newest.Timestamp > 0 && ahead > p.limits.clockWarning {
		return warn("set all clocks by the same time servers (NTP)", "the newest record of %s, partition %d, is %v from the future: the clock of a broker or of who wrote it is ahead of this one",
			newest.Topic, newest.Partition, ahead.Round(time.Second)), nil
	}
	return well("no record is from the future; brokers do not tell their time otherwise"), nil
}
