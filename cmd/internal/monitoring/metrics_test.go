package monitoring

import (
	"context"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/consumer/kafka"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// metric is one that a process can show, whether it has a series yet or not.
type metric struct {
	help   string
	labels []string
}

// up is the metric that Prometheus makes itself.
var up = metric{help: "Prometheus's own"}

var described = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "(.*)", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// catalogue reads what a registry can show.
func catalogue(t *testing.T, reg *prometheus.Registry) map[string]metric {
	t.Helper()
	ch := make(chan *prometheus.Desc)
	go func() { reg.Describe(ch); close(ch) }()
	all := map[string]metric{}
	for d := range ch {
		parts := described.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("a metric describes itself as %s", d)
		}
		m := metric{help: parts[2]}
		for _, l := range strings.Split(parts[3]+","+parts[4], ",") {
			if name, _, _ := strings.Cut(l, "="); name != "" {
				m.labels = append(m.labels, strings.TrimSpace(name))
			}
		}
		all[parts[1]] = m
	}
	return all
}

// find finds what a name of an expression means: histograms have several.
func find(all map[string]metric, name string) (metric, bool) {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		base, ok := strings.CutSuffix(name, suffix)
		if m, known := all[base]; ok && known {
			if suffix == "_bucket" {
				m.labels = append(slices.Clone(m.labels), "le")
			}
			return m, true
		}
	}
	return up, name == "up"
}

// ofTheLibrary are the metrics that no process of ours shows, but services that use the library consumer, with or without
// its inbox.
func ofTheLibrary(t *testing.T) *prometheus.Registry {
	t.Helper()
	client, err := kafka.NewClient(kafka.Config{Brokers: []string{"127.0.0.1:9"}}) // neither connects to anything before it runs
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	nothing := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })
	if _, err := consumer.New(consumer.Config{Client: client, Group: "g", Topics: []string{"t"}, Registerer: reg}, nothing); err != nil {
		t.Fatal(err)
	}
	inbox.NewMetrics(reg)
	return reg
}

var (
	selector   = regexp.MustCompile(`\b(postrider[_:][a-z0-9_:]+|go_[a-z0-9_]+|process_[a-z0-9_]+|up)\b(?:\{([^}]*)\})?`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`\b(?:by|on|ignoring|without)\s*\(([^)]*)\)`)
	everywhere = []string{"job", "instance"}
)

// complaints says what of an expression is not there.
func complaints(expr string, all map[string]metric, records []string) []string {
	var out []string
	labels := slices.Clone(everywhere)
	found := false
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		if strings.Contains(s[1], ":") {
			if found = true; !slices.Contains(records, s[1]) {
				out = append(out, "no rule records "+s[1])
			}
			continue
		}
		m, known := find(all, s[1])
		if !known {
			out = append(out, "there is no metric "+s[1])
			continue
		}
		found = true
		labels = append(labels, m.labels...)
		for _, l := range matcher.FindAllStringSubmatch(s[2], -1) {
			if !slices.Contains(m.labels, l[1]) && !slices.Contains(everywhere, l[1]) {
				out = append(out, s[1]+" has no label "+l[1])
			}
		}
	}
	if !found && len(out) == 0 {
		out = append(out, "no metric is named")
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			if l = strings.TrimSpace(l); l != "" && !slices.Contains(labels, l) {
				out = append(out, "nothing in it has the label "+l)
			}
		}
	}
	return out
}

func TestComplaints(t *testing.T) {
	t.Parallel()
	all := map[string]metric{"postrider_a": {labels: []string{"x"}}, "postrider_h": {labels: []string{"y"}}}
	for expr, want := range map[string]int{
		`sum by (job, x) (rate(postrider_a{x="1"}[5m])) > 0`:                       0,
		`histogram_quantile(0.9, sum by (le, y) (rate(postrider_h_bucket{}[5m])))`: 0,
		`postrider_b`:              1,
		`postrider_a{z="1"}`:       1,
		`sum by (z) (postrider_a)`: 1,
		`postrider:r`:              0,
		`postrider:s`:              1,
		`vector(1)`:                1,
		`sum by (le) (postrider_a) + postrider_a{q="2"}`: 2,
	} {
		if got := complaints(expr, all, []string{"postrider:r"}); len(got) != want {
			t.Errorf("%s: %q, want %d", expr, got, want)
		}
	}
}

// traceID is the trace of the events that tests write, which is recorded.
const traceID = "0af7651916cd43dd8448eb211c80319c"

const writeTraced = `insert into postrider.outbox_event (topic, key, payload, headers)
	values ('orders', 'k', '{}', '[["traceparent", "00-` + traceID + `-b7ad6b7169203331-01"]]')`

// startApp runs a whole process in this one, and returns its database, registry and address.
func startApp(t *testing.T) (*pgtest.DB, *prometheus.Registry, string) {
	t.Helper()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	broker.CreateTopic(t, "postrider.dlq", 1, nil)
	broker.CreateTopic(t, "orders", 1, nil)
	c, err := config.Load(config.From{Flags: map[string]string{
		"database.url": db.URL, "kafka.brokers": strings.Join(broker.Addrs, ","), "http.address": "127.0.0.1:0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	reg := obs.NewRegistry()
	a, err := app.New(t.Context(), app.Options{Config: c, Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := a.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return db, reg, a.Addr()
}

// Every metric says what it is and is on a dashboard or in an alert. Every metric that an alert or a dashboard names is there
// with the labels that they use, and the served page passes Prometheus's own lint.
func TestMetricsAreThere(t *testing.T) {
	t.Parallel()
	db, reg, address := startApp(t)
	all := catalogue(t, reg)
	library := ofTheLibrary(t)
	maps.Copy(all, catalogue(t, library))
	own := 0
	for name, m := range all {
		if m.help == "" {
			t.Errorf("%s has no help", name)
		}
		if strings.HasPrefix(name, "postrider_") {
			own++
		}
	}
	if own < 60 {
		t.Errorf("only %d metrics of ours", own)
	}
	var named strings.Builder // all expressions
	shown := func(name string) bool {
		return regexp.MustCompile(`\b` + name + `(?:_bucket|_sum|_count)?\b`).MatchString(named.String())
	}
	var records []string
	for _, r := range readRules(t) {
		named.WriteString(r.Expr + "\n")
		if r.Record != "" {
			records = append(records, r.Record)
		}
	}
	for _, r := range readRules(t) {
		for _, c := range complaints(r.Expr, all, records) {
			t.Errorf("%s%s: %s", r.Alert, r.Record, c)
		}
	}
	for _, q := range queries(t) {
		named.WriteString(q.Expr + "\n")
		for _, c := range complaints(q.Expr, all, records) {
			t.Errorf("%s: %s", q, c)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "postrider_") && !shown(name) {
			t.Errorf("no dashboard and no alert shows %s: show it, or delete it", name)
		}
	}
	if problems, err := testutil.GatherAndLint(library); err != nil || len(problems) > 0 {
		t.Errorf("of the library: %v, %v", problems, err)
	}
	if n, err := testutil.GatherAndCount(library, "postrider_inbox_messages_total"); n == 0 || err != nil {
		t.Errorf("the inbox shows %d series, %v", n, err)
	}
	text := scrape(t, address, "text/plain")
	if out, err := promtool(t, text, "check", "metrics"); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	// When a scraper asks for OpenMetrics, the time to publish leads to the trace of an event.
	if _, err := db.Conn(t).Exec(t.Context(), writeTraced); err != nil {
		t.Fatal(err)
	}
	exemplar := regexp.MustCompile(`(?m)^postrider_outbox_publish_seconds_bucket\{source="main",le="[^"]+"\} \d+ # \{trace_id="` + traceID + `"\} `)
	eventually(t, "an exemplar", func() (bool, string) {
		openMetrics := scrape(t, address, "application/openmetrics-text; version=1.0.0")
		return exemplar.MatchString(openMetrics) && strings.HasSuffix(openMetrics, "# EOF\n"), openMetrics
	})
	for _, line := range strings.Split(text, "\n") {
		if name, _, _ := strings.Cut(line, "{"); line != "" && line[0] != '#' {
			name, _, _ = strings.Cut(name, " ")
			if _, known := find(all, name); !known {
				t.Errorf("%s is served, and not described", name)
			}
		}
	}
}

func scrape(t *testing.T, address, accept string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", response.Status, err)
	}
	return string(body)
}
