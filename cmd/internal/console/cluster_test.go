package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/doctor"
)

// brokersSay stands for the brokers, which the rig has none of, and for an examination of what a process depends on. The API
// remembers an answer for some seconds. Its zero value has nothing to tell.
type brokersSay struct {
	mu     sync.Mutex
	topics []api.Topic
	groups []api.ConsumerGroup
	found  []doctor.Finding
	dbs    []api.Source
	silent string        // why groups may be missing
	takes  time.Duration // how long an examination takes, and a look at sources
}

func (s *brokersSay) Topics(context.Context) (api.Topics, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return api.Topics{List: api.List[api.Topic]{Items: s.topics}, LookedAt: time.Now()}, nil
}

func (s *brokersSay) Consumers(context.Context, api.Topics) (api.ConsumerGroups, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := api.ConsumerGroups{List: api.List[api.ConsumerGroup]{Items: s.groups}, LookedAt: time.Now()}
	if s.silent != "" {
		answer.Incomplete = &s.silent
	}
	return answer, nil
}

func (s *brokersSay) examine(context.Context) (doctor.Report, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := doctor.Report{OK: true, ExaminedAt: time.Now(), Findings: s.found}
	for _, f := range s.found {
		switch f.Verdict {
		case doctor.Failed:
			r.OK, r.Failed = false, r.Failed+1
		case doctor.Warning:
			r.Warnings++
		case doctor.Skipped:
			r.Skipped++
		}
	}
	return r, nil
}

// sources are what a look at sources found. TestSourcesAreServed of the package app has real ones.
func (s *brokersSay) sources(context.Context) (api.Sources, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	return api.Sources{LookedAt: time.Now(), List: api.List[api.Source]{Items: s.dbs}}, nil
}

// burn is a topic that is missing, a group that stands, a check that failed, and a source that is away, among others.
func (s *brokersSay) burn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	lag, end, since, denied := int64(1204), int64(5204), time.Now().Add(-3*time.Minute), "TOPIC_AUTHORIZATION_FAILED: <b>not allowed"
	s.topics = []api.Topic{
		{Name: "orders", Uses: []api.TopicUse{api.UsedForEvents}, Exists: true, Partitions: 12, Replicas: 3, UnderReplicated: 2},
		{Name: "postrider.dlq", Uses: []api.TopicUse{api.UsedForDeadLetters, api.UsedForCollecting}, Exists: true, Partitions: 3, Replicas: 3},
		{Name: "refunds", Uses: []api.TopicUse{api.UsedForEvents}, Waits: true, Problem: &denied},
	}
	s.groups = []api.ConsumerGroup{
		{Name: "mailer", Protocol: api.ProtocolClassic, State: "Stable", Members: 2, Topics: []string{"orders"}},
		{Name: "payments", Protocol: api.ProtocolConsumer, State: "Stable", Members: 3, Topics: []string{"orders"}, Lag: 1204, Standing: 1, Partitions: []api.ConsumedPartition{
			{Topic: "orders", Partition: 0, Committed: 4000, End: &end, Lag: &lag, BehindSince: &since, Standing: true}, {Topic: "orders", Partition: 1, Committed: 5204, End: &end, Lag: new(int64)}}},
		{Name: "postrider-collector", Protocol: api.ProtocolClassic, State: "Stable", Members: 1, Collector: true, Topics: []string{"postrider.dlq"}},
	}
	s.found = []doctor.Finding{
		{Group: "database", Check: "version", Verdict: doctor.OK, Says: "PostgreSQL 17.2 at postgres://postrider:xxxxx@a-database-of-many-teams.internal.example.com:5432/postrider?sslmode=verify-full"},
		{Group: "topics", Check: "refunds", Verdict: doctor.Failed, Says: "the topic <i>refunds</i> is missing", Hint: "create it, or allow Describe and Write"},
		{Group: "kafka", Check: "replication", Verdict: doctor.Warning, Says: "two partitions have too few replicas", Hint: "look at the brokers"},
		{Group: "clock", Check: "skew", Verdict: doctor.Skipped, Says: "the brokers do not say"},
	}
	s.dbs = []api.Source{source("billing", func(s *api.Source) {
		*s = api.Source{Name: s.Name, Database: s.Database, Origin: s.Origin, Reason: new("away"), Error: new("connect to the database: dial tcp 10.0.3.7:5432: connection refused <b>")}
	}), source("inventory", func(s *api.Source) { s.Led, s.Pending, s.OldestDueSeconds = false, 14, 190 }), source("orders", nil),
		source("refunds", func(s *api.Source) { s.Parked, s.Holds, s.DeadLettered = 1204, 1, 3 }), source("search", func(s *api.Source) { s.Pending, s.OldestDueSeconds = 7, 75 })}
}

// source is a source that has a leader and nothing to do, with a change.
func source(name string, change func(*api.Source)) api.Source {
	s := api.Source{Name: name, Database: "postgres://relay@" + name + "-database.internal.example.com:5432/" + name, Origin: "/etc/postrider/sources/" + name + ".yaml:1", OK: true, Led: true,
		Leader: new("relay-0:7:33cdad08"), LedSince: new(time.Now().Add(-26 * time.Hour))}
	if change != nil {
		change(&s)
	}
	return s
}

func TestConsumers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Read)
	b.get("/consumers").is(t, http.StatusOK).has(t, "0 topics are there", "No consumer group reads a topic", "No topic is used yet.", `aria-current="page">Consumers`)
	burning := newRig(t, nil)
	burning.cluster.burn()
	b = burning.as(access.Read)
	page := b.get("/consumers").is(t, http.StatusOK).has(t, "1 topic is missing: &#34;refunds&#34;.", "payments", "1,204", "Stands", "Too few copies", "Postrider’s collectors", "dead letters, collected", "&lt;b&gt;not allowed")
	if at, before := strings.Index(page.text, `<bdi>payments<`), strings.Index(page.text, `<bdi>mailer<`); at < 0 || at > before {
		t.Error("the group that stands is not the first")
	}
	b.get("/consumers?group=payments").is(t, http.StatusOK).has(t, "Group <bdi>payments", "orders</bdi> 0", "4,000", "5,204", "consumer protocol")
	b.get("/consumers?group=odd").is(t, http.StatusNotFound).has(t, "No consumer group odd")

	many := newRig(t, nil)
	partitions := make([]api.ConsumedPartition, 120)
	for i := range partitions {
		partitions[i].End, partitions[i].Lag = new(int64), new(int64)
	}
	for n := range 170 {
		many.cluster.groups = append(many.cluster.groups, api.ConsumerGroup{Name: fmt.Sprintf("group-%03d", n), State: "Stable", Members: 1, Partitions: partitions})
		many.cluster.topics = append(many.cluster.topics, api.Topic{Name: fmt.Sprintf("topic-%03d", n), Exists: true, Partitions: 1, Replicas: 1})
	}
	b = many.as(access.Read)
	whole := b.get("/consumers?group=group-001").is(t, http.StatusOK).has(t, "170 topics are there, and 170 consumer groups read on.", "More groups", "More topics", "More partitions")
	if n := strings.Count(whole.text, `<tr role="row" data-row`); n != 150 || len(whole.text) > 120_000 {
		t.Errorf("%d rows in %d bytes", n, len(whole.text))
	}
	b.get("/consumers?groups=150&topics=150").is(t, http.StatusOK).has(t, "group-169", "topic-169", "First page")
}

// TestConsumersSaysWhatIsKnown: a group without members and lag is no failure, and a group that no broker describes is not called
// well.
func TestConsumersSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	behind, end := int64(7), int64(7)
	type brokers struct {
		topics []api.Topic
		groups []api.ConsumerGroup
		silent string
	}
	for name, c := range map[string]struct {
		brokers brokers
		mark    string
		has     []string
		not     string
	}{
		"a topic that nothing waits for": {brokers{topics: []api.Topic{{Name: "postrider.lifecycle", Uses: []api.TopicUse{api.UsedForLifecycle}}}},
			"waiting", []string{"1 topic is missing: &#34;postrider.lifecycle&#34;.", "Create it before events are written for it."}, "Events for it wait and"},
		"too few copies": {brokers{topics: []api.Topic{{Name: "orders", Exists: true, Partitions: 3, Replicas: 3, UnderReplicated: 1}}},
			"waiting", []string{"1 topic has too few copies in sync: &#34;orders&#34;."}, "1 topic is there"},
		"no member": {brokers{groups: []api.ConsumerGroup{{Name: "mailer", Lag: 7, Partitions: []api.ConsumedPartition{{Topic: "orders", End: &end, Lag: &behind}}}}},
			"waiting", []string{"1 consumer group has messages to read and no member: &#34;mailer&#34;."}, "reads on"},
		"no member, and nothing waits": {brokers{groups: []api.ConsumerGroup{{Name: "mailer", Partitions: []api.ConsumedPartition{{Topic: "orders", End: &end, Lag: new(int64)}}}}},
			"fine", []string{"0 consumer groups read on.", "No member"}, "1 consumer group reads on"},
		"an end that is not known": {brokers{groups: []api.ConsumerGroup{{Name: "mailer", Members: 1, Partitions: []api.ConsumedPartition{{Topic: "orders", Committed: 5}}}}},
			"waiting", []string{"1 topic or group is not known: &#34;mailer&#34;.", "Not known"}, "Moves"},
		"a broker that is silent": {brokers{silent: "broker <2> is away", groups: []api.ConsumerGroup{{Name: "mailer", Members: 1, Partitions: []api.ConsumedPartition{{Topic: "orders", End: &end, Lag: new(int64)}}}}},
			"waiting", []string{"Consumer groups may be missing here.", "broker &lt;2&gt; is away"}, "reads on"},
	} {
		r := newRig(t, nil)
		r.cluster.topics, r.cluster.groups, r.cluster.silent = c.brokers.topics, c.brokers.groups, c.brokers.silent
		path := "/consumers"
		if len(c.brokers.groups) > 0 {
			path += "?group=mailer"
		}
		page := r.as(access.Read).get(path).is(t, http.StatusOK).has(t, c.has...)
		if strings.Contains(page.text, c.not) {
			t.Errorf("%s: the page has %q", name, c.not)
		}
		if !strings.Contains(page.text, `id="say" data-live><svg class="mark `+c.mark) {
			t.Errorf("%s: the sentence is not marked as %s", name, c.mark)
		}
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.as(access.Admin).get("/doctor").is(t, http.StatusOK).has(t, "Everything that Postrider depends on is as it should be.", "Nothing was looked at.")
	burning := newRig(t, nil)
	burning.cluster.burn()
	page := burning.as(access.Admin).get("/doctor").is(t, http.StatusOK).has(t, "1 check failed of 4.", "1 check was not made.", "the topic &lt;i&gt;refunds", "allow Describe and Write", "Warning", `aria-current="page">Doctor`)
	if at, before := strings.Index(page.text, "topics refunds"), strings.Index(page.text, "database version"); at < 0 || at > before {
		t.Error("what failed is not the first")
	}
	for _, scope := range access.Scopes() {
		b := burning.as(scope)
		if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[scope == access.Admin]; b.get("/doctor").status != want {
			t.Errorf("with the scope %s the doctor answers %d", scope, b.get("/doctor").status)
		}
		if there := strings.Contains(b.get("/access").text, `<a href="/doctor"`); there != (scope == access.Admin) {
			t.Errorf("with the scope %s the rail has the doctor: %v", scope, there)
		}
	}
}

// TestSlowPagesAreWhole: an examination and a plan may take longer than the server's bound for writing an answer.
func TestSlowPagesAreWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.cluster.takes = 1500 * time.Millisecond
	entry := r.die(1, nil)
	bounded := httptest.NewUnstartedServer(r.Config.Handler)
	bounded.Config.WriteTimeout = time.Second
	bounded.Start()
	t.Cleanup(bounded.Close)
	admin, b := r.as(access.Admin), r.as(access.Redrive) // a sign-in has a bound of its own
	r.URL = bounded.URL
	admin.Transport = &http.Transport{DisableKeepAlives: true} // on a connection that was used before, a client asks again by itself
	admin.get("/doctor").is(t, http.StatusOK).has(t, "Everything that Postrider depends on")
	admin.get("/sources").is(t, http.StatusOK).has(t, "The settings name no source.")

	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `lock table postrider.dlq_operation`); err != nil {
		t.Fatal(err)
	}
	freed := make(chan error, 1)
	time.AfterFunc(1500*time.Millisecond, func() { freed <- tx.Rollback(context.Background()) })
	if to := b.post("/plan", "kind", "redrive", "id", entry, "name", "slow").is(t, http.StatusSeeOther).header.Get("Location"); !strings.HasPrefix(to, "/operations/") {
		t.Errorf("the plan leads to %s", to)
	}
	if err := <-freed; err != nil {
		t.Fatal(err)
	}
}
