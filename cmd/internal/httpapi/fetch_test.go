package httpapi_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

// originals answers the same for each record; nothing is there at first.
type originals struct {
	mu     sync.Mutex
	answer dlq.Original
}

func (o *originals) set(answer dlq.Original) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = answer
}

func (o *originals) Fetch(_ context.Context, places []dlq.Place) []dlq.Original {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.answer.State == "" {
		o.answer = dlq.Original{State: dlq.OriginalUnanswered, Retention: -1}
	}
	return slices.Repeat([]dlq.Original{o.answer}, len(places))
}

// Readers says that two groups read every topic.
func (o *originals) Readers(_ context.Context, topics []string) (dlq.Reading, error) {
	all := map[string][]string{}
	for _, topic := range topics {
		all[topic] = []string{"mail", "billing"}
	}
	return dlq.Reading{Groups: all}, nil
}

// pointing is the investigation of a letter that only points to a record, which could not be asked for.
func (r *rig) pointing(offset string) string {
	r.t.Helper()
	h := func(name, value string) message.Header { return message.Header{Name: name, Value: []byte(value)} }
	l := dlq.Decode(dlq.Record{Topic: "share-dlq", Timestamp: dlqtest.Start, Headers: []message.Header{h("__dlq.errors.topic", "orders"),
		h("__dlq.errors.partition", "1"), h("__dlq.errors.offset", offset), h("__dlq.errors.group", "g")}})
	l.DLQOffset, l.ID, l.OriginalRecord = int64(len(offset)), l.ID+offset, dlq.OriginalUnanswered
	return r.record(l)
}

func (r *rig) driveFetch() {
	id, plain := r.pointing("5"), r.die(61)
	fetch := func(id string) reply { return r.ask("POST", "/dlq/"+id+"/fetch", "").is(200) }
	if got := fetch(id); got.text("state") != "unanswered" || got.at("gone_at") != nil || got.text("dlq_entry_uuid") != id || got.text("letter_id") == "" {
		r.t.Errorf("%s", got.Raw)
	}
	r.originals.set(dlq.Original{State: dlq.OriginalFetched, Value: []byte("found"), Timestamp: dlqtest.Start, Retention: time.Hour})
	if got := fetch(id); got.text("state") != "fetched" || got.text("gone_at") != dlqtest.Start.Add(time.Hour).Format(time.RFC3339Nano) {
		r.t.Errorf("%s", got.Raw)
	}
	if got := r.ask("GET", "/dlq/"+id+"/payload", "").is(200); got.text("payload", "value") != "found" {
		r.t.Errorf("%s", got.Raw)
	}
	for _, done := range []string{id, plain} {
		if got := fetch(done); got.at("state") != nil || got.at("letter_id") != nil {
			r.t.Errorf("nothing to fetch: %s", got.Raw)
		}
	}
	r.ask("POST", "/dlq/"+nowhere+"/fetch", "").is(404)
	r.ask("POST", "/dlq/x/fetch", "").is(400)
	r.ask("POST", "/dlq/"+id+"/fetch", `{"x": 1}`).is(400)
	// A redrive asks by itself.
	asked := r.pointing("6")
	if got := r.ask("POST", "/dlq/requeue", `{"ids": ["`+asked+`"]}`).is(200); len(got.at("requeued").([]any)) != 1 {
		r.t.Errorf("%s", got.Raw)
	}
	// And counts how often a message was sent again.
	often := r.dead(62, func(l *dlq.Letter) { l.Hops = 3 })
	hopped := r.record(often)
	if got := r.ask("POST", "/dlq/requeue", `{"ids": ["`+hopped+`"]}`).is(200); len(got.at("skipped").([]any)) != 1 || got.at("skipped").([]any)[0].(map[string]any)["reason"] != "too_many_hops" {
		r.t.Errorf("%s", got.Raw)
	}
	for _, limit := range []string{"0", "-1", "1001"} {
		r.ask("POST", "/dlq/requeue", `{"ids": ["`+hopped+`"], "max_hops": `+limit+`}`).is(400).says("hops")
	}
	if got := r.ask("POST", "/dlq/requeue", `{"ids": ["`+hopped+`"], "max_hops": 4}`).is(200); len(got.at("requeued").([]any)) != 1 {
		r.t.Errorf("%s", got.Raw)
	}
	// Without brokers a record cannot be fetched.
	without := *r.services
	without.Fetcher = nil
	c, err := config.Load(config.From{})
	if err != nil {
		r.t.Fatal(err)
	}
	api, err := without.API(c, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	server := httptest.NewServer(api)
	defer server.Close()
	other := &rig{Server: server, t: r.t, spec: r.spec, keys: r.keys, seen: r.seen}
	other.ask("POST", "/dlq/"+id+"/fetch", "").is(503).says("kafka.brokers")
}
