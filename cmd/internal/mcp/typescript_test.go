package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/cli"
	"github.com/postrider/postrider/internal/testenv/npmtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// asProgram makes this test program be postrider, for clients that start one.
const asProgram = "POSTRIDER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := cli.Run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	pgtest.Main(m)
}

type nodeCall struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

type nodeAnswer struct {
	Tools   []string
	Results []struct {
		IsError    bool
		Structured map[string]any
		Text       string
	}
}

func node(t *testing.T, folder string, transport map[string]any, calls []nodeCall) (got nodeAnswer) {
	t.Helper()
	script, err := json.Marshal(map[string]any{"transport": transport, "calls": calls})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "client.mjs")
	cmd.Dir, cmd.Stdin = folder, bytes.NewReader(script)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, complaints.String())
	}
	return got
}

// The client of the TypeScript SDK lists the tools, calls each, is refused what its key may not, and sees a preview
// before anything is done: over HTTP, and with a program that it starts.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	folder := npmtest.Install(t, filepath.Join("testdata", "client"), "mcp-client")
	r := newRig(t, letters(2)...)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	endpoint := r.serve(nil)
	over := map[string]func(access.Scope) map[string]any{
		"http": func(s access.Scope) map[string]any { return map[string]any{"url": endpoint, "token": r.keys[s]} },
		"stdio": func(s access.Scope) map[string]any {
			return map[string]any{"command": self, "args": []string{"mcp", "--allow-writes", "--log-level", "error"}, "env": map[string]string{
				asProgram: "1", "MCP_API_KEY": r.keys[s], "DATABASE_URL": r.url, "KAFKA_BROKERS": strings.Join(r.broker.Addrs, ",")}}
		},
	}
	for name, transport := range over {
		entry := value[string](r, `select dlq_entry_uuid::text from postrider.dlq_entry limit 1`)
		r.exec(`insert into postrider.outbox_event (topic, payload) values ($1, 'v')`, r.topic)
		send := args("action", "processPending")
		got := node(t, folder, transport(access.Read), []nodeCall{
			{"dlq_stats", args()}, {"dlq_groups", args()}, {"dlq_list", args("page_size", 1)}, {"dlq_show", args("id", entry)}, {"dlq_why", args("id", entry)},
			{"outbox_sync", args("action", "dlqStats")}, {"a2a_outbox_sync", send},
		})
		if slices.Sort(got.Tools); !slices.Equal(got.Tools, toolNames) {
			t.Errorf("%s: tools %v", name, got.Tools)
		}
		for i, answer := range got.Results {
			switch {
			case i < 5:
				if answer.IsError {
					t.Errorf("%s: call %d: %s", name, i, answer.Text)
				} else {
					fenced(t, answer.Text)
				}
			case i == 5:
				if answer.IsError || answer.Structured["size"] != 2.0 || len(answer.Structured) != 4 {
					t.Errorf("%s: dlqStats: %+v", name, answer)
				}
			case !answer.IsError || !strings.Contains(answer.Text, "needs the scope redrive"):
				t.Errorf("%s: a write without the scope: %s", name, answer.Text)
			}
		}
		confirmed := args("action", "processPending", "confirm", "$confirm")
		got = node(t, folder, transport(access.Redrive), []nodeCall{{"outbox_sync", send}, {"outbox_sync", confirmed}, {"outbox_sync", confirmed}})
		preview, done, again := got.Results[0], got.Results[1], got.Results[2]
		if preview.Structured["confirm"] == nil || preview.Structured["preview"].(map[string]any)["outbox"].(map[string]any)["due"] != 1.0 {
			t.Errorf("%s: preview %+v", name, preview)
		}
		if done.IsError || done.Structured["succeeded"] != 1.0 {
			t.Errorf("%s: confirmed: %+v", name, done)
		}
		if !again.IsError || !strings.Contains(again.Text, "not known") {
			t.Errorf("%s: confirmed twice: %+v", name, again)
		}
	}
	if n := value[int](r, `select count(*) from postrider.access_audit where action = 'outbox.processPending' and details->>'stage' = 'ended'`); n != 2 {
		t.Errorf("the audit log has %d actions, want 2", n)
	}
}
