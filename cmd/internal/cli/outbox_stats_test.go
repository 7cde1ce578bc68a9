package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// outbox stats answers exactly four fields, for operators, too, and writes its line.
func TestOutboxStats(t *testing.T) {
	t.Parallel()
	d := newRig(t, 7)
	d.run(ExitOK, "dlq resolve "+d.entries[6]+" --notes known")
	var got map[string]json.RawMessage
	if err := json.Unmarshal([]byte(d.run(ExitOK, "outbox stats -o json")), &got); err != nil || len(got) != 4 {
		t.Fatalf("%s, %v", got, err)
	}
	var recent []string
	var codes map[string]int64
	if err := json.Unmarshal(got["recentSampleIds"], &recent); err != nil || len(recent) != 5 || recent[0] != d.entries[5] {
		t.Errorf("recentSampleIds %v, %v; the entries are %v", recent, err, d.entries)
	}
	if err := json.Unmarshal(got["byErrorCode"], &codes); err != nil || len(codes) != 1 {
		t.Errorf("byErrorCode %v, %v", codes, err)
	}
	for _, n := range codes {
		if n != 6 || string(got["size"]) != "6" {
			t.Errorf("%d of %s", n, got["size"])
		}
	}
	if age := string(got["oldestAgeMs"]); age == "0" || strings.HasPrefix(age, "-") {
		t.Errorf("oldestAgeMs %s", age)
	}
	d.run(ExitOK, "outbox stats", "6 investigations are open", "CODE", "postrider dlq show "+d.entries[5])
	d.run(ExitUsage, "outbox stats -o xml", `-o is "xml"`)
	d.runAs(asRole(t, d.db, "postrider_writer"), ExitFailure, "outbox stats", "grant postrider_operator")

	r := postrider(t, []string{"DATABASE_URL=" + d.operator, "OUTBOX_LOG=true"}, "outbox", "stats", "-o", "json")
	var line map[string]any
	if err := json.Unmarshal([]byte(r.stderr), &line); r.code != ExitOK || err != nil || line["action"] != "dlqStats" || line["size"] != 6.0 ||
		line["oldest_age_ms"] == nil || line["duration_ms"] == nil {
		t.Errorf("exit code %d, the log is %s, %v", r.code, r.stderr, err)
	}
	for _, entry := range d.entries[:6] {
		d.run(ExitOK, "dlq resolve "+entry+" --notes known")
	}
	d.run(ExitOK, "outbox stats", "No investigation is open.")
}

// The work of a command has its span, however few of the relay's batches are recorded.
func TestCommandsSendTheirSpans(t *testing.T) {
	t.Parallel()
	var arrived logtest.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&arrived, r.Body) // what did not come is missed below
	}))
	t.Cleanup(collector.Close)
	d, letters := newRig(t, 1), newReplays(t, 1)
	tracing := []string{"TRACING_ENABLED=true", "TRACING_ENDPOINT=" + collector.URL, "TRACING_SAMPLE_PERCENT=0"}
	brokers := "KAFKA_BROKERS=" + strings.Join(kafkatest.Kfake(t).Addrs, ",")
	for _, c := range []struct {
		name, args string
		environ    []string
	}{
		{"outbox.dlqStats", "outbox stats", []string{"DATABASE_URL=" + d.operator}},
		{"outbox.cleanup", "outbox cleanup --dry-run", []string{"DATABASE_URL=" + d.owner}},
		{"outbox.processPending", "outbox process", []string{"DATABASE_URL=" + d.owner, brokers}},
		{"outbox.processRetries", "outbox retry", []string{"DATABASE_URL=" + d.owner, brokers}},
		{"redrive", "dlq requeue " + d.entries[0], []string{"DATABASE_URL=" + d.operator}},
		{"replay", "replay --yes --from " + letters.from, []string{"KAFKA_BROKERS=" + strings.Join(letters.broker.Addrs, ",")}},
	} {
		arrived.Take()
		if r := postrider(t, append(c.environ, tracing...), strings.Fields(c.args)...); r.code != ExitOK {
			t.Errorf("%s: exit code %d, %s", c.args, r.code, r.stderr)
		}
		// A span's name is its field 5.
		if name := "\x2a" + string(rune(len(c.name))) + c.name; !strings.Contains(arrived.Take(), name) {
			t.Errorf("%s: there is no span %s", c.args, c.name)
		}
	}
	arrived.Take()
	if r := postrider(t, []string{"DATABASE_URL=" + d.operator}, "outbox", "stats"); r.code != ExitOK || arrived.String() != "" {
		t.Errorf("without tracing: exit code %d, %q arrived", r.code, arrived.String())
	}
}
