package mcp_test

import (
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
)

// TestAgentsOfTenants calls each tool with a key of one source, about another source: no name, id or text of it is answered, and it
// is answered as what does not exist. A tool that is added is called by itself.
func TestAgentsOfTenants(t *testing.T) {
	t.Parallel()
	const sentinel = "zzyx"
	r := newRig(t)
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: r.pool})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]map[string]string{}
	for n, source := range map[int]string{100: "orders", 300: sentinel + "-source", 200: dlq.MainSource} {
		record := dlqtest.Event(n, 1)
		if source != dlq.MainSource {
			record = dlqtest.From(source, record)
		}
		l := dlq.Decode(record)
		l.OriginTopic, l.ErrorCode, l.ErrorMessage, l.Payload = source+".topic", strings.ToUpper(strings.ReplaceAll(source, "-", "_")), source+" failed", []byte(source)
		if _, err := store.RecordLetters(t.Context(), []dlq.Letter{l}); err != nil {
			t.Fatal(err)
		}
		entry := value[string](r, `select dlq_entry_uuid::text from postrider.dlq_letter where letter_id = $1`, l.ID)
		group := value[string](r, `select dlq_group_uuid::text from postrider.dlq_entry where dlq_entry_uuid::text = $1`, entry)
		operation := value[string](r, `insert into postrider.dlq_operation (kind, name, actor, state, scope, sources) values ('purge', $1 || ' op', $1, 'planned', '{}', array[$1]) returning dlq_operation_uuid::text`, source)
		r.exec(`insert into postrider.dlq_operation_item (dlq_operation_uuid, item, dlq_entry_uuid, state) values ($1::uuid, 1, $2::uuid, 'waiting')`, operation, entry)
		r.exec(`insert into postrider.dlq_comment (dlq_entry_uuid, author, author_id, text) values ($1::uuid, 'a', 'a', $2 || ' comment')`, entry, source)
		ids[source] = map[string]string{"entry": entry, "group": group, "operation": operation, "event": l.EventID.String(), "source": source}
	}
	nothing := map[string]string{"entry": "0192aaaa-0000-7000-8000-000000000001", "group": "0192aaaa-0000-7000-8000-000000000002", "operation": "0192aaaa-0000-7000-8000-000000000003", "event": "0192aaaa-0000-7000-8000-000000000004", "source": "nowhere"}
	theirs := ids[sentinel+"-source"]
	endpoint := r.serve(map[string]string{"mcp.allow_writes": "true"})
	for who, sources := range map[string]access.Sources{"orders": {"orders"}, "main": {dlq.MainSource}, "none": {}} {
		_, token, err := r.access.Create(access.WithActor(t.Context(), access.Actor{Name: "test"}), access.NewKey{Name: "tenant", Scopes: []access.Scope{access.Admin}, Sources: sources})
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		a := connect(t, &sdk.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: bearer{token, transport}}})
		listed, err := a.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		clean := func(tool string, args map[string]any, about map[string]string) (string, bool) {
			result, text := a.call(tool, args)
			for _, said := range about {
				text = strings.ReplaceAll(text, said, "SAID")
			}
			for _, id := range []string{sentinel, theirs["entry"], theirs["group"], theirs["operation"], theirs["event"]} {
				if strings.Contains(strings.ToLower(text), id) {
					t.Errorf("%s: %s %v shows %s of another source: %s", who, tool, args, id, text)
				}
			}
			return text, result.IsError
		}
		for _, tool := range listed.Tools {
			properties, _ := tool.InputSchema.(map[string]any)["properties"].(map[string]any)
			calls := []string{""}
			for name, of := range map[string][]string{"id": {"entry", "group", "operation"}, "source": {"source"}, "group": {"group"}, "event_id": {"event"}} {
				if properties[name] != nil {
					for _, kind := range of {
						calls = append(calls, name+" "+kind)
					}
				}
			}
			for _, call := range calls {
				name, kind, _ := strings.Cut(call, " ")
				args := func(about map[string]string) map[string]any {
					switch {
					case properties["action"] != nil:
						return map[string]any{"action": "dlqStats"}
					case name == "":
						return map[string]any{}
					}
					return map[string]any{name: about[kind]}
				}
				if call == "" && properties["id"] != nil {
					continue
				}
				text, failed := clean(tool.Name, args(theirs), theirs)
				if as, other := clean(tool.Name, args(nothing), nothing); name != "" && (failed != other || len(text) != len(as)) {
					t.Errorf("%s: %s %v of another source: %s\nand of nothing: %s", who, tool.Name, call, text, as)
				}
			}
		}
		if _, text := a.ask("dlq_list", nil); strings.Contains(text, ids["orders"]["entry"]) != (who == "orders") {
			t.Errorf("%s: its own list is %s", who, text)
		}
		if who == "main" {
			a.ask("outbox_sync", map[string]any{"action": "cleanup"})
			continue
		}
		for _, action := range []string{"processPending", "processRetries", "cleanup"} {
			a.refused("outbox_sync", map[string]any{"action": action}, "needs the source main")
		}
	}
}
