package monitoring

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/devstack"
	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// patience bounds each wait; the condition is met long before.
const patience = 3 * time.Minute

func eventually(t *testing.T, what string, done func() (bool, string)) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		ok, state := done()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %v; %s", what, patience, state)
		}
	}
}

// start runs a program until the test ends. Its log is shown when the test fails.
func start(t *testing.T, stdout io.Writer, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	log := &logtest.Buffer{}
	cmd.Stdout, cmd.Stderr, cmd.Env = stdout, log, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(3 * time.Minute):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("%s %v said:\n%s", filepath.Base(name), args, log)
		}
	})
}

// startDev runs `postrider dev --demo` and returns where it serves metrics.
func startDev(t *testing.T, postrider string) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, write, nil, postrider, "dev", "--demo")
	write.Close()
	t.Cleanup(func() { read.Close() })
	address := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(read); lines.Scan(); {
			if ready, ok := strings.CutPrefix(lines.Text(), "postrider: ready http=http://"); ok {
				first, _, _ := strings.Cut(ready, " ")
				address <- first
			}
		}
	}()
	select {
	case a := <-address:
		return a
	case <-time.After(patience):
		t.Fatal("postrider dev is not ready")
		return ""
	}
}

// server is a Prometheus.
type server struct {
	t       *testing.T
	address string
}

// keepExemplars switches on what compose.yaml switches on, too: without it Prometheus throws exemplars away.
const keepExemplars = "--enable-feature=exemplar-storage"

// startPrometheus runs a Prometheus that scrapes every second, with our rules, whose waits are a second.
func startPrometheus(t *testing.T, targets map[string]string) server {
	t.Helper()
	dir := t.TempDir()
	rules := regexp.MustCompile(`(?m)^(\s+for:) \S+$`).ReplaceAllString(readFile(t, deploy("prometheus", "postrider.rules.yml")), "$1 1s")
	config := "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\nscrape_configs:\n"
	for job, target := range targets {
		config += fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: [%q]}]}\n", job, target)
	}
	for name, content := range map[string]string{"rules.yml": rules, "prometheus.yml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := server{t, freeAddress(t)}
	start(t, nil, nil, tool(t, "prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+s.address, "--log.level=warn", keepExemplars)
	return s
}

// ask calls the API; false means that it does not answer yet.
func (s server) ask(path string, data any) (bool, string) {
	s.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Get("http://" + s.address + "/api/v1/" + path)
	if err != nil {
		return false, err.Error()
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return false, err.Error()
	}
	if answer.Status != "success" {
		return false, answer.Error
	}
	if err := json.Unmarshal(answer.Data, data); err != nil {
		s.t.Fatal(err)
	}
	return true, ""
}

// firing returns the alerts that fire, as name/job.
func (s server) firing() map[string]bool {
	s.t.Helper()
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	out := map[string]bool{}
	if ok, why := s.ask("alerts", &data); !ok {
		s.t.Fatal(why)
	}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			out[a.Labels["alertname"]+"/"+a.Labels["job"]] = true
		}
	}
	return out
}

func (s server) awaitAlert(name string, fires bool) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%s fires: %v", name, fires), func() (bool, string) {
		now := s.firing()
		return now[name] == fires, fmt.Sprintf("what fires is %v", now)
	})
}

// What an operator sees: `postrider dev --demo`, a `postrider serve` and a service with the library are scraped, the rules
// load and are evaluated without errors, every query of the dashboards is answered. When the broker goes, the alert about it fires, for the
// one that lost it; when it is back, the alert ends, and what was written meanwhile has arrived.
func TestBrokerOutageIsSeen(t *testing.T) {
	t.Parallel()
	tool(t, "prometheus") // without it there is nothing to see
	postrider := buildtest.Program(t, "cmd/postrider")
	dev := startDev(t, postrider)

	// The broker is the one of dev, with its data in a folder: it comes back as what it was.
	options := devstack.BrokerOptions{Dir: t.TempDir()}
	broker, err := devstack.StartBroker(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	_, port, _ := net.SplitHostPort(broker.Addr())
	if options.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	db := pgtest.New(t)
	serve := freeAddress(t)
	start(t, nil, []string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + broker.Addr(), "KAFKA_ALLOW_TOPIC_CREATION=true", "OUTBOX_PUBLISH_TIMEOUT_MS=1000"},
		postrider, "serve", "--http", serve)

	s := startPrometheus(t, map[string]string{"dev": dev, "serve": serve, "billing": startService(t, broker.Addr())})
	s.targetsAreUp(3)
	s.rulesAreEvaluated(len(readRules(t)))

	conn := db.Conn(t)
	write := func() {
		t.Helper()
		if _, err := conn.Exec(t.Context(), writeTraced); err != nil {
			t.Fatal(err)
		}
	}
	published := func(n int) {
		t.Helper()
		eventually(t, "events are published", func() (bool, string) {
			var got int
			if err := conn.QueryRow(t.Context(), `select count(*) from postrider.v_outbox_event where state = 'published'`).Scan(&got); err != nil {
				t.Fatal(err)
			}
			return got == n, fmt.Sprintf("%d of %d", got, n)
		})
	}
	write()
	published(1)
	s.awaitService()
	s.awaitExemplar("postrider_outbox_publish_seconds_bucket", traceID)
	if now := s.firing(); now["BrokersAway/serve"] || now["BrokersAway/dev"] || now["RelayAbsent/serve"] {
		t.Errorf("before anything is wrong %v fires", now)
	}

	if err := broker.Close(); err != nil {
		t.Fatal(err)
	}
	write()
	s.awaitAlert("BrokersAway/serve", true)
	if now := s.firing(); now["BrokersAway/dev"] || now["RelayAbsent/serve"] || now["TopicUnreachable/serve"] {
		t.Errorf("with the broker of one away %v fires", now)
	}
	s.dashboardsAnswer()

	if broker, err = devstack.StartBroker(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	s.awaitAlert("BrokersAway/serve", false)
	published(2)
}

func (s server) targetsAreUp(n int) {
	s.t.Helper()
	eventually(s.t, "the targets are up", func() (bool, string) {
		var data struct {
			ActiveTargets []struct{ ScrapeURL, Health, LastError string }
		}
		if ok, why := s.ask("targets", &data); !ok {
			return false, why
		}
		up := 0
		for _, target := range data.ActiveTargets {
			if target.Health == "up" {
				up++
			}
		}
		return up == n, fmt.Sprintf("%+v", data.ActiveTargets)
	})
}

func (s server) rulesAreEvaluated(n int) {
	s.t.Helper()
	eventually(s.t, "the rules are evaluated", func() (bool, string) {
		var data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		if ok, why := s.ask("rules", &data); !ok {
			return false, why
		}
		well, state := 0, ""
		for _, g := range data.Groups {
			for _, r := range g.Rules {
				if r.Health == "ok" {
					well++
				} else {
					state += fmt.Sprintf("%s: %s %s\n", r.Name, r.Health, r.LastError)
				}
			}
		}
		return well == n, fmt.Sprintf("%d of %d rules are well\n%s", well, n, state)
	})
}

// awaitExemplar waits until Prometheus has one of the metric that names the trace.
func (s server) awaitExemplar(metric, trace string) {
	s.t.Helper()
	eventually(s.t, "an exemplar of "+metric, func() (bool, string) {
		now := time.Now()
		var data []struct {
			Exemplars []struct{ Labels map[string]string }
		}
		ok, why := s.ask(fmt.Sprintf("query_exemplars?query=%s&start=%d&end=%d", url.QueryEscape(metric), now.Add(-time.Hour).Unix(), now.Add(time.Minute).Unix()), &data)
		if !ok {
			return false, why
		}
		for _, series := range data {
			for _, e := range series.Exemplars {
				if e.Labels["trace_id"] == trace {
					return true, ""
				}
			}
		}
		return false, fmt.Sprintf("%+v", data)
	})
}

// mayBeEmpty are the panels that may have nothing to show here, and why. All others must have something.
var mayBeEmpty = map[string]string{
	"dead-letters.json, Dead letters by topic": "there may be none yet",
	"dead-letters.json, Time to close":         "no investigation is closed",
	"relay.json, Errors of the database":       "there are none",
	"relay.json, Held topics":                  "it shows what is held only",
	"relay.json, Held, by scope and cause":     "it shows what is held only",
	"relay.json, Oldest hold":                  "it shows what is held only",
	"relay.json, Refused sources":              "it shows what is refused only",
	"tasks.json, Age when found stale":         "it may be that none is stale yet",
	"tasks.json, How old these figures are":    firstCount,
	"tasks.json, Live tasks":                   firstCount,
	"tasks.json, Live tasks by state":          firstCount,
	"tasks.json, Stale now":                    firstCount,
	"tasks.json, Stale tasks by state":         firstCount,
}

const firstCount = "the tasks are counted once a minute"

// dashboardsAnswer asks every query. Each must have something to show, unless it is about a thing that does not happen here.
func (s server) dashboardsAnswer() {
	s.t.Helper()
	known := map[string]bool{}
	for _, q := range queries(s.t) {
		known[q.String()] = true
		var data struct{ Result []json.RawMessage }
		if ok, why := s.ask("query?query="+url.QueryEscape(q.Expr), &data); !ok {
			s.t.Errorf("%s: %s: %s", q, q.Expr, why)
		}
		if _, may := mayBeEmpty[q.String()]; len(data.Result) == 0 && !may {
			s.t.Errorf("%s has nothing to show: %s", q, q.Expr)
		}
	}
	for panel := range mayBeEmpty {
		if !known[panel] {
			s.t.Errorf("there is no panel %s", panel)
		}
	}
}
