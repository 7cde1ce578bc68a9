package dlq_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

var (
	errPassing = errors.New("the database is away")
	errBeside  = errors.New("another partition is away") // comes together with records
	errPoll    = errors.New("the group is away")
)

// room is a collector on fakes.
type room struct {
	t         *testing.T
	trace     []string
	source    *source
	store     *store
	registry  *prometheus.Registry
	log       bytes.Buffer
	collector *dlq.Collector
}

func newRoom(t *testing.T, records ...dlq.Record) *room {
	t.Helper()
	r := &room{t: t, registry: prometheus.NewRegistry()}
	r.source = (&topic{records: records}).reader(10, &r.trace)
	r.store = newStore(&r.trace)
	r.collector = r.newCollector(r.source)
	return r
}

func (r *room) newCollector(s dlq.Source) *dlq.Collector {
	r.t.Helper()
	c, err := dlq.NewCollector(dlq.Config{Source: s, Letters: r.store, Registerer: r.registry,
		Logger: slog.New(slog.NewTextHandler(&r.log, nil))})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *room) runOnce(want int) error {
	r.t.Helper()
	read, err := r.collector.RunOnce(r.t.Context())
	if read != want {
		r.t.Errorf("read %d, want %d", read, want)
	}
	return err
}

func (r *room) wantTrace(want string) {
	r.t.Helper()
	if got := strings.Join(r.trace, " "); got != want {
		r.t.Errorf("calls: %s\nwant:  %s", got, want)
	}
}

// wantEntries wants so many investigations, and returns how many letters each has.
func (r *room) wantEntries(want int) map[dlq.Subject]int {
	r.t.Helper()
	subjects := r.store.Subjects()
	if len(subjects) != want {
		r.t.Errorf("%d investigations, want %d", len(subjects), want)
	}
	return subjects
}

// originals are the lines of the counter of originals.
func originals(want map[string]int) (text string) {
	for _, state := range dlq.OriginalStates() {
		text += fmt.Sprintf("postrider_collector_originals_total{state=\"%s\"} %d\n", state, want["original "+string(state)])
	}
	return text
}

// wantMetrics compares the counters, by label value; the missing are zero.
func (r *room) wantMetrics(want map[string]int) {
	r.t.Helper()
	text := fmt.Sprintf(`
# HELP postrider_collector_errors_total Failed operations of the collector by stage: poll, store or commit. Letters are read and stored again until they are recorded.
# TYPE postrider_collector_errors_total counter
postrider_collector_errors_total{stage="commit"} %d
postrider_collector_errors_total{stage="poll"} %d
postrider_collector_errors_total{stage="store"} %d
# HELP postrider_collector_letters_total Dead letters read, by what became of them: opened an investigation, added to a pending one, repeated one that was recorded before, or were left to the desk that their source obeys (other_desk).
# TYPE postrider_collector_letters_total counter
postrider_collector_letters_total{outcome="added"} %d
postrider_collector_letters_total{outcome="opened"} %d
postrider_collector_letters_total{outcome="other_desk"} 0
postrider_collector_letters_total{outcome="repeated"} %d
# HELP postrider_collector_originals_total Records that were asked for because a dead letter only points to them, by what became of it: fetched, deleted, compacted, marker, absent, other_record, no_topic; or no_leader, refused, unanswered, which may pass.
# TYPE postrider_collector_originals_total counter
%s# HELP postrider_collector_refused_letters_total Dead letters that the database refused, recorded in a reduced form.
# TYPE postrider_collector_refused_letters_total counter
postrider_collector_refused_letters_total %d
`, want["commit"], want["poll"], want["store"], want["added"], want["opened"], want["repeated"], originals(want), want["refused"])
	if err := testutil.GatherAndCompare(r.registry, strings.NewReader(text), "postrider_collector_errors_total", "postrider_collector_letters_total",
		"postrider_collector_originals_total", "postrider_collector_refused_letters_total"); err != nil {
		r.t.Error(err)
	}
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Error(err)
	}
	byTopic := 0.0
	for _, f := range families {
		if f.GetName() == "postrider_collector_topic_letters_total" {
			for _, m := range f.GetMetric() {
				byTopic += m.GetCounter().GetValue()
			}
		}
	}
	if all := want["opened"] + want["added"] + want["repeated"]; byTopic != float64(all) {
		r.t.Errorf("%v letters are counted by topic, want %d", byTopic, all)
	}
}

func events(n int) []dlq.Record {
	records := make([]dlq.Record, n)
	for i := range records {
		records[i] = dlqtest.Event(i, 1)
	}
	return records
}
