package cli

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
)

// TestDLQCommandsPrintWhatTheAPIServes: on one database, -o json of a command is the data of the API, for everything about
// dead letters.
func TestDLQCommandsPrintWhatTheAPIServes(t *testing.T) {
	t.Parallel()
	d := newRig(t, 5)
	c, err := config.Load(config.From{Flags: map[string]string{"http.requests_per_second": "0"}})
	if err != nil {
		t.Fatal(err)
	}
	services, err := app.NewServices(d.db.Pool(t), c)
	if err != nil {
		t.Fatal(err)
	}
	served, err := services.API(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx := access.WithActor(t.Context(), access.Actor{Name: "test", KeyID: "k", RequestID: "r", Scopes: []access.Scope{access.Admin}, Sources: access.AllSources()})
	get := func(asked string) json.RawMessage {
		t.Helper()
		path, query, _ := strings.Cut(asked, "?")
		parameters, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		data, err := served.Call(ctx, http.MethodGet, path, parameters, nil)
		if err != nil {
			t.Fatalf("%s: %v", asked, err)
		}
		text, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	closed, sent := d.entries[0], d.entries[1]
	d.run(ExitOK, "dlq resolve "+closed+" --notes known --status cancelled")
	d.run(ExitOK, "dlq requeue "+sent+" --actor ada")
	planned := decode[api.Operation](t, d.run(ExitOK, "op plan --code INVALID_RECORD --text good --from 2026-01-01 --name first --why because -o json")).UUID.String()
	d.run(ExitOK, "op plan "+d.entries[3]+" "+d.entries[4]+" --kind resolve --name second")
	group := decode[api.List[api.Group]](t, d.run(ExitOK, "dlq groups -o json")).Items[0].UUID.String()
	d.run(ExitOK, "dlq group mute "+group+" --until 30d")
	next := decode[api.EntryList](t, d.run(ExitOK, "dlq list --limit 2 -o json")).Next

	for command, asked := range map[string]string{
		"dlq list":                                           "/dlq?limit=25",
		"dlq list --limit 2":                                 "/dlq?page_size=2",
		"dlq list --limit 2 --offset 2":                      "/dlq?page_size=2&page=2",
		"dlq list --limit 2 --after " + *next:                "/dlq?limit=2&after=" + url.QueryEscape(*next),
		"dlq list --order-by updated_at --ascending":         "/dlq?limit=25&order_by=updated_at&order_dir=asc",
		"dlq list --status pending --reason GOOD":            "/dlq?limit=25&resolution_status=pending&reason=GOOD",
		"dlq list --from 2026-01-01 --to 2026-01-02":         "/dlq?limit=25&from=2026-01-01&to=2026-01-02",
		"dlq list --group " + group + " --assignee nobody":   "/dlq?limit=25&assignee=nobody&group=" + group,
		"dlq list --dlq-reason undeliverable --topic orders": "/dlq?limit=25&dlq_reason=undeliverable&topic=orders",
		"dlq list --subject-type event --code x":             "/dlq?limit=25&subject_type=event&error_code=x",
		"dlq show " + closed:                                 "/dlq/" + closed,
		"dlq show " + sent:                                   "/dlq/" + sent,
		"dlq stats":                                          "/dlq/stats",
		"dlq groups":                                         "/groups?limit=25",
		"dlq groups --state muted --text good --limit 1":     "/groups?limit=1&state=muted&text=good",
		"dlq groups " + group:                                "/groups/" + group,
		"op list":                                            "/operations?limit=50",
		"op list --limit 1":                                  "/operations?limit=1",
		"op list --group " + group:                           "/operations?limit=50&group=" + group,
		"op show " + planned:                                 "/operations/" + planned,
		"op items " + planned:                                "/operations/" + planned + "/items?limit=100",
		"op items " + planned + " --limit 1":                 "/operations/" + planned + "/items?limit=1",
		"op items " + planned + " --after 1":                 "/operations/" + planned + "/items?limit=100&after=1",
		"op items " + planned + " --state done":              "/operations/" + planned + "/items?limit=100&state=done",
	} {
		sameJSON(t, command, json.RawMessage(d.run(ExitOK, command+" -o json")), get(asked))
	}

	// A letter that is shown whole is the one of the route for payloads. Beside it the command has the redacted headers.
	whole := decode[struct {
		Letters []map[string]any `json:"letters"`
	}](t, d.run(ExitOK, "dlq show "+sent+" --payload -o json")).Letters[0]
	if whole["redacted_headers"] == nil {
		t.Errorf("the redacted headers are left out: %v", whole)
	}
	whole["redacted_headers"] = nil
	printed, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "dlq show --payload", printed, get("/dlq/"+sent+"/payload"))
}

// sameJSON fails the test unless two texts are the same JSON value.
func sameJSON(t *testing.T, what string, printed, served json.RawMessage) {
	t.Helper()
	if p, s := decode[any](t, string(printed)), decode[any](t, string(served)); !reflect.DeepEqual(p, s) {
		t.Errorf("%s prints\n%s\nand the API serves\n%s", what, printed, served)
	}
}
