package httpapi_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/cluster"
	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// brokersSay is what brokers say of topics and groups, and the doctor of everything. TestBrokersAreAsked of the package app
// has real ones.
type brokersSay struct {
	away  atomic.Bool
	asked atomic.Int32
	also  string // is in what is said of the whole installation; empty for nothing
}

func (b *brokersSay) say() error {
	b.asked.Add(1)
	if b.away.Load() {
		return fmt.Errorf("%w: no broker answers", cluster.ErrBrokers)
	}
	return nil
}

func (b *brokersSay) Topics(context.Context) (api.Topics, error) {
	all := []api.Topic{
		{Name: "orders", Uses: []api.TopicUse{api.UsedForEvents}, Exists: true, Partitions: 12, Replicas: 3, UnderReplicated: 1},
		{Name: "postrider.dlq", Uses: []api.TopicUse{api.UsedForDeadLetters, api.UsedForCollecting}},
	}
	if b.also != "" {
		all = append(all, api.Topic{Name: b.also})
	}
	return api.Topics{List: api.ListOf(all, ""), LookedAt: dlqtest.Start}, b.say()
}

func (b *brokersSay) Consumers(context.Context, api.Topics) (api.ConsumerGroups, error) {
	end, lag, since := int64(30), int64(7), dlqtest.Start
	return api.ConsumerGroups{LookedAt: dlqtest.Start, List: api.ListOf([]api.ConsumerGroup{{
		Name: "billing" + b.also, Protocol: api.ProtocolClassic, State: "Stable", Members: 2, Topics: []string{"orders"}, Lag: lag, Standing: 1,
		Partitions: []api.ConsumedPartition{{Topic: "orders", Partition: 3, Committed: 23, End: &end, Lag: &lag, BehindSince: &since, Standing: true}},
	}}, "")}, b.say()
}

func (b *brokersSay) examine(context.Context) (doctor.Report, error) {
	return doctor.Report{Warnings: 1, OK: true, ExaminedAt: dlqtest.Start, Findings: []doctor.Finding{
		{Group: "database", Check: "connection", Verdict: doctor.OK, Says: "PostgreSQL answers" + b.also},
		{Group: "kafka", Check: "message size", Verdict: doctor.Warning, Says: "the brokers take less", Hint: "raise message.max.bytes"},
	}}, b.say()
}

// sources are what a look at sources found. TestSourcesOfOneProcess of the package app has real ones.
func (b *brokersSay) sources(context.Context) (api.Sources, error) {
	since := dlqtest.Start
	return api.Sources{LookedAt: dlqtest.Start, List: api.ListOf([]api.Source{
		{Name: "billing" + b.also, Database: "postgres://relay@billing/app", Origin: "postrider.yaml:14", Reason: new("away"), Error: new("connect to the database: connection refused")},
		{Name: "orders", Database: "postgres://relay@orders/app", Origin: "postrider.yaml:12", OK: true, Led: true, Leader: new("relay-0:7:33cdad08"), LedSince: &since, Pending: 3},
	}, "")}, b.say()
}

func (r *rig) driveCluster() {
	r.ask("GET", "/topics", "").is(200)
	r.ask("GET", "/consumers", "").is(200)
	r.ask("GET", "/doctor", "").is(200)
	r.ask("GET", "/sources", "").is(200)
	if got := r.ask("GET", "/sources/orders", "").is(200); got.text("leader") != "relay-0:7:33cdad08" {
		r.t.Errorf("%s", got.Raw)
	}
	r.ask("GET", "/sources/none", "").is(404)
}

// TestBrokersAreAskedOnceForAll: any number of requests within five seconds is one question; a failure is told, and asked
// again.
func TestBrokersAreAskedOnceForAll(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, path := range []string{"/topics", "/consumers", "/doctor", "/sources"} {
		r.cluster.asked.Store(0)
		r.cluster.away.Store(true)
		r.ask("GET", path, "").is(503)
		r.ask("GET", path, "").is(503)
		if n := r.cluster.asked.Load(); n != 2 {
			t.Errorf("%s: %d questions after two failures", path, n)
		}
		r.cluster.away.Store(false)
		began := time.Now()
		for range 20 {
			r.ask("GET", path, "").is(200)
		}
		if n := r.cluster.asked.Load() - 2; n != 1 && time.Since(began) < 5*time.Second {
			t.Errorf("%s: %d questions for 20 requests", path, n)
		}
	}
	r.ask("GET", "/doctor", "", "X-API-Key", r.keys[access.Read]).is(403)
	r.ask("GET", "/sources", "", "X-API-Key", r.keys[access.Read]).is(403)
	if got := r.ask("GET", "/consumers", "", "X-API-Key", r.keys[access.Read]).is(200); got.at("items").([]any)[0].(map[string]any)["standing"] != 1.0 {
		t.Errorf("%s", got.Raw)
	}
}
