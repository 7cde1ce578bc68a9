package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
)

func scrape(t *testing.T, endpoint string) string {
	t.Helper()
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(strings.TrimSuffix(endpoint, "/mcp") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	return string(body)
}

// A server over HTTP shows what agents do, whether it can use its database, and its connections. Each tool is there from
// the start, and an unknown name that an agent sends adds no tool.
func TestAgentsAreObserved(t *testing.T) {
	t.Parallel()
	r := newRig(t, letters(1)...)
	r.exec(`insert into postrider.outbox_event (topic, payload) values ($1, 'v')`, r.topic)
	endpoint := r.serve(map[string]string{"kafka.brokers": "127.0.0.1:1"})
	body := scrape(t, endpoint)
	for _, tool := range toolNames {
		for _, outcome := range []string{"done", "refused", "failed"} {
			if line := fmt.Sprintf("postrider_mcp_calls_total{outcome=%q,tool=%q} 0\n", outcome, tool); !strings.Contains(body, line) {
				t.Errorf("%s is not there at the start", line)
			}
		}
	}
	reader, sender := r.agent(endpoint, access.Read), r.agent(endpoint, access.Redrive)
	reader.ask("dlq_list", nil)
	reader.ask("dlq_list", nil)
	reader.refused("dlq_show", args("id", "01940000-0000-7000-8000-00000000ffff"), "NOT_FOUND")
	reader.refused("outbox_sync", args("action", "cleanup"), "FORBIDDEN")
	sender.refused("outbox_sync", args("action", "processPending", "confirm", sender.preview("processPending").Confirm), "UNAVAILABLE", "no broker answers")
	if _, err := reader.CallTool(t.Context(), &sdk.CallToolParams{Name: "rm", Arguments: args()}); err == nil {
		t.Error("there is a tool rm")
	}
	body = scrape(t, endpoint)
	for _, line := range []string{
		`postrider_mcp_calls_total{outcome="done",tool="dlq_list"} 2`, `postrider_mcp_calls_total{outcome="refused",tool="dlq_show"} 1`,
		`postrider_mcp_calls_total{outcome="done",tool="outbox_sync"} 1`, `postrider_mcp_calls_total{outcome="refused",tool="outbox_sync"} 1`,
		`postrider_mcp_calls_total{outcome="failed",tool="outbox_sync"} 1`, `postrider_mcp_call_seconds_count{tool="outbox_sync"} 3`,
		`postrider_ready{check="database"} 1`, `postrider_database_pool_max_connections{pool="api"} 10`, "postrider_build_info{",
	} {
		if !strings.Contains(body, line) {
			t.Errorf("%s is not in what is shown:\n%s", line, body)
		}
	}
	if strings.Contains(body, `"rm"`) || strings.Count(body, "\npostrider_mcp_calls_total{") != 3*len(toolNames) {
		t.Errorf("agents made series of their own:\n%s", body)
	}
}

// A cleanup over MCP ends: it is bounded, its preview is what it does, and it says that there is more.
func TestCleanupIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// Settled for long, with no relay that purges meanwhile.
	r.exec(`insert into postrider.outbox_event (topic, payload, created_at) select $1, 'v', now() - interval '40 days' from generate_series(1, 101000)`, r.topic)
	outboxtest.SettleAll(t, r.pool, outboxtest.Published, outboxtest.Pending, 0)
	r.exec(`update postrider.outbox_receipt set at = now() - interval '40 days'`)
	a := r.agent(r.serve(nil), access.Purge)
	for _, want := range []struct {
		rows int
		more bool
	}{{100_000, true}, {1000, false}} {
		p := a.preview("cleanup")
		if got := p.Preview.WouldRemove; got == nil || got.Published != want.rows || got.More != want.more {
			t.Fatalf("the preview is %+v, want %+v", p, want)
		}
		result, text := a.ask("outbox_sync", args("action", "cleanup", "confirm", p.Confirm))
		if got := structured[map[string]any](t, result); got["published"] != float64(want.rows) || (got["more"] == true) != want.more {
			t.Errorf("it did %s, want %+v", text, want)
		}
	}
	if n := value[int](r, `select count(*) from postrider.outbox_event`); n != 0 {
		t.Errorf("%d events are left", n)
	}
}
