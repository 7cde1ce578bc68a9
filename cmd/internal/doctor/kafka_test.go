package doctor

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/pooler"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func poolerMode(s string) pooler.Mode { return pooler.Mode(s) }

// TestTopics: topics that are missing, too small, or would lose letters. On kfake and on a real broker.
func TestTopics(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		s := newSubject(t, pgtest.New(t), b)
		small := b.Topic(t, 1, map[string]string{"max.message.bytes": "5000"})
		s.exec(t, `insert into postrider.outbox_event (topic) values ($1), ('not-there')`, small)
		r := s.examine(t, nil)
		r.want(t, "topics", "existence", Failed, "not-there", "create them")
		r.want(t, "topics", "message size", Warning, small+" (5000)", "become dead letters")
		s.flags["kafka.allow_topic_creation"] = "true"
		s.examine(t, nil).want(t, "topics", "existence", Warning, "not-there")
		delete(s.flags, "kafka.allow_topic_creation")

		// One that was used and is needed no more.
		pgtest.SettleLog(t, s.conn, "0")
		s.examine(t, nil).want(t, "topics", "existence", Warning, "nothing waits for them now: not-there")

		s.flags["dlq.topic"] = b.Topic(t, 1, map[string]string{"max.message.bytes": "5000", "cleanup.policy": "compact", "retention.ms": "600000"})
		r = s.examine(t, nil)
		r.want(t, "topics", "message size", Failed, s.flags["dlq.topic"]+" (5000)", "letters")
		r.want(t, "topics", "dead letters", Failed, "compact", "set cleanup.policy")
		r.want(t, "topics", "dead letters", Warning, "10 minutes", "retention.ms")

		s.flags["dlq.topic"] = "no-letters"
		s.examine(t, nil).want(t, "topics", "existence", Failed, "no-letters")
	})
}

// TestReplication: a cluster of three, whose brokers take less than we send.
func TestReplication(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t, kfake.NumBrokers(3), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "100000", "socket.request.max.bytes": "1000000"}))
	s := newSubject(t, pgtest.New(t), b)
	r := s.examine(t, nil)
	r.want(t, "kafka", "brokers", OK, "3 brokers, and all answer")
	r.want(t, "kafka", "message size", Warning, "100000", "set kafka.max_message_bytes to 100000")
	r.want(t, "kafka", "request size", Warning, "1000000", "set kafka.max_request_bytes to 1000000")
	s.flags["kafka.max_message_bytes"], s.flags["kafka.max_request_bytes"] = "100000", "1000000"
	r = s.examine(t, nil)
	r.want(t, "kafka", "message size", OK)
	r.want(t, "kafka", "request size", OK)
}

// TestEventHubs: Azure Event Hubs is known by its brokers' names; it does not tell what it takes.
func TestEventHubs(t *testing.T) {
	t.Parallel()
	p := &patient{brokers: kadm.BrokerDetails{{Host: "orders.ServiceBus.windows.net"}}}
	for bytes, want := range map[int]Verdict{104857600: Warning, hubRequest + 1: Warning, hubRequest: OK} {
		p.Settings.Kafka.MaxRequestBytes = bytes
		if got, err := checkRequestSize(t.Context(), p); err != nil || len(got) != 1 || got[0].verdict != want {
			t.Errorf("%d bytes: %+v, %v", bytes, got, err)
		}
	}
}

// TestJudgeReplication: the same topics with other replicas; kfake always has as many as it has brokers.
func TestJudgeReplication(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t, kfake.NumBrokers(3))
	s := newSubject(t, pgtest.New(t), b)
	s.flags["tasks.lifecycle_topic"] = b.Topic(t, 1, map[string]string{"min.insync.replicas": "2"})
	s.flags["dlq.topic"] = b.Topic(t, 1, map[string]string{"min.insync.replicas": "3"})
	var change atomic.Pointer[func(*kmsg.MetadataResponseTopicPartition)]
	b.Cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		meta := req.(*kmsg.MetadataRequest)
		if len(meta.Topics) == 0 {
			return nil, nil, false
		}
		resp := meta.ResponseKind().(*kmsg.MetadataResponse)
		for i := range int32(3) {
			nb := kmsg.NewMetadataResponseBroker()
			host, port, _ := net.SplitHostPort(b.Addrs[i])
			n, _ := strconv.Atoi(port)
			nb.NodeID, nb.Host, nb.Port = i, host, int32(n)
			resp.Brokers = append(resp.Brokers, nb)
		}
		for _, wanted := range meta.Topics {
			mt := kmsg.NewMetadataResponseTopic()
			mt.Topic = wanted.Topic
			mp := kmsg.NewMetadataResponseTopicPartition()
			mp.Leader, mp.Replicas, mp.ISR = b.Cluster.LeaderFor(*wanted.Topic, 0), []int32{0, 1, 2}, []int32{0, 1, 2}
			(*change.Load())(&mp)
			mt.Partitions = append(mt.Partitions, mp)
			resp.Topics = append(resp.Topics, mt)
		}
		return resp, nil, true
	})
	for _, c := range []struct {
		change func(*kmsg.MetadataResponseTopicPartition)
		check  string
		want   Verdict
		says   string
	}{
		{func(p *kmsg.MetadataResponseTopicPartition) { p.Leader, p.ErrorCode = -1, kerr.LeaderNotAvailable.Code }, "leaders", Failed, "without a leader"},
		{func(p *kmsg.MetadataResponseTopicPartition) { p.ISR = []int32{0} }, "leaders", Failed, "/0 (1 of 2)"},
		{func(p *kmsg.MetadataResponseTopicPartition) { p.Replicas, p.ISR = []int32{0}, []int32{0} }, "replication", Warning, "one replica"},
		{func(*kmsg.MetadataResponseTopicPartition) {}, "replication", Warning, "as soon as any of their brokers is restarted: " + s.flags["dlq.topic"]},
	} {
		change.Store(&c.change)
		s.examine(t, nil).want(t, "topics", c.check, c.want, c.says)
	}
}

// TestBrokenBrokers: one that is away, and listeners that cannot be reached.
func TestBrokenBrokers(t *testing.T) {
	t.Parallel()
	b := kafkatest.Kfake(t, kfake.NumBrokers(2))
	s := newSubject(t, pgtest.New(t), b)
	b.Cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		for i := range int32(2) {
			mb := kmsg.NewMetadataResponseBroker()
			mb.NodeID, mb.Host, mb.Port = i, "127.0.0.1", 1
			resp.Brokers = append(resp.Brokers, mb)
		}
		return resp, nil, true
	})
	s.examine(t, nil).want(t, "kafka", "brokers", Failed, "not one of the brokers that it names", "advertised.listeners")
}

// TestAccess: what the client may not do is said before an event meets it.
func TestAccess(t *testing.T) {
	t.Parallel()
	acl := func(resource kmsg.ACLResourceType, name string, ops ...kmsg.ACLOperation) []kfake.ACL {
		var out []kfake.ACL
		for _, op := range ops {
			out = append(out, kfake.ACL{Resource: resource, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true})
		}
		return out
	}
	var some, all []kfake.ACL
	for _, name := range []string{"closed", "dlq", "life"} {
		some = append(some, acl(kmsg.ACLResourceTypeTopic, name, kmsg.ACLOperationDescribe)...)
		all = append(all, acl(kmsg.ACLResourceTypeTopic, name, kmsg.ACLOperationDescribe, kmsg.ACLOperationWrite, kmsg.ACLOperationRead, kmsg.ACLOperationDescribeConfigs)...)
	}
	all = append(all, acl(kmsg.ACLResourceTypeGroup, "g", kmsg.ACLOperationRead, kmsg.ACLOperationDescribe)...)
	all = append(all, acl(kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLOperationIdempotentWrite, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationDescribe)...)
	b := kafkatest.Kfake(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.SeedTopics(1, "closed", "dlq", "life", "unseen"),
		kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "little", "p", some...), kfake.User("PLAIN", "enough", "p", all...))
	root := b.As(kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism()))
	s := newSubject(t, pgtest.New(t), root)
	s.flags["dlq.topic"], s.flags["tasks.lifecycle_topic"], s.flags["dlq.group"] = "dlq", "life", "g"
	s.exec(t, `insert into postrider.outbox_event (topic) values ('closed')`)
	as := func(user string) func(*Config) {
		return client(t, b, kgo.SASL(plain.Auth{User: user, Pass: "p"}.AsMechanism()))
	}

	r := s.examine(t, as("enough"))
	if rest := r.rest("state collector", "state leader", "state backlog", "database pg_trgm"); !r.OK || len(rest) > 0 {
		t.Errorf("not well: %+v", rest)
	}
	r = s.examine(t, as("little"))
	r.want(t, "kafka", "idempotent producer", Failed, "CLUSTER_AUTHORIZATION_FAILED", "IdempotentWrite")
	r.want(t, "topics", "rights", Failed, "may not write to: closed, dlq, life")
	r.want(t, "topics", "rights", Failed, "may not read: dlq")
	r.want(t, "topics", "rights", Failed, "consumer group g")
	r.want(t, "topics", "message size", Skipped, "DescribeConfigs")
	s.exec(t, `insert into postrider.outbox_event (topic) values ('unseen')`)
	r = s.examine(t, as("enough"))
	r.want(t, "topics", "existence", Failed, "unseen")
}

// TestWritersOfDeadLetters: who may write to the dead-letter topic of relays is named, by whatever ACL.
func TestWritersOfDeadLetters(t *testing.T) {
	t.Parallel()
	writes := func(name string, pattern kmsg.ACLResourcePatternType, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: pattern, Operation: op, Allow: true}
	}
	const literal, prefixed = kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed
	relay := kfake.User("PLAIN", "relay", "p", writes("dlq", literal, kmsg.ACLOperationWrite))
	for name, c := range map[string]struct {
		more    []kfake.ACL
		as      string
		verdict Verdict
		says    string
	}{
		"the relay alone":            {nil, "root", OK, "one login may write to each: dlq (User:relay)"},
		"a consumer by name":         {[]kfake.ACL{writes("dlq", literal, kmsg.ACLOperationWrite)}, "root", Warning, "several logins may write to dlq, and forge dead letters of events: User:other, User:relay"},
		"a consumer by prefix":       {[]kfake.ACL{writes("dl", prefixed, kmsg.ACLOperationWrite)}, "root", Warning, "User:other, User:relay"},
		"a consumer by all":          {[]kfake.ACL{writes("*", literal, kmsg.ACLOperationAll)}, "root", Warning, "User:other, User:relay"},
		"a consumer that only reads": {[]kfake.ACL{writes("dlq", literal, kmsg.ACLOperationRead), writes("other", literal, kmsg.ACLOperationWrite)}, "root", OK, "User:relay"},
		"one who may not ask":        {nil, "other", Skipped, "may not see who may write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Kfake(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.SeedTopics(1, "dlq", "life"), kfake.Superuser("PLAIN", "root", "p"), relay,
				kfake.User("PLAIN", "other", "p", append(c.more, kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "dlq", Pattern: literal, Operation: kmsg.ACLOperationDescribe, Allow: true})...))
			root := b.As(kgo.SASL(plain.Auth{User: "root", Pass: "p"}.AsMechanism()))
			s := newSubject(t, pgtest.New(t), root)
			s.flags["dlq.topic"], s.flags["tasks.lifecycle_topic"] = "dlq", "life"
			s.examine(t, client(t, b, kgo.SASL(plain.Auth{User: c.as, Pass: "p"}.AsMechanism()))).want(t, "topics", "writers of dead letters", c.verdict, c.says)
		})
	}
}

// TestWritersWhereAllMayWrite: brokers without an authorizer say so.
func TestWritersWhereAllMayWrite(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		r := newSubject(t, pgtest.New(t), b).examine(t, nil)
		if b.Real() {
			r.want(t, "topics", "writers of dead letters", Skipped, "no authorizer")
		} else {
			r.want(t, "topics", "writers of dead letters", OK, "allow.everyone.if.no.acl.found")
		}
	})
}

// TestAGroupOfAnotherDesk is named, with what to do.
func TestAGroupOfAnotherDesk(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	commit := func(metadata string) {
		t.Helper()
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: s.flags["dlq.topic"], At: 0, LeaderEpoch: -1, Metadata: metadata})
		if err := s.broker.Admin(t).CommitAllOffsets(t.Context(), s.flags["dlq.group"], offsets); err != nil {
			t.Fatal(err)
		}
	}
	const other = "0192f000-0000-7000-8000-000000000001"
	commit("postrider-desk=" + other)
	s.examine(t, nil).want(t, "state", "collector", Failed, "belongs to the desk "+other, "dlq.group")
	s.flags["collector.earlier_desks"] = other
	for _, f := range s.examine(t, nil).Findings {
		if contains(f.Says, "belongs to the desk") {
			t.Errorf("an earlier desk: %+v", f)
		}
	}
	delete(s.flags, "collector.earlier_desks")
	commit("postrider-desk=" + pgtest.Value[string](t, s.conn, `select source_uuid::text from postrider.outbox_source`))
	for _, f := range s.examine(t, nil).Findings {
		if contains(f.Says, "belongs to the desk") {
			t.Errorf("its own: %+v", f)
		}
	}
}

// TestRecords: a record from the future, and dead letters that no collector reads.
func TestRecords(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		s := newSubject(t, pgtest.New(t), b)
		c := b.Client(t)
		produce := func(topic string, at time.Time) {
			t.Helper()
			if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: at}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		produce(s.flags["dlq.topic"], time.Now())
		r := s.examine(t, nil)
		r.want(t, "clock", "records", OK)
		r.want(t, "state", "collector", Failed, "1 dead letter waits", "collector")
		produce(s.flags["tasks.lifecycle_topic"], time.Now().Add(30*time.Minute))
		s.examine(t, nil).want(t, "clock", "records", Warning, "from the future", s.flags["tasks.lifecycle_topic"])

		// A collector that runs is seen. A dead letter does not wait any more when its offset is committed.
		group := b.Client(t, kgo.ConsumerGroup(s.flags["dlq.group"]), kgo.ConsumeTopics(s.flags["dlq.topic"]), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err := group.PollFetches(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		s.examine(t, nil).want(t, "state", "collector", Warning, "1 collector", "another installation", "dlq.group")
		s.connected(t)
		s.examine(t, nil).want(t, "state", "collector", OK, "1 collector, 1 dead letter waits")
		produce(s.flags["dlq.topic"], time.Now().Add(-time.Hour))
		s.examine(t, nil).want(t, "state", "collector", OK, "1 collector, 2 dead letters wait") // that before it is young
		if err := group.CommitUncommittedOffsets(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.examine(t, func(c *Config) { c.limits.lateLetter = -time.Hour }).want(t, "state", "collector", Warning, "1 dead letter has been in its topic", "no collector has recorded that")

		// Behind the last letter that a transaction wrote is its marker, which is neither read nor committed.
		writer := b.Client(t, kgo.TransactionalID(s.flags["dlq.topic"]))
		err := errors.Join(writer.BeginTransaction(), writer.ProduceSync(t.Context(), &kgo.Record{Topic: s.flags["dlq.topic"]}).FirstErr(),
			writer.EndTransaction(t.Context(), kgo.TryCommit))
		if err != nil {
			t.Fatal(err)
		}
		for read := 0; read < 2; { // with the letter of before
			f := group.PollFetches(t.Context())
			if read += f.NumRecords(); f.Err() != nil {
				t.Fatal(f.Err())
			}
		}
		if err := group.CommitUncommittedOffsets(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, found := range s.examine(t, func(c *Config) { c.limits.lateLetter = -time.Hour }).Findings {
			if strings.Contains(found.Says, "dead letter has been") {
				t.Errorf("all is read: %+v", found)
			}
		}
	})
}

// TestCollectedTopics: collectors that were started with other settings leave topics unread that dead letters go to, by a
// rule, of tasks, or of others; each is named.
func TestCollectedTopics(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		s := newSubject(t, pgtest.New(t), b)
		s.connected(t)
		byRule, ofTasks, named, chosen := b.Topic(t, 1, nil), b.Topic(t, 1, nil), b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		file := filepath.Join(t.TempDir(), "postrider.yaml")
		if err := os.WriteFile(file, []byte("topics:\n- {match: orders.*, dlq_topic: "+byRule+"}\n- {match: bills.*, dlq_topic: not-there}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.flags["collector.topics"], s.flags["collector.patterns"] = named, regexp.QuoteMeta(chosen)
		s.exec(t, `update postrider.tasker_settings set dlq_topic = $1`, ofTasks)
		examine := func() Report {
			t.Helper()
			settings, err := config.Load(config.From{File: file, Flags: s.flags})
			if err != nil {
				t.Fatal(err)
			}
			return s.examine(t, func(c *Config) { c.Settings = settings })
		}
		unread := func(r Report) (said []string) {
			for _, f := range r.Findings {
				if _, names, found := strings.Cut(f.Says, "no member of the group "+s.flags["dlq.group"]+" reads: "); found && f.Group == "state" && f.Check == "collector" {
					said = append(said, names)
				}
			}
			return said
		}
		if said := unread(examine()); len(said) > 0 { // then it is said that none runs
			t.Errorf("without a collector: %q", said)
		}
		admin := kadm.NewClient(b.Client(t))
		all := []string{s.flags["dlq.topic"], byRule, ofTasks, named, chosen}
		for _, leave := range [][]string{{byRule}, {ofTasks}, {named, chosen}, {}} {
			group := b.Client(t, kgo.ConsumerGroup(s.flags["dlq.group"]), kgo.DisableAutoCommit(), kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(100*time.Millisecond),
				kgo.ConsumeTopics(slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(leave, name) })...))
			for {
				described, err := admin.DescribeGroups(t.Context(), s.flags["dlq.group"])
				if err == nil && described[s.flags["dlq.group"]].State == "Stable" {
					break
				}
				poll, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
				_ = group.PollFetches(poll)
				stop()
			}
			r := examine()
			for _, name := range all {
				if want := slices.Contains(leave, name); strings.Contains(strings.Join(unread(r), ""), name) != want {
					t.Errorf("%q are not read, and of %s it says %q", leave, name, unread(r))
				}
			}
			if len(leave) > 0 {
				r.want(t, "state", "collector", Warning, leave[0], "becomes no investigation", "collector.patterns")
			} else {
				r.want(t, "state", "collector", OK, "1 collector")
			}
			group.Close()
		}
	})
}
